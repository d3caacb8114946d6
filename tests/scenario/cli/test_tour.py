"""The tour shows what it says, at any speed."""

import re

import pytest
from click.testing import CliRunner

from tests.builders.checkout import CHECKOUT
from tools import pictures
from tools.tour import cluster
from tools.tour.show import main


def test_the_tour_ends_as_it_says() -> None:
    result = CliRunner().invoke(main, ["--speed", "0"], env={"COLUMNS": "100"})
    assert result.exception is None, result.output
    told = " ".join(result.output.split())
    assert "39 of 40 simulated nodes run v1.33.13" in told
    assert "200 of 200 simulated containers are what they were" in told
    for said in ("proves nothing about restarts", "StoredHashNotReproduced: 1 node", "KubeletDidNotStart: 1 node"):
        assert said in told


def test_a_tour_whose_cluster_does_otherwise_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TURNS_BACK", "nobody")
    result = CliRunner().invoke(main, ["--speed", "0"])
    assert result.exit_code == 1
    assert "the tour is wrong" in result.output


def test_the_pictures_show_what_is_printed() -> None:
    kept = {path.stem: path.read_text(encoding="utf-8") for path in pictures.PICTURES.glob("*.svg")}
    assert kept == pictures.record(), "run `python -m tools.pictures`"
    assert not any("@font-face" in picture for picture in kept.values()), "nothing is loaded from elsewhere"


def test_readme_shows_a_picture_for_light_and_dark_pages() -> None:
    shown = set(
        re.findall(r'(?:src|srcset)="docs/pictures/([\w-]+)\.svg"', (CHECKOUT / "README.md").read_text("utf-8"))
    )
    assert shown == {f"{name}{suffix}" for name in ("node", "status") for suffix in pictures.THEMES}
    for name in (each for each in shown if each.startswith("status")):
        picture = (pictures.PICTURES / f"{name}.svg").read_text(encoding="utf-8")
        assert all(heading in picture for heading in ("VERSION", "PHASE", "PROGRESS", "REASON"))

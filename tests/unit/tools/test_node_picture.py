"""Tests that README shows the picture as it is drawn, and that the picture has the steps in their order."""

from pathlib import Path

from nodeupgrade.api.task.step import Step
from tools.node_picture import STEPS, draw
from tools.pictures import PICTURES


def test_the_picture_of_readme_is_the_one_that_is_drawn(tmp_path: Path) -> None:
    draw(tmp_path)

    for drawn in tmp_path.iterdir():
        assert drawn.read_text("utf-8") == (PICTURES / drawn.name).read_text("utf-8")


def test_steps_are_drawn_in_the_order_of_a_run() -> None:
    drawn = [words[0].split()[0] for _, words in STEPS[1:-1]]
    in_run = [step.value.split("-")[0] for step in Step if step is not Step.SWAP_FILES]

    assert [at for at, _ in STEPS] == sorted(at for at, _ in STEPS)
    assert drawn[-1] == "verify,"
    assert [name for name in in_run if name in drawn] == drawn[:-1]

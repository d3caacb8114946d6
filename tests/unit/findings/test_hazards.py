"""Every hazard has one kind of answer: checks, the way a run works, or openly none."""

from pathlib import Path

from nodeupgrade.check_catalogue import ALL_CHECKS
from nodeupgrade.findings.hazards import MET_BY_DESIGN, NOT_COVERED, Hazard

DOCS = Path(__file__).parents[3] / "docs"


def test_every_hazard_has_exactly_one_kind_of_answer() -> None:
    covered = {hazard for check in ALL_CHECKS for hazard in check.covers}
    answers = (covered, set(MET_BY_DESIGN), set(NOT_COVERED))

    kinds = {hazard.name: sum(hazard in answer for answer in answers) for hazard in Hazard}

    assert {name: number for name, number in kinds.items() if number != 1} == {}


def test_what_is_met_by_design_is_described_on_a_page() -> None:
    pages = {hazard: answer.removesuffix(")").rpartition(" (")[2] for hazard, answer in MET_BY_DESIGN.items()}

    assert {hazard: page for hazard, page in pages.items() if not described(page)} == {}


def described(page: str) -> bool:
    return any((folder / f"{page}.md").exists() for folder in (DOCS, DOCS / "decisions"))

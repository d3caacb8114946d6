"""What the evidence says of the package that a kubelet's program belongs to."""

import pytest

from nodeupgrade.api.task.status import KubeletPackage
from nodeupgrade.cli.screens.evidence import _package

DIFFERS = "owns the program, which differs from it now"


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (KubeletPackage(manager="dpkg", name="kubelet", version="1.30.14-1.1", held=True, held_by_us=True),
         f"kubelet 1.30.14-1.1 (dpkg) {DIFFERS}; it is held by this run"),
        (KubeletPackage(manager="dpkg", name="kubelet", version="1.30.14-1.1", held=True),
         f"kubelet 1.30.14-1.1 (dpkg) {DIFFERS}; it is held"),
        (KubeletPackage(manager="rpm", name="kubelet"), f"kubelet (rpm) {DIFFERS}; it is not held"),
    ],
    ids=["held by the run", "held before", "ignored"],
)  # fmt: skip
def test_the_package_is_named_and_who_holds_it(package: KubeletPackage, said: str) -> None:
    assert _package(package) == said

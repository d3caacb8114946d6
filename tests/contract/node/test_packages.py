"""What every package manager promises."""

from dataclasses import replace

import pytest

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.packages.dpkg_database import HELD, DpkgState, Package, Selection
from tests.contract.node.installed import INSTALLED
from tests.contract.node.worlds import PackagesWorld

INSTALL = Selection("install")


def test_a_hold_is_set_and_taken_back_and_nothing_else_changes(packages_world: PackagesWorld) -> None:
    packages, package = packages_world.packages, packages_world.package
    assert packages.selection(package) == INSTALL

    for _ in range(2):
        packages.select(package, HELD)
        assert packages.selection(package) == HELD
    assert packages_world.status().split(b"\n\n")[1] == INSTALLED.split(b"\n\n")[1].replace(b"install ok", b"hold ok")

    for _ in range(2):
        packages.select(package, INSTALL)
    assert packages_world.status().strip() == INSTALLED.strip()


@pytest.mark.parametrize("selection", ["install", "hold", "deinstall", "purge"])
def test_every_selection_can_be_restored(packages_world: PackagesWorld, selection: str) -> None:
    packages, package = packages_world.packages, packages_world.package
    packages.select(package, Selection(selection))
    found = packages.selection(package)
    packages.select(package, HELD)
    packages.select(package, Selection(selection))
    assert packages.selection(package) == found == selection


def test_a_package_of_all_architectures_is_one_too(packages_world: PackagesWorld) -> None:
    package = Package(manager="dpkg", name="kubelet-tools", version="1", architecture="all")
    packages_world.packages.select(package, HELD)
    assert packages_world.packages.selection(package) == HELD
    assert packages_world.packages.selection(packages_world.package) == INSTALL


@pytest.mark.parametrize("changes", [{"name": "nothing"}, {"architecture": "arm64"}], ids=["name", "architecture"])
def test_what_is_not_installed_cannot_be_held(packages_world: PackagesWorld, changes: dict[str, str]) -> None:
    """dpkg itself only warns of it."""
    package = replace(packages_world.package, **changes)  # type: ignore[arg-type]  # strings, all of them
    assert packages_world.packages.selection(package) is None
    with pytest.raises(StepFailed, match=package.name):
        packages_world.packages.select(package, HELD)
    assert packages_world.status().strip() == INSTALLED.strip()


def test_while_somebody_else_works_with_it_nothing_is_changed(packages_world: PackagesWorld) -> None:
    packages, package = packages_world.packages, packages_world.package
    assert packages.state() == DpkgState()

    with packages_world.in_use():
        assert "(process " in packages.state().user
        with pytest.raises(Transient, match=r"process \d+\) is using the database of dpkg"):
            packages.select(package, HELD)
        assert packages_world.status() == INSTALLED

    assert packages.state().user == ""
    packages.select(package, HELD)
    assert packages.selection(package) == HELD


def test_work_that_was_cut_off_is_noticed(packages_world: PackagesWorld) -> None:
    packages_world.interrupt()
    assert packages_world.packages.state() == DpkgState(interrupted=True)

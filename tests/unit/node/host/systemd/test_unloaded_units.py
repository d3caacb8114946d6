"""Unit files that systemd has not read, as they lie on a disk."""

from pathlib import Path

import pytest

from nodeupgrade.node.host.systemd.unloaded_units import has_unloaded_files

UNIT = "kubelet.service"
READ = "/lib/systemd/system/kubelet.service"


@pytest.mark.parametrize(
    ("files", "drop_ins", "unread"),
    [
        ([], "", False),
        (["etc/systemd/system/kubelet.service.d/10-a.conf"], "", True),
        (["etc/systemd/system/kubelet.service.d/10-a.conf"], f"/etc/systemd/system/{UNIT}.d/10-a.conf", False),
        (["run/systemd/system/kubelet.service.d/10-a.conf"], f"/etc/systemd/system/{UNIT}.d/10-a.conf", False),
        (["etc/systemd/system/kubelet.service.d/10-a.conf.bak"], "", False),
        (["usr/lib/systemd/system/service.d/10-all.conf"], "", True),
        (["etc/systemd/system/another.service.d/10-a.conf"], "", False),
        (["etc/systemd/system/kubelet.service"], "", True),
        (["usr/lib/systemd/system/kubelet.service.d/10-a.conf", "mask etc"], "", False),
    ],
)
def test_what_lies_there_unread_is_found(tmp_path: Path, files: list[str], drop_ins: str, unread: bool) -> None:
    for name in [READ.lstrip("/"), *(file for file in files if not file.startswith("mask"))]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("[Service]\n")
    if "mask etc" in files:
        (tmp_path / "etc/systemd/system/kubelet.service.d").mkdir(parents=True)
        (tmp_path / "etc/systemd/system/kubelet.service.d/10-a.conf").symlink_to("/dev/null")

    assert has_unloaded_files(tmp_path, UNIT, READ, drop_ins) is unread


def test_a_directory_of_the_beginning_of_a_name_counts(tmp_path: Path) -> None:
    """systemd.unit(5): ``foo-.service.d`` is for all units whose names begin with ``foo-``."""
    (tmp_path / "etc/systemd/system/cri-.service.d").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/cri-.service.d/10-all.conf").write_text("[Service]\n")

    assert has_unloaded_files(tmp_path, "cri-docker.service", "/lib/systemd/system/cri-docker.service", "")
    assert not has_unloaded_files(tmp_path, "crio.service", "/lib/systemd/system/crio.service", "")


def test_one_place_under_two_names_is_one(tmp_path: Path) -> None:
    """As where /lib is /usr/lib."""
    (tmp_path / "usr/lib/systemd/system").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/systemd/system/kubelet.service").write_text("")

    assert not has_unloaded_files(tmp_path, UNIT, READ, "")


def test_a_link_leads_where_it_leads_on_the_node(tmp_path: Path) -> None:
    """Units that are linked have absolute targets, which are others in a pod."""
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/kubelet.service").write_text("")
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system" / UNIT).symlink_to("/opt/kubelet.service")

    assert not has_unloaded_files(tmp_path, UNIT, "/etc/systemd/system/kubelet.service", "")
    assert not has_unloaded_files(tmp_path, UNIT, "/opt/kubelet.service", "")


@pytest.mark.parametrize("name", [f"{UNIT}.d/10-a.conf", f"{UNIT}.d", UNIT])
def test_a_link_that_leads_to_itself_is_no_file(tmp_path: Path, name: str) -> None:
    """`ln -s 10-a.conf kubelet.service.d/`, for example. systemd takes no notice of it."""
    link = tmp_path / "etc/systemd/system" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(link.name)

    assert not has_unloaded_files(tmp_path, UNIT, READ, "")

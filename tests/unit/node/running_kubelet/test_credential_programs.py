"""When a program that prints credentials is run, and who may have written it."""

import json
import shutil
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.kubelet.credential_program import CredentialProgram, CredentialProgramError
from nodeupgrade.kubelet.kubeconfig import Credentials, Material
from nodeupgrade.node.running_kubelet import credential_programs
from nodeupgrade.node.running_kubelet.credential_programs import CredentialPrograms

API = "client.authentication.k8s.io/v1beta1"
KUBECONFIG = PurePosixPath("/etc/k.conf")
CREDENTIALS = Credentials(
    host="api", port=443, path="", server_name=None,
    authority=Material(data=b"ca"), certificate=Material(), key=Material(), token=Material(),
    program=CredentialProgram(api_version=API, command="/opt/bin/print"),
)  # fmt: skip


class Cell:
    """Stands for the cell: notes how often a program is run, and prints what it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.status: dict[str, object] = {"token": "t"}
        self.exit_status = 0
        self.words = b"no\nmetadata service"

    def __call__(self, _command: tuple[str, ...], order: bytes, _seconds: float) -> tuple[int, bytes, bytes]:
        self.runs += 1
        self.order = json.loads(order)
        document = {"apiVersion": API, "kind": "ExecCredential", "status": self.status}
        return self.exit_status, json.dumps(document).encode(), self.words


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "opt/bin").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/k.conf").touch(0o600)
    (tmp_path / "opt/bin/print").write_text("#!/bin/sh\n")
    (tmp_path / "opt/bin/print").chmod(0o755)
    return tmp_path


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    made = Cell()
    monkeypatch.setattr(credential_programs, "_communicate", made)
    return made


class Clock:
    """Time as the module under test sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def token(programs: CredentialPrograms, **kubelets: str) -> bytes | None:
    return programs.source(KUBECONFIG, CREDENTIALS, lambda: kubelets).current().token.data


def lives(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_it_is_run_once_for_as_long_as_its_credentials_are_good(root: Path, cell: Cell, clock: Clock) -> None:
    programs = CredentialPrograms(root, (sys.executable,))
    cell.status = {"token": "t", "expirationTimestamp": lives(100)}
    for clock.now, runs in ((1000, 1), (1089, 1), (1091, 2)):
        assert (token(programs), cell.runs) == (b"t", runs)
    assert token(programs, HTTPS_PROXY="other") == b"t"
    assert cell.runs == 3, "another environment is another answer"


def test_what_does_not_expire_is_kept_until_it_is_refused(root: Path, cell: Cell, clock: Clock) -> None:
    programs = CredentialPrograms(root, (sys.executable,))
    source = programs.source(KUBECONFIG, CREDENTIALS, dict)
    assert source.current().token.data == b"t"
    clock.now += 1e6
    assert (source.current().token.data, cell.runs) == (b"t", 1)

    cell.status = {"token": "renewed"}
    assert source.rejected()

    assert (source.current().token.data, cell.runs) == (b"renewed", 2)
    stale = programs.source(KUBECONFIG, CREDENTIALS, dict)
    assert stale.current().token.data == b"renewed"


def test_who_is_late_does_not_throw_away_what_came_since(root: Path, cell: Cell) -> None:
    programs = CredentialPrograms(root, (sys.executable,))
    one, other = (programs.source(KUBECONFIG, CREDENTIALS, dict) for _ in range(2))
    one.current(), other.current()
    one.rejected()
    one.current()
    assert cell.runs == 2

    other.rejected()
    other.current()

    assert cell.runs == 2


@pytest.mark.parametrize("seconds", [-5, 0])
def test_what_has_expired_is_used_once_as_kubelets_do(root: Path, cell: Cell, seconds: float) -> None:
    """It may be the clock that is wrong; the API server has the last word."""
    programs = CredentialPrograms(root, (sys.executable,))
    cell.status = {"token": "t", "expirationTimestamp": lives(seconds)}
    assert [token(programs), token(programs), cell.runs] == [b"t", b"t", 2]


def test_one_that_fails_is_not_run_at_every_look(root: Path, cell: Cell, clock: Clock) -> None:
    programs = CredentialPrograms(root, (sys.executable,))
    cell.exit_status = 2
    for clock.now, runs in ((1000, 1), (1009, 1), (1011, 2)):
        with pytest.raises(CredentialProgramError, match=r"^program /opt/bin/print: it failed with exit status 2 .*: "):
            token(programs)
        assert cell.runs == runs
    cell.exit_status = 0
    clock.now += 20
    assert token(programs) == b"t"


PRESIGNED = "k8s-aws-v1.aHR0cHM6Ly9zdHMuZXUtd2VzdC0xLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1HZXRDYWxsZXJJZGVudGl0eSZW"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f'debug: {{"token":"{PRESIGNED}"}}, no network', 'debug: {"token":"…"}, no network'),
        (f"GET /?X-Amz-Signature={'3f' * 32}&x=1", "GET /?…&x=1"),
        (f"token {'0a' * 16} refused", "token … refused"),
        (f"{PRESIGNED * 30} refused", "… refused"),
        (
            "open /var/lib/kubelet/pki/kubelet-client-current.pem: no",
            "open /var/lib/kubelet/pki/kubelet-client-current.pem: no",
        ),
        (
            "lookup sts.eu-west-1.amazonaws.com.internal.example: no",
            "lookup sts.eu-west-1.amazonaws.com.internal.example: no",
        ),
    ],
)
def test_its_last_words_tell_no_credentials(root: Path, cell: Cell, words: str, told: str) -> None:
    cell.exit_status, cell.words = 1, words.encode()
    with pytest.raises(CredentialProgramError) as error:
        token(CredentialPrograms(root, (sys.executable,)))
    assert str(error.value).endswith(f"no files): {told}")


def test_it_gets_the_environment_and_the_name_that_a_kubelet_gives_it(root: Path, cell: Cell) -> None:
    token(CredentialPrograms(root, (sys.executable,)), PATH="/bin", HTTPS_PROXY="p")

    assert cell.order["environment"].keys() == {"PATH", "HTTPS_PROXY", "KUBERNETES_EXEC_INFO"}
    assert (cell.order["program"], cell.order["name"]) == ("/opt/bin/print", "/opt/bin/print")
    assert "files" not in cell.order


def chmod(path: str, mode: int) -> Callable[[Path], None]:
    return lambda root: (root / path).chmod(mode)


def chown(path: str, uid: int, gid: int) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        shutil.chown(root / path, uid, gid)

    return change


def linked(root: Path) -> None:
    """The program is a link; who may write where it leads decides what runs."""
    (root / "srv").mkdir()
    shutil.move(root / "opt/bin/print", root / "srv/print")
    (root / "opt/bin/print").symlink_to("/srv/print")
    (root / "srv").chmod(0o777)


def linked_twice(root: Path) -> None:
    linked(root)
    (root / "srv").chmod(0o755)
    (root / "mine").mkdir()
    (root / "mine/print").symlink_to("/srv/print")
    (root / "opt/bin/print").unlink()
    (root / "opt/bin/print").symlink_to("/mine/print")
    shutil.chown(root / "mine", 1000)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (chmod("opt/bin/print", 0o757), "/opt/bin/print, on the way to /opt/bin/print"),
        (chmod("opt/bin", 0o1777), "/opt/bin, on the way to"),
        (chmod("opt", 0o757), "/opt, on the way to"),
        (chown("opt/bin/print", 1000, 0), "/opt/bin/print, on"),
        (chown("opt", 1000, 0), "/opt, on"),
        (linked, "/srv, on the way to /opt/bin/print"),
        (linked_twice, "/mine, on the way to /opt/bin/print"),
        (chmod("etc/k.conf", 0o666), "/etc/k.conf, on the way to /etc/k.conf"),
        (chmod("etc", 0o777), "/etc, on the way to /etc/k.conf"),
    ],
)
def test_what_others_than_root_may_write_is_not_run(
    root: Path, cell: Cell, change: Callable[[Path], None], where: str
) -> None:
    change(root)

    with pytest.raises(CredentialProgramError, match="others than root may write " + where):
        token(CredentialPrograms(root, (sys.executable,)))

    assert cell.runs == 0


@pytest.mark.parametrize("change", [chmod("opt/bin/print", 0o775), chmod("opt", 0o775)])
def test_the_group_of_root_is_root(root: Path, cell: Cell, change: Callable[[Path], None]) -> None:
    change(root)
    assert token(CredentialPrograms(root, (sys.executable,))) == b"t"
    shutil.chown(root / "opt", 0, 1000)
    (root / "opt").chmod(0o775)
    cell.runs = 0
    with pytest.raises(CredentialProgramError, match="others than root may write /opt"):
        token(CredentialPrograms(root, (sys.executable,)))


def test_links_that_lead_nowhere_are_named(root: Path, cell: Cell) -> None:
    (root / "opt/bin/print").unlink()
    (root / "opt/bin/print").symlink_to("print")
    with pytest.raises(CredentialProgramError, match=r"program /opt/bin/print: .*symbolic links"):
        token(CredentialPrograms(root, (sys.executable,)))
    assert cell.runs == 0


@pytest.mark.parametrize("change", [lambda root: (root / "opt/bin/print").unlink(), chmod("opt/bin/print", 0o644)])
def test_one_that_is_not_there_is_named(root: Path, cell: Cell, change: Callable[[Path], None]) -> None:
    change(root)
    with pytest.raises(CredentialProgramError, match="program /opt/bin/print: there is no such program"):
        token(CredentialPrograms(root, (sys.executable,)))
    assert cell.runs == 0

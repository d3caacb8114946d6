"""How containerd would come back: what its program is asked, and what is made of its answer."""

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.facts.kubelet_start import read_again, read_start
from nodeupgrade.node.host.systemd.unit_start import differences
from nodeupgrade.node.runtimes.containerd.command_line import TUNED_CONFIG, is_same_start
from nodeupgrade.node.runtimes.containerd.next_start import Configuration, find_next_start
from nodeupgrade.node.runtimes.description import NextStart, RuntimePlaces, RuntimeProcess
from tests.builders.containerd_program import CONFIG, PROGRAM, FakeProgram, unit

PLACES = RuntimePlaces(root="/var/lib/containerd", state="/run/containerd", address="/run/containerd/containerd.sock")
OURS = str(TUNED_CONFIG)


def running(*words: str) -> RuntimeProcess:
    return RuntimeProcess(pid=1, words=words or (PROGRAM,), program=None)


def handlers(by_systemd: bool) -> Configuration:
    """A table of the CRI plugin with a handler."""
    return {"default_runtime_name": "runc", "runtimes": {"runc": {"options": {"SystemdCgroup": by_systemd}}}}


def found(program: FakeProgram, *command: str, process: RuntimeProcess | None = None) -> NextStart:
    return find_next_start(program.files, program, unit(*command), process or running())


def test_without_a_configuration_the_defaults_are_told() -> None:
    assert found(FakeProgram(), PROGRAM) == NextStart(program=PROGRAM, places=PLACES, files=(CONFIG,))


def test_everything_that_is_imported_is_read_and_directories_are_searched() -> None:
    disk = {CONFIG: b'imports = ["conf.d/a*.toml", "/opt/one.toml", "/srv/*/b.toml"]\nroot = "/data"\n'}

    seen = found(FakeProgram(disk), PROGRAM)

    assert seen.files == (CONFIG, "/opt/one.toml", "/etc/containerd/conf.d/a*.toml")
    assert seen.directories == ("/srv",)
    assert seen.places == RuntimePlaces(root="/data", state=PLACES.state, address=PLACES.address)


@pytest.mark.parametrize(
    ("come", "differs"),
    [
        (("certs.d/mirror/hosts.toml", "config.toml.bak"), False),
        (("more.toml",), True),
        ((".more.toml",), True),
    ],
)
def test_what_no_import_can_match_is_no_change_of_the_next_start(come: tuple[str, ...], differs: bool) -> None:
    """Tools write below /etc/containerd/certs.d at any time: that must turn no run back, and hold up no rollback."""
    disk, its = {CONFIG: b'imports = ["/etc/containerd/*.toml"]\n'}, unit(PROGRAM)
    program = FakeProgram(disk)
    seen = find_next_start(program.files, program, its, running())
    planned = read_start(program.files, its, seen.files, seen.directories)

    now = FakeProgram(disk | {f"/etc/containerd/{name}": b"" for name in come}).files

    assert bool([*differences(planned, read_again(now, its, planned))]) is differs


def test_a_named_configuration_comes_first_and_flags_win() -> None:
    disk = {CONFIG: b'root = "/data"\n', "/opt/c.toml": b""}

    seen = found(FakeProgram(disk), PROGRAM, "-c", "/opt/c.toml", "--root", "/r", "--state=/s", "-a", "/a.sock")

    assert seen.files == ("/opt/c.toml", CONFIG)
    assert seen.places == RuntimePlaces(root="/r", state="/s", address="/a.sock")


@pytest.mark.parametrize(
    ("shown", "address", "driver"),
    [
        ({"grpc": {"address": "/a.sock"}}, "/a.sock", None),
        ({"plugins": {"io.containerd.server.v1.grpc": {"address": "/b.sock"}}}, "/b.sock", None),
        ({"grpc": "odd", "plugins": {"io.containerd.server.v1.grpc": 1}}, "", None),
        ({"plugins": {"io.containerd.cri.v1.runtime": {"containerd": handlers(True)}}}, "", "systemd"),
        ({"plugins": {"io.containerd.grpc.v1.cri": {"containerd": handlers(False)}}}, "", "cgroupfs"),
        ({"plugins": {"io.containerd.grpc.v1.cri": {"containerd": {"default_runtime_name": "kata"}}}}, "", None),
    ],
)
def test_address_and_cgroup_driver_are_read_where_each_version_has_them(
    shown: Configuration, address: str, driver: str | None
) -> None:
    class Shows(FakeProgram):
        def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
            return {"root": PLACES.root, "state": PLACES.state, **shown}

    seen = found(Shows(), PROGRAM)

    assert seen.places == RuntimePlaces(root=PLACES.root, state=PLACES.state, address=address)
    assert seen.cgroup_driver == driver


def test_a_configuration_that_cannot_be_read_is_quoted() -> None:
    seen = found(FakeProgram({CONFIG: b"version = = 2\n"}), PROGRAM)

    assert seen.places is None
    assert seen.complaint.startswith(f"asked for its configuration {CONFIG}, it says: containerd: failed to load TOML")


def test_a_containerd_that_cannot_show_its_configuration_is_too_old() -> None:
    class Old(FakeProgram):
        def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
            raise StepFailed("containerd: No help topic for 'dump'")

    seen = found(Old(), PROGRAM)

    assert (seen.places, seen.complaint) == (
        None, f"{PROGRAM} is older than containerd 1.3, which is the first that shows its configuration (config dump)"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mute", "tells", "complaint"),
    [
        (True, True, f"{PROGRAM} does not show its configuration"),
        (False, False, "its program does not say where it would keep its containers"),
    ],
)
def test_a_program_that_does_not_tell_is_complained_about(mute: bool, tells: bool, complaint: str) -> None:
    program = FakeProgram()
    program.mute, program.tells_places = mute, tells

    assert (found(program, PROGRAM).places, found(program, PROGRAM).complaint) == (None, complaint)


def test_of_a_program_that_is_too_slow_nothing_is_known() -> None:
    program = FakeProgram()
    program.slow = True

    seen = found(program, PROGRAM)

    assert (seen.places, seen.complaint) == (None, "")
    assert seen.unknown == f"{PROGRAM} config dump did not end within 10 s"


@pytest.mark.parametrize(
    ("command", "process"),
    [((), running("/opt/start", "containerd")), ((PROGRAM, "--config", OURS), running()), ((), None)],
    ids=["nothing is understood", "the unit names our own configuration", "nothing is known"],
)
def test_a_start_that_is_not_known_is_not_guessed_at(command: tuple[str, ...], process: RuntimeProcess | None) -> None:
    program = FakeProgram()

    seen = find_next_start(program.files, program, unit(*command), process)

    assert (seen.places, seen.complaint) == (None, "it is started by an unknown command line")


def test_where_the_unit_does_not_tell_the_process_does() -> None:
    """A script that starts it counts, for as much as its time tells."""
    program = FakeProgram({"/opt/c.toml": b""})

    seen = find_next_start(
        program.files, program, unit(program="/opt/start"), running(PROGRAM, "--config", "/opt/c.toml")
    )

    assert (seen.program, seen.starter, seen.files) == (PROGRAM, "/opt/start", ("/opt/c.toml",))
    assert seen.places == PLACES
    assert found(program, PROGRAM).starter == ""


@pytest.mark.parametrize(
    ("command", "words", "same"),
    [
        ((PROGRAM,), (PROGRAM,), True),
        ((PROGRAM,), (PROGRAM, "--root", "/x"), False),
        ((PROGRAM, "--root", "/x"), (PROGRAM,), False),
        ((PROGRAM, "-l", "info"), (PROGRAM, "--log-level", "info"), True),
        ((PROGRAM, "-c", "/etc/c.toml"), (PROGRAM,), False),
        ((PROGRAM,), (PROGRAM, "--config", OURS), True),
        ((PROGRAM, "--root=/x"), (PROGRAM, "--config", OURS, "--root", "/x"), True),
        ((PROGRAM,), (PROGRAM, "--config", OURS, "--root", "/x"), False),
        (("/opt/start", "a"), ("/opt/start", "a"), True),
        (("/opt/start", "a"), ("/opt/start", "b"), False),
    ],
)
def test_a_command_line_is_the_same_apart_from_its_spelling_and_our_own_configuration(
    command: tuple[str, ...], words: tuple[str, ...], same: bool
) -> None:
    assert is_same_start(command, words) is same
    assert found(FakeProgram(), *command, process=running(*words)).as_it_runs is same

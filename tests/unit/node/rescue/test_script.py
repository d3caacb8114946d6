"""The rescue script, run by a real shell: what it waits for, restores, and refuses to do."""

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest

from nodeupgrade.node.rescue.script import KUBELET_ENVIRONMENT, RESERVE
from nodeupgrade.node.rescue.timeouts import ABSENT_SECONDS, DEATHS, LOOK_SECONDS, LOWERS_WITHIN, hung_seconds
from tests.builders.as_root import AS_ROOT
from tests.builders.followed_links import watched_link
from tests.builders.rescue_rig import (
    BACK,
    COMMIT,
    END,
    FINISHED,
    FLAG,
    HANDED_OVER,
    KUBELET_LOGS,
    KUBELET_SOCKETS,
    LOOK,
    OLD,
    PLUGINS_ROOT,
    Fault,
    Mode,
    Node,
    lies,
    old_again,
)

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def rewritten(tmp_path: Path) -> Node:
    return Node(tmp_path, rewrites=True)


def test_it_brings_the_old_kubelet_back_once_the_executor_is_lost(node: Node) -> None:
    secrets = str(KUBELET_ENVIRONMENT.relative_to("/"))
    node.write(secrets, "{}").look()
    node.look(after=ABSENT_SECONDS - 1)
    assert not node.started
    node.look(after=1)

    assert old_again(node), node.log
    node.look(after=LOOK_SECONDS)
    assert BACK in node.log
    assert node.calls[-1] == END
    assert [call for call in node.calls if "start kubelet" in call] == ["systemctl --no-block start kubelet.service"]
    assert not (node.root / LOOK).exists()
    assert not (node.root / secrets).exists()


def test_another_copy_of_the_program_goes_before_everything(rewritten: Node) -> None:
    """It knows runtimes, and what its journal says; the script only sees that it holds the journal."""
    rewritten.write("spare-works", "").look().looks(1)

    assert HANDED_OVER in rewritten.log
    assert rewritten.read("runs/rescue") == "begun\n"
    assert not rewritten.started
    assert rewritten.read("program") != OLD.decode()


def test_no_old_kubelet_is_started_on_rewritten_hashes_and_that_is_told_once(rewritten: Node) -> None:
    """It would restart every container. What can still end this is a program, or a person."""
    rewritten.look().looks(3)

    assert not rewritten.started
    assert rewritten.fenced
    assert "systemctl stop kubelet.service" not in rewritten.calls
    [_, said] = rewritten.log.splitlines()
    assert "no copy of the program starts, and containers may have hashes of another kubelet" in said
    for unit in ("nodeupgrade-dead-man.timer", "nodeupgrade-lease-keeper.service"):
        assert rewritten.calls.count(f"systemctl --no-block start {unit}") == 3

    rewritten.write("spare-works", "").looks(1)
    assert HANDED_OVER in rewritten.log


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.write("pid", "4711\n"),
        lambda node: node.write("runs/journal", node.read("runs/journal") + FINISHED),
        lambda node: node.write("runs/journal", node.read("runs/journal") + COMMIT),
        lambda node: node.write("runs/journal", '{"mark":"done","step":"arm-dead-man"}\n'),
        lambda node: (node.root / "runs/journal").unlink(),
    ],
    ids=["a kubelet is well", "the run is over", "the run is committed", "the kubelet was never stopped", "no run"],
)
def test_it_touches_nothing_while(node: Node, change: object) -> None:
    change(node)  # type: ignore[operator]

    for _ in range(3):
        node.look(after=ABSENT_SECONDS)

    harmless = ("show", "healthz", END)
    assert [call for call in node.calls if not any(word in call for word in harmless)] == []


def test_an_executor_that_comes_back_in_time_is_left_alone(node: Node) -> None:
    for _ in range(5):
        node.look(after=ABSENT_SECONDS - 1)
        with node.executor():
            node.look(after=1)

    assert not node.started
    assert node.read("runs/rescue") == ""


def test_an_executor_that_dies_again_and_again_before_it_writes_anything_is_given_up(node: Node) -> None:
    """For want of memory, for example: it is never away for long."""
    for _ in range(DEATHS):
        with node.executor():
            node.look(after=LOOK_SECONDS)
        assert not node.started
        node.look(after=LOOK_SECONDS)

    assert old_again(node), node.log
    assert f"the executor died {DEATHS} times" in node.log


def test_an_executor_that_dies_again_and_again_but_gets_on_is_left_alone(node: Node) -> None:
    for _ in range(3 * DEATHS):
        with node.executor():
            node.look(after=LOOK_SECONDS)
        node.write("runs/journal", node.read("runs/journal") + "{}\n")
        node.look(after=LOOK_SECONDS)

    assert not node.started
    assert node.read("runs/rescue") == ""


def test_an_executor_that_lives_but_writes_nothing_is_given_up_in_the_end(node: Node) -> None:
    patience = hung_seconds(node.plan.limits)
    with node.executor():
        node.look()
        node.look(after=patience - 1)
        assert node.log == ""
        node.write("runs/journal", node.read("runs/journal") + "{}\n")
        node.look(after=1)
        node.look(after=patience - 1)
        assert node.log == ""
        node.look(after=1)
        assert "systemctl kill --signal=KILL nodeupgrade-executor.service" in node.calls
        assert "still holds its journal" in node.log, "this one cannot be killed"
        assert not node.started


@pytest.mark.parametrize(
    ("file", "why"),
    [("backup", "the program of kubelet v1.30.14 is missing"), ("kept-there", "a file cannot be put back")],
)
def test_a_kubelet_is_never_started_on_what_cannot_be_made_right(node: Node, file: str, why: str) -> None:
    right = node.read(file)
    node.write(file, "something else").looks(4)

    assert not node.started
    assert node.fenced
    assert why in node.log.splitlines()[-1]
    assert len(node.log.splitlines()) == 3, "it says so once, and that systemd reads the fence"
    assert node.read("runs/rescue") == "begun\n"
    node.write(file, right).looks(1)
    assert old_again(node)


def test_a_start_that_systemd_does_not_answer_is_repeated_and_nothing_is_claimed(node: Node) -> None:
    """It executes itself anew, or there is no memory for another process."""
    node.has(Fault(Mode.SILENT, command="systemctl --no-block start kubelet")).look().looks(3)
    assert not node.started
    assert lies(node) == []

    node.has(Fault(Mode.SILENT, command="systemctl")).looks(3)
    assert lies(node) == []

    node.has(None).looks(2)
    assert old_again(node)
    assert BACK in node.log


def test_who_answers_in_place_of_a_kubelet_fills_no_memory(node: Node) -> None:
    node.write("flood", "").write("pid", "4711").look()

    assert any(call.startswith("curl") for call in node.calls)
    assert not (node.root / "drunk").exists()


def test_without_curl_a_silent_systemd_is_no_kubelet(node: Node) -> None:
    for mode in (Mode.SILENT, Mode.GARBLED):
        node.without_curl().has(Fault(mode, command="systemctl")).look().looks(3)
        assert lies(node) == []

    assert old_again(node.has(None).looks(1)), node.log


@contextmanager
def mounted(directory: Path, *options: str) -> Iterator[None]:
    """Have a file system of memory at a directory, with what is in the directory."""
    kept = directory.with_name(f"{directory.name}.kept")
    directory.rename(kept)
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(directory)], check=True)
    try:
        shutil.copytree(kept, directory, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> None:
    """Leave no room for another byte."""
    with (directory / "ballast").open("ab", buffering=0) as ballast:
        try:
            while ballast.write(b"x" * 4096):
                pass
        except OSError:
            pass


@contextmanager
def greedy(fill_up: Callable[[Path], None], directory: Path) -> Iterator[None]:
    """Have somebody who takes whatever becomes free."""
    end = Event()

    def take() -> None:
        while not end.is_set():
            fill_up(directory)

    thread = Thread(target=take)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def use_up_inodes(directory: Path) -> None:
    """Leave no room for another file."""
    try:
        for number in count():
            (directory / f"ballast-{number}").touch()
    except OSError:
        pass


@AS_ROOT
@pytest.mark.parametrize("rewrites", [False, True])
@pytest.mark.parametrize(("option", "filled"), [("size=64k", fill), ("nr_inodes=64", use_up_inodes)])
def test_a_full_run_directory_in_memory_changes_nothing(
    tmp_path: Path, option: str, filled: Callable[[Path], None], *, rewrites: bool
) -> None:
    node = Node(tmp_path, rewrites=rewrites)
    if rewrites:
        node.write("spare-works", "")
    drop_in = "run/systemd/system/kubelet.service.d/zz-nodeupgrade-fence.conf"
    (node.root / drop_in).parent.mkdir(parents=True)
    node.write(drop_in, "as it was before the stop")
    with mounted(node.root / "run", "-o", option):
        (node.root / FLAG).rename(node.root / f"{FLAG}.lifted")
        filled(node.root / "run")
        with greedy(filled, node.root / "run"):
            node.look().looks(2)

        if rewrites:
            assert HANDED_OVER in node.log
        else:
            assert old_again(node), node.log
            assert BACK in node.log


@AS_ROOT
@pytest.mark.parametrize("rewrites", [False, True])
@pytest.mark.parametrize("state", ["read-only", "full"])
def test_a_journal_that_cannot_be_written_changes_nothing(tmp_path: Path, state: str, *, rewrites: bool) -> None:
    """Its progress is then in /run, where an executor finds it."""
    node = Node(tmp_path, rewrites=rewrites)
    if rewrites:
        node.write("spare-works", "")
    runs = node.root / "runs"
    with mounted(runs, "-o", "size=64k"):
        if state == "full":
            fill(runs)
        else:
            subprocess.run(["mount", "-o", "remount,ro", str(runs)], check=True)
        node.look().look(after=ABSENT_SECONDS)
        word = node.read("run/nodeupgrade-rescue-one") or node.read("runs/rescue")
        node.looks(1)

        assert (node.read("run/nodeupgrade-rescue-one") or node.read("runs/rescue")) == word
        assert word == ("begun\n" if rewrites else "done\n")
        assert node.read("executor-runs") == "yes\n" if rewrites else old_again(node)


def shielded(root: Path) -> Node:
    return Node(root).with_sockets("shield", "shield", "runtime")


def test_a_kubelet_that_is_slow_to_start_is_not_taken_back_again(node: Node) -> None:
    """It gets as long as it needs; whatever comes of it, nothing is restored a second time."""
    node.write("sick", "").look()
    node.looks(30)

    assert old_again(node), node.log
    assert END not in node.calls, "a kubelet that is not well may need another start"
    assert len([call for call in node.calls if call.endswith("/program")]) == 1
    assert node.calls.count("systemctl stop kubelet.service") == 1


def test_it_ends_with_its_work_and_a_later_upgrade_by_hand_is_nobodys_business(node: Node) -> None:
    node.look().looks(2)
    assert node.calls[-1] == END
    known = len(node.calls)
    node.write("pid", "0").write("program", "one that somebody put there by hand\n")
    node.write(f"node{node.root}/state", "its state\n")

    for _ in range(5):
        node.look(after=ABSENT_SECONDS)

    assert node.read("program") == "one that somebody put there by hand\n"
    assert node.read(f"node{node.root}/state") == "its state\n"
    assert not [
        call for call in node.calls[known:] if call.startswith(("systemctl stop kubelet", "mv", "ln", "curl */r"))
    ]


def test_it_ends_when_a_kubelet_is_well_and_nobody_has_come_back_for_long(node: Node) -> None:
    node.write("pid", "4711\n").look()
    node.look(after=hung_seconds(node.plan.limits) - 1)
    assert END not in node.calls
    with node.executor():
        node.look(after=2)
    assert END not in node.calls
    node.look()

    node.look(after=hung_seconds(node.plan.limits))

    assert node.calls[-1] == END
    assert node.read("runs/rescue") == ""


@pytest.mark.parametrize(("shield", "well"), [("active", True), ("activating", False), ("inactive", False)])
def test_a_kubelet_is_not_well_while_a_dead_shield_keeps_it_from_its_runtime(
    node: Node, shield: str, *, well: bool
) -> None:
    """Its health endpoint says for minutes that it is. Where memory is short, the shield is started again and again."""
    node.with_sockets("shield", "shield", "runtime").write("pid", "4711\n").write("shield", shield)

    node.look().look(after=ABSENT_SECONDS)

    assert old_again(node) is not well
    assert node.socket_is("runtime") is not well


def test_a_commit_at_the_last_moment_is_respected(node: Node) -> None:
    """The executor writes it right before it is killed."""
    node.write("last-words", COMMIT).look()

    node.look(after=ABSENT_SECONDS)

    assert not node.started
    assert node.read("runs/rescue") == ""
    assert node.calls[-2:] == ["systemctl --no-block start nodeupgrade-dead-man.timer", END]


def test_a_held_executor_shows_that_it_lives(node: Node) -> None:
    """It has nothing to write for days, and touches its journal."""
    patience = hung_seconds(node.plan.limits)
    with node.executor():
        for moment in range(5):
            os.utime(node.root / "runs/journal", (1000 + moment, 1000 + moment))
            node.look(after=patience)

    assert node.log == ""


@pytest.mark.parametrize(
    ("at_path", "beside", "ends_as"),
    [
        pytest.param("shield", ("shield", "runtime"), "runtime", id="raised"),
        pytest.param("runtime", ("shield", "runtime"), "runtime", id="about to be raised"),
        pytest.param("restarted", ("shield", "runtime"), "restarted", id="the runtime took its path back"),
        pytest.param("runtime", ("shield",), "runtime", id="lowered"),
    ],
)
def test_the_runtime_has_its_own_socket_back_before_a_kubelet_starts(
    node: Node, at_path: str, beside: tuple[str, ...], ends_as: str
) -> None:
    node.with_sockets(at_path, *beside)

    node.look().look(21)

    assert old_again(node)
    assert node.socket_is(ends_as)
    assert node.calls.index("systemctl --no-block stop nodeupgrade-shield.service") < node.calls.index(
        "systemctl --no-block start kubelet.service"
    )


def test_a_frozen_shield_is_killed_and_does_not_keep_the_kubelet_waiting(node: Node) -> None:
    node.with_sockets("shield", "shield", "runtime").write("shield", "deactivating")

    node.look().look(21)

    assert old_again(node)
    assert node.socket_is("runtime")
    assert node.read("calls").count("sleep 1") == LOWERS_WITHIN


def test_a_shield_that_has_lowered_itself_is_not_waited_for(node: Node) -> None:
    node.with_sockets("runtime", "shield").write("shield", "deactivating")

    node.look().look(21)

    assert old_again(node)
    assert "sleep 1" not in node.read("calls")


def test_a_runtime_whose_path_leads_to_a_shield_that_left_no_name_is_restarted(node: Node) -> None:
    """Nobody can tell whose socket is at its path, and it takes the path back when it starts."""
    node.with_sockets("shield", "runtime")

    node.look().look(21)

    assert old_again(node)
    restarted = node.calls.index("systemctl restart containerd.service")
    assert restarted < node.calls.index("systemctl --no-block start kubelet.service")


@pytest.mark.parametrize("call", ["base64", "cp"])
def test_where_a_pod_has_filled_the_disk_what_was_kept_is_renamed(node: Node, call: str) -> None:
    node.write(".pin.nodeupgrade-previous", "original\n")
    node.write(f"node{node.root}/.state.nodeupgrade-previous", "state of the old\n").has(Fault(Mode.FAILING, 0, call))

    node.look().looks(1)

    assert old_again(node), node.log


@pytest.mark.parametrize("name", KUBELET_SOCKETS)
@pytest.mark.parametrize("taken", [0, 300])
def test_a_directory_in_place_of_a_kubelets_socket_is_moved_aside_before_it_starts(
    node: Node, name: str, taken: int
) -> None:
    place = node.root / name
    (place / "theirs").mkdir(parents=True)
    for number in range(taken):
        with suppress(OSError):  # the longest names are too long
            place.with_name(f".kubelet.sock.nodeupgrade-aside{'1' * number}").mkdir()

    node.look().looks(1)

    assert old_again(node), node.log
    assert not place.exists()
    [aside] = place.parent.glob("*/theirs")
    assert aside.parent.name.startswith(".kubelet.sock.nodeupgrade-aside")
    assert f"what lay at {place}, which is no socket, was moved to {aside.parent}" in node.log


@pytest.mark.parametrize("name", KUBELET_SOCKETS)
@pytest.mark.parametrize(
    "put", [Path.touch, os.mkfifo, *(partial(Path.symlink_to, target=to) for to in ("nowhere", ".", "theirs"))]
)
def test_what_else_lies_in_place_of_a_kubelets_socket_is_removed_before_it_starts(
    node: Node, name: str, put: Callable[[Path], None]
) -> None:
    place = node.root / name
    place.parent.mkdir(parents=True)
    place.with_name("theirs").write_text("theirs")
    put(place)

    node.look().looks(1)

    assert old_again(node), node.log
    assert [path.read_text() for path in place.parent.iterdir()] == ["theirs"]
    assert f"what lay at {place}, which is no socket, was removed" in node.log


@pytest.mark.parametrize("name", KUBELET_LOGS)
@pytest.mark.parametrize("put", [Path.touch, os.mkfifo, partial(Path.symlink_to, target="nowhere")])
def test_what_lies_in_place_of_a_directory_for_logs_is_moved_aside_before_a_kubelet_starts(
    node: Node, name: str, put: Callable[[Path], None]
) -> None:
    """A kubelet exits where it cannot make that directory."""
    place = node.root / name
    place.parent.mkdir(parents=True)
    put(place)

    node.look().looks(1)

    assert old_again(node), node.log
    assert not os.path.lexists(place)
    assert f"what lay at {place}, which is no directory, was moved to " in node.log


def test_directories_for_logs_are_left_to_a_kubelet(node: Node) -> None:
    for name in KUBELET_LOGS:
        (node.root / name / "theirs").mkdir(parents=True)

    node.look().looks(1)

    assert old_again(node), node.log
    assert all((node.root / name / "theirs").is_dir() for name in KUBELET_LOGS)


def test_a_kubelets_old_socket_is_left_to_it(node: Node) -> None:
    place = node.root / KUBELET_SOCKETS[0]
    place.parent.mkdir(parents=True)
    os.mknod(place, stat.S_IFSOCK | 0o755)

    node.look().looks(1)

    assert place.is_socket()
    assert str(place) not in node.log


@pytest.mark.parametrize("name", [*KUBELET_SOCKETS, f"{PLUGINS_ROOT}/device-plugins/theirs.sock", "state"])
def test_no_link_is_followed_or_left_where_pods_can_write(node: Node, name: str) -> None:
    place = node.root / (f"node{node.root}/state" if name == "state" else name)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    was_followed = watched_link(place, node.root / "second name")

    node.look().looks(1)

    assert not was_followed()
    assert not place.is_symlink()
    assert old_again(node), node.log


def second_link(path: Path) -> None:
    path.symlink_to(path.with_name("secret"))
    path.with_name(f".{path.name}.nodeupgrade-new").symlink_to(path.with_name("secret"))


@pytest.mark.parametrize("put", [second_link, os.mkfifo, lambda path: os.truncate(path, 400 * 1024**2)])
def test_whatever_a_pod_puts_in_place_of_a_state_file_is_replaced(node: Node, put: Callable[[Path], None]) -> None:
    state = node.root / f"node{node.root}/state"
    state.with_name("secret").write_text("of the node")
    if put in {second_link, os.mkfifo}:
        state.unlink()
    put(state)

    node.look().looks(1)

    assert node.started
    assert (state.read_text(), state.lstat().st_mode & 0o7777) == ("state of the old\n", 0o600)
    assert state.with_name("secret").read_text() == "of the node"
    assert "state of the old" in node.read("seen-by-kubelet")


@pytest.mark.parametrize("name", ["state", "came"])
def test_a_directory_in_place_of_a_state_file_is_left_and_reported(node: Node, name: str) -> None:
    """The kubelet starts without it, as it would after any restart."""
    state = node.root / f"node{node.root}" / name
    state.unlink(missing_ok=True)
    state.mkdir()

    node.look().looks(1)

    assert node.started
    assert f"{state} was left as it is" in node.log
    assert list(state.iterdir()) == []
    assert not list(node.root.rglob("*nodeupgrade-new"))


@pytest.mark.parametrize("drop_in", [False, True])
def test_systemd_reads_its_files_only_where_it_read_one_that_is_put_back(tmp_path: Path, *, drop_in: bool) -> None:
    """That takes devices from containers of which it does not know."""
    node = Node(tmp_path)
    (tmp_path / "run/systemd/system/kubelet.service.d").mkdir(parents=True)
    node.write("run/systemd/system/kubelet.service.d/zz-nodeupgrade-fence.conf", "")
    if drop_in:
        node.write("rescue.sh", node.read("rescue.sh").replace("reloads=''", "reloads=yes"))
    reserve = str(RESERVE.relative_to("/"))
    node.write(reserve, "")

    node.looks(3)

    assert old_again(node)
    assert ("systemctl daemon-reload" in node.calls) == drop_in
    assert not (node.root / reserve).exists()
    if drop_in:
        made = node.read("calls")
        assert made.index(f"rm -f {node.root / reserve}") < made.index("systemctl daemon-reload")
    assert ("systemd reads its files" in node.log) == drop_in


def directory(path: Path) -> None:
    path.mkdir()
    (path / "theirs").touch()


@pytest.mark.parametrize("put", [directory, os.mkfifo, lambda path: path.symlink_to("nowhere")])
@pytest.mark.parametrize("name", ["exchanged-there", "exchanged-added", "arguments.conf", "program"])
def test_what_is_no_file_in_place_of_one_of_ours_is_moved_aside_and_named(
    node: Node, name: str, put: Callable[[Path], None]
) -> None:
    (node.root / name).unlink()
    put(node.root / name)

    node.look().looks(1)

    assert old_again(node), node.log
    aside = node.root / f".{name}.nodeupgrade-aside"
    assert aside.is_symlink() or aside.exists()
    assert not aside.is_dir() or (aside / "theirs").exists()
    assert f"was moved to {aside}" in node.log


@pytest.mark.parametrize("put", [directory, os.mkfifo])
def test_what_is_no_manifest_in_place_of_one_is_left_and_named(node: Node, put: Callable[[Path], None]) -> None:
    """A kubelet leaves it out."""
    (node.root / "pin").unlink()
    put(node.root / "pin")

    node.look().looks(1)

    assert node.started
    assert f"{node.root / 'pin'}, which is no file, was left as it is" in node.log


@pytest.mark.parametrize("readable", [False, True], ids=["cannot be read", "is gone"])
def test_a_journal_without_a_word_is_no_run_that_is_over(node: Node, *, readable: bool) -> None:
    """Its file system was shut down by an error, or somebody has removed it. Nobody but this script looks again."""
    journal = node.root / "runs/journal"
    content = journal.read_text()
    journal.unlink()
    if not readable:
        journal.symlink_to(journal)

    node.looks(3)

    assert (node.root / LOOK).exists()
    assert END not in node.calls
    journal.unlink(missing_ok=True)
    journal.write_text(content)
    node.looks(3)
    assert old_again(node), node.log


def test_without_curl_a_kubelet_that_is_started_again_and_again_is_not_well(node: Node) -> None:
    """By systemd's clock, which stands still while a node is suspended, it might seem to have run since before that."""
    node.without_curl().write("pid", "4712")
    for _ in range(20):
        node.kubelet_began(float(node.read("uptime").split()[0])).look(after=LOOK_SECONDS)

    assert "bringing kubelet v1.30.14 back" in node.log


def test_without_curl_a_kubelet_that_lasts_is_well(node: Node) -> None:
    node.without_curl().write("pid", "4712").looks(20)

    assert not node.log


def test_what_was_written_over_keeps_its_extended_attributes(node: Node) -> None:
    """A label of SELinux is one."""
    try:
        os.setxattr(node.root / "pin", "user.label", b"etc_t")
    except OSError:
        pytest.skip("the filesystem of the temporary directory keeps no extended attributes")
    node.looks(10)

    assert old_again(node), node.log
    assert os.getxattr(node.root / "pin", "user.label") == b"etc_t"

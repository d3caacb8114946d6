"""The rescue script, run by a real shell: what it waits for, restores, and refuses to do."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nodeupgrade.node.rescue.timeouts import ABSENT_SECONDS, DEATHS, LOOK_SECONDS, LOWERS_WITHIN, hung_seconds
from tests.builders.rescue_rig import COMMIT, END, IDS, LOOK, OLD, Node, old_again

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_brings_the_old_kubelet_back_once_the_executor_is_lost(node: Node) -> None:
    node.look()
    node.look(after=ABSENT_SECONDS - 1)
    assert not node.started
    node.look(after=1)

    assert old_again(node), node.read("runs/rescue.log")
    assert "kubelet v1.30.14 was started" in node.read("runs/rescue.log")
    node.look(after=100)
    assert [call for call in node.calls if "start kubelet" in call] == ["systemctl --no-block start kubelet.service"]
    assert not (node.root / LOOK).exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.write("pid", "4711\n"),
        lambda node: node.write("runs/journal", node.read("runs/journal") + '{"mark":"finished","step":null}\n'),
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

    assert old_again(node), node.read("runs/rescue.log")
    assert f"the executor died {DEATHS} times" in node.read("runs/rescue.log")


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
        assert node.read("runs/rescue.log") == ""
        node.write("runs/journal", node.read("runs/journal") + "{}\n")
        node.look(after=1)
        node.look(after=patience - 1)
        assert node.read("runs/rescue.log") == ""
        node.look(after=1)
        assert "systemctl kill --signal=KILL nodeupgrade-executor.service" in node.calls
        assert "still holds its journal" in node.read("runs/rescue.log"), "this one cannot be killed"
        assert not node.started


def test_hashes_that_were_never_touched_need_no_runtime(node: Node) -> None:
    node.write("runs/journal", '{"mark":"doing","step":"stop-kubelet"}\n').write("features", "none")
    for name in IDS:
        node.write(f"stored/{name}", f"{name}:OLD\n")
    node.write("served", "a:OLD\nb:OLD\n")

    node.look()
    node.look(after=ABSENT_SECONDS)

    assert old_again(node)
    assert not [call for call in node.calls if "restore" in call or "restart" in call]


def test_a_run_that_rewrites_nothing_needs_no_curl(node: Node) -> None:
    node.lay_down(hashes=False)
    node.write("features", "none").write("stored/a", "a:OLD\n").write("stored/b", "b:OLD\n")
    node.write("served", "a:OLD\nb:OLD\n").look()

    assert old_again(node.look(after=ABSENT_SECONDS))


def test_a_runtime_that_serves_old_hashes_anyway_is_not_restarted(node: Node) -> None:
    """It was not restarted since the rewriting: what it serves from memory never changed."""
    node.write("served", "a:OLD\nb:OLD\n")

    node.look()
    node.look(after=ABSENT_SECONDS)

    assert old_again(node)
    assert "systemctl restart containerd.service" not in node.calls


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("stubborn", "", "still serves hashes of the new kubelet"),
        ("features", "Features: SSL", "a curl that speaks HTTP2"),
        ("backup", "something else", "the program of kubelet v1.30.14 is missing"),
    ],
)
def test_a_kubelet_is_never_started_on_what_cannot_be_made_right(node: Node, file: str, text: str, why: str) -> None:
    before = node.write(file, text).read("stubborn")

    for _ in range(4):
        node.look(after=ABSENT_SECONDS)

    assert not node.started
    assert (node.root / "run/nodeupgrade/fence/kubelet.service").exists()
    said = node.read("runs/rescue.log").splitlines()
    assert why.replace("HTTP2", "HTTP/2") in said[-1]
    assert len(said) == 2, "it says so once"
    assert node.read("runs/rescue") == "begun\n"
    # Once the cause is gone, it works.
    assert before == ""
    node.write("features", "HTTP2").write("backup", OLD.decode())
    (node.root / "stubborn").unlink(missing_ok=True)
    node.look(after=ABSENT_SECONDS)
    assert old_again(node)


def shielded(root: Path) -> Node:
    return Node(root).with_sockets("shield", "shield", "runtime")


def test_killed_anywhere_it_ends_the_same(tmp_path: Path) -> None:
    """At every call that changes something; and no kubelet is ever started on anything but what it left."""
    seen_before = "absent 0\n"
    last = int(shielded(tmp_path / "none").write(LOOK, seen_before).look().read("count"))
    assert last > 15
    wrong = []
    for strike in range(1, last + 1):
        node = shielded(tmp_path / str(strike)).write("strike", str(strike)).write(LOOK, seen_before)
        node.look()
        for _ in range(5):  # a child of the one that was killed may hold the lock for a moment
            if old_again(node.look(after=ABSENT_SECONDS)):
                break
        if not (old_again(node) and node.socket_is("runtime")):
            wrong.append((strike, node.calls[strike - 1], node.read("seen-by-kubelet"), node.read("runs/rescue.log")))

    assert wrong == []


def restored_times(node: Node) -> int:
    return sum("restore/a" in call for call in node.calls)


def test_a_kubelet_that_is_slow_to_start_is_not_taken_back_again(node: Node) -> None:
    """It gets as long as it needs; whatever comes of it, nothing is restored a second time."""
    node.write("sick", "").look()
    for _ in range(30):
        node.look(after=ABSENT_SECONDS)

    assert old_again(node), node.read("runs/rescue.log")
    assert restored_times(node) == 1
    assert node.calls.count("systemctl stop kubelet.service") == 1


def test_it_ends_with_its_work_and_a_later_upgrade_by_hand_is_nobodys_business(node: Node) -> None:
    node.look()
    node.look(after=ABSENT_SECONDS)
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
    assert not (node.root / "run/nodeupgrade/fence/kubelet.service").exists()
    assert node.calls[-2:] == ["systemctl --no-block start nodeupgrade-dead-man.timer", END]


def test_a_held_executor_shows_that_it_lives(node: Node) -> None:
    """It has nothing to write for days, and touches its journal."""
    patience = hung_seconds(node.plan.limits)
    with node.executor():
        for moment in range(5):
            os.utime(node.root / "runs/journal", (1000 + moment, 1000 + moment))
            node.look(after=patience)

    assert node.read("runs/rescue.log") == ""


LIVES, ANOTHER, ZOMBIE = (1000, "S"), (1001, "S"), (1000, "Z")
HOLDS_BACK = pytest.mark.parametrize("rewriting", [True, False], ids=["rewritten", "untouched"])


def untouched(node: Node) -> None:
    node.write("runs/journal", '{"mark":"doing","step":"stop-kubelet"}\n')
    for name in IDS:
        node.write(f"stored/{name}", f"{name}:OLD\n")
    node.write("served", "a:OLD\nb:OLD\n")


@HOLDS_BACK
def test_a_runtime_that_does_not_show_what_still_runs_gets_no_kubelet_and_no_hash(node: Node, rewriting: bool) -> None:
    node.with_baseline(a=LIVES, b=LIVES)
    if not rewriting:
        untouched(node)
    right = node.read("served")
    node.write("served", "b:NEW\n").look()
    for _ in range(3):
        node.look(after=ABSENT_SECONDS)

    assert not node.started
    assert restored_times(node) == 0
    assert (node.root / "run/nodeupgrade/fence/kubelet.service").exists()
    said = node.read("runs/rescue.log").splitlines()
    assert "does not show 1 of the containers that still run" in said[-1]
    assert f"touch {node.root}/runs/go-on" in said[-1]
    assert len(said) == 2, "it says so once"
    for unit in ("nodeupgrade-dead-man.timer", "nodeupgrade-lease-keeper.service"):
        assert node.calls.count(f"systemctl --no-block start {unit}") == 3

    node.write("served", right)
    assert old_again(node.look(after=ABSENT_SECONDS)), node.read("runs/rescue.log")


@pytest.mark.parametrize("overruled", [False, True])
def test_what_it_wrongly_remembers_is_put_back_even_if_it_shows_every_container(node: Node, overruled: bool) -> None:
    """It may take a pod for ended and none of its containers, and the kubelet would make them all a second time."""
    node.with_baseline(a=LIVES)
    nothing, noted = (
        "reinstate() {\n    :\n    false\n}",
        f"reinstate() {{\n    echo reinstate >> {node.root}/calls\n}}",
    )
    assert nothing in node.read("rescue.sh")
    node.write("rescue.sh", node.read("rescue.sh").replace(nothing, noted))
    if overruled:
        node.write("runs/go-on", "")

    assert old_again(node.look().look(after=ABSENT_SECONDS))

    assert ("reinstate" in node.calls) is not overruled


@pytest.mark.parametrize("process", [ANOTHER, ZOMBIE])
def test_what_has_provably_ended_need_not_be_shown(node: Node, process: tuple[int, str]) -> None:
    node.with_baseline(a=LIVES, c=process).look()

    assert old_again(node.look(after=ABSENT_SECONDS))


def test_somebody_may_overrule_it(node: Node) -> None:
    node.with_baseline(a=LIVES, c=LIVES).write("runs/go-on", "").look()

    assert old_again(node.look(after=ABSENT_SECONDS))


@pytest.mark.parametrize(
    ("at_path", "beside", "ends_as"),
    [
        pytest.param("shield", ("shield", "runtime"), "runtime", id="raised"),
        pytest.param("runtime", ("shield", "runtime"), "runtime", id="about to be raised"),
        pytest.param("restarted", ("shield", "runtime"), "restarted", id="the runtime took its path back"),
        pytest.param("runtime", ("shield",), "runtime", id="lowered"),
    ],
)
def test_the_runtime_has_its_own_socket_back_before_anything_is_asked(
    node: Node, at_path: str, beside: tuple[str, ...], ends_as: str
) -> None:
    node.with_sockets(at_path, *beside)

    node.look().look(21)

    assert old_again(node)
    assert node.socket_is(ends_as)
    assert node.calls.index("systemctl --no-block stop nodeupgrade-shield.service") < node.calls.index(
        "curl http://localhost/list"
    )
    assert "systemctl restart containerd.service" in node.calls  # for the hashes


def test_a_frozen_shield_is_killed_and_does_not_keep_the_kubelet_waiting(node: Node) -> None:
    node.with_sockets("shield", "shield", "runtime").write("shield", "deactivating")

    node.look().look(21)

    assert old_again(node)
    assert node.socket_is("runtime")
    assert node.calls.count("sleep 1") == LOWERS_WITHIN
    assert node.calls.index("systemctl kill --signal=KILL nodeupgrade-shield.service") > node.calls.index("sleep 1")


def test_a_shield_that_has_lowered_itself_is_not_waited_for(node: Node) -> None:
    node.with_sockets("runtime", "shield").write("shield", "deactivating")

    node.look().look(21)

    assert old_again(node)
    assert "sleep 1" not in node.calls


def test_a_runtime_whose_path_leads_to_a_shield_that_left_no_name_is_restarted(node: Node) -> None:
    """Nobody can tell whose socket is at its path, and it takes the path back when it starts."""
    node.with_sockets("shield", "runtime")

    node.look().look(21)

    assert old_again(node)
    assert node.calls.index("systemctl restart containerd.service") < node.calls.index("curl http://localhost/list")


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

    node.look().look(after=ABSENT_SECONDS)

    assert node.started
    assert (state.read_text(), state.lstat().st_mode & 0o7777) == ("state of the old\n", 0o600)
    assert state.with_name("secret").read_text() == "of the node"
    assert "state of the old" in node.read("seen-by-kubelet")


def test_a_directory_in_place_of_a_state_file_is_left_and_reported(node: Node) -> None:
    """The kubelet starts without it, as it would after any restart."""
    state = node.root / f"node{node.root}/state"
    state.unlink()
    state.mkdir()

    node.look().look(after=ABSENT_SECONDS)

    assert node.started
    assert f"{state} was left as it is" in node.read("runs/rescue.log")
    assert list(state.iterdir()) == []
    assert not list(node.root.rglob("*nodeupgrade-new"))

"""The rescue script, run by a real shell against a node of files: what it waits for, restores, and refuses to do.

Only ``systemctl`` and ``curl`` are stand-ins. They keep what is stored and what is served apart, as a runtime does,
and notice what a kubelet would see at the moment it is started.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.domain.node import rescue
from nodeupgrade.domain.node.inventory import ContainerInstance, Process
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.rescue import ABSENT_SECONDS, Call, FileBefore, Remedy, hung_seconds
from nodeupgrade.domain.values import ContainerId, Digest
from nodeupgrade.simulation.node import SimulatedNode, plan_for
from tests.unit.domain.sound import instance, inventory

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")

SYSTEMCTL = """#!/bin/sh
cd {root}; echo "systemctl $*" >> calls
{struck}
case "$*" in
  *MainPID*) echo "MainPID=$(cat pid)";;
  "stop kubelet.service") echo 0 > pid;;
  *kill*nodeupgrade-executor*) [ ! -e last-words ] || cat last-words >> runs/journal;;
  "--no-block start kubelet.service")
    [ ! -e {flag} ] || exit 1
    cat program served stored/* node{root}/state runs/rescue > seen-by-kubelet; echo 4711 > pid;;
  "restart containerd.service") [ -e stubborn ] || cat stored/* > served;;
  "is-active --quiet containerd.service") exit 0;;
esac
"""
CURL = """#!/bin/sh
cd {root}
[ "$2" != --version ] || {{ cat features; exit 0; }}
for word; do case "$last" in --output) body=$word;; --dump-header) head=$word;; esac; last=$word; done
echo "curl $last" >> calls
case "$*" in "-q "*"--noproxy * "*) ;; *) exit 1;; esac
{struck}
case "$last" in
  */healthz) [ "$(cat pid)" = 4711 ] && [ ! -e sick ];;
  */restore/*) cat > stored/${{last##*/}}; echo "grpc-status: 0" > "$head";;
  */gone/*) cat > /dev/null; echo "grpc-status: 5" > "$head";;
  */list) cat > /dev/null; cat served > "$body"; echo "grpc-status: 0" > "$head";;
esac
"""
TOOL = """#!/bin/sh
echo "{tool} $*" >> {root}/calls
{struck}
exec {real} "$@"
"""
STRUCK = 'n=$(($(cat {root}/count) + 1)); echo $n > {root}/count; [ $n != "$(cat {root}/strike)" ] || kill -9 $PPID'
OLD, NEW = b"old kubelet\n", b"new kubelet\n"
IDS = ("a", "b")
COMMIT = '{"mark":"done","monotonic":1.5,"payload":null,"step":"verify"}\n'
END = "systemctl --no-block stop nodeupgrade-rescue.timer"
LOOK = str(rescue.LOOK.relative_to("/"))


class Node:
    """A node on which everything was rewritten and swapped, its kubelet is fenced, and no executor runs."""

    def __init__(self, root: Path, *, curl_features: str = "Features: HTTP2 SSL") -> None:
        self.root = root
        for directory in ("runs", "stored", "bin", "run", f"node{root}"):
            (root / directory).mkdir(parents=True)
        self.write("runs/journal", '{"mark":"doing","step":"stop-kubelet"}\n{"mark":"done","step":"rewrite-hashes"}\n')
        self.write("pid", "0").write("count", "0").write("strike", "0").write("features", curl_features)
        for name in IDS:
            self.write(f"stored/{name}", f"{name}:NEW\n")
        self.write("served", "a:NEW\nb:NEW\n").write("uptime", "1000.5 3\n").write("stubborn", "")
        (root / "stubborn").unlink()
        (root / "program").write_bytes(NEW)
        (root / "backup").write_bytes(OLD)
        self.write(f"node{root}/state", "state of the new\n").write("pin", "pinned\n").write("theirs", "edited\n")
        self.write("arguments.conf", "ExecStart=\n")
        self.plan = self._plan()
        self.lay_down()

    def _plan(self) -> RunPlan:
        plan = plan_for(SimulatedNode(version="v1.30.14", pods=[]), "v1.33.13")
        swap = replace(
            plan.swap, path=f"{self.root}/program", backup=f"{self.root}/backup", before=Digest(sha256(OLD).hexdigest())
        )
        kubeconfig = "/etc/kubernetes/kubelet.conf"
        return replace(plan, swap=swap, healthz_url="http://127.0.0.1:1/healthz", kubeconfig=kubeconfig)

    def with_baseline(self, **processes: tuple[int, str]) -> "Node":
        """Have containers in the plan's baseline; each has a process that was started at 1000 and now is as told."""
        containers: list[ContainerInstance] = []
        for name, (started, state) in processes.items():
            pid = 100 + len(containers)
            containers.append(replace(instance("h"), id=ContainerId(name), process=Process(pid=pid, started=1000)))
            (self.root / f"proc/{pid}").mkdir(parents=True)
            fields = [state, *("1" * 18), str(started), "1"]
            self.write(f"proc/{pid}/stat", f"{pid} (a (b) c) {' '.join(fields)}\n")
        self.plan = replace(self.plan, baseline=inventory(*containers))
        self.lay_down()
        return self

    def lay_down(self, *, hashes: bool = True) -> None:
        restore = [Call(path=f"/restore/{name}", frame=f"{name}:OLD\n".encode()) for name in IDS]
        remedy = Remedy(
            socket="/run/socket", restore=(*restore, Call(path="/gone/c", frame=b"x")) if hashes else (),
            listing=Call(path="/list", frame=b"\0"), wrong=(b"a:NEW", b"b:NEW"),
        )  # fmt: skip
        files = (
            FileBefore(path=f"{self.root}/pin", content=b"original\n", only_if=b"pinned\n"),
            FileBefore(path=f"{self.root}/theirs", content=b"original\n", only_if=b"pinned\n"),
            FileBefore(path=f"{self.root}/node{self.root}/state", content=b"state of the old\n"),
            FileBefore(path=f"{self.root}/arguments.conf", content=None),
        )
        text = rescue.script(self.plan, remedy, files, PurePosixPath(self.root / "runs")).decode()
        text = text.replace("/proc/uptime", f"{self.root}/uptime").replace("/run/", f"{self.root}/run/")
        text = text.replace("/proc/$pid", f"{self.root}/proc/$pid")
        text = text.replace("flock -w 10", "flock -w 0.1")
        self.write("rescue.sh", text.replace("PATH=/usr", f"PATH={self.root}/bin:/usr"))
        flag = f"{self.root}/run/nodeupgrade/fence/kubelet.service"
        struck = STRUCK.format(root=self.root)
        self._program("systemctl", SYSTEMCTL.format(root=self.root, flag=flag, struck=struck))
        self._program("curl", CURL.format(root=self.root, struck=struck))
        for tool in ("mv", "ln"):
            self._program(tool, TOOL.format(tool=tool, root=self.root, struck=struck, real=shutil.which(tool)))

    def _program(self, name: str, text: str) -> None:
        self.write(f"bin/{name}", text)
        (self.root / "bin" / name).chmod(0o755)

    def write(self, name: str, text: str) -> "Node":
        (self.root / name).write_text(text)
        return self

    def read(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def look(self, after: int = 0) -> "Node":
        """Let time pass, and the timer start the script once."""
        self.write("uptime", f"{float(self.read('uptime').split()[0]) + after} 3\n")
        subprocess.run(["/bin/sh", str(self.root / "rescue.sh")], check=False, capture_output=True, timeout=60)
        return self

    @property
    def calls(self) -> list[str]:
        return self.read("calls").splitlines()

    @property
    def started(self) -> bool:
        return self.read("pid") == "4711\n"

    @contextmanager
    def executor(self) -> Iterator[None]:
        """An executor that lives, and so holds its journal."""
        with (self.root / "runs/journal").open() as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            yield


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def old_again(node: Node) -> bool:
    """Whether a kubelet was started, and saw nothing but what it left."""
    seen = "old kubelet\na:OLD\nb:OLD\na:OLD\nb:OLD\nstate of the old\ndone\n"
    restored = {
        "pin": "original\n",
        "theirs": "edited\n",
        "arguments.conf": "",
        "program": OLD.decode(),
    }
    return (
        node.started
        and node.read("seen-by-kubelet") == seen
        and {name: node.read(name) for name in restored} == restored
        and not list(node.root.rglob("*nodeupgrade-new"))
    )


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
        ("backup", "something else", "the program of kubelet v1.30.14 is not there"),
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


def test_killed_anywhere_it_ends_the_same(tmp_path: Path) -> None:
    """At every call that changes something; and no kubelet is ever started on anything but what it left."""
    seen_before = "absent 0\n"
    last = int(Node(tmp_path / "none").write(LOOK, seen_before).look().read("count"))
    assert last > 15
    wrong = []
    for strike in range(1, last + 1):
        node = Node(tmp_path / str(strike)).write("strike", str(strike)).write(LOOK, seen_before)
        node.look().look(after=ABSENT_SECONDS)
        if not old_again(node):
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


@pytest.mark.parametrize("process", [ANOTHER, ZOMBIE])
def test_what_has_provably_ended_need_not_be_shown(node: Node, process: tuple[int, str]) -> None:
    node.with_baseline(a=LIVES, c=process).look()

    assert old_again(node.look(after=ABSENT_SECONDS))


def test_somebody_may_overrule_it(node: Node) -> None:
    node.with_baseline(a=LIVES, c=LIVES).write("runs/go-on", "").look()

    assert old_again(node.look(after=ABSENT_SECONDS))

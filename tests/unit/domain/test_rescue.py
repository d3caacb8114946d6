"""The rescue script, run by a real shell against a node of files: what it waits for, restores, and refuses to do.

Only ``systemctl`` and ``curl`` are stand-ins. They keep what is stored and what is served apart, as a runtime does,
and notice what a kubelet would see at the moment it is started.
"""

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.domain.node import rescue
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.rescue import ABSENT_SECONDS, Call, FileBefore, Remedy, hung_seconds
from nodeupgrade.domain.values import Digest
from nodeupgrade.simulation.node import SimulatedNode, plan_for

pytestmark = pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock of util-linux")

SYSTEMCTL = """#!/bin/sh
cd {root}; echo "systemctl $*" >> calls
{struck}
case "$*" in
  *MainPID*) echo "MainPID=$(cat pid)";;
  "stop kubelet.service") echo 0 > pid;;
  "--no-block start kubelet.service")
    [ ! -e {flag} ] || exit 1
    cat program served stored/* node{root}/state runs/rescue > seen-by-kubelet; echo 4711 > pid;;
  "restart containerd.service") [ -e stubborn ] || cat stored/* > served;;
  "is-active --quiet containerd.service") exit 0;;
esac
"""
CURL = """#!/bin/sh
cd {root}
[ "$1" != --version ] || {{ cat features; exit 0; }}
for word; do case "$last" in --output) body=$word;; --dump-header) head=$word;; esac; last=$word; done
echo "curl $last" >> calls
{struck}
case "$last" in
  */healthz) [ "$(cat pid)" = 4711 ];;
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
        return replace(plan, swap=swap, healthz_url="http://127.0.0.1:1/healthz")

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
        lambda node: node.write("runs/journal", '{"mark":"done","step":"arm-dead-man"}\n'),
        lambda node: (node.root / "runs/journal").unlink(),
    ],
    ids=["a kubelet is well", "the run is over", "the kubelet was never stopped", "no run"],
)
def test_it_touches_nothing_while(node: Node, change: object) -> None:
    change(node)  # type: ignore[operator]

    for _ in range(3):
        node.look(after=ABSENT_SECONDS)

    assert [call for call in node.calls if "show" not in call and "healthz" not in call and "rm -f" not in call] == []


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

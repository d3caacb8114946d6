"""A node of files on which a real shell runs the rescue script, with a fault in one call, or in all calls of a kind.

``systemctl``, ``curl``, ``sleep`` and ``timeout`` are stand-ins, which notice what a kubelet would see at the moment it
is started. Every other program is the real one behind a stand-in that can fail.
"""

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from socket import AF_UNIX, socket

from nodeupgrade.api.values import Digest, RunId
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import ExchangedFile, RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.rescue.script import FileBefore
from nodeupgrade.node.rescue.timeouts import ABSENT_SECONDS
from tests.doubles.node import SimulatedNode, plan_for, pod_json

STAND_INS = r"""
strike() {{
    read -r n < {root}/count; n=$((n + 1)); echo $n > {root}/count
    echo "$*" >> {root}/calls
    read -r mode number command < {root}/fault
    if [ "$number" != $n ]; then
        [ -n "$command" ] || return 0
        case "$*" in "$command"*) ;; *) return 0;; esac
    fi
    case $mode in
      silent) fails=0; return 1;;
      garbled) echo '#7$ MainPID=x'; fails=0; return 1;;
      failing) fails=1; return 1;;
      hanging) [ "$1" != systemctl ] || {{ fails=124; return 1; }};;
    esac
    kill -9 $$
}}
shown() {{
    read -r word < {root}/$1; echo "$2$word"
}}
systemctl() {{
    strike systemctl "$@" || return $fails
    case "$*" in
      *ActiveState*) shown shield ActiveState=;;
      *kill*nodeupgrade-shield*) echo inactive > {root}/shield;;
      *MainPID*) shown pid MainPID=;;
      "stop kubelet.service") echo 0 > {root}/pid;;
      *kill*nodeupgrade-executor*) [ ! -e {root}/last-words ] || command cat {root}/last-words >> {root}/runs/journal;;
      "--no-block start kubelet.service")
        [ ! -e {flag} ] || return 1
        command cat {root}/program {root}/node{root}/state > {root}/seen-by-kubelet; echo 4711 > {root}/pid;;
      "start nodeupgrade-spare.service")
        [ -e {root}/spare-works ] || return 1
        command flock -n {root}/runs/journal -c "echo yes > {root}/executor-runs; exec {sleep} 0.7" > /dev/null 2>&1 &
        until [ -s {root}/executor-runs ]; do command sleep 0.01; done;;
      "is-active --quiet nodeupgrade-shield.service") [ "$(shown shield '')" = active ];;
      "--no-block stop nodeupgrade-rescue.timer") echo stopped > {root}/timer;;
    esac
}}
curl() {{
    strike curl "$@" || return $fails
    case "$*" in "-q "*"--noproxy * "*/healthz) ;; *) return 1;; esac
    [ ! -e {root}/flood ] || {{ command head -c 9999999 /dev/zero | command tr '\0' x && : > {root}/drunk; }}
    [ "$(shown pid '')" = 4711 ] && [ ! -e {root}/sick ] && echo ok
}}
sleep() {{
    strike sleep "$@" || return $fails
}}
timeout() {{
    shift 3; "$@"
}}
"""
TOOL = """{tool}() {{
    strike {tool} "$@" || return $fails
    command {tool} "$@"
}}
"""
TOOLS = ("base64", "cat", "cp", "date", "find", "flock", "grep", "ln", "mkdir", "mv", "rm", "sha256sum", "stat", "sync",
         "tail", "wc")  # fmt: skip
KUBELET_ROOT = "root of a kubelet"
PLUGINS_ROOT = "var/lib/kubelet"
KUBELET_LOGS = ("var/log/containers", "var/log/pods")
KUBELET_SOCKETS = (f"{PLUGINS_ROOT}/device-plugins/kubelet.sock", f"{KUBELET_ROOT}/pod-resources/kubelet.sock")
OLD, NEW = b"old kubelet\n", b"new kubelet\n"
EXCHANGED = (
    ("there", "new file\n", "old file\n"),
    ("added", "new file\n", ""),
    ("theirs", "edited\n", "old file\n"),
    ("untouched", "old file\n", "old file\n"),
)
"""Files that go along with the kubelet: name, what is there now, and what was kept of it, if it was there before."""
COMMIT = '{"mark":"done","monotonic":1.5,"payload":null,"step":"lower-shield"}\n'
FINISHED = '{"mark":"finished","step":null}\n'
STOPPED = '{"mark":"doing","step":"stop-kubelet"}\n'
REWRITTEN = STOPPED + '{"mark":"done","step":"rewrite-hashes"}\n'
END = "systemctl --no-block stop nodeupgrade-rescue.timer"
LOOK = str(script.LOOK.relative_to("/"))
FLAG = "run/nodeupgrade/fence/kubelet.service"
BACK = "kubelet v1.30.14 runs"
HANDED_OVER = "an executor runs again"


class Mode(StrEnum):
    """How a call goes wrong. A call that hangs is ended by its time limit, or takes the script along."""

    SILENT = "silent"
    GARBLED = "garbled"
    FAILING = "failing"
    HANGING = "hanging"
    KILLED = "killed"


@dataclass(frozen=True)
class Fault:
    """A fault of one call, by its number, or of all calls that begin like this."""

    mode: Mode
    number: int = 0
    command: str = ""

    def __str__(self) -> str:
        return f"{self.mode} {self.number} {self.command}"


class Node:
    """A node on which files and program were swapped, its kubelet is fenced, and no executor runs or can be started.

    Args:
        root: where its files are.
        rewrites: whether the run has rewritten hashes.
    """

    def __init__(self, root: Path, *, rewrites: bool = False) -> None:
        self.root = root
        for directory in ("runs", "run", f"node{root}", FLAG.rpartition("/")[0]):
            (root / directory).mkdir(parents=True, exist_ok=True)
        self.write("runs/journal", REWRITTEN if rewrites else STOPPED)
        self.write("pid", "0").write("count", "0").write("fault", "none 0 \n").write("calls", "")
        self.write("uptime", "1000.5 3\n").write("shield", "inactive").write(FLAG, "").kubelet_began(1)
        self.write(LOOK, script.EMPTY_LOOK.decode())
        (root / "program").write_bytes(NEW)
        (root / "backup").write_bytes(OLD)
        self.write(f"node{root}/state", "state of the new\n").write("pin", "pinned\n").write("theirs", "edited\n")
        self.write("arguments.conf", "ExecStart=\n")
        for name, now, kept in EXCHANGED:
            self.write(f"exchanged-{name}", now).write(f"kept-{name}", kept)
        self.plan = self._plan(rewrites=rewrites)
        self._lay_down()

    def _plan(self, *, rewrites: bool) -> RunPlan:
        pods = [pod_json("web", "nginx")] if rewrites else []
        plan = plan_for(SimulatedNode(version="v1.30.14", pods=pods), "v1.33.13")
        swap = replace(
            plan.swap, path=f"{self.root}/program", backup=f"{self.root}/backup", before=Digest(sha256(OLD).hexdigest())
        )
        kubeconfig = "/etc/kubernetes/kubelet.conf"
        exchanged = tuple(
            ExchangedFile(
                path=f"{self.root}/exchanged-{name}",
                staged="",
                backup=f"{self.root}/kept-{name}",
                before=Digest(sha256(kept.encode()).hexdigest()) if kept else None,
                after=Digest(sha256(b"new file\n").hexdigest()),
            )
            for name, _, kept in EXCHANGED
        )
        url = "http://127.0.0.1:1/healthz"
        plan = replace(plan, run_id=RunId("one"), healthz_url=url, kubeconfig=kubeconfig)
        state_files = (f"{self.root}/{KUBELET_ROOT}/cpu_manager_state",)
        return replace(plan, swap=swap, exchanged=exchanged, state_files=state_files)

    def _lay_down(self) -> None:
        files = (
            FileBefore(path=f"{self.root}/pin", content=b"original\n", only_if=b"pinned\n"),
            FileBefore(path=f"{self.root}/theirs", content=b"original\n", only_if=b"pinned\n"),
            FileBefore(
                path=f"{self.root}/node{self.root}/state", content=b"state of the old\n", place=f"{self.root}/node"
            ),
            FileBefore(path=f"{self.root}/node{self.root}/came", content=None, place=f"{self.root}/node"),
            FileBefore(path=f"{self.root}/arguments.conf", content=None),
        )
        text = script.script(self.plan, files).decode()
        text = text.replace(str(RUNS / "one"), f"{self.root}/runs").replace("/proc/uptime", f"{self.root}/uptime")
        text = text.replace("/proc/$pid/stat", f"{self.root}/stat")
        text = text.replace(f" /{PLUGINS_ROOT}/", f" {self.root}/{PLUGINS_ROOT}/")
        text = text.replace(" /var/log/", f" {self.root}/var/log/")
        text = text.replace("/run/", f"{self.root}/run/").replace("take_lock -w 10", "take_lock -w 0.1")
        stand_ins = STAND_INS.format(root=self.root, flag=self.root / FLAG, sleep=shutil.which("sleep"))
        tools = "".join(TOOL.format(tool=tool) for tool in TOOLS)
        self.write("rescue.sh", f"{stand_ins}{tools}{text}")

    def write(self, name: str, text: str) -> "Node":
        (self.root / name).write_text(text)
        return self

    def read(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def without_curl(self) -> "Node":
        """Have no curl on the node, so that nobody asks the kubelet itself."""
        return self.write("rescue.sh", self.read("rescue.sh").replace("command -v curl", "command -v no-curl"))

    def kubelet_began(self, at: float) -> "Node":
        """Have the kubelet's process begun so many seconds after the boot, by the clock that goes on in a suspend."""
        return self.write("stat", f"4712 (kube (1) let) S {'1 ' * 18}{at * 100:.0f} 1 1\n")

    def has(self, fault: Fault | None) -> "Node":
        """Have calls go wrong from now on; ``None`` if none does."""
        return self.write("fault", f"{fault or 'none 0 '}\n")

    def look(self, after: int = 0) -> "Node":
        """Let time pass, and the timer start the script once, unless the timer was stopped."""
        self.write("uptime", f"{float(self.read('uptime').split()[0]) + after} 3\n")
        if not self.read("timer"):
            subprocess.run(["/bin/sh", str(self.root / "rescue.sh")], check=False, capture_output=True, timeout=600)
        return self

    def looks(self, times: int) -> "Node":
        """Let the timer start the script so many times, each time after the patience with an executor."""
        for _ in range(times):
            self.look(after=ABSENT_SECONDS)
        return self

    def with_sockets(self, at_path: str, *beside: str) -> "Node":
        """Have the sockets of a shield; ``at_path`` says whose is at the runtime's path, the others are links."""
        directory = self.root / "run/containerd"
        directory.mkdir()
        for name in {at_path, *beside}:
            with socket(AF_UNIX) as own:
                own.bind(str(directory / f"{name}.made"))
        (directory / "containerd.sock").hardlink_to(directory / f"{at_path}.made")
        for name in beside:
            (directory / f"nodeupgrade-{name}.sock").hardlink_to(directory / f"{name}.made")
        return self

    def socket_is(self, name: str) -> bool:
        """Whether the runtime's path leads to this socket, and nothing of the shield is left."""
        directory = self.root / "run/containerd"
        return (directory / "containerd.sock").samefile(directory / f"{name}.made") and not list(
            directory.glob("nodeupgrade-*")
        )

    @property
    def calls(self) -> list[str]:
        """The calls of systemctl and curl so far, and of what changes files."""
        return [
            call for call in self.read("calls").splitlines() if call.split()[0] in {"systemctl", "curl", "mv", "ln"}
        ]

    @property
    def log(self) -> str:
        return self.read("runs/rescue.log")

    @property
    def started(self) -> bool:
        return self.read("pid") == "4711\n"

    @property
    def fenced(self) -> bool:
        return (self.root / FLAG).exists()

    @contextmanager
    def executor(self) -> Iterator[None]:
        """An executor that lives, and so holds its journal."""
        with (self.root / "runs/journal").open() as journal:
            fcntl.flock(journal, fcntl.LOCK_EX)
            yield


def old_again(node: Node) -> bool:
    """Whether a kubelet was started, and saw nothing but what it left."""
    restored = {
        "pin": "original\n",
        "theirs": "edited\n",
        "arguments.conf": "",
        "program": OLD.decode(),
        "exchanged-there": "old file\n",
        "exchanged-added": "",
        "exchanged-theirs": "edited\n",
        "exchanged-untouched": "old file\n",
    }
    return (
        node.started
        and node.read("seen-by-kubelet") == "old kubelet\nstate of the old\n"
        and {name: node.read(name) for name in restored} == restored
        and not list(node.root.rglob("*nodeupgrade-new"))
    )


def lies(node: Node) -> list[str]:
    """Return what the script has said, and is not so."""
    return [
        *([f"says {BACK!r} without a kubelet"] if BACK in node.log and not node.started else []),
        *([f"says {HANDED_OVER!r} without one"] if HANDED_OVER in node.log and not node.read("executor-runs") else []),
    ]

"""A node of files on which a real shell runs the rescue script.

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
from socket import AF_UNIX, socket

from nodeupgrade.api.values import ContainerId, Digest
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import ExchangedFile, RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.rescue.script import FileBefore
from nodeupgrade.node.runtimes.containerd.rescue_fragment import render
from nodeupgrade.node.runtimes.cri.connection import Call
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from tests.builders.sound import instance, inventory
from tests.doubles.node import SimulatedNode, plan_for

SYSTEMCTL = """#!/bin/sh
cd {root}; echo "systemctl $*" >> calls
{struck}
case "$*" in
  *ActiveState*) echo "ActiveState=$(cat shield)";;
  *kill*nodeupgrade-shield*) echo inactive > shield;;
  *MainPID*) echo "MainPID=$(cat pid)";;
  "stop kubelet.service") echo 0 > pid;;
  *kill*nodeupgrade-executor*) [ ! -e last-words ] || cat last-words >> runs/journal;;
  "--no-block start kubelet.service")
    [ ! -e {flag} ] || exit 1
    cat program served stored/* node{root}/state runs/rescue > seen-by-kubelet; echo 4711 > pid;;
  "restart containerd.service") [ -e stubborn ] || cat stored/* > served;;
  "is-active --quiet containerd.service") exit 0;;
  "is-active --quiet nodeupgrade-shield.service") [ "$(cat shield)" = active ];;
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
EXCHANGED = (
    ("there", "new file\n", "old file\n"),
    ("added", "new file\n", ""),
    ("theirs", "edited\n", "old file\n"),
    ("untouched", "old file\n", "old file\n"),
)
"""Files that go along with the kubelet: name, what is there now, and what was kept of it, if it was there before."""
COMMIT = '{"mark":"done","monotonic":1.5,"payload":null,"step":"lower-shield"}\n'
END = "systemctl --no-block stop nodeupgrade-rescue.timer"
LOOK = str(script.LOOK.relative_to("/"))


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
        self.write("served", "a:NEW\nb:NEW\n").write("uptime", "1000.5 3\n").write("stubborn", "").write(
            "shield", "inactive"
        )
        (root / "stubborn").unlink()
        (root / "program").write_bytes(NEW)
        (root / "backup").write_bytes(OLD)
        self.write(f"node{root}/state", "state of the new\n").write("pin", "pinned\n").write("theirs", "edited\n")
        self.write("arguments.conf", "ExecStart=\n")
        for name, now, kept in EXCHANGED:
            self.write(f"exchanged-{name}", now).write(f"kept-{name}", kept)
        self.plan = self._plan()
        self.lay_down()

    def _plan(self) -> RunPlan:
        plan = plan_for(SimulatedNode(version="v1.30.14", pods=[]), "v1.33.13")
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
        return replace(plan, swap=swap, healthz_url=url, kubeconfig=kubeconfig, exchanged=exchanged)

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
        calls = (*restore, Call(path="/gone/c", frame=b"x")) if hashes else ()
        fragment = render("/run/socket", Call(path="/list", frame=b"\0"), calls, (b"a:NEW", b"b:NEW"))
        files = (
            FileBefore(path=f"{self.root}/pin", content=b"original\n", only_if=b"pinned\n"),
            FileBefore(path=f"{self.root}/theirs", content=b"original\n", only_if=b"pinned\n"),
            FileBefore(
                path=f"{self.root}/node{self.root}/state", content=b"state of the old\n", place=f"{self.root}/node"
            ),
            FileBefore(path=f"{self.root}/arguments.conf", content=None),
        )
        text = script.script(self.plan, fragment, files, PurePosixPath(self.root / "runs")).decode()
        text = text.replace("/proc/uptime", f"{self.root}/uptime").replace("/run/", f"{self.root}/run/")
        text = text.replace("/proc/$pid", f"{self.root}/proc/$pid")
        text = text.replace("flock -w 10", "flock -w 0.1")
        self.write("rescue.sh", text.replace("PATH=/usr", f"PATH={self.root}/bin:/usr"))
        flag = f"{self.root}/run/nodeupgrade/fence/kubelet.service"
        struck = STRUCK.format(root=self.root)
        self._program("systemctl", SYSTEMCTL.format(root=self.root, flag=flag, struck=struck))
        self._program("curl", CURL.format(root=self.root, struck=struck))
        self._program("sleep", f'#!/bin/sh\necho "sleep $*" >> {self.root}/calls\n')
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
        subprocess.run(["/bin/sh", str(self.root / "rescue.sh")], check=False, capture_output=True, timeout=600)
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


def old_again(node: Node) -> bool:
    """Whether a kubelet was started, and saw nothing but what it left."""
    seen = "old kubelet\na:OLD\nb:OLD\na:OLD\nb:OLD\nstate of the old\ndone\n"
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
        and node.read("seen-by-kubelet") == seen
        and {name: node.read(name) for name in restored} == restored
        and not list(node.root.rglob("*nodeupgrade-new"))
    )

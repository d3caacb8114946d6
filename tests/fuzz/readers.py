"""Every module that reads what others write on a node: what to give it, and the errors that it names.

A module of ``node`` or ``kubelet`` reads if it takes text apart: by nodeupgrade.text, YAML or struct.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path, PurePosixPath
from typing import cast

from nodeupgrade.api.values import AwakeTime, ContainerId, RunId
from nodeupgrade.bundle import MANIFEST, BundleError
from nodeupgrade.errors import Inconsistent, NodeUpgradeError, StepFailed
from nodeupgrade.kubelet import flags, kubeconfig, trial_command, user_ids
from nodeupgrade.kubelet.certificate_validity import validity
from nodeupgrade.kubelet.credential_program import CredentialProgram, CredentialProgramError, parse_output
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelet.served_ports import served_ports
from nodeupgrade.kubelet.settings import Configured, configured, cpus_in, threshold
from nodeupgrade.kubelet.state_files.device_checkpoint import read_devices
from nodeupgrade.kubelet.state_files.fields import fields, read_fields
from nodeupgrade.node.agent.guard_trials import node_trial
from nodeupgrade.node.bundle.store import read_manifest
from nodeupgrade.node.checks.units import is_harmless, paths_in, script_of
from nodeupgrade.node.facts.daemons import find_daemons
from nodeupgrade.node.facts.device_access import device_access
from nodeupgrade.node.host.device_rules import (
    DeviceNames,
    DeviceRule,
    UnitDevices,
    lost_by_reload,
    rules_of,
    rules_of_spec,
)
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.files.locks import parse_locks
from nodeupgrade.node.host.files.mounted_volumes import mounted_volumes
from nodeupgrade.node.host.files.mounts import mounts, place_of
from nodeupgrade.node.host.packages.dpkg_database import record_of
from nodeupgrade.node.host.packages.ownership import owner_by_dpkg, owner_by_rpm, parse_owners
from nodeupgrade.node.host.processes.memory import memory_in_use
from nodeupgrade.node.host.processes.processes import ProcessTable, parse_stat
from nodeupgrade.node.host.processes.programs import failure_message
from nodeupgrade.node.host.systemd import properties
from nodeupgrade.node.host.systemd.drop_ins import decisive_settings
from nodeupgrade.node.host.systemd.environment_files import parse_assignments
from nodeupgrade.node.host.systemd.manager import SystemdManager, endings_of
from nodeupgrade.node.host.systemd.units import UnitCommand
from nodeupgrade.node.host.systemd.unloaded_units import has_unloaded_files
from nodeupgrade.node.host.systemd.watchdog import Watchdog
from nodeupgrade.node.journal import journal, messages, scrubbing
from nodeupgrade.node.journal.run_directories import PLAN, RunStore
from nodeupgrade.node.journal.run_store import KUBELET, RESCUE, TROUBLE
from nodeupgrade.node.lease_keeper import renewal
from nodeupgrade.node.plan import manifest_uid
from nodeupgrade.node.plan.amendment import Arrivals
from nodeupgrade.node.run import kubelet_log, runtime_ports
from nodeupgrade.node.running_kubelet.credential_programs import _without_secrets
from nodeupgrade.node.runtimes.containerd import containerd, restart_tuning
from nodeupgrade.node.runtimes.containerd.command_line import ContainerdStart
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from nodeupgrade.node.runtimes.containerd.imports import find_imports
from nodeupgrade.node.runtimes.containerd.next_start import ContainerdProgram
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.cri.json_places import find
from nodeupgrade.node.runtimes.cri.restart_hazards import version_numbers
from nodeupgrade.node.runtimes.crio import before_images, configuration, daemon
from nodeupgrade.node.runtimes.crio.listing import pid_in
from nodeupgrade.node.runtimes.crio.metadata import WANTED, StoredSpecification
from nodeupgrade.node.runtimes.crio.next_start import CrioProgram
from nodeupgrade.node.runtimes.crio.restart_hazards import _records
from nodeupgrade.node.runtimes.docker import configuration as docker_configuration
from nodeupgrade.node.runtimes.docker.client import _answer
from nodeupgrade.node.runtimes.docker.listing import parse_nanoseconds, pod_address
from nodeupgrade.node.runtimes.docker.metadata import StoredConfig
from nodeupgrade.node.runtimes.docker.next_start import DockerdProgram
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.runtimes.socket_clients import listening_sockets
from nodeupgrade.node.shield.call_requests import UnreadableRequest, judged_method, parse_request
from nodeupgrade.node.shield.harmful_calls import Method
from nodeupgrade.node.shield.records import ShieldRecords
from nodeupgrade.node.shield.shield import REFUSED, RefusedCall
from nodeupgrade.text import lines, parse_json
from tests.builders.docker_files import content as docker_content
from tests.builders.gathered import gathered, node
from tests.builders.journal_records import record
from tests.builders.lease_server import lease
from tests.builders.sound import unit as found_unit
from tests.contract.node.crio_storage import go_json, specification

Read = Callable[[bytes, Path], object]
"""Reads a text; the directory is empty, and for the reader's use."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """What reads one kind of text."""

    module: str  # below ``nodeupgrade``
    what: str  # of which its text is
    reads: tuple[Read, ...]
    valid: tuple[bytes, ...]  # texts as they usually are
    errors: tuple[type[Exception], ...] = ()  # those that its docstring names, or that its caller expects
    slow: bool = False  # whether it starts a process, or looks at a whole node
    only_root: bool = False  # whether nobody but root and the runtime can make it large


def text(data: bytes) -> str:
    """Return it as the adapters do."""
    return data.decode(errors="surrogateescape")


def several(*calls: Callable[[str], object]) -> tuple[Read, ...]:
    """Return what reads a text in several ways."""
    return tuple(lambda data, _, call=call: call(text(data)) for call in calls)


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def printing(data: bytes, place: Path) -> tuple[str, ...]:
    """Return the prefix of a command that prints this, whatever the command."""
    return ("sh", "-c", 'cat "$0"', str(put(place / "printed", data)))


STAT = b"7 (name) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0\n"
MOUNTINFO = (
    b"25 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
    b"26 25 0:24 / /var/lib/kubelet/pods/1234-ab/volumes/kubernetes.io~csi/pvc/mount rw - tmpfs tmpfs rw,size=1k\n"
)
UNIX = (
    b"Num       RefCount Protocol Flags    Type St Inode Path\n"
    b"0000000000000000: 00000002 00000000 00010000 0001 01 25 /run/containerd/containerd.sock\n"
    b"0000000000000000: 00000003 00000000 00000000 0001 03 26 @abstract\n"
)
CGROUP = (
    b"12:memory:/system.slice/kubelet.service\n1:name=systemd:/system.slice/a.service\n0::/kubepods.slice/x.scope\n"
)
SHOWN = (
    b"LoadState=loaded\nActiveState=active\nMainPID=17\nNRestarts=0\nExecMainStatus=0\nDropInPaths=/a.conf /b.conf\n"
    b"ExecStart={ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet --v=2 ; ignore_errors=no ; start_time=[n/a] }\n"
    b"ExecMainStartTimestampMonotonic=123456\nExecMainStartTimestamp=Sat 2026-11-21 05:45:28 UTC\n"
    b'Environment=A=1 "B=2 3"\nEnvironmentFiles=/etc/default/kubelet (ignore_errors=yes)\nFailureAction=none\n'
)
DPKG = (
    b"Package: kubelet\nStatus: hold ok installed\nArchitecture: amd64\nVersion: 1.30.14-1.1\nDescription: x\n more\n\n"
)
KLOG = b'E1121 05:45:28.123456    1234 server.go:1] "Failed" err="a \\"b\\"" pod="a/b"\n{"level":"error","err":"c"}\n'
JOURNAL = b"".join(
    journal.render(record(seq, mark, error="why", payload={"outcome": "RolledBack"}))
    for seq, mark in ((1, journal.Mark.DOING), (2, journal.Mark.UNDONE), (3, journal.Mark.FINISHED))
)
REFUSED_LINE = json.dumps(
    {"at": "t", "monotonic": 1.0, "method": "m", "instance": "i", "label": "a/b/c", "wanted": "stop", "caller": ""}
).encode()
LEASE = json.dumps(lease(0)).encode()
RUN = RunId("a-1.1")
ID = ContainerId("a" * 64)


def gathered_with(path: str) -> Read:
    """Look at a whole node on which a file has this content."""
    return lambda data, _: gathered(node(files={path: data}))


def of_a_process(data: bytes, place: Path) -> object:
    for name in ("cgroup", "cmdline", "environ", "stat", "net/fib_trie", "net/if_inet6"):
        put(place / "7" / name, data)
    table = ProcessTable(place)
    address = pod_address(table, 7)
    return table.units(7), table.arguments(7), table.environment(7), table.pids(), table.text(7, "stat"), address


def of_systemd(data: bytes, place: Path) -> object:
    prefix = printing(data, place)
    manager = SystemdManager(prefix=prefix, root=place)
    for read in (lambda: manager.status("kubelet.service"), manager.environment, manager.version, manager.shuts_down):
        try:
            read()
        except StepFailed:
            continue
    return manager.log("kubelet.service")


def daemons_of(data: bytes, place: Path) -> object:
    listed, stat = place / "sys" / "fs" / "cgroup" / "kubelet" / "cgroup.procs", place / "proc" / "7" / "stat"
    kubelet = found_unit("kubelet.service", control_group="/kubelet")
    put(listed, data)
    found = [*find_daemons(HostFiles(place), kubelet)]
    put(listed, b"7\n")
    put(stat, data)
    return found, [*find_daemons(HostFiles(place), kubelet)]


def imports_of(data: bytes, place: Path) -> object:
    put(place / "etc" / "c.toml", data)
    return find_imports(HostFiles(place), "/etc/c.toml")


def of_a_program(data: bytes, place: Path) -> object:
    programs = (ContainerdProgram, CrioProgram, DockerdProgram)
    versions = [program(printing(data, place)).version("/usr/bin/x") for program in programs]
    failed = subprocess.CompletedProcess((), 1, b"", data)
    return versions, failure_message(failed), ContainerdProgram(printing(data, place)).configuration(())


def messages_of(data: bytes, place: Path) -> object:
    kubelet = KUBELET
    arrivals = messages.ARRIVALS, messages.PLANNED_ARRIVALS
    for name in (
        TROUBLE,
        messages.OWNER_CHANGES,
        messages.NEWCOMERS,
        *arrivals,
        messages.GUARD,
        RESCUE,
        kubelet,
    ):
        put(place / RUN / name, data)
    runs = RunStore(place)
    of_an_agent = runs.owner_changes(RUN), runs.newcomers(RUN), runs.shown_kubelet(RUN)
    asked = Arrivals(schema=1, run_id=RUN, inventory=Inventory())
    of_arrivals = runs.arrivals(RUN), runs.ask_for_plan(RUN, asked)
    return runs.trouble(RUN), of_an_agent, of_arrivals, runs.read_guard(RUN), runs.rescue(RUN)


def plan_of(data: bytes, place: Path) -> object:
    put(place / RUN / PLAN, data)
    return RunStore(place).read_plan(RUN)


def shield_records(data: bytes, place: Path) -> object:
    put(place / REFUSED.name, data)
    records = ShieldRecords(place, now=lambda: AwakeTime(1.0))
    return records.refused()


def calls(data: bytes, _: Path) -> object:
    judged_method(text(data))
    for method in Method:
        try:
            parse_request(method, data)
        except UnreadableRequest:
            continue
    return None


def dpkg(data: bytes, _: Path) -> object:
    program = PurePosixPath("/usr/bin/kubelet")
    info = PurePosixPath("/var/lib/dpkg/info/kubelet.list")
    return (
        owner_by_dpkg(program, [(info, data)], b"", DPKG),
        owner_by_dpkg(program, [(info, b"/usr/bin/kubelet\n")], data, DPKG),
        owner_by_rpm(("kubelet",), [data]),
        parse_owners(program, 0, text(data), ""),
        owner_by_dpkg(program, [(info, b"/usr/bin/kubelet\n")], b"", data),
    )


def state_of_crio(data: bytes, _: Path) -> object:
    stored = before_images.StoredState(directory="/d", state=data)
    with contextlib.suppress(UnexpectedMetadata):
        return stored.process
    return stored.ended


def memory(data: bytes, place: Path) -> object:
    put(place / "7/cgroup", data)
    group = place / "system.slice/kubelet.service"
    for name in ("memory.current", "memory.stat"):
        put(group / name, data)
    first = memory_in_use(7, "kubelet", place, place)
    put(place / "7/cgroup", b"0::/system.slice/kubelet.service\n")
    return first, memory_in_use(7, "kubelet", place, place)


def logs(data: bytes, _: Path) -> object:
    written = tuple(lines(text(data)))
    call = RefusedCall(at="", monotonic=0, method="", instance="i", label="a/b/c", wanted="stop")
    return kubelet_log.cause(written, call), kubelet_log.last_errors(written), kubelet_log.evicts(written)


def logs_of_a_runtime(data: bytes, _: Path) -> object:
    unused = ContainerdRuntime(Path(), processes=ProcessTable(), files=HostFiles(), services=SystemdManager())
    return unused.asked_to_stop(lines(text(data)))


def ports_of_a_runtime(data: bytes, _: Path) -> object:
    return runtime_ports.not_got(lines(text(data)))


def manifest_with(data: bytes, _: Path) -> object:
    assert manifest_uid.digests_of(data)
    manifest_uid.unpin(data)
    pinned = manifest_uid.pin(data, "1234")
    assert pinned == data or manifest_uid.unpin(pinned) == data
    return pinned


def renewed(data: bytes, _: Path) -> object:
    found = parse_json(data)
    renewal.Staleness().is_stale(found, 1.0)
    return renewal.renewed(found, datetime.now(UTC))


def manifest_of_bundle(data: bytes, place: Path) -> object:
    put(place / MANIFEST, data)
    return read_manifest(place)


class Dockerd:
    """Answers every request with this."""

    status = 200

    def __init__(self, data: bytes) -> None:
        self.data = data

    def request(self, *_: str) -> None:
        pass

    def getresponse(self) -> "Dockerd":
        return self

    def read(self, *_: object) -> bytes:
        return self.data


def records_of_crio(data: bytes, _: Path) -> object:
    return list(_records(cast("FilesView", Dockerd(data)), [PurePosixPath("/x")]))


START = ContainerdStart(program="/usr/bin/containerd", config="/etc/c.toml", named=True, others=())
KUBECONFIG = (
    b"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
    b"contexts: [{name: c, context: {cluster: k, user: u}}]\n"
    b"clusters: [{name: k, cluster: {server: 'https://a:6443', certificate-authority-data: eA==}}]\n"
    b"users: [{name: u, user: {token: t}}]\n"
)
PROGRAM = CredentialProgram(api_version="client.authentication.k8s.io/v1", command="/x", arguments=())
PRINTED = json.dumps({"apiVersion": PROGRAM.api_version, "kind": "ExecCredential", "status": {"token": "t"}}).encode()
CRIO = (
    b'[crio]\nroot = "/r"\nrunroot = "/rr"\nstorage_driver = "overlay"\n[crio.api]\nlisten = "/l"\n'
    b'[crio.runtime]\ndefault_runtime = "runc"\n[crio.runtime.runtimes.runc]\nruntime_path = "/usr/bin/runc"\n'
    b'# root = "/x"\n# [crio.runtime.runtimes.crun]\n# runtime_path = "/y"\n'
)
MANIFEST_OF_POD = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: etcd\nspec: {containers: []}\n"
COMMAND = "ExecStartPre"


def devices(data: bytes, _: Path) -> object:
    unit = UnitDevices(policy="strict", allowed=tuple(lines(text(data))), group="/x")
    lost = lost_by_reload((DeviceRule("c", 195, 0),), unit, DeviceNames(systemd=252, majors=text(data)))
    return lost, rules_of(text(data))


def devices_of_scopes(data: bytes, place: Path) -> object:
    for path in ("proc/7/mountinfo", "proc/devices", "sys/fs/cgroup/x/cgroup.procs"):
        put(place / path, data)
    put(place / "proc/1/mountinfo", MOUNTINFO)
    named, seen = text(data)[:99].replace("\0", ""), node()
    seen.services.scopes = {"a.scope": UnitDevices(policy="strict", allowed=(f"/dev/{named} rw",), group="/x")}
    found = device_access(HostFiles(place), seen.services, Inventory())
    put(place / "sys/fs/cgroup/x/cgroup.procs", b"7\n")
    return found, device_access(HostFiles(place), seen.services, Inventory())


def devices_of_a_specification(data: bytes, _: Path) -> object:
    return rules_of_spec(data)


READERS = (
    Reader(
        module="node.host.device_rules",
        what="specification of a container",
        errors=(ValueError,),
        valid=(b'{"linux": {"resources": {"devices": [{"allow": true, "type": "c", "major": 195, "access": "rw"}]}}}',),
        reads=(devices_of_a_specification,),
    ),
    Reader(
        module="node.host.device_rules",
        what="devices of a container",
        errors=(ValueError,),
        valid=(b"c 195:0 rw\nc *:* m\n", b"Character devices:\n136 pts\n", b"/dev/char/195:0 rw\nchar-pts rwm\n"),
        reads=(devices,),
    ),
    Reader(
        module="node.facts.device_access",
        what="mounts and processes of a container",
        errors=(StepFailed,),
        valid=(b"500 499 0:5 /nvidia0 /dev/nvidia0 rw - devtmpfs x rw\n", b"7\n9\n"),
        reads=(devices_of_scopes,),
    ),
    Reader(
        module="node.host.files.locks",
        what="locks of files",
        valid=(b"1: FLOCK  ADVISORY  WRITE 12 fe:00:9980527 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 13 <none>:0 0 EOF\n",),
        errors=(ValueError,),
        reads=several(lambda said: list(parse_locks(said))),
    ),
    Reader(
        module="node.host.files.mounts",
        what="mount tables",
        valid=(MOUNTINFO,),
        errors=(StepFailed,),
        reads=several(lambda said: list(mounts(said)), lambda said: place_of(said, PurePosixPath("/etc"))),
    ),
    Reader(
        module="node.host.files.mounted_volumes",
        what="mount tables",
        valid=(MOUNTINFO,),
        errors=(StepFailed,),
        reads=several(mounted_volumes),
    ),
    Reader(
        module="node.host.processes.processes",
        what="names, arguments and environments of processes; cgroups",
        valid=(STAT, CGROUP, b"/usr/bin/kubelet\0--v=2\0", b"A=1\0B=2\0"),
        reads=(of_a_process,),
    ),
    Reader(
        module="node.host.processes.processes",
        what="the status of processes",
        valid=(STAT,),
        errors=(ValueError,),
        reads=several(parse_stat),
    ),
    Reader(
        module="node.host.processes.memory",
        what="cgroups",
        valid=(CGROUP, b"12\n", b"anon 1\nfile 2\n"),
        reads=(memory,),
    ),
    Reader(
        module="node.host.processes.programs",
        what="what programs print",
        reads=(of_a_program,),
        slow=True,
        valid=(b"containerd github.com v1.6.20 x\n", b"crio version 1.30.1\n", b"Docker version 20.10.1, build\n"),
        errors=(StepFailed,),
    ),
    Reader(
        module="node.host.packages.dpkg_database",
        only_root=True,
        what="dpkg's records",
        valid=(DPKG,),
        errors=(StepFailed,),
        reads=(lambda data, _: record_of(data, "kubelet"),),
    ),
    Reader(
        module="node.host.packages.ownership",
        only_root=True,
        what="lists of files, diversions, locks, the answer of rpm",
        reads=(dpkg,),
        valid=(DPKG, b"/usr/bin/kubelet\n", b"[main]\nexclude=kubelet*\n", b"kubelet-0:1.30.14-1.*\n"),
        errors=(StepFailed,),
    ),
    Reader(
        module="node.host.systemd.manager",
        what="what systemctl and journalctl print",
        reads=(of_systemd,),
        slow=True,
        valid=(SHOWN, b"InvocationID=ab\n", b"A=1\nB=$'a\\nb'\n", b"Version=systemd 252\n"),
        errors=(StepFailed,),
    ),
    Reader(
        module="node.host.systemd.properties",
        only_root=True,
        what="properties of units",
        valid=tuple(SHOWN.split(b"\n")),
        errors=(StepFailed,),
        reads=several(
            properties.limit_of,
            properties.assignments_of,
            properties.assignment_of,
            properties.moment_of,
            properties.environment_files_of,
            lambda said: properties.commands_of(COMMAND, said),
            lambda said: properties.awake_time_of("N", {"N": said}),
        ),
    ),
    Reader(
        module="node.host.systemd.unloaded_units",
        only_root=True,
        what="paths of drop-ins",
        valid=(b"/etc/a.conf /run/b.conf",),
        reads=(lambda data, place: has_unloaded_files(place, "kubelet.service", "", text(data)),),
    ),
    Reader(
        module="node.host.systemd.watchdog",
        what="WATCHDOG_USEC",
        valid=(b"1000000",),
        reads=several(lambda said: Watchdog({"WATCHDOG_USEC": said})),
    ),
    Reader(
        module="node.host.systemd.drop_ins",
        only_root=True,
        what="drop-ins",
        valid=(b"[Service]\nNice=1\nExecStart=a \\\n b\n",),
        reads=(lambda data, _: decisive_settings(data),),
    ),
    Reader(
        module="node.host.systemd.environment_files",
        only_root=True,
        what="environment files",
        valid=(b"A=1\n#\nB='2 3'\n",),
        reads=(lambda data, _: parse_assignments(data),),
    ),
    Reader(
        module="node.checks.units",
        what="commands of units",
        valid=(b"/bin/mkdir -p /run/x", b"/bin/sh /x.sh -c"),
        reads=several(
            *(
                lambda said, ask=ask: ask(UnitCommand(when=COMMAND, program="/bin/sh", line=said))
                for ask in (is_harmless, paths_in, script_of)
            ),
            lambda said: endings_of({"OnFailure": said}),
        ),
    ),
    Reader(
        module="node.journal.journal",
        what="journals",
        valid=(JOURNAL,),
        errors=(Inconsistent,),
        reads=(lambda data, _: journal.parse(data),),
    ),
    Reader(
        module="node.journal.scrubbing",
        what="journals",
        valid=(JOURNAL,),
        errors=(Inconsistent,),
        reads=(lambda data, _: scrubbing.without_images(data),),
    ),
    Reader(
        module="node.journal.messages",
        what="messages about runs",
        valid=(b"done\n", b"a\nb", b"{}"),
        reads=(messages_of,),
    ),
    Reader(
        module="node.journal.run_directories",
        only_root=True,
        what="plans",
        valid=(b'{"schema": 2, "checksum": "0", "plan": {}}',),
        errors=(Inconsistent,),
        reads=(plan_of,),
    ),
    Reader(
        module="node.shield.records",
        what="records of the shield",
        valid=(REFUSED_LINE + b"\n",),
        reads=(shield_records,),
    ),
    Reader(
        module="node.shield.call_requests",
        what="calls of the CRI",
        valid=(b"\n\x01a", b"/runtime.v1.RuntimeService/Version"),
        reads=(calls,),
    ),
    Reader(module="node.run.kubelet_log", what="logs of kubelets, with output of probes", valid=(KLOG,), reads=(logs,)),
    Reader(
        module="node.run.runtime_ports",
        what="logs of runtimes, with what pods are called",
        valid=(b"containerd: listen tcp 0.0.0.0:10257: bind: address already in use",),
        reads=(ports_of_a_runtime,),
    ),
    Reader(
        module="node.plan.manifest_uid",
        only_root=True,
        what="manifests of static pods",
        valid=(MANIFEST_OF_POD, b'{"metadata": {"a": 1}}'),
        errors=(manifest_uid.NotEditableError,),
        reads=(manifest_with,),
    ),
    Reader(
        module="node.lease_keeper.renewal",
        what="Leases",
        valid=(LEASE,),
        reads=(renewed,),
        errors=(ValueError, KeyError, TypeError, OverflowError),
    ),
    Reader(
        module="node.bundle.store",
        only_root=True,
        what="manifests of bundles",
        valid=(b"{}",),
        errors=(BundleError,),
        reads=(manifest_of_bundle,),
    ),
    Reader(
        module="node.running_kubelet.credential_programs",
        what="what credential programs print",
        valid=(b"failed: " + b"aB3" * 20,),
        reads=several(_without_secrets),
    ),
    Reader(
        module="node.runtimes.socket_clients",
        what="names of sockets",
        valid=(UNIX,),
        errors=(StepFailed,),
        reads=several(lambda said: list(listening_sockets(said))),
    ),
    Reader(
        module="node.runtimes.containerd.imports",
        what="the imports of containerd's configuration",
        valid=(b'imports = ["a.toml", "/etc/conf.d/*.toml", "../*/[ab]*.toml", "\\u0000*"]\n',),
        errors=(StepFailed,),
        reads=(imports_of,),
    ),
    Reader(
        module="node.runtimes.containerd.containerd",
        what="answers of containerd",
        valid=(b'{"stateDir": "/run/c/x"}',),
        reads=several(lambda said: containerd.reported_places({"config": said})),
    ),
    Reader(
        module="node.runtimes.containerd.next_start",
        what="the configuration that containerd prints",
        slow=True,
        valid=(b'version = 2\nroot = "/r"\n',),
        errors=(StepFailed,),
        reads=(lambda data, place: ContainerdProgram(printing(data, place)).configuration(("containerd",)),),
    ),
    Reader(
        module="node.runtimes.containerd.restart_tuning",
        only_root=True,
        what="containerd's configuration",
        errors=(ValueError,),
        valid=(b"version = 2\n",),
        reads=(lambda data, _: list(restart_tuning.candidates(START, data)),),
    ),
    Reader(
        module="node.runtimes.cri.base",
        what="logs of runtimes",
        valid=(
            b'time="x" level=info msg="StopContainer for \\"3f\\" with timeout 30"',
            b'{"level": "info", "msg": "x"}',
        ),
        reads=(logs_of_a_runtime,),
    ),
    Reader(
        module="node.runtimes.cri.restart_hazards",
        what="versions",
        valid=(b"1.6.20~ds1",),
        reads=several(version_numbers),
    ),
    Reader(
        module="node.runtimes.cri.json_places",
        what="stored metadata",
        valid=(b"{}",),
        errors=(ValueError,),
        reads=(lambda data, _: find(data.decode("latin-1"), WANTED),),
    ),
    Reader(
        module="node.runtimes.crio.metadata",
        what="config.json: environments and annotations",
        valid=(go_json(specification(ID, {}, sandbox="s"), indent=True).encode(),),
        errors=(UnexpectedMetadata,),
        reads=(lambda data, _: StoredSpecification(ID, data).hashes(),),
    ),
    Reader(
        module="node.runtimes.docker.metadata",
        what="config.v2.json: environments and labels",
        valid=(docker_content({}, ID),),
        errors=(UnexpectedMetadata,),
        reads=(lambda data, _: StoredConfig.of(ID, data).hashes(),),
    ),
    Reader(
        module="node.runtimes.crio.before_images",
        what="state.json",
        errors=(UnexpectedMetadata,),
        reads=(state_of_crio,),
        valid=(b'{"status": "running", "initPid": 7, "initStartTime": "12"}',),
    ),
    Reader(
        module="node.runtimes.crio.listing",
        what="answers of CRI-O",
        valid=(b'{"pid": 7}',),
        reads=several(lambda said: pid_in({"info": said})),
    ),
    Reader(
        module="node.runtimes.crio.configuration",
        only_root=True,
        what="the configuration that CRI-O prints",
        valid=(CRIO,),
        errors=(ValueError, KeyError, TypeError),
        reads=several(configuration.parse_printed),
    ),
    Reader(
        module="node.runtimes.crio.daemon",
        what="CRI-O's goroutines",
        reads=several(daemon.SILENT.findall),
        valid=(b"goroutine 7 [IO wait]:\nx()\n\ty:1\na/cmux.(*cMux).serve(0x1)\n",),
    ),
    Reader(
        module="node.runtimes.docker.configuration",
        what="daemon.json",
        valid=(b'{"live-restore": true}',),
        errors=(docker_configuration.UnusableConfiguration,),
        reads=(
            lambda data, _: docker_configuration.read_configuration(("dockerd", "--config-file", text(data)), data),
            *several(docker_configuration.literal_words),
        ),
    ),
    Reader(
        module="node.runtimes.docker.listing",
        what="times of dockerd",
        valid=(b"2026-01-01T00:00:00.5Z",),
        errors=(ValueError,),
        reads=several(parse_nanoseconds),
    ),
    *(
        Reader(
            module=f"node.facts.{module}",
            what=path,
            valid=(said,),
            errors=(NodeUpgradeError,),
            slow=True,
            reads=(gathered_with(path),),
        )
        for module, path, said in (
            ("host", "/proc/meminfo", b"MemTotal:  12 kB\nHugePages_Total: 0\n"),
            ("host", "/proc/swaps", b"Filename Type\n/dev/sda2 partition 1 0 -2\n"),
            ("admission", "/sys/devices/system/node/online", b"0-1\n"),
            ("admission", "/sys/kernel/security/apparmor/profiles", b"docker-default (enforce)\n"),
            ("surroundings", "/proc/sys/kernel/hostname", b"node-1\n"),
            ("surroundings", "/proc/1/mountinfo", MOUNTINFO),
            ("surroundings", "/var/lib/dpkg/status", DPKG),
            ("pod_cgroups", "/proc/100/cgroup", CGROUP),
            ("runtime", "/proc/100/cgroup", CGROUP),
            ("credentials", "/var/lib/kubelet/kubeconfig", KUBECONFIG),
        )
    ),
    Reader(
        module="node.facts.daemons",
        what="cgroup.procs, stat",
        valid=(b"7\n8\n", b"7 (glusterfs) S 1 7"),
        errors=(NodeUpgradeError,),
        reads=(daemons_of,),
    ),
    Reader(
        module="node.runtimes.crio.restart_hazards",
        what="CRI-O's records of storage",
        valid=(b'[{"id": "a", "layer": "b"}]',),
        errors=(ValueError, TypeError),
        reads=(records_of_crio,),
    ),
    Reader(
        module="node.runtimes.docker.client",
        what="answers of dockerd",
        valid=(b'{"Id": "a"}',),
        errors=(StepFailed,),
        reads=(lambda data, _: _answer(cast("HTTPConnection", Dockerd(data)), "/x"),),
    ),
    Reader(
        module="node.agent.guard_trials",
        what="answers of the API server",
        valid=(b'{"message": "no"}',),
        reads=several(lambda said: node_trial("n").judge(403, said)),
    ),
    Reader(
        module="kubelet.certificate_validity",
        what="certificates",
        errors=(ValueError,),
        valid=(b"-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n",),
        reads=(lambda data, _: validity(data),),
    ),
    Reader(
        module="kubelet.credential_program",
        what="what credential programs print",
        valid=(PRINTED,),
        errors=(CredentialProgramError,),
        reads=(lambda data, _: parse_output(PROGRAM, data),),
    ),
    Reader(
        module="kubelet.flags",
        only_root=True,
        what="what kubelets print; their arguments",
        reads=several(
            flags.complaint,
            flags.rejected_flag,
            lambda said: list(flags.parsed(tuple(said.split("\0")))),
            lambda said: flags.drop_in("/usr/bin/kubelet", (said,)),
        ),
        valid=(b"Error: unknown flag: --x\nUsage:\n", b"--a\0b\0--c=d"),
    ),
    Reader(
        module="kubelet.trial_command",
        what="what kubelets print",
        reads=several(trial_command.accepted, trial_command.objection, trial_command.unknown_fields),
        valid=(KLOG, b'E1 x] "command failed" err="a"\n', b'{"msg":"command failed","err":"x"}\n'),
    ),
    Reader(
        module="kubelet.settings",
        only_root=True,
        what="configuration files of kubelets",
        valid=(b"maxPods: 1\nreservedSystemCPUs: 0-3\n",),
        errors=(ValueError,),
        reads=(lambda data, _: configured((), data),),
    ),
    Reader(
        module="kubelet.settings",
        only_root=True,
        what="lists of CPUs, thresholds, numbers",
        valid=(b"0-3,8", b"10%", b"100Mi", b"7"),
        errors=(ValueError,),
        reads=several(
            cpus_in,
            lambda said: threshold(said, 100),
            lambda said: configured((f"--max-pods={said}",)).number("max-pods", "maxPods", 1),
        ),
    ),
    Reader(
        module="kubelet.layout",
        only_root=True,
        what="configuration files of kubelets",
        valid=(b"healthzPort: 1\n",),
        errors=(ValueError,),
        reads=(lambda data, _: read_layout(("--healthz-port", text(data)), data),),
    ),
    Reader(
        module="kubelet.served_ports",
        only_root=True,
        what="configuration files of kubelets",
        valid=(b"port: 1\nreadOnlyPort: 2\naddress: 10.0.0.5\n",),
        errors=(ValueError,),
        reads=(
            lambda data, _: served_ports(configured((), data)),
            lambda data, _: served_ports(Configured(words=("--port", text(data), "--address", text(data)))),
        ),
    ),
    Reader(
        module="kubelet.user_ids",
        only_root=True,
        what="/etc/subuid, /etc/passwd, /etc/nsswitch.conf",
        valid=(b"kubelet:65536:7208960\n", b"kubelet:x:998:998::/:/bin/false\n", b"subid: files\n"),
        reads=several(user_ids.id_of, lambda text: user_ids.id_ranges(text, "998"), user_ids.is_in_files),
    ),
    Reader(
        module="kubelet.kubeconfig",
        only_root=True,
        what="kubeconfigs",
        valid=(KUBECONFIG,),
        errors=(ValueError,),
        reads=(lambda data, _: kubeconfig.parse(data, PurePosixPath("/etc")),),
    ),
    Reader(
        module="kubelet.state_files.fields",
        what="state files",
        valid=(b'{"policyName": "none"}',),
        reads=(lambda data, _: (fields(data), read_devices(data)),),
    ),
    Reader(
        module="kubelet.state_files.fields",
        what="state files",
        valid=(b'{"policyName": "none"}',),
        errors=(ValueError,),
        reads=(lambda data, _: read_fields(data),),
    ),
)

ANY_INPUT = "settings and the API's objects: tests/unit/node/checks/test_registry_any_input.py"
TYPED = "numbers that the API server has typed"
ELSEWHERE = {
    "node.run.start_preconditions": "compares the kernel's lines with those of device_rules",
    "node.running_kubelet.limit_trials": "limits of the kernel: tests/unit/node/running_kubelet/test_kernel_limits.py",
    "node.run.kernel_settings": "limits of the kernel: tests/scenario/node_run/test_kernel_settings.py",
    **dict.fromkeys(("kubelet.probe_delay", "node.agent.pod_watch", "node.examination.planning"), TYPED),
    **{
        f"node.checks.{name}": ANY_INPUT
        for name in ("credentials", "dependants", "drift", "host", "kubelet_start", "pod_security", "probes")
    },
    **dict.fromkeys(("node.checks.resource_managers", "node.checks.state_files"), ANY_INPUT),
    "node.agent.settings": "what the operator writes",
    "node.lease_keeper.wiring": "what the executor writes",
    "node.bundle.build": "the image that is built",
    "node.facts.drift": "answers of the kubelet and the API server: tests/unit/node/facts/test_drift.py",
    "node.facts.volume_claims": "answers of the API server: tests/unit/node/facts/test_volume_claims.py",
    "node.running_kubelet.requests": "answers of the API server: tests/unit/node/running_kubelet/test_requests.py",
    "node.host.packages.package_holds": "what dpkg prints: tests/unit/node/host/packages/test_package_holds.py",
    "node.host.systemd.systemctl": "what systemctl prints, with node.host.systemd.manager",
}
"""Modules whose text nobody else writes, or is written elsewhere: whose it is, and the test if there is one."""

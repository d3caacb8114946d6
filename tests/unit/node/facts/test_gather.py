"""Tests how the facts of a node are gathered, without changing the node."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import ShieldPolicy, VerifySettings
from nodeupgrade.api.values import ContainerId
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.layout import CLAIM_STATE, CPU_STATE, DEVICE_STATE, MEMORY_STATE, STATUS_STATE
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.traffic import Clients
from nodeupgrade.node.facts import gather, kubelet_files
from nodeupgrade.node.facts.gather import LARGEST_METADATA, kubelet_layout, running_kubelet
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus
from nodeupgrade.node.plan.request import Replacement
from nodeupgrade.node.runtimes.description import RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.runtimes.runtime import BeforeImage
from tests.builders.gathered import DIGEST, STAGED, UNIT, gathered, node, requested
from tests.doubles.node import SimulatedNode, manifest, pod_json
from tests.doubles.node.containers.runtime_restart import RUNTIME_UNIT
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27, PROGRAM, UNKNOWN_GATE

NEW = KubeletVersion.parse("v1.33.13")


def says(monkeypatch: pytest.MonkeyPatch, seen: SimulatedNode, status: int, output: str) -> None:
    monkeypatch.setattr(seen.kubelet, "version_output", lambda _binary, _arguments=(): (status, output))


def test_everything_is_collected_and_nothing_touched() -> None:
    seen = node("--v=2", FLAG_REMOVED_IN_1_27)
    disk, effects = dict(seen.disk), len(seen.calls.effects)

    facts = gathered(seen)

    assert (facts.kubelet.program, facts.kubelet.words) == (PROGRAM, ("--v=2", FLAG_REMOVED_IN_1_27))
    assert (str(facts.kubelet.current), facts.kubelet.staged_version) == ("v1.26.15", "v1.33.13")
    assert facts.kubelet.before == seen.ports.files.digest(PurePosixPath(PROGRAM))
    assert (facts.kubelet.after, facts.kubelet.staged_is_elf) == (DIGEST, True)
    assert (facts.kubelet.arguments.removed, facts.kubelet.arguments_status) == (("--container-runtime",), 0)
    assert [str(pod.ref) for pod in facts.pods] == ["default/web"]
    assert facts.stored == {c.id: c.hashes for c in facts.inventory.running()}
    assert len(facts.stored) == 2
    assert (seen.disk, seen.calls.effects[effects:]) == (disk, [])


def test_a_container_is_judged_as_it_runs_even_if_its_status_is_that_of_the_instance_before() -> None:
    seen = node()
    before = {"containerID": "containerd://before", "state": {"running": {}}, "started": True}
    seen.kubelet.pods[:] = [
        parse_pod({**pod.raw, "status": {**pod.status, "containerStatuses": [{**before, "name": c.name}]}})
        for pod in seen.kubelet.pods
        for c in pod.containers
    ]

    facts = gathered(seen)

    assert [each["started"] for pod in facts.pods for each in pod.states.values()] == [False]
    assert [each["started"] for pod in facts.traffic.pods for each in pod.states.values()] == [False]


def test_a_kubelet_that_does_not_run_is_refused() -> None:
    seen = node()
    seen.kubelet.stop()

    with pytest.raises(Refused, match=r"kubelet\.service is loaded and inactive") as refusal:
        running_kubelet(seen.services, seen.kubelet, UNIT)
    assert refusal.value.finding.reason is Reason.UNSUPPORTED_SERVICE_MANAGER


@pytest.mark.parametrize(
    ("status", "output", "version"),
    [
        (0, "Kubernetes v1.33.13\n", "v1.33.13"),
        (0, "Kubernetes v1.33.13-eks-1a2b+x\n", "v1.33.13-eks-1a2b+x"),
        (0, "W1120 10:00:00 flags.go:1] Flag is deprecated\nKubernetes v1.33.13\n", "v1.33.13"),
        (1, "Kubernetes v1.33.13\n", ""),
        (0, "containerd v1.7.2\n", ""),
        (0, "Kubernetes \n", ""),
        (126, "cannot run it because Exec format error", ""),
    ],
)
def test_a_program_says_its_version(monkeypatch: pytest.MonkeyPatch, status: int, output: str, version: str) -> None:
    seen = node()
    says(monkeypatch, seen, status, output)

    found = gathered(seen).kubelet

    assert (found.staged_version, found.staged_output) == (version, output)
    assert found.current == (KubeletVersion.parse(version) if version else None)


def test_a_program_that_says_no_version_that_exists_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node()
    says(monkeypatch, seen, 0, "Kubernetes v0.0.0-master+$Format:%H$\n")

    assert gathered(seen).kubelet.current is None


def test_a_new_program_that_cannot_be_had_is_a_finding_beside_all_others() -> None:
    seen = node("--v=2", FLAG_REMOVED_IN_1_27)
    missing = Finding(reason=Reason.ARTIFACT_UNAVAILABLE, detail="the server answered 404")

    found = gathered(seen, replacement=missing).kubelet

    assert (found.missing, found.after) == (missing, None)
    assert found.arguments.removed == ("--container-runtime",)
    assert str(found.current) == "v1.26.15"


def test_a_program_that_is_not_staged_yet_still_needs_its_room() -> None:
    seen = node()
    elsewhere = Replacement(program=STAGED, digest=DIGEST, takes=1000)

    assert gathered(seen).kubelet.free_bytes - gathered(seen, replacement=elsewhere).kubelet.free_bytes == 1000


def test_metadata_that_cannot_be_read_refuses_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node()

    def unreadable(_ids: object) -> None:
        raise StepFailed("unknown encoding")

    monkeypatch.setattr(seen.runtime, "before_images", unreadable)

    with pytest.raises(Refused, match="unknown encoding") as refusal:
        gathered(seen)
    assert refusal.value.finding.reason is Reason.STORED_HASH_NOT_REPRODUCED


def test_more_metadata_than_a_run_can_keep_refuses_the_node_before_the_rest_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent has a limit of memory as well, and whoever creates a pod decides how large its environment is."""
    seen, asked = node(), list[ContainerId]()
    read = seen.runtime.before_images

    def large(ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        found = read(listed := list(ids))
        asked.extend(listed)
        return {each: replace(image, data=bytes(LARGEST_METADATA + 1)) for each, image in found.items()}

    monkeypatch.setattr(seen.runtime, "before_images", large)

    with pytest.raises(Refused, match=r"more than 64 MiB .* much of it about default/") as refusal:
        gathered(seen)
    assert refusal.value.finding.reason is Reason.STORED_HASH_NOT_REPRODUCED
    assert len(asked) == 1


def test_units_bound_to_runtime_or_kubelet_count_while_they_are_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node()
    status = seen.services.status
    states = {"a.service": "active", "b.service": "inactive", "c.service": "failed", "d.service": "activating"}

    def bound(unit: str) -> UnitStatus:
        found = status(unit)
        if unit in {RUNTIME_UNIT, "kubelet.service"}:
            return replace(found, bound_by=tuple(states))
        return replace(found, active_state=states.get(unit, found.active_state))

    monkeypatch.setattr(seen.services, "status", bound)

    found = gathered(seen)
    assert found.runtime_unit.bound_by == ("a.service", "d.service")
    assert found.kubelet_start.bound_by == ("a.service", "d.service"), "one that is started later stops with it, too"


CONFIG = b"staticPodPath: /etc/kubernetes/manifests\nhealthzPort: 1\n"


def test_the_layout_is_read_from_all_configuration_files_in_their_order() -> None:
    seen = node(
        "--config=/etc/k.yaml",
        "--config-dir=/etc/k.d",
        files={
            "/etc/k.yaml": CONFIG,
            "/etc/k.d/20.conf": b"healthzPort: 3",
            "/etc/k.d/10.conf": b"healthzPort: 2",
            "/etc/k.d/90.yaml": b"healthzPort: 4",
            "/etc/kubernetes/manifests/.hidden.yaml": manifest("hidden", "hidden"),
        },
    )
    running = running_kubelet(seen.services, seen.kubelet, UNIT)

    layout = kubelet_layout(seen.ports.files, running)

    assert (layout.healthz_url, layout.manifests) == ("http://127.0.0.1:3/healthz", "/etc/kubernetes/manifests")
    assert list(read_manifests(seen.ports.files, layout)) == ["/etc/kubernetes/manifests/etcd.yaml"], "no dotfiles"


def test_a_configuration_that_is_not_there_is_as_good_as_none() -> None:
    seen = node("--config=/etc/k.yaml")

    layout = kubelet_layout(seen.ports.files, running_kubelet(seen.services, seen.kubelet, UNIT))

    assert layout.manifests is None
    assert read_manifests(seen.ports.files, layout) == {}


def test_a_configuration_that_cannot_be_read_refuses_the_node() -> None:
    seen = node("--config=/etc/k.yaml", files={"/etc/k.yaml": b"- no map"})

    with pytest.raises(Refused, match="not a map") as refusal:
        kubelet_layout(seen.ports.files, running_kubelet(seen.services, seen.kubelet, UNIT))
    assert refusal.value.finding.reason is Reason.UNSUPPORTED_SERVICE_MANAGER


HAZARDS = RestartHazards(runtime=(Finding(reason=Reason.RUNTIME_NOT_READY, detail="it is busy"),))


def test_what_the_new_kubelet_would_meet_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = node(
        "--pod-manifest-path=/etc/kubernetes/manifests",
        f"--feature-gates={UNKNOWN_GATE}=true",
        files={
            "/var/lib/kubelet/memory_manager_state": b"m",
            "/var/lib/kubelet/pod_status_manager_state": b"p",
            "/var/lib/kubelet/dra_manager_state": b"of a format that nothing here knows",
            "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": b"d",
            "/sys/fs/cgroup/cgroup.controllers": b"cpu",
            "/proc/1/mountinfo": b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 8:2 / /usr ro - ext4 /dev/sda2 rw\n"
            b"3 1 8:3 / /var/log ro - ext4 /dev/sda3 ro\n",
        },
    )
    monkeypatch.setattr(seen.ports.files, "immutable", lambda path: path.name in {"kubelet", "etcd.yaml"})
    inventory = seen.runtime.inventory

    def slow(**how: Any) -> Inventory:
        seen.timeline.advance(7.0)
        return inventory(**how)

    monkeypatch.setattr(seen.runtime, "inventory", slow)

    at_work: list[RuntimeAtWork] = []

    def hazards(it: RuntimeAtWork) -> RestartHazards:
        at_work.append(it)
        return HAZARDS

    monkeypatch.setattr(seen.runtime, "restart_hazards", hazards)

    facts = gathered(seen)

    found = facts.readiness
    assert found.state.keys() == {CPU_STATE, MEMORY_STATE, CLAIM_STATE, DEVICE_STATE, STATUS_STATE}
    assert facts.admission.state is found.state
    assert found.unchangeable == (PROGRAM, "/etc/kubernetes/manifests/etcd.yaml")
    assert found.read_only == ("/usr/bin", "/var/log/pods")
    assert (found.cgroup_v2, at_work[0].listing_seconds) == (True, 7.0)
    assert facts.hazards == HAZARDS
    assert UNKNOWN_GATE in (found.dry_run or "")
    assert {unit.name for unit in found.units} == {UNIT, RUNTIME_UNIT}


def test_what_pods_name_is_looked_up_on_the_node_and_nothing_else() -> None:
    body = pod_json("web", "app", uid="uid-web")
    profile = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "web.json"}}}
    astray = pod_json("astray", "app", uid="../../../etc/shadow")
    seen = node(
        "--root-dir=/srv/kubelet",
        files={
            "/srv/kubelet/seccomp/web.json": b"{}",
            "/srv/kubelet/seccomp/other.json": b"{}",
            "/srv/kubelet/pods/uid-web/userns": b"mapping",
            "/srv/kubelet/cpu_manager_state": b"cpus",
            "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint": b"devices",
        },
    )
    spec = {**body["spec"], **profile, "hostUsers": False}
    pods = [{**body, "spec": spec}, {**astray, "spec": {**astray["spec"], "hostUsers": False}}]
    running = running_kubelet(seen.services, seen.kubelet, UNIT)

    host = gather.gather(
        seen.ports, running, requested(), node_object={}, pods=pods, clients=Clients(), manifests={}
    ).host

    assert host.seccomp == {"web.json"}
    assert host.namespaces == {"uid-web": b"mapping"}
    found = kubelet_files.state(seen.ports.files, kubelet_layout(seen.ports.files, running))
    assert found == {CPU_STATE: b"cpus", DEVICE_STATE: b"devices"}


def test_the_policy_is_passed_on() -> None:
    assert gathered(node(), VerifySettings(shield=ShieldPolicy.REQUIRE)).spec.verify.shield is ShieldPolicy.REQUIRE


@pytest.mark.parametrize("word", ["--config=config.yaml", "--config-dir=kubelet.d", "--kubeconfig=kubelet.conf"])
def test_a_path_from_the_working_directory_refuses_the_node(word: str) -> None:
    with pytest.raises(Refused, match=rf"{word.replace('=', ' is ')}, which is a relative path; make it absolute"):
        gathered(node(word))


@pytest.mark.parametrize(
    ("there", "search_path", "found"),
    [
        (("/usr/bin/ln", "/bin/ln"), "", "/usr/bin/ln"),
        (("/usr/bin/ln", "/usr/local/bin/ln"), "", "/usr/local/bin/ln"),
        ((), "", ""),
        (("/usr/bin/ln",), "/opt/bin", ""),
    ],
)
def test_a_program_without_a_path_is_looked_for_where_systemd_does(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], search_path: str, found: str
) -> None:
    seen = node(files=dict.fromkeys(there, b""))
    real = seen.services.status
    linking = UnitCommand(when="ExecStartPre", program="ln", line="ln -sf /run/a.sock /run/b.sock")

    def status(unit: str) -> UnitStatus:
        known = real(unit)
        return replace(known, commands=(*known.commands, linking), search_path=search_path)

    monkeypatch.setattr(seen.services, "status", status)

    assert gathered(seen).programs == {"ln": found}


@pytest.mark.parametrize(("leads_to", "started"), [(PROGRAM, PROGRAM), ("/opt/wrapper", "/opt/wrapper"), (None, None)])
def test_a_link_that_a_unit_starts_is_followed(
    monkeypatch: pytest.MonkeyPatch, leads_to: str | None, started: str | None
) -> None:
    seen = node()
    path = None if leads_to is None else PurePosixPath(leads_to)
    monkeypatch.setattr(seen.files, "real", lambda _path: path)

    assert gathered(seen).kubelet.started == started

"""The plan that an honest agent would make for a simulated node."""

from hashlib import sha256

from nodeupgrade.api.values import Digest, NodeName, RunId
from nodeupgrade.domain.errors import Refused
from nodeupgrade.domain.node.hashes import static_pods
from nodeupgrade.domain.node.hashes.rewriting import plan_rewriting
from nodeupgrade.domain.node.plan import PLAN_SCHEMA, ArgumentsOverride, KubeletSwap, Limits, RunPlan
from nodeupgrade.engine.node.facts import runtime_found
from nodeupgrade.engine.node.facts.unit_start import read_start
from nodeupgrade.kubelet.flags import adapt, drop_in
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.simulation.node.kubelet import PROGRAM, STATE, program, version_of
from nodeupgrade.simulation.node.pods import MANIFESTS
from nodeupgrade.simulation.node.runtime_restart import RUNTIME_UNIT
from nodeupgrade.simulation.node.services import DROP_IN, KUBELET_UNIT
from nodeupgrade.simulation.node.simulated import SimulatedNode

STAGED = "/usr/bin/.kubelet.staged"
BACKUP = "/usr/bin/.kubelet.before"


def plan_for(node: SimulatedNode, version: str, *, run: str = "run-1", limits: Limits | None = None) -> RunPlan:
    """Stage the program and plan the node's way to ``version``.

    Raises:
        Refused: a hash could not be proven, or a manifest cannot be pinned.
    """
    target, current = KubeletVersion.parse(version), version_of(node.disk[PROGRAM])
    node.disk[STAGED] = program(version)
    inventory, runtime_unit = node.inventory(), node.services.status(RUNTIME_UNIT)
    manifests = {path: data for path, data in node.disk.items() if path.startswith(f"{MANIFESTS}/")}
    static = static_pods.match(manifests, inventory, node.name)
    from_manifests, unread = static_pods.manifest_views(static)
    pods = [*node.kubelet.pods, *from_manifests]
    rewriting = plan_rewriting(pods, inventory, current=current, target=target)
    pins, unpinned = static_pods.plan_pins(static)
    for finding in (*rewriting.findings, *static.findings, *unread, *unpinned):
        raise Refused(finding.reason, f"{finding.subject}: {finding.detail}")
    return RunPlan(
        schema=PLAN_SCHEMA,
        run_id=RunId(run),
        node=NodeName(node.name),
        upgrade="upgrade",
        from_version=str(current),
        to_version=str(target),
        runtime="containerd 2.1.9",
        runtime_unit=RUNTIME_UNIT,
        runtime_endpoint="/run/containerd/containerd.sock",
        healthz_url="http://127.0.0.1:10248/healthz",
        swap=KubeletSwap(
            unit=KUBELET_UNIT,
            path=PROGRAM,
            staged=STAGED,
            backup=BACKUP,
            before=_digest(node.disk[PROGRAM]),
            after=_digest(node.disk[STAGED]),
            arguments=_override(node, target),
        ),
        containers=rewriting.containers,
        awaited=rewriting.awaited,
        baseline=inventory,
        pins=pins,
        state_files=(STATE,),
        limits=limits or Limits(),
        tuning=node.runtime.restart_tuning(runtime_unit),
        kubelet_start=read_start(node.ports.files, node.services.status(KUBELET_UNIT)),
        runtime_start=runtime_found.find(node.ports, runtime_unit, node.runtime.info())[1],
    )


def _override(node: SimulatedNode, target: KubeletVersion) -> ArgumentsOverride | None:
    adapted = adapt(node.services.unit.arguments, target=target, remove=())
    if not adapted.removed:
        return None
    return ArgumentsOverride(path=DROP_IN, content=drop_in(PROGRAM, adapted.words), removed=adapted.removed)


def _digest(data: bytes) -> Digest:
    return Digest(sha256(data).hexdigest())

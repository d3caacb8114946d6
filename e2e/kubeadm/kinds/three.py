"""Three control-plane nodes with stacked etcd, and a worker with the operator, upgraded by one NodeUpgrade."""

from collections.abc import Callable

from e2e.kubeadm.kinds.swaps import control, naive
from e2e.kubeadm.row import Row, Seen
from e2e.kubeadm.stage import NEW, OLD, Stage

CONTROL_PLANES = 3
_LABEL = "node-role.kubernetes.io/control-plane"


def _all(name: str, version: str) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        for node in stage.fleet.nodes.values():
            stage.bring(node, OLD if version == NEW else NEW)
        waves = [
            {"name": "workers", "selector": {"matchExpressions": [{"key": _LABEL, "operator": "DoesNotExist"}]}},
            {"name": "control-planes", "selector": {"matchExpressions": [{"key": _LABEL, "operator": "Exists"}]},
             "maxConcurrent": 1},
        ]  # fmt: skip
        every = {"all": True, "controlPlane": True}
        nodes = list(stage.fleet.nodes.values())
        run = stage.upgrade(name, version, nodes, nodes=every, waves=waves, strategy={"maxConcurrent": 3})
        together = run.watch.together
        wrong = [*run.wrong(), *([f"in flight at once: {', '.join(together)}"] if len(together) > 1 else [])]
        wrong += [f"{node} has {found}" for node, found in stage.fleet.versions().items() if found != version]
        return Seen(run=run, said=f"{run.seconds:.0f} s; in flight at once: {len(together)}", complaints=wrong)

    return play


ROWS = (
    Row(name="three/there", does=f"three control-plane nodes and a worker {OLD} → {NEW}, one NodeUpgrade",
        play=_all("three-there", NEW), control_planes=CONTROL_PLANES),
    Row(name="three/back", does="the same back", play=_all("three-back", OLD), control_planes=CONTROL_PLANES),
    Row(name="three/control", does="control: the kubelet of one of three control-plane nodes swapped the usual way",
        play=naive(control), control_planes=CONTROL_PLANES),
)  # fmt: skip

"""Builds a simulated node, and the plan of its run."""

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.plan.plan import Limits, RunPlan
from tests.doubles.node import SimulatedNode, manifest, plan_for, pod_json
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27

WORK = list(Step)


def planned() -> tuple[SimulatedNode, RunPlan]:
    node = SimulatedNode(
        version="v1.26.15",
        pods=[pod_json("web", "nginx", "log")],
        manifests={"etcd.yaml": manifest("etcd", "etcd")},
        arguments=(FLAG_REMOVED_IN_1_27,),
    )
    return node, plan_for(node, "v1.33.13", limits=Limits(settle=2.0))

"""A plan for the executor, and the directory of its bundle."""

from dataclasses import replace
from pathlib import PurePosixPath

from tests.doubles.node import SimulatedNode, plan_for

PLAN = replace(
    plan_for(SimulatedNode(version="v1.30.14", pods=[]), "v1.33.13"), kubeconfig="/etc/kubernetes/kubelet 100%.conf"
)

BUNDLE = PurePosixPath("/var/lib/nodeupgrade/bundles/1.2.3-0123456789abcdef")
BUNDLES = (BUNDLE, PurePosixPath("/var/lib/nodeupgrade/spare/1.2.3-0123456789abcdef"))

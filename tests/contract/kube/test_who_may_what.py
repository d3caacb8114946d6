"""What people and accounts may do on a real API server with our manifests: the rows of docs/security.md."""

import json
import uuid
from collections.abc import AsyncIterator

import pytest
import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import Resource
from tests.contract.kube.apiserver import AGENT, ApiServer
from tests.contract.kube.conftest import ROOT
from tests.scenario.rollout.harness import NAMESPACE

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview")
BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")
OURS = "nodeupgrade.dev"
ROLES = {
    body["metadata"]["name"]: body for body in yaml.safe_load_all((ROOT / "manifests/user-roles.yaml").read_text())
}

READ = [("", OURS, "nodeupgrades", verb) for verb in ("get", "list", "watch")]
READ += [("", OURS, "nodeupgradetasks", verb) for verb in ("get", "list", "watch")]
STEER = [("", OURS, "nodeupgrades", verb) for verb in ("create", "update", "patch", "delete")]
ROOT_ON_NODES = [
    *[("", OURS, "nodeupgradetasks", verb) for verb in ("create", "update", "patch", "delete")],
    ("", OURS, "nodeupgradetasks/status", "patch"),
    ("", OURS, "nodeupgrades/status", "patch"),
    (NAMESPACE, "", "pods", "create"),
    (NAMESPACE, "", "configmaps", "patch"),
    (NAMESPACE, "", "secrets", "get"),
    (NAMESPACE, "", "serviceaccounts/token", "create"),
    (NAMESPACE, "coordination.k8s.io", "leases", "patch"),
    ("", "", "nodes", "patch"),
]
Wish = tuple[str, str, str, str]


async def may(admin: KubeClient, user: str, wish: Wish) -> bool:
    namespace, group, resource, verb = wish
    plural, _, subresource = resource.partition("/")
    asked: Json = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    asked |= {"namespace": namespace} if namespace else {}
    body = {"apiVersion": REVIEWS.api_version, "kind": REVIEWS.kind}
    answer = await admin.create(REVIEWS, {**body, "spec": {"user": user, "resourceAttributes": asked}})
    return bool(answer["status"]["allowed"])


@pytest.fixture
async def people(admin: KubeClient) -> AsyncIterator[dict[str, str]]:
    """Somebody with each role. No controller aggregates roles here, so who operates is bound to what is aggregated."""
    chosen = ROLES["nodeupgrade-operate"]["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"].items()
    parts = [name for name, role in ROLES.items() if chosen <= role["metadata"]["labels"].items()]
    mark, made = uuid.uuid4().hex[:8], []
    for person, roles in {"views": ["nodeupgrade-view"], "operates": parts}.items():
        for role in roles:
            subject = {"kind": "User", "name": f"{person}-{mark}", "apiGroup": "rbac.authorization.k8s.io"}
            reference = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
            name = f"{person}-{role}-{mark}"
            body = {"apiVersion": BINDINGS.api_version, "kind": BINDINGS.kind, "metadata": {"name": name}}
            await admin.create(BINDINGS, {**body, "subjects": [subject], "roleRef": reference})
            made.append(name)
    yield {person: f"{person}-{mark}" for person in ("views", "operates", "neither")}
    for name in made:
        await admin.delete(BINDINGS, name)


async def test_who_views_only_reads(admin: KubeClient, people: dict[str, str]) -> None:
    assert [wish for wish in READ if not await may(admin, people["views"], wish)] == []
    assert [wish for wish in (*STEER, *ROOT_ON_NODES) if await may(admin, people["views"], wish)] == []
    assert [wish for wish in READ if await may(admin, people["neither"], wish)] == [], "the control"


async def test_who_operates_writes_rollouts_and_nothing_that_is_root(admin: KubeClient, people: dict[str, str]) -> None:
    assert [wish for wish in (*READ, *STEER) if not await may(admin, people["operates"], wish)] == []
    assert [wish for wish in ROOT_ON_NODES if await may(admin, people["operates"], wish)] == []


async def test_an_agent_is_never_root_on_another_node(admin: KubeClient) -> None:
    status = ("", OURS, "nodeupgradetasks/status", "patch")
    assert [wish for wish in (*STEER, *ROOT_ON_NODES) if await may(admin, AGENT, wish)] == [status]


def test_viewing_is_part_of_the_clusters_own_role() -> None:
    labels = ROLES["nodeupgrade-view"]["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    aggregated = {label for role in ROLES.values() for label in role["metadata"]["labels"]}
    assert not any(label.endswith(("aggregate-to-edit", "aggregate-to-admin")) for label in aggregated)


def test_roles_are_installed_again_beside_the_controller_that_aggregates_them(api_server: ApiServer) -> None:
    """From 1.21 on, that controller applies the rules under this name."""
    apply = "apply", "--server-side", "-f"
    api_server.kubectl("delete", "clusterrole", "nodeupgrade-operate", "--ignore-not-found")
    api_server.kubectl(*apply, str(ROOT / "manifests/user-roles.yaml"))
    role = ROLES["nodeupgrade-operate"] | {"rules": ROLES["nodeupgrade-view"]["rules"]}
    by_controller = "--field-manager=clusterrole-aggregation-controller", "--force-conflicts"
    aggregated = json.dumps(
        {key: role[key] for key in ("apiVersion", "kind", "rules")} | {"metadata": {"name": "nodeupgrade-operate"}}
    )
    assert api_server.kubectl_as("", *apply, "-", *by_controller, stdin=aggregated) == ""

    api_server.kubectl(*apply, str(ROOT / "manifests/user-roles.yaml"))

    assert json.loads(api_server.kubectl("get", "clusterrole", "nodeupgrade-operate", "-o", "json"))["rules"]

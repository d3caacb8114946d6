"""When an edit of a static pod's manifest counts, on a real node: before a run, with its line, and with the remedies.

The tests share one node, go through it in order, and leave it as they found it.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from e2e.cluster import Cluster, Object, conditions, disturbed, quickly
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until
from e2e.lab.workloads.workload import NAMESPACE
from e2e.static_pods import LOOKS_SECONDS, StaticPods, pod
from nodeupgrade.node.plan.derived_uids import RECORD
from nodeupgrade.node.plan.manifest_uid import COMMENT

pytestmark = pytest.mark.long

OLD, NEW = "1.30.14", "1.33.13"
PLAIN = f"{nodefiles.STATIC_PODS}/plain.yaml"
TABS = f"{nodefiles.STATIC_PODS}/tabs.json"
LINK = f"{nodefiles.STATIC_PODS}/linked.yaml"
LINKED = "/srv/manifests/linked.yaml"
WEB = f"{nodefiles.STATIC_PODS}/static-web.json"
ALL = (LINKED, PLAIN, TABS, WEB)
TAKE_OUT = (
    "sed -i --follow-symlinks -e '/# nodeupgrade: the next line/d' "
    f"-e '/^ *uid: \"[0-9a-f]\\{{32\\}}\"$/d' {nodefiles.STATIC_PODS}/*.yaml"
)
"""What docs/upgrade-and-uninstall.md says for a node whose kubelet is stopped."""


def tabbed(name: str) -> str:
    container = {
        "name": "main", "image": "nodeupgrade.test/busybox:1", "imagePullPolicy": "Never",
        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 1; done"],
    }  # fmt: skip
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    return f"{json.dumps(body, indent=chr(9))}\n"


@dataclass
class Node(StaticPods):
    """The node, and what stood in the lab's own manifest before any run."""

    web: str

    def upgrade(self, name: str, version: str, **spec: object) -> Object:
        """Upgrade the node, and return what its task reports."""
        self.cluster.apply(
            name, version, self.cluster.pre_staged(version),
            **{"allowDowngrade": True, "skewPolicy": "Warn", "verify": quickly(), **spec},
        )  # fmt: skip
        ended = self.cluster.wait_for_end(name)
        assert conditions(ended)["Succeeded"]["status"] == "True", ended["status"]
        status: Object = self.cluster.task()["status"]
        self.cluster.wait_without_agent()
        self.cluster.delete(name)
        return status

    def there(self) -> dict[str, str]:
        return {path: self.read(path) for path in ALL}


def uids(status: Object) -> dict[str, str]:
    """Return what a status says about the manifests."""
    return {each["path"]: each["uid"] for each in status.get("manifests", [])}


@pytest.fixture(scope="module")
def node(make_cluster: Callable[..., Cluster]) -> Node:
    cluster = make_cluster("static-pods", OLD, pods=2)
    made = Node(cluster, (cluster.node.disk / WEB.lstrip("/")).read_text())
    made.cluster.node.exec("mkdir", "-p", "/srv/manifests")
    made.write(LINKED, pod("linked"))
    made.cluster.node.exec("ln", "-s", LINKED, LINK)
    made.write(PLAIN, pod("plain"))
    made.write(TABS, tabbed("tabs"))
    wait_until("all pods", lambda: all(map(made.container, ("plain", "linked", "tabs"))) or None, timeout=120)
    made.cluster.wait_settled()
    return made


def test_on_1_30_an_edit_counts_before_any_run(node: Node) -> None:
    assert node.edit_counts(PLAIN, "plain", "before")
    assert node.replace(PLAIN, "plain", pod("plain"))


def test_on_1_33_an_edit_does_not_count_with_the_line_and_does_without(node: Node) -> None:
    originals, before = node.there(), node.cluster.wait_settled()
    status = node.upgrade("there", NEW)
    assert disturbed(before, node.cluster.node.snapshot()) == []
    print("1.30 to 1.33:", uids(status), "|", status["message"])
    assert uids(status) == dict.fromkeys(ALL, "Added")
    assert f"  {COMMENT}\n" in node.read(PLAIN)

    pinned = node.read(PLAIN)
    assert node.edit_is_ignored(PLAIN, "plain", "with-the-line")
    print("1.33, with the line: an added variable has no effect")
    node.cluster.apply("told", OLD, node.cluster.pre_staged(OLD), action="Plan", allowDowngrade=True)
    wait_until("the plan", lambda: node.cluster.task().get("status", {}).get("phase") == "Prechecked", timeout=180)
    hazards = {hazard["reason"]: hazard for hazard in node.cluster.task()["status"]["hazards"]}
    print("told:", hazards["StaticPodEditPending"]["detail"])
    node.cluster.delete("told")

    node.write(PLAIN, node.without_line(PLAIN))
    assert node.becomes(lambda: "EDITED=with-the-line" in node.environment("plain"))
    print("1.33, without the line: the variable is there")
    assert node.replace(PLAIN, "plain", pinned)
    assert originals[PLAIN] == node.without_line(PLAIN)


def test_on_the_way_back_every_manifest_is_as_it_was(node: Node) -> None:
    before = node.cluster.wait_settled()
    status = node.upgrade("back", OLD)

    assert disturbed(before, node.cluster.node.snapshot()) == []
    print("1.33 to 1.30:", uids(status), "|", status["message"])
    assert uids(status) == dict.fromkeys(ALL, "Removed")
    assert node.there() == {LINKED: pod("linked"), PLAIN: pod("plain"), TABS: tabbed("tabs"), WEB: node.web}
    assert all("uid" not in text for text in node.there().values())
    time.sleep(LOOKS_SECONDS)
    assert disturbed(before, node.cluster.node.snapshot()) == [], "nor does the kubelet change its mind later"
    assert node.edit_counts(PLAIN, "plain", "after")
    print("1.30 to 1.33 to 1.30: an added variable counts")
    assert node.replace(PLAIN, "plain", pod("plain"))


@pytest.mark.slow
def test_a_person_takes_the_lines_out_on_a_kubelet_that_does_not_need_them(node: Node) -> None:
    """As an older version left them: with nothing that shows that they are not needed."""
    node.upgrade("there-again", NEW)
    node.cluster.node.exec("rm", str(RECORD))
    status = node.upgrade("back-again", OLD)
    print("1.33 to 1.30, without the record:", uids(status), "|", status["message"])
    assert set(uids(status).values()) == {"Kept"}

    before = node.cluster.wait_settled()
    node.cluster.node.exec("sh", "-c", f"systemctl stop kubelet && {TAKE_OUT}; systemctl start kubelet")
    assert (node.read(PLAIN), node.read(LINKED)) == (pod("plain"), pod("linked"))
    node.cluster.node.wait_kubelet_healthy()
    time.sleep(LOOKS_SECONDS)
    assert disturbed(before, node.cluster.node.snapshot()) == []
    print("1.30: the line taken out by hand with the kubelet stopped restarts nothing")
    assert node.edit_counts(PLAIN, "plain", "by-hand")


@pytest.mark.slow
def test_recreated_pods_are_replaced_at_once_and_no_manifest_is_touched(node: Node) -> None:
    """The pods from the API run on under the shield."""
    assert node.replace(PLAIN, "plain", pod("plain"))
    for path, text in ((LINKED, pod("linked")), (TABS, tabbed("tabs")), (WEB, node.web)):
        node.write(path, text)
    before, manifests = node.cluster.wait_settled(), node.there()
    status = node.upgrade("recreate", NEW, kubelet={"staticPods": "Recreate"})

    lost = disturbed(before, node.cluster.node.snapshot())
    static = {f"{NAMESPACE}/{name}-{node.cluster.node.name}" for name in ("plain", "linked", "tabs", "static-web")}
    counts = status["containers"]
    print(
        "1.30 to 1.33, Recreate:", {name: counts[name] for name in ("baseline", "unchanged", "restarted", "recreated")}
    )
    print(status["message"])
    assert {each.pod for each in lost} == static
    assert node.there() == manifests
    assert (counts["restarted"], counts["recreated"]) == (0, 4)
    assert node.edit_counts(PLAIN, "plain", "recreated")
    print("1.33, after Recreate: an added variable counts")

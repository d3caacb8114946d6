"""Pinning a static pod's UID in its manifest: exactly one insertion, or none at all."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.pods import Role
from nodeupgrade.node.plan.manifest_uid import COMMENT, NotEditableError, pin, unpin
from nodeupgrade.node.plan.static_pod_uids import Pins, StaticPods, manifest_views, match, plan_pins
from nodeupgrade.node.runtimes.inventory import Inventory
from tests.unit.domain.node.checks.sound import sandbox

UID = "0123456789abcdef0123456789abcdef"
ETCD = PodRef(namespace="kube-system", name="etcd-node-a", uid=PodUid(UID))
PLAIN = """\
apiVersion: v1
kind: Pod
metadata:
  name: etcd
  namespace: kube-system
spec:
  hostNetwork: true
  containers:
  - name: etcd
    image: etcd:3
    ports:
    - containerPort: 2379
"""


def read(data: bytes) -> dict[str, Any]:
    document = next(yaml.safe_load_all(data.replace(b"\t", b" ")), None)
    assert isinstance(document, dict)
    return document


def is_insertion(before: bytes, after: bytes) -> bool:
    """Whether ``after`` is ``before`` with one piece added somewhere."""
    added = len(after) - len(before)
    return added > 0 and any(
        before[:at] == after[:at] and before[at:] == after[at + added :] for at in range(len(before) + 1)
    )


EDITABLE = {
    "block": PLAIN,
    "leading ---": f"---\n{PLAIN}",
    "comments": PLAIN.replace("metadata:\n", "metadata: # ours\n  # the name\n"),
    "no trailing newline": PLAIN.rstrip("\n"),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "very deep indent": PLAIN.replace("  name: etcd\n  namespace", f"{' ' * 90}name: etcd\n{' ' * 90}namespace"),
    "metadata last": "kind: Pod\nspec: {containers: []}\nmetadata:\n  name: etcd",
    "flow within block": "kind: Pod\nmetadata: {name: etcd}\nspec: {containers: []}\n",
    "flow over lines": "kind: Pod\nmetadata: { # ours\n  name: etcd,\n}\nspec: {containers: []}\n",
    "JSON": json.dumps(read(PLAIN.encode())),
    "indented JSON": json.dumps(read(PLAIN.encode()), indent=2),
    "quoted keys": PLAIN.replace("metadata:", '"metadata":').replace("  name: etcd\n  name", "  'name': etcd\n  name"),
    "unicode": PLAIN.replace("metadata:\n", "metadata:\n  annotations: {note: 'Grüße 🐳'}\n"),
    "byte order mark": f"\ufeff{PLAIN}",
    "anchors elsewhere": f"{PLAIN}  volumes: &v []\n  again: *v\n",
    "anchored metadata": PLAIN.replace("metadata:", "metadata: &m"),
    "merge key in metadata": PLAIN.replace("metadata:\n", "metadata:\n  <<: {labels: {a: b}}\n"),
    "duplicate key below": PLAIN.replace("  name: etcd\n  name", "  name: first\n  name: etcd\n  name"),
    "two documents, of which kubelets read the first": f"{PLAIN}---\n{PLAIN}",
    "trailing ---": f"{PLAIN}---\n",
    "JSON indented with tabs": json.dumps(read(PLAIN.encode()), indent="\t"),
    "unicode JSON indented with tabs": json.dumps({**read(PLAIN.encode()), "a": "Grüße 🐳"}, indent="\t"),
    "a uid elsewhere": PLAIN.replace("metadata:\n", "metadata:\n  ownerReferences: [{uid: other}]\n"),
}


@pytest.mark.parametrize("text", EDITABLE.values(), ids=EDITABLE.keys())
def test_the_uid_is_added_and_every_other_byte_stays(text: str) -> None:
    data = text.encode()

    pinned = pin(data, UID)

    before = read(data)
    assert read(pinned) == {**before, "metadata": {**before["metadata"], "uid": UID}}
    assert is_insertion(data, pinned)
    assert pin(pinned, UID) == pinned
    assert unpin(pinned) == data
    assert unpin(data) is None
    assert (COMMENT.encode() in pinned) == (b"\n" in pinned and b'"uid": ' not in pinned)
    if text.startswith("{"):
        document = json.loads(pinned)
        assert document["metadata"]["uid"] == UID, "JSON stays JSON: a kubelet reads it with another parser"


REFUSED = {
    "another uid": PLAIN.replace("metadata:\n", "metadata:\n  uid: somebody\n"),
    "empty uid": PLAIN.replace("metadata:\n", "metadata:\n  uid: ''\n"),
    "no metadata": "kind: Pod\nspec: {}\n",
    "null metadata": "kind: Pod\nmetadata:\nspec: {}\n",
    "empty metadata": "kind: Pod\nmetadata: {}\n",
    "metadata is a list": "kind: Pod\nmetadata: [name]\n",
    "metadata is an alias": "kind: Pod\ntemplate: &m\n  name: etcd\nmetadata: *m\n",
    "metadata is used again": "kind: Pod\nmetadata: &m\n  name: etcd\ntemplate: *m\n",
    "metadata from a merge key": "base: &b\n  metadata: {name: etcd}\n<<: *b\nkind: Pod\n",
    "metadata twice": f"{PLAIN}metadata:\n  name: etcd\n",
    "complex key": "kind: Pod\nmetadata:\n  ? name\n  : etcd\n",
    "JSON and a trailing ---": f"{json.dumps(read(PLAIN.encode()))}\n---\n",
    "flow style at the root, which kubelets take for JSON": "{kind: Pod, metadata: {name: etcd}, spec: {}}",
    "trailing tab": PLAIN.replace("metadata:", "metadata:\t"),
    "tabs as indentation": PLAIN.replace("  name", "\tname"),
    "not YAML": "metadata: {",
    "not UTF-8": PLAIN.replace("name: etcd", "name: \xe9tcd"),
    "bottomless": f"metadata: {'[' * 600}{']' * 600}",
    "a list": "- metadata\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_edited_with_certainty_is_refused(text: str) -> None:
    with pytest.raises(NotEditableError):
        pin(text.encode("latin-1" if "\xe9" in text else "utf-8"), UID)


KEYS = st.sampled_from(["name", "labels", "annotations", "a b", "on", "ключ", "", "<", "- x", "uid2", "# no", "k: v"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
PODS = st.fixed_dictionaries(
    {"kind": st.just("Pod"), "metadata": st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), "spec": VALUES},
    optional={"apiVersion": st.just("v1"), "status": VALUES},
)


STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([None, True, False]),
        "default_style": st.sampled_from([None, '"', "'", "|", ">"]),
        "indent": st.sampled_from([2, 4, 9]),
        "width": st.sampled_from([20, 80, 10_000]),
        "explicit_start": st.booleans(),
        "sort_keys": st.booleans(),
        "line_break": st.sampled_from(["\n", "\r\n"]),
    }
)


@settings(deadline=None, max_examples=60)
@given(PODS, STYLES)
def test_whatever_the_style_the_result_is_the_same_pod_plus_the_uid(
    body: dict[str, Any], style: dict[str, Any]
) -> None:
    data = yaml.safe_dump(body, allow_unicode=True, **style).encode()

    try:
        pinned = pin(data, UID)
    except NotEditableError:
        told = "only what begins with an empty key is too odd, or what kubelets take for broken JSON"
        assert "" in body["metadata"] or data.startswith(b"{"), told
        return
    assert read(pinned) == {**read(data), "metadata": {**read(data)["metadata"], "uid": UID}}
    assert is_insertion(data, pinned)
    assert unpin(pinned) == data


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(f"  {COMMENT}\n", "  # another comment\n").replace('"', "'"),
        lambda text: text.replace(f'  uid: "{UID}"\n', "").replace("spec:", f'  uid: "{UID}"\nspec:'),
        lambda text: text.replace(f'"{UID}"', UID),
    ],
    ids=["other quotes", "elsewhere", "no quotes"],
)
def test_only_what_was_written_here_is_taken_out(change: Callable[[str], str]) -> None:
    text = change(pin(PLAIN.encode(), UID).decode())

    assert UID in text
    assert unpin(text.encode()) is None


def test_what_an_older_version_wrote_is_taken_out_without_its_comment() -> None:
    assert unpin(pin(PLAIN.encode(), UID).replace(f"  {COMMENT}\n".encode(), b"")) == PLAIN.encode()


def one(manifests: dict[str, str], ref: PodRef = ETCD, *, node: str = "node-a", **fields: Any) -> StaticPods:
    known: dict[str, Any] = {"config_source": "file", "static_hash": ref.uid, "host_network": True, "ip": ""}
    data = {path: text.encode() for path, text in manifests.items()}
    return match(data, Inventory(sandboxes=(sandbox(ref, **{**known, **fields}),)), node)


def test_a_running_static_pod_is_found_by_its_name_and_pinned() -> None:
    other = PLAIN.replace("etcd", "other")

    found = one({"/m/etcd.yaml": PLAIN, "/m/other.yaml": other, "/m/config.yaml": "kind: ConfigMap"})

    assert [(pod.path, pod.sandbox.pod.uid) for pod in found.pods] == [("/m/etcd.yaml", UID)]
    pins = plan_pins(found)
    assert (found.findings, pins.findings, pins.kept) == ((), (), ())
    (planned,) = pins.pins
    assert (planned.path, planned.uid, planned.before) == ("/m/etcd.yaml", UID, sha256(PLAIN.encode()).hexdigest())
    assert planned.content == pin(PLAIN.encode(), UID)


def test_a_manifest_that_names_the_right_uid_needs_no_pin() -> None:
    """Ours from an earlier run is told; one that somebody else wrote is theirs."""
    theirs = PLAIN.replace("  name: etcd\n  name", f"  name: etcd\n  uid: {UID}\n  name")

    assert plan_pins(one({"/m/etcd.yaml": pin(PLAIN.encode(), UID).decode()})) == Pins(kept=("/m/etcd.yaml",))
    assert plan_pins(one({"/m/etcd.yaml": theirs})) == Pins()


def test_a_manifest_that_cannot_be_edited_is_a_finding() -> None:
    found = plan_pins(one({"/m/etcd.yaml": REFUSED["another uid"]}))

    (finding,) = found.findings
    assert found.pins == ()
    assert (finding.reason, finding.subject) == (Reason.STATIC_POD_NOT_EDITABLE, "kube-system/etcd-node-a")
    assert "/m/etcd.yaml" in finding.detail


@pytest.mark.parametrize(
    ("manifests", "told"),
    [
        ({}, "no manifest"),
        ({"/m/etcd.yaml": PLAIN.replace("etcd", "other")}, "no manifest"),
        ({"/m/etcd.yaml": PLAIN.replace("kube-system", "default")}, "no manifest"),
        ({"/m/etcd.yaml": PLAIN.replace("Pod", "PodList")}, "not readable as one pod: /m/etcd.yaml"),
        ({"/m/etcd.yaml": f"---\n---\n{PLAIN}"}, "not readable as one pod: /m/etcd.yaml"),
        ({"/m/etcd.yaml": "kind: Pod\nmetadata: {name: etcd, namespace: kube-system}\nspec: [oops]"}, "not readable"),
        ({"/m/a.yaml": PLAIN, "/m/etcd.yaml.bak": PLAIN}, "2 manifests (/m/a.yaml, /m/etcd.yaml.bak)"),
    ],
)
def test_a_static_pod_without_one_source_is_a_finding(manifests: dict[str, str], told: str) -> None:
    found = one(manifests)

    assert found.pods == ()
    (finding,) = found.findings
    assert (finding.reason, finding.subject) == (Reason.STATIC_POD_NOT_EDITABLE, "kube-system/etcd-node-a")
    assert told in finding.detail


def test_a_pod_from_a_url_has_no_manifest_here() -> None:
    assert one({}, config_source="http").findings != ()


@pytest.mark.parametrize("fields", [{"config_source": "api"}, {"config_source": None}, {"ready": False}])
def test_other_sandboxes_are_left_alone(fields: dict[str, Any]) -> None:
    assert one({"/m/etcd.yaml": PLAIN}, **fields) == StaticPods(pods=(), findings=())


def test_names_are_as_kubelets_make_them() -> None:
    """Without a namespace it is ``default``; the node's name is appended in lower case."""
    ref = replace(ETCD, namespace="default")

    assert len(one({"/m/x": PLAIN.replace("  namespace: kube-system\n", "")}, ref, node="Node-A").pods) == 1


def test_one_manifest_that_runs_twice_is_waited_for() -> None:
    """For a moment after an edit the old and the new pod are both there."""
    older = replace(ETCD, uid=PodUid("f" * 32))
    both = tuple(sandbox(ref, config_source="file") for ref in (ETCD, older))

    found = match({"/m/etcd.yaml": PLAIN.encode()}, Inventory(sandboxes=both), "node-a")

    assert [finding.reason for finding in found.findings] == [Reason.POD_IN_TRANSITION]


def test_a_static_pod_is_seen_as_its_kubelet_sees_it() -> None:
    (seen,), findings = manifest_views(one({"/m/etcd.yaml": PLAIN}))

    assert findings == ()
    assert (seen.ref, seen.from_manifest, seen.restart_policy) == (ETCD, True, "Always")
    (container,) = seen.containers
    assert (container.name, container.role) == ("etcd", Role.REGULAR)
    assert container.spec["imagePullPolicy"] == "IfNotPresent", "defaults are added as the kubelet adds them"
    assert container.spec["ports"] == [{"containerPort": 2379, "protocol": "TCP", "hostPort": 2379}]


def test_a_manifest_without_certain_hashes_is_a_finding() -> None:
    found = one({"/m/etcd.yaml": PLAIN.replace("- containerPort: 2379", "- 2379")})

    seen, (finding,) = manifest_views(found)

    assert seen == ()
    assert (finding.reason, finding.subject) == (Reason.STORED_HASH_NOT_REPRODUCED, "kube-system/etcd-node-a")

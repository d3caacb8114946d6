"""Provides manifests of static Pods."""

import json
from typing import Any

import yaml

UID = "0123456789abcdef0123456789abcdef"

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
    "tabs as indentation": PLAIN.replace("  name", "\tname"),
    "not YAML": "metadata: {",
    "not UTF-8": PLAIN.replace("name: etcd", "name: \xe9tcd"),
    "bottomless": f"metadata: {'[' * 600}{']' * 600}",
    "a list": "- metadata\n",
    "nothing": "",
}

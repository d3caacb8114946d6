"""Fills an API server with Nodes as large as real ones, and with pods.

The API server makes one object of each kind; the others are copies of it, which go straight into etcd: 150,000 pods in
seconds instead of minutes.
"""

import copy
import time
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, PODS
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.scale import large_node
from tests.doubles.kube_fleet import pod_object

WORKLOAD = "default"
_NODES_AT_ONCE, _PODS_AT_ONCE = 40, 120  # an etcd transaction holds 128 operations and 1.5 MB


def node_name(number: int) -> str:
    """The name of a Node."""
    return f"node-{number:05}"


async def fill(kube: KubeClient, server: ApiServer, nodes: int, pods: int) -> float:
    """Make Nodes and, on each, running pods; return the seconds that it took."""
    began = time.monotonic()
    names = [node_name(number) for number in range(nodes)]
    body = large_node(names[0])
    await kube.create(NODES, body)
    node = await kube.replace_status(NODES, names[0], body["status"])
    pod = pod_object(f"web-0-on-{names[0]}", names[0])
    await kube.create(PODS.within(WORKLOAD), pod)
    pod = await kube.replace_status(PODS.within(WORKLOAD), pod["metadata"]["name"], pod["status"])
    _store(server, _nodes(node, names[1:]), _NODES_AT_ONCE)
    _store(server, islice(_pods(pod, names, pods), 1, None), _PODS_AT_ONCE)
    return time.monotonic() - began


def _nodes(model: Json, names: Iterable[str]) -> Iterator[tuple[str, Json]]:
    for name in names:
        body = _copy(model, name)
        body["metadata"]["labels"]["kubernetes.io/hostname"] = name
        yield f"/registry/minions/{name}", body


def _pods(model: Json, nodes: Iterable[str], each: int) -> Iterator[tuple[str, Json]]:
    for node in nodes:
        for number in range(each):
            body = _copy(model, f"web-{number}-on-{node}")
            body["spec"]["nodeName"] = node
            yield f"/registry/pods/{WORKLOAD}/{body['metadata']['name']}", body


def _copy(model: Json, name: str) -> Json:
    body = copy.deepcopy(model)
    body["metadata"] |= {"name": name, "uid": str(uuid.uuid4())}
    del body["metadata"]["resourceVersion"]
    return body


def _store(server: ApiServer, objects: Iterator[tuple[str, Json]], at_once: int) -> None:
    while batch := dict(islice(objects, at_once)):
        server.put(batch)

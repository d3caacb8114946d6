import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import PODS, NotFoundError
from nodeupgrade.controlplane.wiring import own_image
from tests.doubles.kube import InMemoryKube

HERE = "nodeupgrade-system"
DIGEST = f"registry.example/op@sha256:{'a' * 64}"


def pod(*names: str) -> Json:
    images = {"operator": DIGEST, "istio-proxy": "istio/proxyv2:1.24"}
    status = {"containerStatuses": [{"name": "operator", "image": "sha256:0", "imageID": "0"}]}
    containers = [{"name": name, "image": images[name]} for name in names]
    return {"metadata": {"name": "operator-0"}, "spec": {"containers": containers}, "status": status}


async def test_agents_get_the_image_that_the_operators_own_container_names() -> None:
    kube = InMemoryKube()
    await kube.create(PODS.within(HERE), pod("istio-proxy", "operator"))
    assert await own_image(kube, HERE, "operator-0") == DIGEST


async def test_where_it_is_not_found_the_operator_says_so() -> None:
    kube = InMemoryKube()
    with pytest.raises(NotFoundError):
        await own_image(kube, HERE, "operator-0")
    await kube.create(PODS.within(HERE), pod("istio-proxy"))
    with pytest.raises(NotFoundError, match="set AGENT_IMAGE"):
        await own_image(kube, HERE, "operator-0")

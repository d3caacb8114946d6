"""Tests for reading the objects of a health check."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from nodeupgrade.api.upgrade.health import ClusterObjects
from nodeupgrade.cluster.kube_api import Page, Resource
from nodeupgrade.fleet.health import objects
from nodeupgrade.fleet.health.evaluation import ProbeError
from nodeupgrade.fleet.health.expressions import MOST_DATA_BYTES
from tests.doubles.kube import InMemoryKube


class Endless(InMemoryKube):
    """An API server with page after page of one object each."""

    read = 0

    async def pages(self, resource: Resource, **_: Any) -> AsyncIterator[Page]:
        while True:
            self.read += 1
            yield Page(({"metadata": {"name": f"{resource.plural}-{self.read}"}, "data": self.data},), "1")

    data = ""


@pytest.mark.parametrize(
    ("data", "most", "why"), [("a" * (MOST_DATA_BYTES // 4), 4, "bytes; select fewer"), ("", 501, "more than 500")]
)
async def test_no_more_is_read_than_can_be_judged(data: str, most: int, why: str) -> None:
    kube = Endless()
    kube.data = data
    with pytest.raises(ProbeError, match=why):
        await objects.read(kube, ClusterObjects(api_version="v1", resource="pods", expression="true"))
    assert kube.read == most

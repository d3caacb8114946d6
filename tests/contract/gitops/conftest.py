"""The API server of the contract suites, on which these tests leave nothing."""

import json
from collections.abc import Iterator

import pytest

from tests.contract.kube.apiserver import ApiServer


@pytest.fixture(scope="package")
def api_server(api_server: ApiServer) -> Iterator[ApiServer]:
    yield api_server
    left = json.loads(api_server.kubectl("get", "nodeupgrades", "--output=json"))
    for upgrade in left["items"]:
        upgrade["metadata"].pop("finalizers", None)
    if left["items"]:
        assert api_server.kubectl_as("", "replace", "--filename=-", stdin=json.dumps(left)) == ""
        api_server.kubectl("delete", "nodeupgrades", "--all")

"""The API server of the contract suites, on which these tests leave nothing."""

from collections.abc import Iterator

import pytest

from tests.contract.kube.apiserver import ApiServer

UNGUARDED = '{"metadata": {"finalizers": null}}'


@pytest.fixture(scope="package")
def api_server(api_server: ApiServer) -> Iterator[ApiServer]:
    yield api_server
    for name in api_server.kubectl("get", "nodeupgrades", "--output=name").split():
        api_server.kubectl("patch", name, "--type=merge", f"--patch={UNGUARDED}")
    api_server.kubectl("delete", "nodeupgrades", "--all")

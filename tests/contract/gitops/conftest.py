"""The real API server of the contract suite, here too."""

from tests.contract.kube.conftest import admin, api_server

__all__ = ["admin", "api_server"]

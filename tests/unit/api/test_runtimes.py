"""What a plan says of a runtime is what its adapter does."""

import pytest

from nodeupgrade.api.runtimes import SupportedRuntime, treatment
from nodeupgrade.node.checks.runtime import runtime_is_proven
from nodeupgrade.node.runtimes.supported import runtime_named


@pytest.mark.parametrize("name", SupportedRuntime)
def test_a_runtime_is_said_to_be_treated_as_its_adapter_treats_it(name: SupportedRuntime) -> None:
    kind, said = runtime_named(name).kind, treatment(name)
    assert said.startswith("stopped and started" if kind.stops_for_rewriting else "restarted")
    assert ("without a shield" in said) is not kind.exchangeable_socket
    assert (f"refused unless {runtime_is_proven.name} is accepted" in said) is (kind.proven is not None)
    assert all(version in said for version in kind.proven or ())


def test_others_are_said_not_to_be_supported() -> None:
    assert {treatment(name) for name in ("", "rkt", "cri-dockerd")} == {"not supported"}

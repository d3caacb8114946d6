"""What a plan says of a runtime is what its adapter does."""

from nodeupgrade.api.runtimes import SupportedRuntime, treatment
from nodeupgrade.wiring.runtimes import runtime_named


def test_a_runtime_is_said_to_be_stopped_if_its_adapter_stops_it() -> None:
    for name in SupportedRuntime:
        kind = runtime_named(name).kind
        assert treatment(name).startswith("stopped and started") is kind.stops_for_rewriting
        assert not (treatment(name).endswith("without a shield") and kind.exchangeable_socket)


def test_others_are_said_not_to_be_supported() -> None:
    assert {treatment(name) for name in ("", "rkt", "cri-dockerd")} == {"not supported"}

"""Tests who keeps a kubelet from listening at its ports."""

import pytest

from nodeupgrade.kubelet.served_ports import ServedPort, served_ports
from nodeupgrade.kubelet.settings import Configured, configured
from nodeupgrade.node.running_kubelet.taken_ports import Listener, taken_ports

KUBELET = 100


def served(address: str, port: int = 10250) -> tuple[ServedPort, ...]:
    return (ServedPort(setting="port", address=address, port=port),)


def listener(address: str, pid: int | None = 7, port: int = 10250) -> Listener:
    return Listener(address=address, port=port, pid=pid, who="nc")


def nowhere() -> bool:
    return False


ALL4, ALL6 = "0.0.0.0", "::"  # noqa: S104 - compared with, not bound to


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (ALL4, "127.0.0.1"), (ALL4, "::1"), (ALL4, ALL6), ("10.0.0.5", "10.0.0.5"), ("10.0.0.5", ALL4),
        ("10.0.0.5", ALL6), (ALL6, "10.0.0.5"), ("10.0.0.5", "::ffff:10.0.0.5"), ("not an address", "127.0.0.1"),
    ],
)  # fmt: skip
def test_who_has_an_address_of_it_has_the_port(mine: str, theirs: str) -> None:
    (taken,) = taken_ports(served(mine), [listener(theirs)], 0, diverted=nowhere)

    assert str(taken) == f"port 10250 (port) is taken: nc (process 7) listens on {theirs}"


@pytest.mark.parametrize(
    ("mine", "listeners"),
    [
        ("10.0.0.5", [listener("127.0.0.1")]),
        ("10.0.0.5", [listener("::1")]),
        ("::1", [listener(ALL4)]),
        (ALL4, [listener(ALL6, port=10251)]),
        (ALL4, [listener(ALL6, pid=KUBELET)]),
        ("10.0.0.5", [listener("10.0.0.5", pid=KUBELET), listener(ALL6)]),
        (ALL4, []),
    ],
    ids=[
        "another address",
        "another family",
        "all of another family",
        "another port",
        "itself",
        "beside itself",
        "nobody",
    ],
)
def test_nobody_else_is_in_its_way(mine: str, listeners: list[Listener]) -> None:
    assert list(taken_ports(served(mine), listeners, KUBELET, diverted=nowhere)) == []


def test_a_kubelet_that_listens_elsewhere_has_not_got_the_port() -> None:
    """Its configuration was changed since its start."""
    found = [listener("10.0.0.5", pid=KUBELET), listener("127.0.0.1", pid=None)]

    (taken,) = taken_ports(served(ALL4), found, KUBELET, diverted=nowhere)

    assert "an unknown process listens on 127.0.0.1" in str(taken)


def test_a_health_endpoint_at_which_a_pod_is_reached_is_taken() -> None:
    health = ServedPort(setting="healthzPort", address="127.0.0.1", port=10248)
    own = [listener("127.0.0.1", pid=KUBELET, port=10248), listener(ALL4, pid=KUBELET)]

    (taken,) = taken_ports((health, *served(ALL4)), own, KUBELET, diverted=lambda: True)

    assert str(taken).startswith("port 10248 (healthzPort) is taken: connections do not arrive at the kubelet")


@pytest.mark.parametrize(
    ("settings", "ports"),
    [
        (Configured(), {("0.0.0.0", 10250), ("0.0.0.0", 10255), ("127.0.0.1", 10248)}),  # noqa: S104
        (configured(("--config=/c", "--address=10.0.0.5"), b"{}"), {("10.0.0.5", 10250), ("127.0.0.1", 10248)}),
        (
            configured(("--config=/c", "--healthz-port=0"), b"{port: 1, readOnlyPort: 2, address: '::'}"),
            {("::", 1), ("::", 2)},
        ),
        (configured((), b"{enableServer: false, healthzPort: '99999'}"), set()),
        (configured(("--read-only-port=0", "--port=no"), b"{healthzPort: 9}"), {("127.0.0.1", 9)}),
    ],
)
def test_the_settings_say_where_a_kubelet_serves(settings: Configured, ports: set[tuple[str, int]]) -> None:
    assert {(each.address, each.port) for each in served_ports(settings)} == ports

"""Tests which units stop together with a unit."""

from nodeupgrade.node.host.systemd.stops import stopped_with
from nodeupgrade.node.host.systemd.units import UnitStatus

BOUND = {
    "kubelet.service": ("kubernetes.target", "idle.target", "a.service"),
    "kubernetes.target": ("proxy.service", "kubelet.service"),
    "idle.target": ("c.service",),
    "a.service": ("b.service",),
    "proxy.service": (),
    "b.service": (),
    "c.service": (),
}
"""As systemd 252 was seen to stop all of them but c.service, which is a part of what does not run."""


def unit(name: str) -> UnitStatus:
    state = "inactive" if name == "idle.target" else "active"
    return UnitStatus(
        name=name, load_state="loaded", active_state=state, sub_state="", main_pid=0, bound_by=BOUND[name]
    )


class Services:
    """As much of a service manager as this asks."""

    def status(self, name: str) -> UnitStatus:
        return unit(name)


def stopped(*down: str) -> tuple[str, ...]:
    return stopped_with(Services(), unit("kubelet.service"), *down)  # type: ignore[arg-type]


def test_what_runs_and_is_bound_by_way_of_others_stops_as_well() -> None:
    assert stopped() == ("a.service", "b.service", "kubernetes.target", "proxy.service")


def test_what_is_down_by_then_passes_nothing_on() -> None:
    assert stopped("kubernetes.target") == ("a.service", "b.service")

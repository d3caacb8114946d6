"""Queries of a real Prometheus hold, fail or are broken, as those of our own server in the unit tests."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.api.upgrade.health import HealthCheck, PrometheusQuery
from nodeupgrade.fleet.health.checks import HealthState
from nodeupgrade.fleet.health.probe import ClusterProbe
from tests.contract.health.prometheus import binary, running
from tests.doubles.kube import InMemoryKube

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]


@pytest.fixture(scope="package")
def url() -> Iterator[str]:
    program = binary()
    if program is None:
        if os.environ.get("NODEUPGRADE_E2E") == "required":
            raise FileNotFoundError("cannot find prometheus; install the package prometheus")
        pytest.skip("no Prometheus: it is not installed, and its package cannot be downloaded")
    with running(program) as url:
        yield url


def now() -> datetime:
    return datetime.now(UTC)


def check(query: str, expression: str, server: str = "default") -> HealthCheck:
    asked = PrometheusQuery(server=server, query=query, expression=expression)
    return HealthCheck(name="it", prometheus=asked, timeout=timedelta(seconds=60))


@pytest.mark.parametrize(
    ("query", "expression", "state", "said"),
    [
        ("up", "value == 1", HealthState.HOLDING, ""),
        ("up", "labels.job == 'self' && value > 0.5", HealthState.HOLDING, ""),
        ("vector(3) or vector(4)", "value < 3", HealthState.FAILING, "value < 3 is false for 1 of 1 sample: 3"),
        ("scalar(up) * 2", "value == 2", HealthState.HOLDING, ""),
        ("up == 0", "value == 0", HealthState.BROKEN, "returns nothing"),
        ("up == 0 or vector(0)", "value == 0", HealthState.HOLDING, ""),
        ("no_such_metric", "true", HealthState.BROKEN, "returns nothing"),
        ("up[1m]", "true", HealthState.BROKEN, "returns a matrix"),
        ('"text"', "true", HealthState.BROKEN, "returns a string"),
        ("up{", "true", HealthState.BROKEN, "answers 400"),
        ("up - up / 0 * 0", "value == 1", HealthState.BROKEN, "NaN"),
        ("up / 0", "value < 1", HealthState.FAILING, "inf"),
        ("up", "value.job == 1", HealthState.BROKEN, "its expression cannot be evaluated"),
    ],
)
async def test_a_query_comes_to_what_it_says(
    url: str, query: str, expression: str, state: HealthState, said: str
) -> None:
    probe = ClusterProbe(InMemoryKube(), (PrometheusServer(name="default", url=url),), now)
    observed = await probe.observe(check(query, expression))
    assert observed.state is state, observed.detail
    assert said in observed.detail


async def test_only_configured_servers_are_asked(url: str) -> None:
    probe = ClusterProbe(InMemoryKube(), (PrometheusServer(name="default", url=url),), now)
    observed = await probe.observe(check("up", "true", server="other"))
    assert (observed.state, observed.detail) == (
        HealthState.BROKEN,
        "the operator's configuration names no Prometheus other",
    )


async def test_an_operator_whose_clock_is_wrong_relies_on_nothing(url: str) -> None:
    servers = (PrometheusServer(name="default", url=url),)
    probe = ClusterProbe(InMemoryKube(), servers, lambda: now() + timedelta(minutes=5))
    observed = await probe.observe(check("up", "true"))
    assert observed.state is HealthState.BROKEN
    assert "which is not now" in observed.detail

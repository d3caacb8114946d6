"""Whoever waits for something leaves the machine to it."""

import time

import pytest

from e2e.lab.process import wait_until


@pytest.mark.parametrize(("takes", "rests"), [(0.0, 0.5), (0.1, 0.5), (2.0, 6.0)])
def test_a_probe_that_takes_long_is_made_less_often(
    takes: float, rests: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, slept = 0.0, list[float]()

    def probe() -> bool:
        nonlocal now
        now += takes
        return len(slept) == 2

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", slept.append)
    assert wait_until("the third probe", probe, timeout=100, interval=0.5)
    assert slept == [rests, rests]

"""Another process listens at a port of the kubelet: no kubelet starts until it ends, and the run names it."""

from collections.abc import Callable, Collection
from dataclasses import replace
from errno import ENOMEM
from os import strerror

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import Refused
from nodeupgrade.kubelet.served_ports import ServedPort
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.running_kubelet.taken_ports import Listener
from tests.doubles.node import plan_for
from tests.doubles.node.kubelet import HEALTH_PORT, PORT, PROGRAM, program
from tests.scenario.node_run.test_lost_pods import HOUR, RESTART, held, later, well_again
from tests.scenario.node_run.test_node_run import START, Story, story

NAMED = "nc (process 4711) listens on 127.0.0.1"
RUNTIME_PORT = 10257
ENDS = f"listen tcp 0.0.0.0:{RUNTIME_PORT}: bind: address already in use"
"""What Go says; the port is the one at which containerd serves its metrics on AKS."""


def taken(port: int = PORT, *, before: str = "files.replace /usr/bin/kubelet") -> Story:
    """Somebody takes a port while no kubelet runs."""
    it = story()
    nc = Listener(address="127.0.0.1", port=port, pid=4711, who="nc")
    it.node.calls.before(before, lambda: it.node.kubelet.taken.update({port: nc}))
    return it


@pytest.mark.parametrize(
    "line",
    [
        f"containerd: failed to get listener for metrics endpoint: {ENDS}",
        f'time="2026-01-02T03:04:05Z" level=fatal msg="Failed to run CRI service" error="stream server error: {ENDS}"',
    ],
    ids=["metrics", "streams"],
)
def test_who_has_a_port_of_the_runtime_is_named_until_it_starts(line: str) -> None:
    """Whoever runs a pod in the node's network may take it as soon as the runtime is being restarted."""
    it = story()
    troubles, nc = it.node.runtime.troubles, Listener(address="127.0.0.1", port=RUNTIME_PORT, pid=4711, who="nc")

    def ends() -> None:
        troubles.hangs, troubles.wrote = True, (line,)
        it.node.kubelet.taken[RUNTIME_PORT] = nc
        it.node.timeline.after(HOUR, lambda: setattr(troubles, "hangs", False))

    it.node.calls.before(RESTART, ends)

    assert well_again(it, it.tell())
    why = f"the runtime does not answer; its port {RUNTIME_PORT} is taken: {NAMED}"
    assert {(record.reason, record.error) for record in held(it)} == {(Reason.RUNTIME_DID_NOT_ANSWER, why)}


def free(it: Story) -> None:
    it.node.kubelet.taken.clear()


@pytest.mark.parametrize("before", ["files.replace /usr/bin/kubelet", START], ids=["early", "at the last moment"])
def test_a_run_whose_port_was_taken_goes_back_once_it_is_free_again(before: str) -> None:
    it = taken(before=before)
    later(it, HOUR, lambda: free(it))

    report = it.tell()

    assert well_again(it, report)
    assert report.reason is Reason.KUBELET_PORT_TAKEN
    assert NAMED in report.message
    assert [(record.step, record.reason) for record in held(it)] == [(Step.STOP_KUBELET, Reason.KUBELET_PORT_TAKEN)]
    assert NAMED in (held(it)[0].error or "")


def test_who_has_the_health_endpoint_and_is_silent_is_named_and_the_old_kubelet_is_enough() -> None:
    it = taken(HEALTH_PORT)

    report = it.tell()

    process = it.node.kubelet.process
    assert report.outcome is Outcome.ROLLED_BACK
    assert process is not None
    assert str(process.version) == "v1.30.14"
    assert it.nothing_restarted()
    assert report.reason is Reason.KUBELET_PORT_TAKEN
    assert "port 10248 (healthzPort) is taken: nc (process 4711)" in report.message


def test_who_answers_there_in_place_of_the_kubelet_keeps_no_run_from_its_end() -> None:
    it = taken(HEALTH_PORT)
    it.node.kubelet.impersonated = True

    assert it.tell().outcome is Outcome.UPGRADED


@pytest.mark.parametrize("answers_well", [True, False])
@pytest.mark.parametrize("before", ["services.stop kubelet.service", START])
def test_a_pod_that_is_reached_at_the_health_endpoint_is_named_and_the_old_kubelet_is_enough(
    before: str, *, answers_well: bool
) -> None:
    """Its hostPort leads there whatever the kubelet listens at, and no kubelet says so in its log."""
    it = story()
    it.node.calls.before(before, lambda: setattr(it.node.kubelet, "hidden_by", answers_well))

    report = it.tell()

    assert it.nothing_restarted()
    if answers_well:  # the API server has met the new kubelet
        assert report.outcome is Outcome.UPGRADED
        return
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_PORT_TAKEN)
    assert "port 10248 (healthzPort) is taken: connections do not arrive at the kubelet" in report.message


def test_a_node_on_which_a_pod_is_reached_at_the_health_endpoint_is_refused() -> None:
    it = story()
    it.node.kubelet.hidden_by = True

    with pytest.raises(Refused, match="as with a pod that has it as its hostPort") as refused:
        plan_for(it.node, "v1.33.13")

    assert refused.value.finding.reason is Reason.KUBELET_PORT_TAKEN


def test_a_port_that_is_taken_beside_the_kubelet_turns_the_run_back_before_the_stop() -> None:
    """Its configuration makes it listen there once it is started again."""
    it = story()
    served = (ServedPort(setting="readOnlyPort", address="10.0.0.5", port=10255),)
    it.plan = replace(it.plan, ports=served)
    it.node.kubelet.taken[10255] = Listener(address="10.0.0.5", port=10255, pid=4711, who="nc")

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_PORT_TAKEN)
    assert report.down_seconds is None
    assert "services.stop kubelet.service" not in it.node.calls.effects


def test_a_person_may_end_the_wait() -> None:
    it = taken()
    later(it, HOUR, lambda: setattr(it.node, "overruled", True))
    it.node.ports = replace(it.node.ports, end=lambda: getattr(it.node, "overruled", False))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.DEGRADED, Reason.ROLLBACK_FAILED)
    assert NAMED in report.message


def test_a_node_whose_port_another_process_has_already_is_refused() -> None:
    """As the kubelet that lives without its health endpoint: the health of the new one could not be seen."""
    it = story()
    it.node.kubelet.taken[HEALTH_PORT] = Listener(address="127.0.0.1", port=HEALTH_PORT, pid=4711, who="nc")
    it.node.services.stop("kubelet.service")
    it.node.services.start("kubelet.service")

    with pytest.raises(Refused, match="nc \\(process 4711\\)") as refused:
        plan_for(it.node, "v1.33.13")

    assert refused.value.finding.reason is Reason.KUBELET_PORT_TAKEN


def test_another_program_than_planned_is_stopped_before_anybody_asks_about_ports() -> None:
    """To find who has a port takes as long as a kubelet does until it ends containers, and here there is no shield."""
    it = story(shield=False)
    it.node.calls.before(START, lambda: it.node.disk.update({PROGRAM: program("v1.30.13")}))
    look = it.node.kubelet.listeners

    def slowly(ports: Collection[int], likely: Callable[[], int]) -> tuple[Listener, ...]:
        it.node.timeline.advance(1.0)
        return look(ports, likely)

    it.node.kubelet.listeners = slowly  # type: ignore[method-assign]

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.DIGEST_MISMATCH)
    assert it.nothing_restarted()


def test_processes_that_cannot_be_listed_keep_no_node_without_a_kubelet() -> None:
    it = story()
    look = it.node.kubelet.listeners

    def unreadable(ports: Collection[int], likely: Callable[[], int]) -> tuple[Listener, ...]:
        if it.node.kubelet.process is None:
            raise OSError(ENOMEM, strerror(ENOMEM))
        return look(ports, likely)

    it.node.kubelet.listeners = unreadable  # type: ignore[method-assign]

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.process is not None
    assert it.nothing_restarted()

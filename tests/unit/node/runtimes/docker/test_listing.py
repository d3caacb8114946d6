"""Tests for building the inventory from dockerd's answers and from /proc."""

from typing import Any

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.docker.client import TYPE_LABEL
from nodeupgrade.node.runtimes.docker.listing import parse_nanoseconds, read_details, shown_to_kubelets, to_inventory
from nodeupgrade.node.runtimes.docker.metadata import HASH_LABEL
from nodeupgrade.node.runtimes.inventory import ContainerState
from tests.builders.docker_node import Node


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.000000007Z", 1_000_000_007),
        ("1970-01-01T01:00:01.2+01:00", 1_200_000_000),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_are_exact(text: str, expected: int | None) -> None:
    assert parse_nanoseconds(text) == expected


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "1970-01-01", 5])
def test_what_is_no_time_is_the_readings_error(text: Any) -> None:
    with pytest.raises(StepFailed, match="cannot read"):
        read_details(inspected(9) | {"Created": text})


def listed(kind: str, **more: str) -> dict[str, Any]:
    pod = {f"io.kubernetes.pod.{key}": key for key in ("name", "namespace", "uid")}
    labels = {TYPE_LABEL: kind, **pod, "io.kubernetes.container.name": "web", "io.kubernetes.sandbox.id": "s", **more}
    return {"Id": kind, "Names": ["/k8s_web_name_namespace_uid_3"], "Labels": labels, "State": "running"}


def inspected(pid: int) -> dict[str, Any]:
    times = {"StartedAt": "1970-01-01T00:00:02Z", "FinishedAt": "0001-01-01T00:00:00Z"}
    return {"Created": "1970-01-01T00:00:01Z", "State": {"Running": True, "Pid": pid, "ExitCode": 0, **times}}


def test_a_container_has_its_own_shim_and_loses_it(node: Node) -> None:
    node.process(8, "containerd-shim", 1)
    node.process(9, "sh", 8)
    known = {"container": read_details(inspected(9))}

    def seen() -> Any:
        entries = [listed("container", **{HASH_LABEL: "a1"})]
        [container] = to_inventory(
            entries, known, node.processes, requested=frozenset({"container"}), addresses=False
        ).containers
        return container

    container = seen()
    assert (container.state, container.attempt, container.hashes.container) == (ContainerState.RUNNING, 3, "a1")
    assert (container.created_at, container.started_at) == (1_000_000_000, 2_000_000_000)
    assert (container.process.pid, container.monitor.pid) == (9, 8)
    (node.root / "proc/9/stat").write_text(f"9 (sh) S 1 {' 0' * 17} 5 0 0\n")
    assert seen().monitor is None, "whoever adopts an orphan is no shim"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["/k8s_web_name_namespace_uid_3"], True),
        (["/k8s_web_name_namespace_uid_4294967295_0badcafe"], True),
        (["/app/web", "/k8s_web_name_namespace_uid_3"], True),  # another one was made with --link
        (["/happy_tesla"], False),  # run from an image that ``docker commit`` made of a pod's container
        (["/k8s_mine"], False),
        (["/k8s_web_name_namespace_uid_x"], False),
        ([], False),  # a dead one, which could not be removed
        (None, False),
    ],
)
@pytest.mark.parametrize("kind", ["container", "podsandbox"])
def test_only_what_kubelets_see_by_its_name_is_shown(kind: str, names: list[str] | None, shown: bool) -> None:
    """As dockershim's ListContainers and ListPodSandbox."""
    entry = {**listed(kind), "Names": names}
    assert shown_to_kubelets([entry, listed(kind)]) == ([entry] if shown else []) + [listed(kind)]


def test_what_has_a_kubelets_name_and_no_labels_is_shown_as_of_no_pod(node: Node) -> None:
    """As kubelets see it, which end it for that."""
    bare = [{**listed(kind), "Labels": {TYPE_LABEL: kind}} for kind in ("container", "podsandbox")]
    known = {str(entry["Id"]): read_details(inspected(9)) for entry in bare}

    seen = to_inventory(shown_to_kubelets(bare), known, node.processes, requested=frozenset(), addresses=False)

    assert [(c.pod.uid, c.sandbox_id, c.state) for c in seen.containers] == [("", "", ContainerState.RUNNING)]
    assert [(s.pod.uid, s.ready) for s in seen.sandboxes] == [("", True)]


@pytest.mark.parametrize(
    "entry",
    [
        {**listed("container"), "Names": ["/mine"]},
        {**listed("podsandbox"), "Labels": None},
        {**listed("container"), "State": []},
    ],
)
def test_an_answer_of_another_form_is_an_error_in_words(node: Node, entry: dict[str, Any]) -> None:
    known = {str(entry["Id"]): read_details(inspected(9))}
    with pytest.raises(StepFailed, match="cannot read dockerd's list"):
        to_inventory([entry], known, node.processes, requested=frozenset(), addresses=False)


@pytest.mark.parametrize("entry", [{"Id": "a"}, {"Id": "a", "Names": 1}, {"Id": "a", "Names": [1]}])
def test_names_of_another_form_are_an_error_in_words(entry: dict[str, Any]) -> None:
    with pytest.raises(StepFailed, match="cannot read dockerd's list"):
        shown_to_kubelets([entry])


@pytest.mark.parametrize(
    "broken", [{}, {"State": {}}, {**inspected(1), "Created": "soon"}, {**inspected(1), "State": None}]
)
def test_details_of_another_form_are_an_error_in_words(broken: dict[str, Any]) -> None:
    with pytest.raises(StepFailed, match="cannot read dockerd's details"):
        read_details(broken)

"""Find where kubelethash and a release disagree."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from nodeupgrade.kubelethash import (
    NEWEST_MINOR,
    Era,
    HashError,
    KubeletVersion,
    default_static_container,
    era_of,
    hash_container,
    hash_manifest_container,
    qos_class,
)
from nodeupgrade.kubelethash.go.schema import STRUCTS, StructField, fields_of
from tools.oracle import asking
from tools.oracle.asking import Answer, GoField
from tools.oracle.made_pods import Json, api_pod, manifest

GATE = "InPlacePodVerticalScaling"
GATED_MINORS = range(27, 33)


@dataclass(slots=True)
class Comparison:
    """One question, asked for many pods."""

    question: str
    compared: int = 0  # how many values both sides gave
    refused: int = 0  # how many values kubelethash refused to give; it must not guess
    unread: int = 0  # how many pods the release rejected
    differing: list[str] = field(default_factory=list)  # each difference, and what it is about


def known_as(version: KubeletVersion) -> KubeletVersion:
    """Return the version whose rules are tried: its own, or the newest known one for a minor that is not known yet."""
    return version if version.minor <= NEWEST_MINOR else KubeletVersion(1, NEWEST_MINOR)


def missing_rows(version: KubeletVersion, types: Mapping[str, tuple[GoField, ...]]) -> Iterator[str]:
    """Report how a release's types differ from the table; only eras A to C hash them."""
    tabled = min(version.minor, 30)
    for struct, found in types.items():
        ours = _tabled(struct, tabled)
        theirs = dict(_row(each) for each in found)
        for key in theirs.keys() | ours.keys():
            if theirs.get(key) != ours.get(key):
                yield f"{struct}.{key}: {theirs.get(key, 'absent')} there, {ours.get(key, 'absent')} in the table"


def _tabled(struct: str, minor: int) -> dict[str, str]:
    names: tuple[str, ...] = ("ProbeHandler", "LifecycleHandler") if struct == "Handler" else (struct,)
    return dict(_row(each) for name in names if name in STRUCTS for each in fields_of(name, minor))


def _row(each: GoField | StructField) -> tuple[str, str]:
    """Return a field's key and the rest of it. The handlers of probes and hooks were one Go type until 1.23."""
    type_ = re.sub("(Probe|Lifecycle)Handler", "Handler", each.type)
    return each.key or type_, f"{type_}{'' if each.omitempty or not each.key else ', always written'}"


def compare_served(version: KubeletVersion, program: Path, number: int, seed: int) -> tuple[Comparison, ...]:
    """Compare pods as the API serves them, with every field that the release has."""
    random, types = Random(seed), asking.container_types(program)
    pods = {f"p{n}": api_pod(random, types, n) for n in range(number)}
    answers = asking.served(program, pods.values())
    hashes = Comparison("hashes of API pods")
    for name, pod in pods.items():
        answer = answers[name]
        if answer.error:
            hashes.unread += 1
            continue
        for each in pod["spec"]["containers"]:
            _compare(hashes, partial(hash_container, each, known_as(version)), answer.hashes[each["name"]], each)
    return (hashes,)


def compare_static(version: KubeletVersion, program: Path, number: int, seed: int) -> tuple[Comparison, ...]:
    """Compare manifests that the kubelet's own code reads and defaults."""
    random = Random(seed)
    manifests = {f"p{n}": manifest(random, n) for n in range(number)}
    compared = [*_statics(version, manifests, asking.static(program, manifests.values()), gated=False)]
    if version.minor in GATED_MINORS:
        gated = asking.static(program, manifests.values(), f"{GATE}=true")
        compared += [
            each for each in _statics(version, manifests, gated, gated=True) if each.question.startswith("hash")
        ]
    return tuple(compared)


def _statics(
    version: KubeletVersion, manifests: Mapping[str, Json], answers: Mapping[str, Answer], *, gated: bool
) -> Iterator[Comparison]:
    hashes = Comparison(f"hashes of static pods{f' with {GATE}' if gated else ''}")
    classes = Comparison("QoS classes of static pods")
    for name, pod in manifests.items():
        answer = answers.get(name)
        if answer is None:
            hashes.unread += 1
            classes.unread += 1
            continue
        for container, found in static_hashes(pod, answer, known_as(version), gated=gated):
            _compare(hashes, found, answer.hashes[container["name"]], pod)
        _compare(classes, partial(qos_class, pod, known_as(version)), answer.qos, pod["spec"])
    yield hashes
    yield classes


def static_hashes(
    pod: Json, answer: Answer, version: KubeletVersion, *, gated: bool
) -> Iterator[tuple[Json, Callable[[], str]]]:
    """Yield each container of a manifest, with a function that computes its hash."""
    spec = pod["spec"]
    for key in ("initContainers", "containers"):
        for each in spec.get(key, ()):

            def computed(each: Json = each, key: str = key) -> str:
                defaulted = default_static_container(
                    each,
                    host_network=bool(spec.get("hostNetwork")),
                    in_place_resize=gated and key == "containers",
                )
                return hash_manifest_container(defaulted, version)

            if each["name"] in answer.hashes:
                yield each, computed


def _compare(comparison: Comparison, compute: Callable[[], str], theirs: str, subject: object) -> None:
    try:
        ours = compute()
    except HashError:
        comparison.refused += 1
        return
    comparison.compared += 1
    if ours != theirs:
        comparison.differing.append(f"{theirs} there, {ours} here: {subject}")


def era_name(version: KubeletVersion) -> Era:
    """Return the era whose rules were tried."""
    return era_of(known_as(version))

"""Documents whose other texts imitate hashes, as the author of a pod may write them, in the stores of every runtime."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

import pytest
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import MetadataConflict
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.runtimes.containerd._pb import containerd_pb2 as pb
from nodeupgrade.node.runtimes.containerd.hash_store import MetadataStore
from nodeupgrade.node.runtimes.containerd.metadata import EXTENSION, TYPE_URL
from nodeupgrade.node.runtimes.cri.connection import Connection
from nodeupgrade.node.runtimes.cri.hash_annotations import HASH_KEY, HASH_WITHOUT_RESOURCES_KEY
from nodeupgrade.node.runtimes.cri.hash_store import HashStore
from nodeupgrade.node.runtimes.crio.hash_store import SpecificationStore
from nodeupgrade.node.runtimes.crio.metadata import INNER
from nodeupgrade.node.runtimes.docker.hash_store import LabelStore
from nodeupgrade.node.runtimes.docker.metadata import ANNOTATION
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.builders.docker_files import content, written
from tests.contract.node.crio_storage import go_json, specification
from tests.doubles.node.calls import Calls
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.timeline import Timeline

ID = ContainerId("c" * 64)
KEYS = (HASH_KEY, HASH_WITHOUT_RESOURCES_KEY)
HASHES = st.from_regex(r"[1-9a-f][0-9a-f]{0,15}", fullmatch=True).map(HashValue)
DEEPEST = 4
"""How many times a text is quoted within a text; CRI-O's own copy of the annotations is quoted once."""


@dataclass(frozen=True)
class Pod:
    """What a container's document holds: the kubelet's hashes, and what others chose."""

    hashes: dict[str, str]
    texts: tuple[str, ...]  # for environment, arguments, image, mounts, working directory
    named: dict[str, str]  # annotations and labels, and whatever else has names of its own


@dataclass
class Disk:
    """One container in the store of one runtime."""

    documents: dict[str, bytes] = field(default_factory=dict)

    @property
    def files(self) -> Files:
        return cast("Files", SimulatedFiles(self.documents, Calls(Timeline())))


class Containerd(MetadataStore):
    """The records in memory."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(cast("Connection", None))
        self.disk = disk

    def records(self, ids: Iterable[str]) -> list[pb.Container]:
        stored = Packed(type_url=TYPE_URL, value=self.disk.documents["/container"])
        return [pb.Container(id=each, extensions={EXTENSION: stored}, updated_at=Timestamp(seconds=1)) for each in ids]

    def update(self, values: Iterable[tuple[str, Packed]]) -> list[pb.Container]:
        written = dict(values)
        for value in written.values():
            self.disk.documents["/container"] = value.value
        return self.records(written)


def containerd(pod: Pod) -> tuple[HashStore[Any], Disk]:
    config = {
        "metadata": {"name": "c"}, "image": {"image": pod.texts[0]}, "command": pod.texts, "working_dir": pod.texts[-1],
        "envs": [{"key": text, "value": text} for text in pod.texts], "labels": pod.named,
        "mounts": [{"container_path": text, "host_path": text} for text in pod.texts],
        "annotations": pod.named | pod.hashes,
    }  # fmt: skip
    whole = {"Version": "v1", "Metadata": {"ID": ID, "Name": pod.texts[0], "Config": config, "LogPath": pod.texts[-1]}}
    disk = Disk({"/container": written(whole)})
    return Containerd(disk), disk


def crio(pod: Pod) -> tuple[HashStore[Any], Disk]:
    """A pod's annotations are among the container's own, unless the kubelet has one of the same name."""
    made = specification(ID, pod.named | pod.hashes, sandbox="s", env=pod.texts)
    made["process"] |= {"args": pod.texts, "cwd": pod.texts[-1]}
    made["mounts"] = [{"destination": text, "source": text} for text in pod.texts]
    made["annotations"] = {HASH_WITHOUT_RESOURCES_KEY: pod.texts[0], **pod.named, **made["annotations"]}
    directory = f"/storage/{ID}/userdata"
    text = go_json(made, indent=True).encode("utf-8", "surrogatepass")
    disk = Disk({f"{directory}/config.json": text, f"{directory}/state.json": b'{"status":"running"}'})
    return SpecificationStore(disk.files, lambda: PurePosixPath("/storage")), disk


def docker(pod: Pod) -> tuple[HashStore[Any], Disk]:
    labels = pod.named | {f"{ANNOTATION}{key}": value for key, value in pod.hashes.items()}
    text = content(labels, ID, Env=pod.texts, Cmd=pod.texts, Image=pod.texts[0], WorkingDir=pod.texts[-1],
                   Volumes={text: {} for text in pod.texts})  # fmt: skip
    disk = Disk({f"/docker/containers/{ID}/config.v2.json": text})
    root = PurePosixPath("/docker")
    return LabelStore(files=disk.files, root=lambda: root, stop=lambda: None, stopped=lambda: True), disk


EVERY = pytest.mark.parametrize("runtime", [containerd, crio, docker])


def quoted(text: str, times: int) -> str:
    for _ in range(times):
        text = json.dumps(text)
    return text


@st.composite
def imitations(draw: st.DrawFn, values: tuple[str, ...]) -> str:
    """A text that contains what a hash looks like in a document, quoted any number of times, or a part of that."""
    key = draw(st.sampled_from([*KEYS, *(f"{ANNOTATION}{each}" for each in KEYS), INNER, "annotations", "Labels"]))
    entry = f'"{key}"{draw(st.sampled_from([":", ": ", ""]))}"{draw(st.sampled_from(values))}"'
    whole = draw(st.sampled_from(["{}", "{{{}}}", '{{"annotations":{{{}}}}}', "{},", '",{}', "\\{}", "{}\\"])).format(
        entry
    )
    whole = quoted(whole, draw(st.integers(0, DEEPEST)))
    start, end = draw(st.sampled_from([(0, None), (1, None), (0, -1), (1, -1), (2, None)]))
    around = st.text(max_size=3) | st.sampled_from(
        ["\n", "\0", "\v", "\u2028", "\u3000", "\U0001f600", "\\u", '"', "\\"]
    )
    return draw(around) + whole[start:end] + draw(around)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Pod, StoredHashes, StoredHashes]:
    """A pod, its hashes, and those of the next kubelet; both of which its author knew."""
    old, new = (StoredHashes(container=draw(HASHES), without_resources=draw(HASHES)) for _ in range(2))
    if draw(st.booleans()):
        old = StoredHashes(container=old.container)
    values = tuple(str(each) for hashes in (old, new) for each in (hashes.container, hashes.without_resources) if each)
    texts = st.one_of(imitations(values), st.text(max_size=10))
    tails = st.builds('{}"{}{}'.format, st.text(max_size=2), st.sampled_from(["", ANNOTATION]), st.sampled_from(KEYS))
    names = st.one_of(texts, tails).filter(lambda name: name.removeprefix(ANNOTATION) not in {*KEYS, INNER})
    stored = {HASH_KEY: old.container, HASH_WITHOUT_RESOURCES_KEY: old.without_resources}
    pod = Pod(
        hashes={key: value for key, value in stored.items() if value is not None},
        texts=tuple(draw(st.lists(texts, min_size=1, max_size=4))),
        named=draw(st.dictionaries(names, texts | st.sampled_from(values), max_size=3)),
    )
    return pod, old, new


def expected(pod: Pod, new: StoredHashes) -> Pod:
    values = {HASH_KEY: new.container, HASH_WITHOUT_RESOURCES_KEY: new.without_resources}
    return Pod(
        hashes={key: str(values[key]) for key in pod.hashes},
        texts=pod.texts,
        named=pod.named,
    )


@EVERY
@given(world=worlds())
def test_hashes_are_found_and_changed_whatever_others_wrote_and_come_back_byte_for_byte(
    runtime: Callable[[Pod], tuple[HashStore[Any], Disk]], world: tuple[Pod, StoredHashes, StoredHashes]
) -> None:
    pod, old, new = world
    store, disk = runtime(pod)
    before = dict(disk.documents)
    image = store.before_images([ID])[ID]
    assert image.hashes == old

    for _ in range(2):
        store.rewrite([(image, new)])

    assert disk.documents == runtime(expected(pod, new))[1].documents, "as if the new hashes had always been there"
    store.restore(image)
    assert disk.documents == before
    store.restore(image)
    assert disk.documents == before


@EVERY
@given(world=worlds(), data=st.data())
def test_whatever_else_somebody_changes_is_not_overwritten(
    runtime: Callable[[Pod], tuple[HashStore[Any], Disk]],
    world: tuple[Pod, StoredHashes, StoredHashes],
    data: st.DataObject,
) -> None:
    """Any other text in the place of any: only the hashes may differ from what was read before."""
    pod, _, new = world
    store, disk = runtime(pod)
    image = store.before_images([ID])[ID]
    store.rewrite([(image, new)])
    other = Pod(
        hashes=expected(pod, new).hashes, texts=(*pod.texts[1:], data.draw(imitations(("abc",)))), named=pod.named
    )
    theirs = dict(runtime(other)[1].documents)
    disk.documents.update(theirs)

    if other != expected(pod, new):
        with pytest.raises(MetadataConflict):
            store.restore(image)
        assert disk.documents == theirs

"""``spec.artifact``: where the kubelet binary comes from."""

from nodeupgrade.api.schema.blocks import immutable, keys_match
from nodeupgrade.api.schema.model import MapOf, Record, Rule, Schema, Text

SOURCES = ("image", "platforms", "preStaged")

_SHA256 = Text(
    says="What sha256sum prints for the file.",
    longest=64,
    pattern="[0-9a-f]{64}",
    write="64 lower-case hexadecimal digits, as sha256sum prints them",
)


def _path(says: str) -> Text:
    return Text(says=says, longest=1024, pattern=r"/[^\x00]+", write="an absolute path such as /opt/kubelet")


_URL = Text(says="Where to download from.", longest=2048, pattern=r"https?://[^\s]+", write="an https or http URL")

_IMAGE = Record(
    says="An image that holds the kubelet; it needs no shell.",
    fields={
        "ref": Text(
            says="The image, pinned by its digest.",
            longest=512,
            pattern=r"[^\s@]+@sha256:[0-9a-f]{64}",
            write="an image pinned by its digest, such as registry.example/kubelet@sha256:…64 hexadecimal digits…",
        ),
        "path": _path("The kubelet inside the image."),
        "pullSecret": Text(
            says="Secret of the operator's namespace that the image is pulled with.", shortest=1, longest=253
        ),
    },
    required=("ref", "path"),
)


def _by_platform(says: str, **fields: Schema) -> MapOf:
    return MapOf(
        says=says,
        value=Record(fields=fields, required=tuple(fields)),
        least=1,
        most=16,
        rules=(keys_match("[a-z0-9]{1,16}-[a-z0-9_]{1,16}", "one of its keys is not a platform such as linux-amd64"),),
    )


ARTIFACT = Record(
    says="Where the kubelet binary comes from; exactly one source, always with a digest.",
    write="one of image, platforms and preStaged",
    fields={
        "image": _IMAGE,
        "platforms": _by_platform("Downloads by platform, for example linux-amd64.", url=_URL, sha256=_SHA256),
        "preStaged": _by_platform(
            "Files that lie on the nodes already, by platform.", path=_path("The file on the node."), sha256=_SHA256
        ),
    },
    rules=(
        Rule(
            f"[{', '.join(f'has(self.{source})' for source in SOURCES)}].filter(set, set).size() == 1",
            "exactly one of image, platforms and preStaged is needed",
            lambda artifact: sum(source in artifact for source in SOURCES) == 1,
        ),
    ),
    transitions=(immutable(),),
)

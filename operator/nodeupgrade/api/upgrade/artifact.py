"""``spec.artifact``: where the kubelet binary comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

from nodeupgrade.api.field import Field, Rule, immutable, keys_match
from nodeupgrade.api.limits import IMAGE_LENGTH, NAME_LENGTH, PATH_LENGTH, URL_LENGTH

SOURCES: Final = ("image", "platforms", "preStaged")

_SHA256 = Field(
    "What sha256sum prints for the file.",
    max_length=64,
    pattern="[0-9a-f]{64}",
    expected="64 lower-case hexadecimal digits, as sha256sum prints them",
)
_PATH = Field(max_length=PATH_LENGTH, pattern=r"/[^\x00]+", expected="an absolute path such as /opt/kubelet")
_BY_PLATFORM = Field(
    min_properties=1,
    max_properties=16,
    rules=(keys_match("[a-z0-9]{1,16}-[a-z0-9_]{1,16}", "one of its keys is not a platform such as linux-amd64"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArtifact:
    """A kubelet inside an image."""

    ref: Annotated[
        str,
        Field(
            "The image, pinned by its digest.",
            max_length=IMAGE_LENGTH,
            pattern=r"[^\s@]+@sha256:[0-9a-f]{64}",
            expected="an image pinned by its digest, such as registry.example/kubelet@sha256:…64 hexadecimal digits…",
        ),
    ]
    path: Annotated[str, _PATH, Field("The kubelet inside the image.")]
    pull_secret: Annotated[
        str | None,
        Field(
            "Secret of the operator's namespace that the image is pulled with. The agent's own image is then pulled"
            " with it, too, and not with the secrets of the service account.",
            min_length=1,
            max_length=NAME_LENGTH,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A kubelet to download."""

    url: Annotated[
        str,
        Field(
            "Where to download from.",
            max_length=URL_LENGTH,
            pattern=r"https?://[^\s]+",
            expected="an https or http URL",
        ),
    ]
    sha256: Annotated[str, _SHA256]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreStagedFile:
    """A kubelet that lies on the node."""

    path: Annotated[str, _PATH, Field("The file on the node.")]
    sha256: Annotated[str, _SHA256]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Where the kubelet comes from; exactly one is set."""

    SCHEMA: ClassVar = Field(
        "Where the kubelet binary comes from; exactly one source, always with a digest.",
        expected="one of image, platforms and preStaged",
        rules=(
            Rule(
                f"[{', '.join(f'has(self.{source})' for source in SOURCES)}].filter(set, set).size() == 1",
                "exactly one of image, platforms and preStaged is needed",
                lambda artifact: sum(source in artifact for source in SOURCES) == 1,
            ),
        ),
        transitions=(immutable(),),
    )

    image: Annotated[ImageArtifact | None, Field("An image that holds the kubelet; it needs no shell.")] = None
    platforms: Annotated[
        Mapping[str, Download] | None, _BY_PLATFORM, Field("Downloads by platform, for example linux-amd64.")
    ] = None
    pre_staged: Annotated[
        Mapping[str, PreStagedFile] | None,
        _BY_PLATFORM,
        Field("Files that lie on the nodes already, by platform."),
    ] = None

"""``spec.artifact``: where the kubelet binary comes from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from nodeupgrade.api.field import SHA256, Field, declared, keys_match, one_of
from nodeupgrade.api.limits import IMAGE_LENGTH, NAME_LENGTH, PATH_LENGTH, URL_LENGTH
from nodeupgrade.api.locations import PATH, PORT, URL, not_of_the_kernel

_DOTTED: Final = r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"
REGISTRY: Final = rf"({_DOTTED}({PORT})?|[A-Za-z0-9-]+{PORT}|localhost)"
COMPONENT: Final = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
IMAGE: Final = rf"{REGISTRY}(/{COMPONENT})+(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?@sha256:[0-9a-f]{{64}}"

_SHA256 = SHA256.overridden(Field("SHA-256 of the file, in hexadecimal, as printed by sha256sum."))
_PATH = Field(
    max_length=PATH_LENGTH, pattern=PATH, expected="an absolute path such as /opt/kubelet, without . and .., % and \\"
)
_BY_PLATFORM = Field(
    min_properties=1,
    max_properties=16,
    rules=(
        keys_match("[a-z0-9]{1,16}-[a-z0-9_]{1,16}", "one of its keys is not a valid platform such as linux-amd64"),
    ),
)


@declared(not_of_the_kernel("path"))
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArtifact:
    """A kubelet inside an image."""

    ref: Annotated[
        str,
        "Reference of the image, with its registry and pinned by digest.",
        Field(
            max_length=IMAGE_LENGTH,
            pattern=IMAGE,
            expected="an image with its registry, pinned by its digest, such as "
            "registry.example/kubelet@sha256:…64 hexadecimal digits…",
        ),
    ]
    path: Annotated[str, _PATH, "Path of the kubelet inside the image."]
    sha256: Annotated[
        str | None,
        _SHA256,
        "SHA-256 of the kubelet inside the image, in hexadecimal. If unset, the digest of the image is sufficient, and "
        "the SHA-256 of the kubelet is recorded in the task's status.",
    ] = None
    pull_secret: Annotated[
        str | None,
        "Name of a Secret in the operator's namespace that is used to pull the image. In the same pod, it replaces the "
        "service account's pull secrets for the operator's own image too.",
        Field(min_length=1, max_length=NAME_LENGTH),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A kubelet to download."""

    url: Annotated[
        str,
        "URL to download the kubelet from.",
        Field(
            max_length=URL_LENGTH,
            pattern=URL,
            expected="an https or http URL without user, query, fragment and escapes",
        ),
    ]
    sha256: Annotated[str, _SHA256]


@declared(not_of_the_kernel("path"))
@dataclass(frozen=True, slots=True, kw_only=True)
class PreStagedFile:
    """A kubelet that is already on the node."""

    path: Annotated[str, _PATH, "Absolute path of the file on the node."]
    sha256: Annotated[str, _SHA256]


@declared(Field(expected="one of image, platforms and preStaged"), one_of("image", "platforms", "preStaged"))
@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Where the kubelet binary comes from. Exactly one source must be set, and each has a digest."""

    image: Annotated[ImageArtifact | None, "A container image that contains the kubelet. It does not need a shell."] = (
        None
    )
    platforms: Annotated[
        Mapping[str, Download] | None, _BY_PLATFORM, "Downloads, keyed by platform, for example linux-amd64."
    ] = None
    pre_staged: Annotated[
        Mapping[str, PreStagedFile] | None, _BY_PLATFORM, "Files that already exist on the nodes, keyed by platform."
    ] = None

    def serves(self, platform: str) -> bool:
        """Report whether there is a kubelet for a platform; an image serves every platform that its index lists."""
        return self.image is not None or platform in {**(self.platforms or {}), **(self.pre_staged or {})}

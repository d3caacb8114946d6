"""``spec.files``: files of the nodes that are replaced together with the kubelet."""

from dataclasses import dataclass
from typing import Annotated, Final

from nodeupgrade.api.field import SHA256, Field, Rule, declared, one_of
from nodeupgrade.api.limits import NAME_LENGTH, PATH_LENGTH
from nodeupgrade.api.locations import PATH, not_of_the_kernel

MOST_FILES: Final = 16
LARGEST_FILE: Final = 1024 * 1024
"""Bytes; about as much as a ConfigMap or Secret can hold."""

_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*"
"""Neither ``..`` nor a hidden file: those of a run are hidden."""
_PLACES: Final = (
    rf"/etc/(kubernetes|kubelet)(/{_NAME})+",
    rf"/etc/systemd/system/{_NAME}\.service\.d/{_NAME}\.conf",
    r"/etc/(default|sysconfig)/kubelet",
    r"/var/lib/kubelet/(config\.yaml|instance-config\.yaml|kubeadm-flags\.env|config\.json)",
    rf"/var/lib/kubelet/(config\.d|credential-provider)/{_NAME}",
)
STATIC_PODS: Final = "/etc/kubernetes/manifests/"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyReference:
    """A key of a ConfigMap or Secret in the operator's namespace."""

    name: Annotated[
        str, "Name of the object, in the operator's namespace.", Field(min_length=1, max_length=NAME_LENGTH)
    ]
    key: Annotated[
        str,
        "The key whose value is the content of the file.",
        Field(
            min_length=1,
            max_length=NAME_LENGTH,
            pattern="[-._a-zA-Z0-9]+",
            expected="a key of letters, digits, hyphens, underscores and dots",
        ),
    ]


@declared(
    one_of("configMapKeyRef", "secretKeyRef", "imagePath"),
    Rule(
        f"!self.path.startsWith('{STATIC_PODS}')",
        "manifests of static pods cannot be replaced with the kubelet; change them separately",
    ),
    not_of_the_kernel("imagePath"),
)
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    """A file to replace, and the source of its content; exactly one source is set."""

    path: Annotated[
        str,
        "Absolute path of the file on the node.",
        Field(
            max_length=PATH_LENGTH,
            pattern=f"({'|'.join(_PLACES)})",
            expected="a file of the kubelet's configuration: below /etc/kubernetes or /etc/kubelet, a drop-in of its "
            "unit, /etc/default/kubelet, /etc/sysconfig/kubelet, or in /var/lib/kubelet one of config.yaml, "
            "instance-config.yaml, kubeadm-flags.env, config.json, config.d/… and credential-provider/…",
        ),
    ]
    mode: Annotated[
        str,
        "Permissions of the file in octal, for example 0644. Only root may have write permission.",
        Field(
            max_length=4,
            pattern="0[0-7][0145][0145]",
            expected='permissions such as "0644", without write permission for group and others',
            defaulted=True,
        ),
    ] = "0600"
    sha256: Annotated[str, SHA256, "SHA-256 of the content, in hexadecimal, as printed by sha256sum."]
    config_map_key_ref: Annotated[KeyReference | None, "Takes the content from a ConfigMap."] = None
    secret_key_ref: Annotated[KeyReference | None, "Takes the content from a Secret."] = None
    image_path: Annotated[
        str | None,
        "Takes the content from this path inside the image of artifact.image.",
        Field(
            max_length=PATH_LENGTH,
            pattern=PATH,
            expected="an absolute path such as /config.yaml, without . and .., % and \\",
        ),
    ] = None

    @property
    def permissions(self) -> int:
        """The mode as a number."""
        return int(self.mode, 8)

    @property
    def source(self) -> str:
        """Where the content comes from, for messages."""
        if (config_map := self.config_map_key_ref) is not None:
            return f"key {config_map.key} of ConfigMap {config_map.name}"
        if (secret := self.secret_key_ref) is not None:
            return f"key {secret.key} of Secret {secret.name}"
        return f"{self.image_path} in the artifact's image"


FILES = Field(
    "Files to replace together with the kubelet, such as its configuration file, environment file, certificates, or a"
    " drop-in of its unit. A rollback restores them. A file that already has the content is left unchanged. The "
    "operator's configuration lists the permitted paths; by default there are none.",
    max_items=MOST_FILES,
    defaulted=True,
    rules=(
        Rule(
            "self.all(one, self.exists_one(other, other.path == one.path))",
            "two files have the same path; each path must be unique",
        ),
    ),
)
NEEDS_IMAGE = Rule(
    "has(self.artifact.image) || self.files.all(file, !has(file.imagePath))", "files[].imagePath needs artifact.image"
)

"""The errors of this package; none of them ever comes with a number.

HashError
├── UnhashableContainer   this container cannot be hashed surely; the message names it and the field
├── UnsupportedKubelet    the tables do not cover this kubelet; nothing is assumed about it
└── StaticUidUnknown      the UID of this static pod cannot be computed; pin it in the manifest
"""

from typing import Self


class HashError(Exception):
    """A hash cannot be computed surely, so none is given. The caller refuses; trying again changes nothing."""


class UnsupportedKubelet(HashError):
    """The kubelet version lies outside the tables, or is not a Kubernetes version at all.

    Attributes:
        version: the version as it was given.
    """

    def __init__(self, version: str, reason: str) -> None:
        super().__init__(f"cannot hash for kubelet {version} because {reason}")
        self.version = version


class UnhashableContainer(HashError):
    """A container holds something whose hash is not certain.

    Attributes:
        container: the container's name, empty when it has none.
        path: the field, as in `resources.limits.cpu` or `env[3].value`; empty for the container itself.
        reason: what is wrong there.
    """

    def __init__(self, container: str, path: str, reason: str) -> None:
        where = f" at {path}" if path else ""
        super().__init__(f"cannot hash container {container!r} because{where} {reason}")
        self.container = container
        self.path = path
        self.reason = reason


class UnreadablePod(HashError):
    """An object that should be a pod is not shaped like one.

    Attributes:
        pod: its name, empty when it has none.
        path: the field that does not fit, such as `spec.containers`.
    """

    def __init__(self, pod: str, path: str, reason: str) -> None:
        super().__init__(f"cannot read pod {pod!r} because at {path} {reason}")
        self.pod = pod
        self.path = path


class StaticUidUnknown(HashError):
    """The UID a kubelet would give to a static pod cannot be computed from outside that kubelet.

    Attributes:
        pod: the static pod's name.
    """

    def __init__(self, pod: str, reason: str) -> None:
        super().__init__(
            f"cannot compute the UID of static pod {pod!r} because {reason}; "
            "set metadata.uid in its manifest to the UID it has now"
        )
        self.pod = pod


class Misfit(Exception):
    """A value does not fit the field that holds it. Internal: `hashing` turns it into UnhashableContainer.

    The path is collected while the exception travels outwards, so that rendering a sound container pays nothing.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []

    def inside(self, step: str | int) -> Self:
        """Note the field name or list index that was being rendered."""
        self.steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
        return self

    @property
    def path(self) -> str:
        """The field path from the container down, such as `env[0].value`."""
        return "".join(reversed(self.steps)).removeprefix(".")

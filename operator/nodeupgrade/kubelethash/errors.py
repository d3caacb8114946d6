"""The errors of this package. An error means that no hash is returned, not even a guess.

HashError
├── UnhashableContainer   this container's hash is not certain; the message names the container and the field
├── UnreadablePod         this object is not shaped like a pod
└── UnsupportedKubelet    the tables do not cover this kubelet; nothing is assumed about it
"""

from typing import Self


class HashError(Exception):
    """A hash cannot be computed with certainty, so none is returned. Callers must refuse; a retry changes nothing."""


class UnsupportedKubelet(HashError):
    """The tables do not cover the kubelet version, or it is not a Kubernetes version at all."""

    def __init__(self, version: str, reason: str) -> None:
        super().__init__(f"cannot hash for kubelet {version} because {reason}")


class UnhashableContainer(HashError):
    """A container has a field whose hash is not certain.

    Attributes:
        container: the container's name; empty if it has none.
        path: the field, as in `resources.limits.cpu` or `env[3].value`; empty for the container itself.
    """

    def __init__(self, container: str, path: str, reason: str) -> None:
        where = f" at {path}" if path else ""
        super().__init__(f"cannot hash container {container!r} because{where} {reason}")
        self.container = container
        self.path = path


class UnreadablePod(HashError):
    """An object is not shaped like a pod.

    Attributes:
        path: the field that is wrong, such as `spec.containers`.
    """

    def __init__(self, pod: str, path: str, reason: str) -> None:
        super().__init__(f"cannot read pod {pod!r} because at {path} {reason}")
        self.path = path


class Misfit(Exception):
    """A value does not fit the type of its field. Internal: public functions turn it into an error of their own.

    The path is collected while the exception propagates, so that rendering a valid container costs nothing extra.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []

    def inside(self, step: str | int) -> Self:
        """Add the field name or list index that was being rendered to the path."""
        self.steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
        return self

    @property
    def path(self) -> str:
        """The path of the field below the container, such as `env[0].value`."""
        return "".join(reversed(self.steps)).removeprefix(".")

"""A NodeUpgrade as a person asks for it in a line, with everything in it that has to be written down."""

from collections.abc import Iterable, Mapping

from nodeupgrade.api.json import Json
from nodeupgrade.cli.program import CannotError
from nodeupgrade.domain.rollout.lint import lint
from nodeupgrade.ports.kube import UPGRADES

IN_IMAGE = "/kubelet"

_OFFICIAL = "https://dl.k8s.io/"


def object_of(name: str, version: str, artifact: Json, nodes: Json) -> Json:
    """Return the object.

    Raises:
        CannotError: it would not be valid; the message names the field.
    """
    body = {
        "apiVersion": UPGRADES.api_version,
        "kind": UPGRADES.kind,
        "metadata": {"name": name or f"kubelet-{version.removeprefix('v').replace('.', '-')}"},
        "spec": {"version": version, "artifact": artifact, "nodes": nodes},
    }
    if wrong := next((finding for finding in lint(body) if finding.forbids), None):
        raise CannotError(f"cannot write this NodeUpgrade because of {wrong.subject}: {wrong.detail}")
    return body


def from_image(ref: str, path: str) -> Json:
    """Return the artifact for an image.

    Raises:
        CannotError: the image is not pinned.
    """
    if "@sha256:" not in ref:
        raise CannotError(
            f"cannot use the image {ref} because it is not pinned, and its tag may mean another kubelet tomorrow; add "
            "@sha256:… to it: the digest that the push printed, or that "
            f"`skopeo inspect --format '{{{{.Digest}}}}' docker://{ref}` prints"
        )
    return {"image": {"ref": ref, "path": path}}


def from_url(url: str, version: str, digests: Mapping[str, str]) -> Json:
    """Return the artifact for downloads, one for each platform; ``{os}``, ``{arch}`` and ``{version}`` are filled in.

    Raises:
        CannotError: there is no digest, or several platforms would get the same file.
    """
    if not digests:
        where = f"{_filled(url, version, 'linux-amd64')}.sha256"
        printed = f"`curl --location {where}`" if url.startswith(_OFFICIAL) else "`sha256sum kubelet`"
        raise CannotError(
            "cannot write this NodeUpgrade because a download needs the SHA-256 of the kubelet for each platform of "
            f"the nodes; add --sha256 linux-amd64=… with what {printed} prints"
        )
    urls = {platform: _filled(url, version, platform) for platform in digests}
    if len(set(urls.values())) < len(urls):
        raise CannotError(
            f"cannot write this NodeUpgrade because {', '.join(urls)} would all get {url}; write {{os}} and {{arch}} "
            "into the URL where they differ"
        )
    return {"platforms": {platform: {"url": urls[platform], "sha256": digest} for platform, digest in digests.items()}}


def _filled(url: str, version: str, platform: str) -> str:
    os, _, arch = platform.partition("-")
    for name, value in {"os": os, "arch": arch, "version": version}.items():
        url = url.replace(f"{{{name}}}", value)
    return url


def nodes_of(selectors: Iterable[str], names: Iterable[str], *, every: bool) -> Json:
    """Return the nodes that are selected, from label selectors as kubectl takes them, and names."""
    labels: dict[str, str] = {}
    terms: list[Json] = []
    for term in (each.strip() for selector in selectors for each in selector.split(",")):
        key, differs, value = term.partition("!=")
        if differs:
            terms.append({"key": key.strip(), "operator": "NotIn", "values": [value.strip()]})
        elif "=" in term:
            key, _, value = term.partition("=")
            labels[key.strip()] = value.removeprefix("=").strip()
        else:
            absent = term.startswith("!")
            terms.append({"key": term.removeprefix("!"), "operator": "DoesNotExist" if absent else "Exists"})
    selector: Json = {}
    if labels:
        selector["matchLabels"] = labels
    if terms:
        selector["matchExpressions"] = terms
    nodes: Json = {"selector": selector} if selector else {}
    if listed := list(names):
        nodes["names"] = listed
    if every:
        nodes["all"] = True
    return nodes

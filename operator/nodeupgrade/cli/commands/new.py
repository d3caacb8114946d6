"""`nodeupgrade new`: write a NodeUpgrade that can be applied."""

import re
from collections.abc import Iterable, Mapping

import click

from nodeupgrade.api.json import Json
from nodeupgrade.cli.console import write
from nodeupgrade.cli.inputs.lint import lint
from nodeupgrade.cli.output import in_yaml
from nodeupgrade.cli.program import CannotError, command
from nodeupgrade.cluster.kube_api import UPGRADES

IN_IMAGE = "/kubelet"

_OFFICIAL = "https://dl.k8s.io/"

_COMMA = re.compile(r",(?![^(]*\))")
"""A comma between terms of a label selector, not one between the values of a term."""
_AMONG = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_OPERATORS = {"in": "In", "notin": "NotIn"}


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
            f"cannot use the image {ref} because it is not pinned, and its tag may refer to another kubelet later; add "
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
            f"the nodes; add --sha256 linux-amd64=… with the digest that {printed} prints"
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
    for term in (each.strip() for selector in selectors for each in _COMMA.split(selector)):
        key, differs, value = term.partition("!=")
        if among := _AMONG.fullmatch(term):
            values = [value.strip() for value in among["values"].split(",")]
            terms.append({"key": among["key"], "operator": _OPERATORS[among["operator"]], "values": values})
        elif differs:
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


def _by_platform(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse PLATFORM=DIGEST, several times."""
    found = dict[str, str]()
    for each in given:
        platform, equals, digest = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} names no platform; write linux-amd64={each}")
        if platform in found:
            raise click.BadParameter(f"{platform} is given twice")
        found[platform] = digest
    return found


@command(
    "new",
    "nodeupgrade new v1.33.13 --selector pool=web --image registry.example/kubelet@sha256:… > kubelet.yaml",
    "nodeupgrade new v1.33.13 --node node-17 --sha256 linux-amd64=… \\\n"
    "      --url 'https://dl.k8s.io/{version}/bin/{os}/{arch}/kubelet' > first-node.yaml",
    "nodeupgrade plan kubelet.yaml",
)
@click.argument("version")
@click.option("--image", metavar="IMAGE@DIGEST", help="Image that contains the kubelet, pinned by digest.")
@click.option("--path", default=IN_IMAGE, show_default=True, help="With --image: path of the kubelet in the image.")
@click.option("--url", help="URL from which nodes download the kubelet; {version}, {os} and {arch} are filled in.")
@click.option(
    "--sha256",
    "digests",
    multiple=True,
    callback=_by_platform,
    metavar="PLATFORM=DIGEST",
    help="With --url: SHA-256 of the kubelet for a platform such as linux-amd64. Once for each platform.",
)
@click.option("--selector", "-l", "selectors", multiple=True, help="Label selector of the nodes, as in kubectl.")
@click.option("--node", "names", multiple=True, help="Name of a node. Can be given several times.")
@click.option("--all", "every", is_flag=True, help="All nodes, except those of the control plane.")
@click.option("--name", default="", help="Name of the NodeUpgrade.  [default: from the version]")
def new_command(
    *,
    version: str,
    image: str | None,
    path: str,
    url: str | None,
    digests: dict[str, str],
    selectors: tuple[str, ...],
    names: tuple[str, ...],
    every: bool,
    name: str,
) -> None:
    """Write a NodeUpgrade for VERSION that passes lint.

    It is printed as YAML, and upgrades nodes one at a time, until the first failure; edit it for more. The operator's
    configuration decides where kubelets may come from: an object with another source is refused (NotAllowed).
    """
    if image is None and url is None:
        raise click.UsageError("specify where the kubelet comes from: --image or --url")
    if image is not None and url is not None:
        raise click.UsageError("the kubelet comes from one place: leave out --image or --url")
    if url is None and digests:
        raise click.UsageError("--sha256 can only be used with --url; an image is pinned by its own digest")
    if not (selectors or names or every):
        raise click.UsageError("specify the nodes: --selector, --node or --all")
    if every and (selectors or names):
        raise click.UsageError("--all selects every node already: leave it out, or --selector and --node")
    artifact = from_image(image, path) if image is not None else from_url(url or "", version, digests)
    write(in_yaml(object_of(name, version, artifact, nodes_of(selectors, names, every=every))))

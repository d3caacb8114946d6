"""`nodeupgrade new`: write a NodeUpgrade that can be applied."""

import click

from nodeupgrade.cli.console import write
from nodeupgrade.cli.output import in_yaml
from nodeupgrade.cli.program import command
from nodeupgrade.cli.reports.new import IN_IMAGE, from_image, from_url, nodes_of, object_of


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
@click.option("--image", metavar="IMAGE@DIGEST", help="An image with the kubelet in it, pinned by its digest.")
@click.option("--path", default=IN_IMAGE, show_default=True, help="With --image: where the kubelet is in it.")
@click.option("--url", help="Where nodes download the kubelet; {version}, {os} and {arch} are filled in.")
@click.option(
    "--sha256",
    "digests",
    multiple=True,
    callback=_by_platform,
    metavar="PLATFORM=DIGEST",
    help="With --url: the SHA-256 of the kubelet for a platform such as linux-amd64. Once for each platform.",
)
@click.option("--selector", "-l", "selectors", multiple=True, help="Labels of the nodes, as kubectl takes them.")
@click.option("--node", "names", multiple=True, help="The name of a node. Can be given several times.")
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
    """Write a NodeUpgrade to VERSION that lint accepts.

    It is printed as YAML, and changes nodes one at a time, until the first failure; edit it for more. Where kubelets
    may come from is decided by whoever installs the operator: an object with another source is refused (NotAllowed).
    """
    if (image is None) == (url is None):
        raise click.UsageError("say where the kubelet comes from: --image or --url")
    if url is None and digests:
        raise click.UsageError("--sha256 belongs to --url; an image is pinned by its own digest")
    if not (selectors or names or every):
        raise click.UsageError("say which nodes: --selector, --node or --all")
    artifact = from_image(image, path) if image is not None else from_url(url or "", version, digests)
    write(in_yaml(object_of(name, version, artifact, nodes_of(selectors, names, every=every))))

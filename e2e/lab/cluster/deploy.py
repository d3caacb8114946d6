"""Deploy the operator into a lab: its image to every node, its manifests to the API server."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from e2e.lab import naming
from e2e.lab.cluster import definitions, images, oldtokens
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes import kubeadmfiles, nodefiles
from e2e.lab.progress import Progress, Quiet
from e2e.lab.workloads import splitpods
from nodeupgrade.cluster.agent_pods import VARIABLE

CHECKOUT = Path(__file__).resolve().parents[3]
NAMESPACE = "nodeupgrade-system"
DEPLOYMENT = "nodeupgrade-operator"
FAILPOINTS = "/var/lib/failpoints"
"""Directory on the nodes where tests leave orders for executors and agents; usually there is none."""

HOOKS = "set-flag", "unset-flag"
"""CronJobs that hooks may be made from, where a test creates them."""

_READY_SECONDS = 180
_ATTEMPTS = 5
_ALLOWED = {
    "urls": [f"http://{naming.CONTROL_PLANE_ADDRESS}:{naming.HTTP_PORT}"],
    "paths": ["/"],
    "images": [images.ARTIFACT],
    "units": ["kubelet.service", "other.service"],
    "files": [nodefiles.KUBELET_CONFIG, kubeadmfiles.FLAGS, "/etc/systemd/system/kubelet.service.d"],
    "hooks": [*HOOKS],
}
"""What the tests bring onto the nodes, and places where nothing is."""


def deploy_operator(lab: Lab, progress: Progress | None = None) -> images.Image:
    """Build the operator's image, deploy it as a user would and wait until it is available; return the image.

    Raises:
        LabError: it does not become available; the message ends with its output.
    """
    progress = progress or Quiet()
    image = images.operator(progress)
    progress.say(f"lab {lab.name}: deploying {image.pinned}")
    import_pinned(lab, image)
    oldtokens.serve(lab, NAMESPACE)
    by_digest = all(node.runtime.keeps_digests for node in lab.nodes.values())
    with tempfile.TemporaryDirectory(prefix="nodeupgrade-") as directory:
        lab.kubectl(
            "apply",
            "--kustomize",
            str(_manifests(Path(directory), image, by_digest=by_digest)),
            timeout=_READY_SECONDS,
        )
    definitions.wait_until_established(lambda *argv: lab.kubectl(*argv).stdout, *definitions.OURS)
    wait_available(lab)
    progress.say(f"lab {lab.name}: the operator is available")
    return image


def import_pinned(lab: Lab, image: images.Image, nodes: Sequence[str] | None = None) -> None:
    """Import an image on `nodes` (default: all) under its tag and its digest, so that neither needs a registry.

    Docker knows it by its tag only.
    """
    lab.import_image(image.archive, nodes)


def _manifests(directory: Path, image: images.Image, *, by_digest: bool) -> Path:
    """Copy the manifests and set their image, as `kustomize edit set image` does.

    By its digest, unless a node's runtime cannot use that.
    """
    for name in ("crds", "manifests"):
        shutil.copytree(CHECKOUT / name, directory / name)
    (directory / "manifests/allowed.yaml").write_text(yaml.safe_dump(_ALLOWED))
    file = directory / "manifests/kustomization.yaml"
    kustomization = yaml.safe_load(file.read_text())
    repository, _, digest = image.pinned.partition("@")
    chosen = {"digest": digest} if by_digest else {"newTag": image.tagged.rpartition(":")[2]}
    kustomization["images"] = [{"name": "nodeupgrade", "newName": repository, **chosen}]
    kustomization["patches"] = [*kustomization.get("patches", ()), {"patch": yaml.safe_dump(_with_failpoints())}]
    file.write_text(yaml.safe_dump(kustomization))
    return file.parent


def _with_failpoints() -> dict[str, object]:
    """Return a patch of the operator, which passes the variable on to its agents."""
    container = {"name": "operator", "env": [{"name": VARIABLE, "value": FAILPOINTS}]}
    metadata = {"name": DEPLOYMENT, "namespace": NAMESPACE}
    spec = {"template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def wait_available(lab: Lab) -> None:
    """Wait until the operator is available; pods that the runtime has split are made anew.

    Raises:
        LabError: it does not become available; the message ends with its output.
    """
    in_namespace = ("--namespace", NAMESPACE)
    rollout = ("rollout", "status", f"deployment/{DEPLOYMENT}")
    for _ in range(_ATTEMPTS):
        if lab.kubectl_wait(*in_namespace, *rollout, check=False, timeout=_READY_SECONDS).returncode != 0:
            break
        if not splitpods.make_anew(lab, NAMESPACE):
            return
    pods = lab.kubectl(*in_namespace, "describe", "pods", check=False).stdout
    logs = lab.kubectl(*in_namespace, "logs", f"deployment/{DEPLOYMENT}", "--tail=40", check=False).stdout
    raise LabError(f"the operator is not available after {_READY_SECONDS} s:\n{pods[-3000:]}\n{logs}")

"""GitOps on a real kube-apiserver: who owns which field, what is applied twice, what a person sets in between."""

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.process import CommandError
from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import FINALIZER, PAUSE_ANNOTATION
from nodeupgrade.cli.commands.steering import MANAGER
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import UPGRADES
from tests.contract.gitops.examples import EXAMPLES, files, upgrades
from tests.contract.gitops.kstatus import IN_PROGRESS, kstatus, waited_for
from tests.contract.gitops.real_judges import JUDGES, tell
from tests.contract.gitops.recorded import load
from tests.contract.go_program import have
from tests.contract.kube.apiserver import ApiServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

MERGE = "kustomize.toolkit.fluxcd.io/ssa"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_dry_run_needs_no_operator(api_server: ApiServer, path: Path) -> None:
    for way in ([], ["--server-side", "--field-manager=argocd-controller"]):
        told = api_server.kubectl("apply", "--dry-run=server", *way, "-f", str(path))
        assert "server dry run" in told


async def test_flux_and_the_operator_do_not_fight(admin: KubeClient, api_server: ApiServer) -> None:
    body = example("no-fight-flux")
    assert flux_applies(api_server, body) == "created"
    assert kstatus(await admin.get(UPGRADES, "no-fight-flux")) == IN_PROGRESS
    before = await operator_works(admin, "no-fight-flux")

    assert flux_applies(api_server, body) == "unchanged"

    assert await admin.get(UPGRADES, "no-fight-flux") == before


async def test_argo_cd_and_the_operator_do_not_fight(admin: KubeClient, api_server: ApiServer, tmp_path: Path) -> None:
    manifest = tmp_path / "upgrade.yaml"
    manifest.write_text(json.dumps(example("no-fight-argo")))
    apply = "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", str(manifest)
    api_server.kubectl(*apply)
    before = await operator_works(admin, "no-fight-argo")

    api_server.kubectl(*apply)

    assert await admin.get(UPGRADES, "no-fight-argo") == before


@pytest.mark.parametrize(
    ("policy", "flags", "lasts"),
    [
        pytest.param({}, [], False, id="plain"),
        pytest.param({MERGE: "Merge"}, [], True, id="merge"),
        pytest.param({}, ["--field-manager=flux-client-side-apply"], True, id="manager"),
        pytest.param({}, [f"--field-manager={MANAGER}", "--overwrite"], True, id="our command line"),
    ],
)
async def test_emergency_brake_under_flux(
    api_server: ApiServer, policy: dict[str, str], flags: list[str], *, lasts: bool
) -> None:
    """What kubectl annotates Flux takes away again, unless it is told not to."""
    name = f"brake-{len(policy)}-{len(flags)}"
    body = example(name, policy)
    flux_applies(api_server, body)
    api_server.kubectl("annotate", f"nu/{name}", f"{PAUSE_ANNOTATION}=true", *flags)

    flux_applies(api_server, body)

    metadata = json.loads(api_server.kubectl("get", f"nu/{name}", "-o", "json"))["metadata"]
    assert (PAUSE_ANNOTATION in metadata.get("annotations", {})) == lasts
    assert metadata["generation"] == 1


async def test_emergency_brake_under_argo_cd(admin: KubeClient, api_server: ApiServer, tmp_path: Path) -> None:
    manifest = tmp_path / "upgrade.yaml"
    manifest.write_text(json.dumps(example("brake-argo")))
    apply = "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", str(manifest)
    api_server.kubectl(*apply)
    api_server.kubectl("annotate", "nu/brake-argo", f"{PAUSE_ANNOTATION}=true")

    api_server.kubectl(*apply)

    assert (await admin.get(UPGRADES, "brake-argo"))["metadata"]["annotations"][PAUSE_ANNOTATION] == "true"


def test_edit_of_a_frozen_field_is_rejected_whole(api_server: ApiServer) -> None:
    """What else the same commit changes is not applied either."""
    body = example("frozen")
    flux_applies(api_server, body)
    before = api_server.kubectl("get", "nu/frozen", "-o", "json")
    edited = {**body, "spec": {**body["spec"], "version": "v1.32.0", "action": "Pause"}}

    with pytest.raises(CommandError, match="immutable"):
        flux_applies(api_server, edited)

    assert api_server.kubectl("get", "nu/frozen", "-o", "json") == before


@pytest.mark.parametrize("moment", load())
async def test_kubectl_wait(admin: KubeClient, api_server: ApiServer, moment: str) -> None:
    body, name = load()[moment], f"wait-{moment}"
    await stand_up(admin, name, body)

    for wanted in ("True", "False"):
        met = kubectl_waits(api_server, name, f"Succeeded={wanted}")
        assert met == waited_for(body, "Succeeded", wanted), wanted
    await admin.merge(UPGRADES, name, {"metadata": {"finalizers": []}})


def example(name: str, annotations: dict[str, str] | None = None) -> Json:
    """Return an example under another name; its annotations are those given."""
    body = copy.deepcopy(next(iter(upgrades("argocd").values())))
    return {**body, "metadata": {"name": name, **({"annotations": annotations} if annotations else {})}}


def flux_applies(api_server: ApiServer, body: Json) -> str:
    """Let Flux's own code apply an object, and say what it did."""
    have(JUDGES)
    action: str = tell("apply", {"kubeconfig": str(api_server.kubeconfig()), "object": body})["action"]
    return action


async def operator_works(admin: KubeClient, name: str) -> Json:
    """Write what the operator writes: the finalizer and the status."""
    await admin.merge(UPGRADES, name, {"metadata": {"finalizers": [FINALIZER]}})
    await admin.replace_status(UPGRADES, name, load()["running"]["status"])
    await admin.merge(UPGRADES, name, {"metadata": {"annotations": {PAUSE_ANNOTATION: "true"}}})
    return await admin.get(UPGRADES, name)


async def stand_up(admin: KubeClient, name: str, recorded: Json) -> None:
    """Bring a recorded object onto the API server, with generation, status and deletion as recorded."""
    spec = copy.deepcopy(next(iter(upgrades("argocd").values())))["spec"]
    metadata = {"name": name, "finalizers": [FINALIZER]}
    await admin.create(
        UPGRADES, {**{key: recorded[key] for key in ("apiVersion", "kind")}, "metadata": metadata, "spec": spec}
    )
    for minutes in range(1, recorded["metadata"]["generation"]):
        await admin.merge(UPGRADES, name, {"spec": {"timeouts": {"node": f"{minutes}m"}}})
    if "conditions" in recorded["status"]:
        await admin.replace_status(UPGRADES, name, recorded["status"])
    if "deletionTimestamp" in recorded["metadata"]:
        await admin.delete(UPGRADES, name)
    stored: dict[str, Any] = (await admin.get(UPGRADES, name))["metadata"]
    assert stored["generation"] >= recorded["metadata"]["generation"]


def kubectl_waits(api_server: ApiServer, name: str, condition: str) -> bool:
    """Whether ``kubectl wait`` returns at once."""
    told = [str(api_server.kubectl_binary), f"--kubeconfig={api_server.kubeconfig()}", "wait", f"nu/{name}"]
    argv = [*told, f"--for=condition={condition}", "--timeout=0"]  # looks once
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0 or "condition not met" in done.stderr, done.stderr
    return done.returncode == 0

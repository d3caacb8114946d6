"""The chart with many values, judged by a real API server, and its way from one version to the next."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab.binaries.programs import helm
from nodeupgrade.api.json import Json
from tests.contract.install.having import have
from tests.contract.kube.apiserver import ApiServer, running
from tools import generate_chart
from tools.documents import documents

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

NAMESPACE = "nodeupgrade-system"
MONITORING_KINDS = {"ServiceMonitor", "PrometheusRule"}
"""Of the Prometheus operator, which the API server here does not serve."""

_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["system"]}]}]
        }
    }
}
_SPREAD = [
    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {}}}
]
_CERTIFICATES = {
    "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
}
_PROXY = [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}, {"name": "NO_PROXY", "value": "10.0.0.0/8"}]
_FROM_A_SECRET = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]

VALUES: dict[str, Json] = {
    "none": {},
    "a mirror": {"image": {"repository": "mirror.example/nodeupgrade"}},
    "a tag": {"image": {"tag": "v1.2.3"}},
    "a digest": {"image": {"digest": f"sha256:{'a' * 64}"}},
    "always pulled": {"image": {"pullPolicy": "Always"}},
    "a pull secret": {"imagePullSecrets": [{"name": "registry"}]},
    "one replica": {"replicas": 1},
    "no replica": {"replicas": 0},
    "no resources": {"resources": None},
    "resources": {"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}},
    "a pool": {"nodeSelector": {"pool": "system"}},
    "no tolerations": {"tolerations": None},
    "a toleration": {"tolerations": [{"key": "system", "operator": "Exists"}]},
    "affinity": {"affinity": _AFFINITY},
    "no spread": {"topologySpreadConstraints": None},
    "a spread": {"topologySpreadConstraints": _SPREAD},
    "another priority": {"priorityClassName": "system-cluster-critical"},
    "pod labels": {"podLabels": {"team": "nodes"}},
    "no annotations": {"podAnnotations": None},
    "an annotation less": {"podAnnotations": {"prometheus.io/scrape": None}},
    "a proxy": {"env": _PROXY},
    "environment from a secret": {"env": _FROM_A_SECRET},
    "certificates": _CERTIFICATES,
    "allowed images": {"allowed": {"images": ["registry.example/kubelets"]}},
    "allowed hooks": {"allowed": {"hooks": ["set-noout", "unset-noout"]}},
    "nothing allowed": {"allowed": {"urls": [], "paths": [], "units": []}},
    "a budget of numbers": {"maxInFlight": 20, "maxUnavailable": 0},
    "a budget of a percentage": {"maxInFlight": "5%", "maxUnavailable": None},
    "no definitions": {"crds": {"install": False}},
    "definitions that go": {"crds": {"keep": False}},
    "definitions without rules": {"crds": {"validationRules": "Omit"}},
    "no policies": {"admissionPolicies": "Omit"},
    "nodes/proxy": {"nodesProxy": True},
    "four eyes": {"fourEyes": True},
    "Cluster API": {"clusterAPI": {"enabled": True, "rollouts": {"artifacts": {"v1.33.13": {"image": {}}}}}},
    "Machines elsewhere": {"clusterAPI": {"enabled": True, "machinesKubeconfigSecret": "management"}},
    "monitoring": {"monitoring": {"serviceMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}}},
    "a dashboard": {"monitoring": {"dashboard": True}},
    "cleanup": {"cleanup": True},
    "no check": {"uninstallCheck": False},
    "all at once": {
        "image": {"repository": "mirror.example/nodeupgrade", "digest": f"sha256:{'b' * 64}"},
        "imagePullSecrets": [{"name": "registry"}],
        "replicas": 3,
        "affinity": _AFFINITY,
        "env": [*_PROXY, *_FROM_A_SECRET],
        "podLabels": {"team": "nodes"},
        "monitoring": {"dashboard": True},
        "nodesProxy": True,
        "cleanup": True,
        **_CERTIFICATES,
    },
}


def run(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    argv = [have(helm), *arguments, f"--namespace={NAMESPACE}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, **more)


def objects(values: Json, tmp_path: Path) -> list[Json]:
    """Return what the chart renders with these values."""
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    done = run("template", "nodeupgrade", str(generate_chart.CHART), f"--values={file}", "--kube-version=1.33.0")
    assert done.returncode == 0, done.stderr
    return [*documents(done.stdout)]


def objection(server: ApiServer, bodies: list[Json]) -> str:
    """Return what the API server objects to in objects, empty if nothing; nothing is stored."""
    apply = "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--filename=-"
    return server.kubectl_as("", *apply, stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))


def test_an_api_server_takes_what_the_chart_renders(api_server: ApiServer, tmp_path: Path) -> None:
    """Most objects do not depend on most values: each is sent once in every form that it has."""
    every = {name: objects(values, tmp_path) for name, values in VALUES.items()}
    unserved = {name for name, bodies in every.items() if MONITORING_KINDS & {body["kind"] for body in bodies}}
    assert unserved == {"monitoring"}
    forms = {json.dumps(body, sort_keys=True): body for bodies in every.values() for body in bodies}
    sent = [body for body in forms.values() if body["kind"] not in MONITORING_KINDS]
    deployments = [body for body in sent if body["kind"] == "Deployment"]
    assert len(deployments) > len(VALUES) / 2, "values have an effect"

    assert objection(api_server, sent) == ""


def test_a_wrong_value_that_helm_takes_would_be_refused(api_server: ApiServer) -> None:
    """The control: the API server looks at what it is given."""
    rendered = run("template", "nodeupgrade", str(generate_chart.CHART), "--set=env[0].nam=x", "--kube-version=1.33.0")
    (operator,) = (b for b in yaml.safe_load_all(rendered.stdout) if b and b["kind"] == "Deployment")
    assert "nam" in objection(api_server, [operator])


def test_definitions_that_kubectl_installed_are_named_with_what_to_do(api_server: ApiServer) -> None:
    install = "install", "nodeupgrade", str(generate_chart.CHART), "--dry-run=server"
    kubeconfig = f"--kubeconfig={api_server.kubeconfig()}"
    refused = run(*install, kubeconfig).stderr
    assert "--set crds.install=false" in refused
    assert "meta.helm.sh/release-name=nodeupgrade" in refused
    assert "CustomResourceDefinition" not in run(*install, kubeconfig, "--set=crds.install=false").stderr


def earlier(directory: Path) -> Path:
    """Write a chart as it was before it had its newest values."""
    generate_chart.write(directory, image="registry.example/nodeupgrade")
    (directory / "templates/uninstall-check.yaml").unlink()
    values = yaml.safe_load((directory / "values.yaml").read_text())
    schema = json.loads((directory / "values.schema.json").read_text())
    del values["uninstallCheck"], values["maxInFlight"], values["allowed"]["hooks"]
    del (
        schema["properties"]["uninstallCheck"],
        schema["properties"]["maxInFlight"],
        schema["properties"]["allowed"]["properties"]["hooks"],
    )
    (directory / "values.yaml").write_text(yaml.safe_dump(values))
    (directory / "values.schema.json").write_text(json.dumps(schema))
    about = (directory / "Chart.yaml").read_text()
    (directory / "Chart.yaml").write_text(re.sub(r"(?m)^version: .*$", "version: 0.0.1", about))
    return directory


def test_an_upgrade_of_the_chart_keeps_what_was_chosen(tmp_path: Path) -> None:
    try:
        server = running()
        with server as api:
            kubeconfig = f"--kubeconfig={api.kubeconfig()}"
            chosen = "--create-namespace", "--set=replicas=3", "--set=allowed.images[0]=mirror.example"
            old = run("install", "nodeupgrade", str(earlier(tmp_path / "old")), kubeconfig, *chosen)
            assert old.returncode == 0, old.stderr
            for how in ("--reuse-values", "--reset-then-reuse-values", "--reset-values"):
                _upgraded(api, kubeconfig, how)
                back = run("rollback", "nodeupgrade", "1", kubeconfig)
                assert back.returncode == 0, back.stderr
    except FileNotFoundError as error:
        if os.environ.get("NODEUPGRADE_E2E") == "required":
            raise
        pytest.skip(str(error))


def _upgraded(api: ApiServer, kubeconfig: str, how: str) -> None:
    new = run("upgrade", "nodeupgrade", str(generate_chart.CHART), kubeconfig, how)

    assert new.returncode == 0, new.stderr
    deployment = json.loads(api.kubectl("get", "deployment", "nodeupgrade-operator", f"-n{NAMESPACE}", "--output=json"))
    allowed = json.loads(api.kubectl("get", "configmaps", f"-n{NAMESPACE}", "--output=json"))["items"]
    texts = [text for body in allowed if "allowed" in body["metadata"]["name"] for text in body["data"].values()]
    kept = how != "--reset-values"
    assert deployment["spec"]["replicas"] == (3 if kept else 2)
    assert all(("mirror.example" in text) == kept for text in texts)
    assert any("hooks" in text for text in texts) == (how != "--reuse-values")

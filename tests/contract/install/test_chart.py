"""The chart installs what the manifests install."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.lab.binaries.programs import helm
from nodeupgrade.api.json import Json
from nodeupgrade.sources.allowlist import AllowedError, read_allowed
from tests.contract.install.having import have
from tests.contract.kube.conftest import ROOT
from tools import generate_chart
from tools.chart.templates import ChartError, template
from tools.chart.values import schema_of
from tools.documents import documents

NAMESPACE = "nodeupgrade-system"
SAME = ("image.tag=dev", "namespace.create=true", "crds.keep=false", "uninstallCheck=false")
"""Values with which the chart is compared with the manifests."""
MONITORING = ("monitoring.serviceMonitor=true", "monitoring.prometheusRule=true", "monitoring.dashboard=true")

Key = tuple[str, str, str]


def rendered(*values: str, kubernetes: str = "1.33.0", namespace: str = NAMESPACE) -> dict[Key, Json]:
    """Return the objects of the chart."""
    sets = [f"--set={value}" for value in values]
    argv = [have(helm), "template", "nodeupgrade", str(generate_chart.CHART), f"--namespace={namespace}"]
    done = subprocess.run(
        [*argv, f"--kube-version={kubernetes}", *sets], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return by_key(done.stdout)


def kustomized(folder: str) -> dict[Key, Json]:
    """Return the objects of a kustomization."""
    argv = ["kubectl", "kustomize", str(ROOT / folder)]
    return by_key(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120).stdout)


def by_key(text: str) -> dict[Key, Json]:
    """Return the objects of a YAML stream by kind, namespace and name, each of which must be there once.

    The name that follows from the content of what is allowed, and how that content is written, are the tools' own.
    """
    (name,) = set(re.findall(r"nodeupgrade-allowed-\w{10}", text)) or {"nodeupgrade-allowed"}
    objects = [*documents(text.replace(name, "nodeupgrade-allowed"))]
    for body in objects:
        if body["metadata"]["name"] == "nodeupgrade-allowed":
            body["data"] = {key: yaml.safe_load(content) for key, content in body["data"].items()}
    found = {(b["kind"], b["metadata"].get("namespace", ""), b["metadata"]["name"]): b for b in objects}
    assert len(found) == len(objects)
    return found


@pytest.mark.parametrize(
    "change", [("replicas: ", "replica: "), ("resources:", "resource:"), ("          image: ", "          imag: ")]
)
def test_a_place_that_is_not_found_is_an_error_and_no_value_without_effect(change: tuple[str, str]) -> None:
    text = (ROOT / "manifests/operator.yaml").read_text(encoding="utf-8")
    with pytest.raises(ChartError):
        template("operator.yaml", text.replace(*change))


PLACES = {
    "urls": (
        "https://dl.k8s.io", "https://dl.k8s.io/", "http://[::1]:8080/kubelets", "https://user@x.example", "dl.k8s.io",
    ),
    "paths": ("/", "/opt/kubelet", "/opt/kubelet/", "/opt/../etc", "/opt/*", "/proc/1"),
    "images": (
        "registry.example", "registry.example/", "localhost:5000/kubelets", "docker.io/library", "kubelet",
        "a.example/B", "a.example/b:v1", "a.example/b@sha256:0a", "a.example/*", "", "a.example/b\n",
    ),
    "files": ("/var/lib/kubelet/config.yaml", "var/lib", "/etc/%2e%2e"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "entry"), [(name, entry) for name, entries in PLACES.items() for entry in entries])
def test_the_chart_takes_the_places_that_the_operator_reads(name: str, entry: str) -> None:
    items = schema_of(generate_chart.chart_values())["properties"]["allowed"]["properties"][name]["items"]
    taken = re.search(items["pattern"].replace("$", r"\Z"), entry, re.ASCII) is not None
    try:
        read_allowed({name: [entry]})
    except AllowedError:
        assert not taken or entry == "/proc/1"
    else:
        assert taken


def test_every_value_is_used() -> None:
    templates = "".join(path.read_text(encoding="utf-8") for path in (generate_chart.CHART / "templates").iterdir())
    templates = templates.replace("$image.", ".Values.image.")
    unused = [
        each.name
        for each in generate_chart.chart_values()
        if not re.search(rf"\.Values\.{re.escape(each.name)}\b", templates)
    ]
    assert unused == []


@pytest.mark.real
@pytest.mark.timeout(1800)
class TestRendered:
    @pytest.mark.parametrize(
        ("folder", "kubernetes", "values"),
        [
            ("manifests", "1.33.0", ()),
            ("manifests", "1.28.0", ("admissionPolicies=Install",)),
            ("overlays/without-readiness-guard", "1.29.15", ()),
            ("overlays/without-readiness-guard", "1.33.0", ("admissionPolicies=Omit",)),
            ("overlays/without-cel", "1.24.17", ()),
            ("overlays/without-crds", "1.33.0", ("crds.install=false",)),
            ("overlays/with-nodes-proxy", "1.33.0", ("nodesProxy=true",)),
            ("overlays/with-four-eyes", "1.33.0", ("fourEyes=true",)),
            ("overlays/with-cluster-api", "1.33.0", ("clusterAPI.enabled=true",)),
            ("overlays/with-monitoring", "1.33.0-eks.1", MONITORING),
            ("overlays/with-cleanup", "1.33.0", ("cleanup=true",)),
        ],
    )
    def test_the_same_objects(self, folder: str, kubernetes: str, values: tuple[str, ...]) -> None:
        ours, theirs = rendered(*SAME, *values, kubernetes=kubernetes), kustomized(folder)
        if folder == "overlays/with-cluster-api":  # made by hand, or of the chart's values
            del ours["ConfigMap", NAMESPACE, "nodeupgrade-capi"]
        assert ours.keys() ^ theirs.keys() == set()
        for key, body in ours.items():
            assert body == theirs[key], key

    def test_what_came_with_1_19_is_nowhere_before(self) -> None:
        """Servers before 1.25 check no fields, but kubectl and Helm do, by the server's own description."""
        cleanup = (ROOT / "components/cleanup/cleanup.yaml").read_text(encoding="utf-8")
        found = (rendered("cleanup=true", kubernetes="1.16.15"), kustomized("overlays/without-cel"), by_key(cleanup))
        bodies = [body for each in found for body in each.values()]
        assert [body["metadata"]["name"] for body in bodies if "seccompProfile" in str(body)] == []

    def test_what_is_different_without_further_values(self) -> None:
        ours, theirs = rendered("image.tag=dev"), kustomized("manifests")
        check = ours.pop(("Job", NAMESPACE, "nodeupgrade-uninstall-check"))
        assert check["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
        assert theirs.keys() - ours.keys() == {("Namespace", "", NAMESPACE)}
        kept = {key for key, body in ours.items() if body["metadata"].get("annotations")}
        assert {kind for kind, _, _ in kept} == {"CustomResourceDefinition"}
        for key in kept:
            assert ours[key]["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
            theirs[key]["metadata"].pop("annotations", None)
        assert all(body == theirs[key] for key, body in ours.items())

    def test_each_value_has_its_effect(self) -> None:
        values = (
            "image.repository=registry.example/op", f"image.digest=sha256:{'a' * 64}", "image.pullPolicy=Always",
            "imagePullSecrets[0].name=pull", "replicas=0", "resources=null", "nodeSelector.pool=system",
            "tolerations=null", "cleanup=true",
        )  # fmt: skip
        found = rendered(*values)
        spec = found["Deployment", NAMESPACE, "nodeupgrade-operator"]["spec"]
        (operator,) = spec["template"]["spec"]["containers"]
        pinned = f"registry.example/op@sha256:{'a' * 64}"
        assert (operator["image"], operator["imagePullPolicy"], spec["replicas"]) == (pinned, "Always", 0)
        assert spec["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
        assert not operator["resources"]
        assert not spec["template"]["spec"]["tolerations"]
        accounts = [body for (kind, _, _), body in found.items() if kind == "ServiceAccount"]
        assert [each["imagePullSecrets"] for each in accounts] == [[{"name": "pull"}]] * 3
        assert set(re.findall(r'"image": "(.*?)"', json.dumps([*found.values()]))) == {pinned}

    def test_the_operators_pod_can_be_made_to_fit_a_cluster(self) -> None:
        found = rendered(
            "podLabels.team=nodes", "podLabels.app\\.kubernetes\\.io/name=other", "podAnnotations.note=yes-please",
            "podAnnotations.prometheus\\.io/scrape=null", "priorityClassName=high", "topologySpreadConstraints=null",
            "affinity.nodeAffinity.x=y", "env[0].name=HTTPS_PROXY", "env[0].value=http://proxy.example:3128",
            "volumes[0].name=extra", "volumeMounts[0].name=extra", "volumeMounts[0].mountPath=/extra",
        )  # fmt: skip
        template = found["Deployment", NAMESPACE, "nodeupgrade-operator"]["spec"]["template"]
        labels, annotations, pod = template["metadata"]["labels"], template["metadata"]["annotations"], template["spec"]
        ours = {"app.kubernetes.io/name": "nodeupgrade-operator", "app.kubernetes.io/part-of": "nodeupgrade"}
        assert labels == {**ours, "team": "nodes"}, "what the selector asks for stays"
        assert annotations["note"] == "yes-please"
        assert {"prometheus.io/port", "note"} <= annotations.keys()
        assert "prometheus.io/scrape" not in annotations
        assert (pod["priorityClassName"], pod["affinity"]) == ("high", {"nodeAffinity": {"x": "y"}})
        assert "topologySpreadConstraints" not in pod
        (operator,) = pod["containers"]
        assert operator["env"][-1] == {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}
        assert [each["name"] for each in operator["env"]][:2] == ["ALLOWED", "MAX_IN_FLIGHT"]
        assert pod["volumes"][-1] == {"name": "extra"}
        assert operator["volumeMounts"][-1] == {"name": "extra", "mountPath": "/extra"}

    def test_the_extension_of_cluster_api_reads_machines_elsewhere_and_the_kubelets_of_the_values(self) -> None:
        listed = "clusterAPI.rollouts.artifacts.v1\\.33\\.13.image.path=/kubelet"
        found = rendered("clusterAPI.enabled=true", "clusterAPI.machinesKubeconfigSecret=management", listed)
        pod = found["Deployment", NAMESPACE, "nodeupgrade-capi"]["spec"]["template"]["spec"]
        (extension,) = pod["containers"]
        (variable,) = extension["env"]
        (folder,) = (each["mountPath"] for each in extension["volumeMounts"] if each["name"] == "machines")
        assert variable == {"name": "MACHINES_KUBECONFIG", "value": f"{folder}/kubeconfig"}
        assert pod["volumes"][-1] == {"name": "machines", "secret": {"secretName": "management"}}
        file = found["ConfigMap", NAMESPACE, "nodeupgrade-capi"]["data"]["rollouts.yaml"]
        assert yaml.safe_load(file) == {"artifacts": {"v1.33.13": {"image": {"path": "/kubelet"}}}, "spec": {}}

    def test_applying_the_overlay_again_keeps_the_list_of_kubelets(self) -> None:
        assert ("ConfigMap", NAMESPACE, "nodeupgrade-capi") not in kustomized("overlays/with-cluster-api")

    def test_what_a_cluster_asks_of_pods_can_be_said(self) -> None:
        found = rendered(
            "podSecurityContext.runAsUser=null", "securityContext.runAsNonRoot=true", "revisionHistoryLimit=2",
            "livenessProbe.failureThreshold=9", "readinessProbe.periodSeconds=5", "serviceAccount.annotations.team=a",
            "extraObjects[0].apiVersion=v1", "extraObjects[0].kind=ConfigMap",
            "extraObjects[0].metadata.name=extra", "extraObjects[0].metadata.labels.of=\\{\\{ .Release.Name \\}\\}",
        )  # fmt: skip
        spec = found["Deployment", NAMESPACE, "nodeupgrade-operator"]["spec"]
        pod = spec["template"]["spec"]
        (operator,) = pod["containers"]
        assert spec["revisionHistoryLimit"] == 2
        assert "runAsUser" not in pod["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert operator["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        }
        probes = operator["livenessProbe"]["failureThreshold"], operator["readinessProbe"]["periodSeconds"]
        assert probes == (9, 5)
        accounts = {name: body["metadata"] for (kind, _, name), body in found.items() if kind == "ServiceAccount"}
        assert accounts["nodeupgrade-operator"]["annotations"] == {"team": "a"}
        assert "annotations" not in accounts["nodeupgrade-agent"]
        assert found["ConfigMap", "", "extra"]["metadata"]["labels"] == {"of": "nodeupgrade"}

    @pytest.mark.parametrize("value", ["podSecurityContext", "securityContext", "livenessProbe", "readinessProbe"])
    def test_values_of_an_older_chart_take_no_protection_away(self, value: str) -> None:
        """With --reuse-values, what is new in a chart has no value."""
        assert rendered(f"{value}=null") == rendered()

    def test_a_prometheus_finds_its_objects_by_label(self) -> None:
        found = rendered(*MONITORING, "monitoring.labels.release=kube-prometheus-stack", "monitoring.interval=1m")
        (monitor,) = (body for (kind, _, _), body in found.items() if kind == "ServiceMonitor")
        assert [each["interval"] for each in monitor["spec"]["endpoints"]] == ["1m"]
        monitoring = [body for (kind, _, _), body in found.items() if kind in {"ServiceMonitor", "PrometheusRule"}]
        assert [body["metadata"]["labels"]["release"] for body in monitoring] == ["kube-prometheus-stack"] * 2
        assert all("app.kubernetes.io/part-of" in body["metadata"]["labels"] for body in monitoring)

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ("replicas=many", "replicas"),
            ("imagee.tag=dev", "imagee"),
            ("image.digest=latest", "digest"),
            ("admissionPolicies=Maybe", "admissionPolicies"),
            ("resources.limits.memory=lots", "limits"),
            ("allowed.images={*}", "images"),
            ("allowed.images={registry.example/kubelet:v1}", "images"),
            ("allowed.images={Bad Image}", "images"),
            ("allowed.urls={ftp://dl.k8s.io}", "urls"),
            ("allowed.paths={opt/kubelet}", "paths"),
            ("allowed.digests={latest}", "digests"),
            ("allowed.units={kubelet}", "units"),
            ("allowed.pullSecrets={Registry}", "pullSecrets"),
            ("serviceAccount.annotations=text", "annotations"),
            ("monitoring.interval=often", "interval"),
        ],
    )
    def test_a_wrong_value_is_named(self, wrong: str, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            rendered(wrong)

    def test_another_namespace_is_refused(self) -> None:
        with pytest.raises(ValueError, match="--namespace nodeupgrade-system"):
            rendered(namespace="default")

    def test_helm_has_no_complaint(self) -> None:
        argv = [have(helm), "lint", "--strict", f"--namespace={NAMESPACE}", str(generate_chart.CHART)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout


def test_no_file_is_written_by_hand_beside_those_that_are_known(tmp_path: Path) -> None:
    generate_chart.write(tmp_path, image="registry.example/nodeupgrade")
    names = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {
        str(path.relative_to(generate_chart.CHART)) for path in generate_chart.CHART.rglob("*") if path.is_file()
    }
    assert (
        yaml.safe_load((tmp_path / "values.yaml").read_text())["image"]["repository"] == "registry.example/nodeupgrade"
    )

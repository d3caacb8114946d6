"""The Go module file with which any released Kubernetes component builds from its public modules.

``k8s.io/kubernetes`` requires its own libraries (the *staging* modules: ``k8s.io/api``, …) as ``v0.0.0`` and
replaces them by directories that its module zip does not contain. They are published separately, from 1.17 on
as ``v0.MINOR.PATCH``, so a module of our own can replace them by those.
"""

import re

from e2e.lab.binaries.versions import Version
from e2e.lab.errors import LabError

_STAGING = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
_UNVERSIONED = re.compile(r"^\s*(?:require\s+)?(k8s\.io/[\w-]+) v0\.0\.0\s*$", re.MULTILINE)
_REPLACE = re.compile(r"^\s*(?:replace\s+)?(\S+) => (\S+) (v\S+)\s*$", re.MULTILINE)
_GO_LINE = re.compile(r"^go (\S+)$", re.MULTILINE)

# Before 1.17 the staging modules had no regular tags; these are the commits tagged kubernetes-1.15.0.
_PSEUDO_VERSIONS: dict[str, dict[str, str]] = {
    "1.15.0": {
        "api": "20190620084959-7cf5895f2711",
        "apiextensions-apiserver": "20190620085554-14e95df34f1f",
        "apimachinery": "20190612205821-1799e75a0719",
        "apiserver": "20190620085212-47dc9a115b18",
        "cli-runtime": "20190620085706-2090e6d8f84c",
        "client-go": "20190620085101-78d2af792bab",
        "cloud-provider": "20190620090043-8301c0bda1f0",
        "cluster-bootstrap": "20190620090013-c9a0fc045dc1",
        "code-generator": "20190612205613-18da4a14b22b",
        "component-base": "20190620085130-185d68e6e6ea",
        "cri-api": "20190531030430-6117653b35f1",
        "csi-translation-lib": "20190620090116-299a7b270edc",
        "kube-aggregator": "20190620085325-f29e2b4a4f84",
        "kube-controller-manager": "20190620085942-b7f18460b210",
        "kube-proxy": "20190620085809-589f994ddf7f",
        "kube-scheduler": "20190620085912-4acac5405ec6",
        "kubelet": "20190620085838-f1cb295a73c9",
        "legacy-cloud-providers": "20190620090156-2138f2c9de18",
        "metrics": "20190620085625-3b22d835f165",
        "sample-apiserver": "20190620085408-1aef9010884e",
    },
}
_OPTIONAL = {"kubectl", "node-api", "sample-cli-plugin", "sample-controller"}  # of 1.15: required by no component

# The domain of this module no longer answers; its source is available under its author's GitHub name.
_MOVED = {"vbom.ml/util": "github.com/fvbommel/util v0.0.0-20160121211510-db5cfe13f5cc"}


def module_file(version: Version, upstream: str) -> str:
    """Return the ``go.mod`` of a module that builds the components of one Kubernetes version.

    Args:
        version: the Kubernetes version.
        upstream: text of ``go.mod`` of ``k8s.io/kubernetes`` at that version.

    Raises:
        LabError: if the versions of its staging modules are not known.
    """
    replaces = {path: f"{target} {release}" for path, target, release in _REPLACE.findall(upstream)}
    if "vbom.ml/util" in upstream:
        replaces |= _MOVED
    for path in sorted({*_STAGING.findall(upstream), *_UNVERSIONED.findall(upstream)}):
        release_of = _staging_version(version, path.removeprefix("k8s.io/"))
        if release_of is not None:
            replaces[path] = f"{path} {release_of}"
    go_line = _GO_LINE.search(upstream)
    lines = ["module nodeupgrade.dev/lab/components", "", f"go {go_line.group(1) if go_line else '1.12'}", ""]
    lines += [f"require k8s.io/kubernetes {version.tag}", "", "replace ("]
    lines += [f"\t{path} => {target}" for path, target in sorted(replaces.items())]
    return "\n".join([*lines, ")", ""])


def _staging_version(version: Version, module: str) -> str | None:
    if version.release >= (1, 17):
        return f"v0.{version.minor}.{version.patch}"
    known = _PSEUDO_VERSIONS.get(str(version))
    if known is None:
        message = f"cannot build Kubernetes {version} because the versions of its libraries are not recorded"
        raise LabError(message + "; put its binaries below NODEUPGRADE_LAB_BINARIES or use 1.15.0 or 1.17 and later")
    if module in known:
        return f"v0.0.0-{known[module]}"
    if module in _OPTIONAL:
        return None
    raise LabError(f"cannot build Kubernetes {version} because its library {module} has no recorded version")

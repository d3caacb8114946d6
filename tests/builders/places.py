"""Artifacts whose place the API refuses, whatever the operator's configuration allows."""

from nodeupgrade.api.json import Json

_SHA = "a" * 64


def _file(path: str) -> Json:
    return {"preStaged": {"linux-amd64": {"path": path, "sha256": _SHA}}}


def _image(name: str, path: str) -> Json:
    return {"image": {"ref": f"{name}@sha256:{_SHA}", "path": path}}


def _download(url: str) -> Json:
    return {"platforms": {"linux-amd64": {"url": url, "sha256": _SHA}}}


PLACES = {
    "path with a way up": _file("/opt/kubelet/../a:///evil"),
    "path with an empty part": _file("/opt//kubelet"),
    "path of the kernel": _file("/proc/1/root/evil"),
    "image path of the kernel": _image("registry.example/kubelet", "/proc/1/root/evil"),
    "image without registry": _image("kubelet", "/kubelet"),
    "no URL": _download("ftp://example/kubelet"),
    "URL with a query": _download("https://example/kubelet?x=://y"),
    "URL with a user": _download("https://dl.k8s.io@example/kubelet"),
}

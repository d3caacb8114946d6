"""What `nodeupgrade new` writes, lint accepts; what cannot be written, it says how to mend."""

import pytest

from tests.golden.cli.cluster import Cluster, check

DIGEST = "a" * 64
DOWNLOADS = "--url 'https://dl.k8s.io/{version}/bin/{os}/{arch}/kubelet'"
WRITTEN = (
    f"new v1.33.13 --image registry.example/kubelet@sha256:{DIGEST} --selector pool=web,zone!=b,!gpu",
    f"new v1.33.13 --image registry.example/kubelet:v1.33.13@sha256:{DIGEST} --path /usr/bin/kubelet --all --name all",
    f"new v1.33.13 {DOWNLOADS} --sha256 linux-amd64={DIGEST} --sha256 linux-arm64={'b' * 64} --node n-1 --node n-2",
)
WRONG = (
    "new v1.33.13 --image registry.example/kubelet:v1.33.13 --all",
    f"new v1.33.13 {DOWNLOADS} --all",
    "new v1.33.13 --url https://mirror.example/kubelet --all",
    f"new v1.33.13 --url https://mirror.example/kubelet --all --sha256 a-b={DIGEST} --sha256 c-d={DIGEST}",
    f"new v1.33.13 --url https://mirror.example/kubelet --all --sha256 a-b={DIGEST} --sha256 a-b={DIGEST}",
    f"new v1.33.13 {DOWNLOADS} --all --sha256 {DIGEST}",
    f"new 1.33.13 --image registry.example/kubelet@sha256:{DIGEST} --all",
    f"new v1.33.13 --image registry.example/kubelet@sha256:{DIGEST} --selector 'pool in (web, db)'",
    f"new v1.33.13 --image registry.example/kubelet@sha256:{DIGEST}",
    f"new v1.33.13 --image registry.example/kubelet@sha256:{DIGEST} --sha256 a-b={DIGEST} --all",
    "new v1.33.13 --all",
)


def test_what_is_written_and_what_is_not() -> None:
    cluster = Cluster()
    check("new.txt", (cluster.run(f"nodeupgrade {line}") for line in (*WRITTEN, *WRONG)))


@pytest.mark.parametrize("line", WRITTEN)
def test_lint_accepts_it(line: str) -> None:
    cluster = Cluster()
    written = cluster.run(f"nodeupgrade {line}").partition("\n")[2]
    assert cluster.run("nodeupgrade lint -", stdin=written).endswith("1 NodeUpgrade, no problem.\n\n")

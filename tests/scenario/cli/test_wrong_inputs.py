"""Wrong inputs of somebody who tries everything: none is accepted in silence, and each is answered with a remedy."""

import json
from pathlib import Path

import pytest

from nodeupgrade.cluster.kube_api import ForbiddenError, NoCredentialsError, UnauthenticatedError
from tests.golden.cli.cluster import FILES, WORLD, Cluster

IMAGE = f"registry.example/kubelet@sha256:{'a' * 64}"
TWICE = "Invalid value for '--pods': it is given twice; give it once"
WRONG = {
    f"new v1.33.13 --image {IMAGE} --url https://dl.k8s.io/x --all": (2, "leave out --image or --url"),
    f"new v1.33.13 --image {IMAGE} --all --node web-a-1": (2, "--all selects every node already"),
    "new v1.33.13 --all": (2, "specify where the kubelet comes from: --image or --url"),
    "hash --kubelet-version 1.30 --pods mixed.yaml --pods node-pods.yaml": (2, TWICE),
    "explain --from 1.30 --to 1.31 --pods mixed.yaml --pods node-pods.yaml": (2, TWICE),
    "explain --from 1.30 --from 1.29 --to 1.31 --pods mixed.yaml": (2, "it is given twice"),
    "explain": (2, "Missing option '--to'"),
    "explain --to 1.99": (2, "the newest kubelet known here is"),
    "explain --to 1.30-1.33": (2, "this is a range"),
    "explain --to latest": (2, "Invalid value for '--to'"),
    "explain --from 1.30 --to 1.31 --pods -": (1, "number 1 of the input is not an object; give pods as from: kubectl"),
    "hash --kubelet-version 1.99 --pods mixed.yaml": (2, "the newest kubelet known here is"),
    "hash --kubelet-version 1.30": (2, "Missing option '--pods'"),
    "hashes": (2, "specify either nodes or --fleet"),
    "hashes web-a-1 --fleet": (2, "specify either nodes or --fleet"),
    "hash --kubelet-version 1.30 --pods -": (1, "number 1 of the input is not an object; give pods as from: kubectl"),
    "hashes nope": (1, "cannot find node nope because it does not exist; there are: "),
    "status --watch --interval 0s": (2, "specify a time longer than 0s"),
    "lint misnamed.yaml": (1, "spec.nodes.names[0]: 'node 17' is the name of no node"),
    "lint fine.yaml --against mixed.yaml": (1, "cannot compare with mixed.yaml because there is no NodeUpgrade in it"),
    "verify --containers inspected.json --pods mixed.yaml": (1, "none of the pods given has such a container"),
    "plan mixed.yaml": (1, "it holds no NodeUpgrade"),
    "plan nowhere.yaml": (2, "'nowhere.yaml': No such file or directory"),
    "lint mixed.yaml": (1, "there is no NodeUpgrade in these files"),
    "status nope": (1, "cannot find NodeUpgrade nope because it does not exist; there are: "),
    "status --verbose": (2, "--verbose needs the NAME of one rollout"),
    "status --watch -o json": (2, "--watch shows text only"),
    "status --stop-when-stalled": (2, "--timeout, --interval and --stop-when-stalled need --watch"),
    "status --as jane --as joe": (2, "Invalid value for '--as': it is given twice; give it once"),
    "status --request-timeout soon": (2, "Invalid value for '--request-timeout'"),
    "failures nope": (1, "cannot find NodeUpgrade nope"),
    "report nope": (1, "cannot find NodeUpgrade nope"),
    "report kubelet-1-33-13 -o pdf": (2, "'pdf' is not one of 'html', 'markdown'"),
    "explain-node nope": (1, "cannot find node nope because it does not exist; there are: "),
    "explain-node web-a-1 --upgrade nope": (1, "cannot find NodeUpgrade nope"),
    "evidence nope": (1, "cannot find NodeUpgradeTask nope because it does not exist; there are: "),
    "approve kubelet-1-33-13 nope": (1, "cannot approve wave nope because kubelet-1-33-13 has only: canary, rack-a"),
    "approve kubelet-1-33-13": (2, "Missing argument 'WAVE'"),
    "abort kubelet-1-33-13": (2, "an abort cannot be undone; confirm it with --yes"),
    "resume nope": (1, "cannot find NodeUpgrade nope"),
    "retry nope": (1, "cannot find NodeUpgrade nope"),
    "pause kubelet-1-30-14": (1, "cannot pause kubelet-1-30-14 because it has ended"),
    "completion powershell": (2, "is not one of 'bash', 'zsh', 'fish', 'kubectl'"),
    "node web-a-1": (2, "No such command 'node'"),
}
TABLE = "NAME    READY\nweb-0   1/1\n"
"""What kubectl prints without -o json."""


@pytest.mark.parametrize("line", WRONG)
def test_wrong_inputs(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in FILES.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    fine = (FILES / "fine.yaml").read_text(encoding="utf-8")
    spec = json.dumps({"names": ["node 17"]})
    start = fine.index("  nodes:")
    misnamed = f"{fine[:start]}  nodes: {spec}\n"
    (tmp_path / "misnamed.yaml").write_text(misnamed, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, said = WRONG[line]

    printed = Cluster(*WORLD).run(f"nodeupgrade {line}", stdin=TABLE, width="400")

    assert said in " ".join(printed.split())
    assert printed.endswith(f"exit code {code}\n\n")
    assert "Traceback" not in printed


def test_the_bare_command_prints_its_help() -> None:
    assert Cluster().run("nodeupgrade ").partition("\n")[2] == Cluster().run("nodeupgrade --help").partition("\n")[2]


@pytest.mark.parametrize(
    ("failure", "remedy"),
    [
        (NoCredentialsError("the program fails"), "log in again, or choose another --context"),
        (UnauthenticatedError("401"), "log in again: the token or certificate has expired"),
        (ForbiddenError('User "system:anonymous" cannot list'), "the kubeconfig has no credentials: log in"),
        (ForbiddenError('User "jane" cannot list'), "ask a cluster administrator for this permission"),
    ],
)
def test_each_refusal_has_its_remedy(failure: Exception, remedy: str) -> None:
    cluster = Cluster(*WORLD)
    cluster.failure = failure
    assert remedy in cluster.run("nodeupgrade explain --to 1.34")

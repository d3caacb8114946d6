"""Tests what kubectl is asked, and what its words mean."""

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.kubectl import Kubectl, KubectlClient
from nodeupgrade.cluster.kube_api import (
    PODS,
    UPGRADES,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NoClusterError,
    NoCredentialsError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from nodeupgrade.errors import NodeUpgradeError

SCRIPT = """#!/bin/sh
here=$(dirname "$0")
for each in "$@"; do printf '%s\\n' "$each" >> "$here/asked"; done
echo "KUBECONFIG=$KUBECONFIG" >> "$here/asked"
cat > "$here/given"
cat "$here/answer"
cat "$here/said" >&2
exit $(cat "$here/code")
"""


DENIED = (
    "ValidatingAdmissionPolicy 'no-privileged' with binding 'no-privileged' denied request: "
    "privileged containers are not allowed"
)


class Program:
    """A kubectl that answers what a test says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "kubectl").write_text(SCRIPT)
        (directory / "kubectl").chmod(0o755)
        self.answers({})

    def answers(self, answer: object, said: str = "", code: int = 0) -> None:
        (self.directory / "answer").write_text(json.dumps(answer))
        (self.directory / "said").write_text(said)
        (self.directory / "code").write_text(str(code))

    @property
    def asked(self) -> list[str]:
        return (self.directory / "asked").read_text().splitlines()

    @property
    def given(self) -> str:
        return (self.directory / "given").read_text()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("KUBECONFIG", "")
    return Program(tmp_path)


async def client_with(kubectl: Kubectl, what: str) -> Any:
    kube = KubectlClient(kubectl)
    match what:
        case "pages":
            return [page async for page in kube.pages(PODS)]
        case "merge":
            patch: Json = {"spec": {"action": "Pause"}}
            return await kube.merge(UPGRADES, "--up", patch, resource_version="7", field_manager="me", dry_run=True)
        case "try_create":
            return await kube.try_create(PODS.within("a"), {"kind": "Pod"})
        case _:
            return await kube.get(UPGRADES, what)


def test_a_page_is_a_request_of_its_own_in_the_given_context(program: Program) -> None:
    program.answers({"items": [{"metadata": {"name": "a"}}], "metadata": {"resourceVersion": "5"}})

    (page,) = asyncio.run(client_with(Kubectl(Path("/k"), "c d", 15.0), "pages"))

    assert [each["kind"] for each in page.items] == ["Pod"]
    assert program.asked == [
        *("--request-timeout=15s", "--kubeconfig=/k", "--context=c d", "get", "--raw=/api/v1/pods?limit=500"),
        "KUBECONFIG=",
    ]


def test_whoever_waits_no_longer_leaves_no_program_behind(program: Program, tmp_path: Path) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\nsleep 0.5 &\necho $$ > {tmp_path}/pid\nexec sleep 60\n")

    async def wait_briefly() -> None:
        async with asyncio.timeout(10):
            asking = asyncio.ensure_future(client_with(Kubectl(None, None, 15.0), "up"))
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.01)
            asking.cancel()
            await asyncio.wait([asking])
            while _runs(int((tmp_path / "pid").read_text())):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.01)

    asyncio.run(wait_briefly())
    gc.collect()  # a pipe that its child held, and that is still open, complains now: that fails the test


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ends while it is looked at
        return False


def test_several_kubeconfigs_are_given_as_kubectl_takes_them(program: Program) -> None:
    asyncio.run(client_with(Kubectl(Path("/k:/l"), None, 0.2), "up"))

    assert program.asked[0] == "--request-timeout=1s"
    assert program.asked[-1] == "KUBECONFIG=/k:/l"


def test_a_patch_keeps_its_condition_and_names_are_no_options(program: Program) -> None:
    asyncio.run(client_with(Kubectl(None, None, 15.0), "merge"))

    assert program.asked[1:4] == ["patch", "--field-manager=me", "--dry-run=server"]
    assert json.loads(program.asked[5].removeprefix("--patch=")) == {
        "spec": {"action": "Pause"},
        "metadata": {"resourceVersion": "7"},
    }
    assert program.asked[6:9] == ["--output=json", "--", "nodeupgrades.v1alpha1.nodeupgrade.dev"]
    assert program.asked[9] == "--up"


def test_what_is_only_tried_is_said_to_be(program: Program) -> None:
    asyncio.run(client_with(Kubectl(None, None, 15.0), "try_create"))

    assert program.asked[1:4] == ["create", "--raw=/api/v1/namespaces/a/pods?dryRun=All", "--filename=-"]
    assert json.loads(program.given) == {"kind": "Pod"}


def test_a_name_cannot_end_the_path(program: Program) -> None:
    asyncio.run(client_with(Kubectl(None, None, 15.0), "a?watch=true#b c"))

    assert program.asked[2] == "--raw=/apis/nodeupgrade.dev/v1alpha1/nodeupgrades/a%3Fwatch%3Dtrue%23b%20c"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("Error from server (NotFound): nodeupgrades.nodeupgrade.dev \"x\" not found", NotFoundError),
        ("Error from server (Forbidden): pods is forbidden: User \"x\" cannot list", ForbiddenError),
        ("Error from server (Conflict): Operation cannot be fulfilled", ConflictError),
        ("Error from server (Expired): The provided continue parameter is too old", ExpiredError),
        (f'The pods "nodeupgrade-agent-node-17" is invalid: : {DENIED}', InvalidError),
        (f'The nodeupgrades "up" is invalid: \n* : {DENIED}\n* spec.action: Unsupported value: "Go"', InvalidError),
        ('Warning: unknown field "spec.x"\nThe  "up" is invalid: spec.action: Required value', InvalidError),
        (f"The request is invalid: {DENIED}", InvalidError),
        ("The request is invalid", InvalidError),
        ("Error from server (Timeout): the server was unable to return a response", UnavailableError),
        ("Error from server: etcdserver: request timed out", UnavailableError),
        ("error: You must be logged in to the server (Unauthorized)", UnauthenticatedError),
        ("Unable to connect to the server: getting credentials: exec: x\n\nIt looks", NoCredentialsError),
        ("Unable to connect to the server: dial tcp: lookup x: no such host", UnavailableError),
        ("The connection to the server localhost:8080 was refused - did you specify the right host", UnavailableError),
        ("error: context \"x\" does not exist", NoClusterError),
        ("", UnavailableError),
    ],
)  # fmt: skip
def test_what_kubectl_says_is_the_error_of_the_port(program: Program, said: str, error: type[Exception]) -> None:
    program.answers({}, said, code=1)

    with pytest.raises(NodeUpgradeError) as raised:
        asyncio.run(client_with(Kubectl(None, None, 15.0), "x"))

    assert type(raised.value) is error
    assert "It looks" not in str(raised.value)


def test_without_kubectl_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(NoClusterError, match=r"kubectl cannot be run .*kubernetes is not installed"):
        asyncio.run(client_with(Kubectl(None, None, 15.0), "x"))

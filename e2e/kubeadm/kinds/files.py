"""Both files of kubeadm in ``spec.files``, and credentials that change during a run."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.kubeadm.kinds.commands import DOWN, LONGER
from e2e.kubeadm.row import Row, Seen
from e2e.kubeadm.stage import NEW, OLD, Stage
from e2e.lab.cluster import deploy, kubeadm
from e2e.lab.cluster.pki import Authority
from e2e.lab.nodes import kubeadmfiles, nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import run as run_program
from e2e.lab.process import wait_until

MAX_PODS = 230
CLIENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"
_EXPIRED = "client certificate in /etc/kubernetes/kubelet.conf is expired"
"""What a kubelet logs."""


def _text(node: Node, path: str) -> str:
    return (node.disk / path.lstrip("/")).read_text()


def _spec_files(stage: Stage, texts: dict[str, str]) -> list[dict[str, object]]:
    """Put the files into a ConfigMap, and return ``spec.files``."""
    data = {Path(path).name: text for path, text in texts.items()}
    metadata = {"name": "kubeadm-files", "namespace": deploy.NAMESPACE}
    stage.lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return [
        {
            "path": path, "mode": "0644", "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "configMapKeyRef": {"name": "kubeadm-files", "key": Path(path).name},
        }
        for path, text in texts.items()
    ]  # fmt: skip


def _both_files(stage: Stage) -> Seen:
    node = stage.worker
    stage.bring(node, OLD)
    before = {path: _text(node, path) for path in (nodefiles.KUBELET_CONFIG, kubeadmfiles.FLAGS)}
    flags = before[kubeadmfiles.FLAGS].replace('"\n', ' --v=3"\n')
    settings = yaml.safe_dump({**yaml.safe_load(before[nodefiles.KUBELET_CONFIG]), "maxPods": MAX_PODS})
    wanted = {nodefiles.KUBELET_CONFIG: settings, kubeadmfiles.FLAGS: flags}
    there = stage.upgrade("files", NEW, [node], files=_spec_files(stage, wanted))
    wrong = [*there.wrong(), *_not_as(node, wanted)]
    pods = stage.lab.api.get("nodes", node.name)["status"]["capacity"]["pods"]
    if pods != str(MAX_PODS):
        wrong.append(f"the kubelet reports {pods} pods")
    back = stage.upgrade("files-back", OLD, [node], files=_spec_files(stage, before))
    wrong += [*back.wrong(), *_not_as(node, before)]
    said = f"`config.yaml` with `maxPods: {MAX_PODS}`, `kubeadm-flags.env` with `--v=3`; and back in the same way"
    return Seen(run=there, said=said, complaints=wrong)


def _not_as(node: Node, wanted: dict[str, str]) -> Iterator[str]:
    yield from (f"{path} is not what it must be" for path, text in wanted.items() if _text(node, path) != text)


def _use(node: Node, name: str, pem: str) -> None:
    """Let a node use another client certificate, as a rotation does."""
    path = Path(CLIENT).with_name(f"kubelet-client-{name}.pem")
    node.write(str(path), pem, 0o600)
    node.exec("ln", "-sfn", str(path), CLIENT)


def _issue(stage: Stage, node: Node) -> None:
    """Give a node another client certificate, one for ten years."""
    authority = Authority(stage.lab.directory / "pki")
    authority.issue("rotated", f"/O=system:nodes/CN=system:node:{node.name}")
    _use(node, "rotated", "".join((authority.directory / f"rotated.{kind}").read_text() for kind in ("crt", "key")))


def _rotated(stage: Stage) -> Seen:
    node = stage.worker
    stage.bring(node, OLD)

    def meanwhile() -> None:
        reached()
        _issue(stage, node)
        resume()

    with stage.held(node, "rotated", NEW, DOWN) as (reached, resume):
        run = stage.upgrade("rotated", NEW, [node], meanwhile=meanwhile, verify=LONGER)
    return Seen(run=run, complaints=tuple(run.wrong()))


def _renewed(stage: Stage) -> Seen:
    node = stage.control[0]
    stage.bring(node, OLD)
    told = list[str]()

    def meanwhile() -> None:
        reached()
        done = kubeadm.renew_certificates(node)
        if done.returncode:
            told.append(f"kubeadm certs renew all ended with {done.returncode}: {done.stderr[-300:]}")
        resume()

    with stage.held(node, "renewed", NEW, DOWN) as (reached, resume):
        run = stage.upgrade("renewed", NEW, [node], meanwhile=meanwhile, verify=LONGER)
    return Seen(run=run, complaints=(*run.wrong(), *told))


_CA = """\
[ca]
default_ca = lab
[lab]
database = {0}/index.txt
serial = {0}/serial
new_certs_dir = {0}
default_md = sha256
policy = any
[any]
commonName = supplied
organizationName = supplied
"""


@contextlib.contextmanager
def _short_lived(stage: Stage, node: Node, since: str, until: str) -> Iterator[None]:
    """Let a node use a certificate with these dates, in the words of date(1), and afterwards what it used before."""
    current = node.exec("readlink", CLIENT).stdout.strip()
    _use(node, "short-lived", _pem(stage, node, since, until))
    try:
        yield
    finally:
        node.exec("ln", "-sfn", current, CLIENT)


def _expiring(stage: Stage) -> Seen:
    """Let the worker's certificate be valid for half an hour, of a life of a day."""
    node = stage.worker
    stage.bring(node, OLD)
    with _short_lived(stage, node, "23 hours ago", "30 minutes"):
        run = stage.upgrade("expiring", NEW, [node])
    return Seen(run=run, said=f"“{run.message}”", complaints=tuple(run.wrong("Refused (`KubeletWouldNotStart`)")))


def _rotating(stage: Stage) -> Seen:
    """Let the worker's certificate be one that the new kubelet rotates at its start."""
    node = stage.worker
    stage.bring(node, OLD)
    with _short_lived(stage, node, "28 days ago", "2 days"):
        run = stage.upgrade("rotating", NEW, [node])
        used = node.exec("readlink", CLIENT).stdout.strip()
    wrong = ("the new kubelet did not rotate it",) if used.endswith("short-lived.pem") else ()
    return Seen(
        run=run, said="the new kubelet asked for another at once, and used it", complaints=(*run.wrong(), *wrong)
    )


def _shorter_than_a_run(stage: Stage) -> Seen:
    """Let the worker's certificate be valid for long enough, but for the time without a kubelet that is allowed."""
    node = stage.worker
    stage.bring(node, OLD)
    with _short_lived(stage, node, "30 minutes ago", "4 minutes"):
        run = stage.upgrade("shorter", NEW, [node], verify={**LONGER, "kubeletDownBudget": "8m"})
    return Seen(run=run, complaints=tuple(run.wrong("Refused (`KubeletWouldNotStart`)")))


def _expired(stage: Stage) -> Seen:
    """Let the worker's certificate be one that has expired, so that neither kubelet starts, until it is told why."""
    node = stage.worker
    stage.bring(node, OLD)
    told = list[str]()

    def message() -> str:
        return str(stage.fleet.task(node.name)["status"].get("message", ""))

    def meanwhile() -> None:
        reached()
        with _short_lived(stage, node, "2 days ago", "1 day ago"):
            resume()
            wait_until("the message why no kubelet starts", lambda: _EXPIRED in message(), timeout=180)
            told.append(message())

    with stage.held(node, "expired", NEW, DOWN) as (reached, resume):
        run = stage.upgrade("expired", NEW, [node], meanwhile=meanwhile, verify=LONGER)
    said = f"“{told[0]}”; then the former one was put back, and the old kubelet started"
    return Seen(run=run, said=said, complaints=tuple(run.wrong("RolledBack (`KubeletDidNotStart`)")))


def _pem(stage: Stage, node: Node, since: str, until: str) -> str:
    authority = Authority(stage.lab.directory / "pki")
    authority.issue("expiring", f"/O=system:nodes/CN=system:node:{node.name}")
    place = authority.directory / "expiring"
    place.mkdir(exist_ok=True)
    for name, text in {"index.txt": "", "serial": "01\n", "ca.cnf": _CA.format(place)}.items():
        (place / name).write_text(text)
    key, request, certificate = authority.directory / "expiring.key", place / "csr", place / "crt"
    subject = f"/O=system:nodes/CN=system:node:{node.name}"
    run_program("openssl", "req", "-new", "-key", key, "-subj", subject, "-out", request)
    dates = [run_program("date", "--utc", f"--date={when}", "+%Y%m%d%H%M%SZ").stdout.strip()
             for when in (since, until)]  # fmt: skip
    run_program(
        "openssl", "ca", "-batch", "-notext", "-config", place / "ca.cnf", "-cert", authority.certificate,
        "-keyfile", authority.directory / "ca.key", "-startdate", dates[0], "-enddate", dates[1], "-in", request,
        "-out", certificate,
    )  # fmt: skip
    return certificate.read_text() + key.read_text()


ROWS = (
    Row(name="files", does="both files of kubeadm in `spec.files`", play=_both_files),
    Row(name="certificates/rotated", does="the worker's client certificate is another while it has no kubelet",
        play=_rotated),
    Row(name="certificates/renewed", does="`kubeadm certs renew all` while the control-plane node has no kubelet",
        play=_renewed),
    Row(name="certificates/rotating", does="the worker's client certificate is one that a kubelet rotates at once",
        play=_rotating),
    Row(name="certificates/shorter", does="the worker's client certificate might expire while it has no kubelet",
        play=_shorter_than_a_run),
    Row(name="certificates/expired", does="the worker's client certificate is an expired one while it has no kubelet",
        play=_expired),
    Row(name="certificates/expiring", does="the worker's client certificate is valid for 30 minutes, of a day",
        play=_expiring),
)  # fmt: skip

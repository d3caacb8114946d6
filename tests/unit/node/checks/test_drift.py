"""Tests which changes since the kubelet's start are reported, each with its evidence."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.settings import configured
from nodeupgrade.node.checks import drift
from nodeupgrade.node.checks.drift import Drift, find
from nodeupgrade.node.checks.kubelet_start import FileRole, ReadAtStart, Start, command
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.builders.sound import unit

CHECKS, WARNINGS = checks_of(drift, warns=False), checks_of(drift, warns=True)

STARTED = 1_000_000.0
CONFIG = b"maxPods: 50\nsyncFrequency: 0s\nevictionPressureTransitionPeriod: 300s\nclusterDNS: [10.96.0.10]\n"
SHOWN: Json = {
    "kind": "KubeletConfiguration",
    "maxPods": 50,
    "syncFrequency": "1m0s",
    "evictionPressureTransitionPeriod": "5m0s",
    "clusterDNS": ["10.96.0.10"],
    "failSwapOn": True,
    "enforceNodeAllocatable": ["pods"],
    "nodeLeaseDurationSeconds": 40,
    "protectKernelDefaults": False,
    "logging": {"flushFrequency": "5s", "format": "text"},
}
WORDS = ("/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", "--v=2")
ENVIRONMENT = {"PATH": "/bin", "INVOCATION_ID": "1", "CONFIG": "--config=/var/lib/kubelet/config.yaml", "ARGS": "--v=2"}
OTHERS = {name: value for name, value in ENVIRONMENT.items() if name != "ARGS"}
FILE = "/etc/default/kubelet"


def started_unit(**fields: Any) -> UnitStatus:
    known: dict[str, Any] = {
        "program": "/usr/bin/kubelet",
        "start_line": "/usr/bin/kubelet $CONFIG $ARGS $NEVER_SET",
        "environment": ("CONFIG=--config=/var/lib/kubelet/config.yaml",),
        "environment_files": ((FILE, False),),
    }
    return unit("kubelet.service", **{**known, **fields})


def changed(path: str, was: FileRole, seconds: float = 60.0) -> ReadAtStart:
    return ReadAtStart(path=path, was=was, changed=STARTED + seconds)


def start(*read: ReadAtStart, config: bytes = CONFIG, **fields: Any) -> Start:
    known: dict[str, Any] = {
        "started": STARTED,
        "words": WORDS,
        "environment": ENVIRONMENT,
        "unit": started_unit(),
        "by_default": {"PATH": "/bin"},
        "environment_files": {FILE: b'# a comment\nARGS="--v=2"\n'},
        "settings": configured(WORDS[1:], config),
    }
    return Start(read=read, **{**known, **fields})


def labelled(content: bytes, *read: ReadAtStart) -> Start:
    """A kubelet that was started with ``--node-labels="a=b"``."""
    return start(
        *read,
        words=(*WORDS[:2], "--node-labels=a=b"),
        environment={**ENVIRONMENT, "ARGS": '--node-labels="a=b"'},
        environment_files={FILE: content},
    )


def several(files: dict[str, bytes | None], pattern: str = "/etc/k/*.env", *read: ReadAtStart) -> Start:
    """A kubelet whose unit names its environment files by a pattern."""
    return start(*read, unit=started_unit(environment_files=((pattern, True),)), environment_files=files)


CONFIGURATION = changed("/var/lib/kubelet/config.yaml", FileRole.CONFIGURATION)
KUBECONFIG = changed("/etc/kubernetes/kubelet.conf", FileRole.IDENTITY)

# What is found, and the same shown to be none.
CASES: dict[str, tuple[Start, str, Start]] = {
    "a configuration file, and the kubelet cannot be asked": (
        start(CONFIGURATION, why_not_asked="HTTP 403"),
        "was changed at 1970-01-12T13:47:40Z, after the kubelet was started at 1970-01-12T13:46:40Z (its running",
        start(CONFIGURATION, running=SHOWN),
    ),
    "a key, whatever the times say": (
        start(config=CONFIG.replace(b"50", b"3"), running=SHOWN),
        "/var/lib/kubelet/config.yaml differs from the running configuration: maxPods is 3 on disk and 50",
        start(running=SHOWN),
    ),
    "a key that is set to false": (
        start(config=CONFIG + b"failSwapOn: false", running=SHOWN),
        "failSwapOn is false on disk and true in the running kubelet",
        start(config=CONFIG + b"protectKernelDefaults: false", running=SHOWN),
    ),
    "a list": (
        start(config=CONFIG.replace(b"0.10", b"0.11"), running=SHOWN), "clusterDNS is", start(running=SHOWN),
    ),
    "a key that was taken away": (
        start(CONFIGURATION, config=b"clusterDNS: [10.96.0.10]", running=SHOWN),
        "these could not be compared with the running configuration: maxPods",
        start(CONFIGURATION, config=b"clusterDNS: [10.96.0.10]", running={**SHOWN, "maxPods": 110}),
    ),
    "a key that the kubelet does not show": (
        start(CONFIGURATION, config=CONFIG + b"systemReserved: {cpu: 1}", running=SHOWN),
        "these could not be compared with the running configuration: systemReserved.cpu",
        start(config=CONFIG + b"systemReserved: {cpu: 1}", running=SHOWN),
    ),
    "a pointer to nothing": (
        start(CONFIGURATION, config=CONFIG + b"registryPullQPS: 0", running={**SHOWN, "registryPullQPS": 5}),
        "registryPullQPS",
        start(CONFIGURATION, config=CONFIG + b"registryBurst: 0", running={**SHOWN, "registryBurst": 10}),
    ),
    "a key that a flag overrides": (
        start(config=CONFIG, running={**SHOWN, "clusterDNS": []}),
        "clusterDNS",
        start(running={**SHOWN, "maxPods": 7}, words=(*WORDS, "--max-pods=7"),
              settings=configured((*WORDS[1:], "--max-pods=7"), CONFIG),
              unit=started_unit(start_line="/usr/bin/kubelet $CONFIG $ARGS --max-pods=7")),
    ),
    "a drop-in directory": (
        start(changed("/etc/kubelet.d", FileRole.CONFIGURATION)), "/etc/kubelet.d was changed",
        start(changed("/etc/kubelet.d", FileRole.CONFIGURATION, -60.0)),
    ),
    "a flag in an environment file": (
        start(environment_files={FILE: b"ARGS='--v=4 --max-pods=3'"}),
        "the kubelet with a different command line than it runs with: with --v=4, with --max-pods=3, without --v=2",
        start(changed(FILE, FileRole.ENVIRONMENT), environment_files={FILE: b"ARGS=--v=2"}),
    ),
    "an assignment that systemd ignores": (
        start(environment_files={FILE: b"export ARGS=--v=2"}), "without --v=2",
        start(environment_files={FILE: b"export HTTP_PROXY=http://proxy:3128\nARGS=--v=2\nexport ARGS=--v=9\n"}),
    ),
    "an environment file that was taken away": (
        start(environment_files={FILE: None}), "without --v=2", start(),
    ),
    "an environment file that is needed": (
        start(unit=started_unit(environment_files=((FILE, True),)), environment_files={FILE: None}),
        f"{FILE}, which kubelet.service needs to start, does not exist",
        start(unit=started_unit(environment_files=((FILE, True),))),
    ),
    "a proxy, whose address is nobody's business": (
        start(environment_files={FILE: b"ARGS=--v=2\nHTTPS_PROXY=http://me:secret@proxy\n"}),
        "would start the kubelet with other environment variables: HTTPS_PROXY",
        start(environment_files={FILE: b"ARGS=--v=2\nHTTPS_PROXY=http://me:secret@proxy\n"},
              environment={**ENVIRONMENT, "HTTPS_PROXY": "http://me:secret@proxy"}),
    ),
    "a variable that was taken away": (
        start(environment={**ENVIRONMENT, "GOGC": "50"}), "other environment variables: GOGC",
        start(environment={**ENVIRONMENT, "GOGC": "50"}, by_default={"PATH": "/bin", "GOGC": "50"}),
    ),
    "a variable of systemd's that is not unset": (
        start(by_default={"PATH": "/bin", "GOGC": "50"}, unit=started_unit(unset=("GOGC=10",))),
        "other environment variables: GOGC",
        start(by_default={"PATH": "/bin", "GOGC": "50"}, unit=started_unit(unset=("GOGC=50",))),
    ),
    "a variable that is unset": (
        start(unit=started_unit(unset=("ARGS",))), "without --v=2",
        start(unit=started_unit(unset=("ARGS",)), words=WORDS[:2], environment=OTHERS),
    ),
    "an environment file that is not understood": (
        start(changed(FILE, FileRole.ENVIRONMENT), environment_files={FILE: b"ARGS='--v=2"}),
        "it is unknown with which command line kubelet.service would start the kubelet",
        start(changed(FILE, FileRole.ENVIRONMENT, -1.0), environment_files={FILE: b"ARGS='--v=2"}),
    ),
    "a value that has quotes inside": (
        labelled(b'ARGS=--node-labels="a=c"'), "with --node-labels=a=c, without --node-labels=a=b",
        labelled(b'ARGS=--node-labels="a=b"', changed("/etc/systemd/system/kubelet.service.d", FileRole.DROP_INS)),
    ),
    "a file among several": (
        several({"/etc/k/1.env": b"ARGS=--v=2", "/etc/k/2.env": b"ARGS=--v=4"}), "with --v=4, without --v=2",
        several({"/etc/k/2.env": b"ARGS=--v=2", "/etc/k/1.env": b"ARGS=--v=4", "/etc/other": b"ARGS=--v=9"}),
    ),
    "no file where one is needed": (
        several({"/etc/k/.1.env": b"", "/etc/k/x/1.env": b""}), "/etc/k/*.env, which kubelet.service needs to start",
        several({"/etc/k/1.env": b"ARGS=--v=2"}),
    ),
    "files that may lie in any directory": (
        several({}, "/etc/*/k.env", changed("/etc/k", FileRole.ENVIRONMENT)), "it is unknown with which command line",
        several({}, "/etc/*/k.env"),
    ),
    "assignments without borders": (
        start(changed("/etc/systemd/system/kubelet.service", FileRole.UNIT),
              unit=started_unit(environment=("CONFIG=--config=/a", "--v=2", "ARGS=--v=2"))),
        "it is unknown with which command line",
        start(unit=started_unit(environment=("CONFIG=--config=/a", "--v=2", "ARGS=--v=2"))),
    ),
    "a unit file": (
        start(changed("/etc/systemd/system/kubelet.service", FileRole.UNIT)), "kubelet.service was changed at",
        start(changed("/etc/systemd/system/kubelet.service", FileRole.UNIT, 0.0)),
    ),
    "a directory of drop-ins": (
        start(changed("/etc/systemd/system/kubelet.service.d", FileRole.DROP_INS), unit=started_unit(start_line="")),
        "it is unknown with which command line",
        start(changed("/etc/systemd/system/kubelet.service.d", FileRole.DROP_INS)),
    ),
    "a script that starts the kubelet": (
        start(changed("/opt/start", FileRole.UNIT), unit=started_unit(start_line="/opt/start $ARGS")),
        "it is unknown with which command line",
        start(unit=started_unit(start_line="/opt/start $ARGS")),
    ),
    "a kubeconfig": (start(KUBECONFIG), "kubelet.conf was changed at", start(KUBECONFIG, known_to_server=True)),
    "a kubeconfig of another node": (
        start(KUBECONFIG, known_to_server=False), "does not accept it as this node's",
        start(KUBECONFIG, known_to_server=True),
    ),
    "credential providers": (
        start(changed("/etc/providers.yaml", FileRole.OTHER)), "/etc/providers.yaml was changed", start(),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("drifted", "told", "control"), CASES.values(), ids=CASES.keys())
def test_a_change_is_found_and_what_is_none_is_not(drifted: Start, told: str, control: Start) -> None:
    [discrepancy] = find(drifted, DriftPolicy.REFUSE).discrepancies

    assert told in discrepancy.detail
    assert "secret" not in discrepancy.detail
    assert find(control, DriftPolicy.REFUSE).discrepancies == ()


def test_what_is_refused_says_what_to_do() -> None:
    [finding] = ask(CHECKS, find(start(CONFIGURATION), DriftPolicy.REFUSE))

    assert finding.reason is Reason.CONFIGURATION_DRIFT
    assert "restart the kubelet at a time of your choice first" in finding.detail
    assert "kubelet.configurationDrift: Accept" in finding.detail
    assert ask(WARNINGS, find(start(CONFIGURATION), DriftPolicy.REFUSE)) == ()


def test_what_is_accepted_is_told_all_the_same() -> None:
    accepted = find(start(CONFIGURATION), DriftPolicy.ACCEPT)

    assert list(ask(CHECKS, accepted)) == []
    [caution] = ask(WARNINGS, accepted)
    assert caution.reason is Reason.CONFIGURATION_DRIFT
    assert "after a rollback so does the old one" in caution.detail
    assert "/var/lib/kubelet/config.yaml was changed" in caution.detail


def test_nobody_can_accept_what_nobody_knows() -> None:
    unknown = start(changed("/opt/start", FileRole.UNIT), unit=started_unit(start_line="/opt/start $ARGS"))

    [finding] = ask(CHECKS, find(unknown, DriftPolicy.ACCEPT))

    assert "Accept" not in finding.detail
    assert ask(WARNINGS, find(unknown, DriftPolicy.ACCEPT)) == ()


def test_the_command_line_to_come_is_known_where_it_is_another_one() -> None:
    drifted = replace(start(), environment_files={FILE: b"ARGS='--v=4 --max-pods=3'"})

    assert find(drifted, DriftPolicy.ACCEPT).words == (WORDS[1], "--v=4", "--max-pods=3")
    assert find(start(), DriftPolicy.ACCEPT).words is None


@pytest.mark.parametrize("text", [b'ARGS=--v="a\\\\d"', b"ARGS=--v=a\\\\d"], ids=["quoted", "plain"])
def test_a_backslash_in_a_value_is_not_expanded_by_guesswork(text: bytes) -> None:
    """Within quotes systemd takes it away before any character, a shell only before some."""
    began = replace(start(), environment_files={FILE: text}, words=(*WORDS[:2], "--v=a\\d"))

    assert command(began).words is None


def test_a_line_as_systemd_expands_it() -> None:
    line = "/usr/bin/kubelet ${CONFIG} --a=$ARGS --b=$$x --v=2"
    words = ("/usr/bin/kubelet", "--config=/var/lib/kubelet/config.yaml", "--a=$ARGS", "--b=$x", "--v=2")

    assert find(start(unit=started_unit(start_line=line), words=words), DriftPolicy.REFUSE) == Drift()


@pytest.mark.parametrize(
    ("running", "gates"),
    [
        (None, None),
        (SHOWN, {}),
        ({**SHOWN, "featureGates": {"A": True, "B": False}}, {"A": True, "B": False}),
        ({**SHOWN, "featureGates": "none"}, {}),
    ],
)
def test_the_gates_are_those_that_the_kubelet_reports(running: Json | None, gates: dict[str, bool] | None) -> None:
    assert find(start(running=running), DriftPolicy.REFUSE).gates == gates

"""Tests for the systemd manager, with scripts in place of systemctl."""

import functools
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.device_rules import UnitDevices
from nodeupgrade.node.host.systemd import systemctl
from nodeupgrade.node.host.systemd.fence import Fence
from nodeupgrade.node.host.systemd.manager import LOG_LINES, SystemdManager, output_of
from tests.builders.looks import at_once
from tests.builders.systemd_output import KUBEADM, shown_command


@pytest.mark.parametrize(
    ("shown", "program", "line"),
    [
        ([shown_command("/usr/bin/kubelet $ARGS --v=2")], "/usr/bin/kubelet", "/usr/bin/kubelet $ARGS --v=2"),
        ([shown_command("/opt/a b/k", "/opt/a b/k")], "/opt/a b/k", "/opt/a b/k"),
        ([shown_command("/bin/a", "/bin/a"), shown_command("/bin/b", "/bin/b")], "", ""),
        ([], "", ""),
    ],
)
def test_the_program_is_told_only_where_there_is_one(shown: list[str], program: str, line: str, tmp_path: Path) -> None:
    text = "\n".join(f"ExecStart={each}" for each in shown)
    status = SystemdManager(prefix=(stub(tmp_path, text),)).status("x.service")

    assert (status.program, status.start_line, len(status.commands)) == (program, line, len(shown))
    assert status.command == (), "no words are certain here"


@pytest.mark.parametrize(
    ("shown", "reported"),
    [
        ("", ()),
        ("FailureAction=none\nSuccessAction=none\nStartLimitAction=none\nJobTimeoutAction=none\nOnFailure=\n", ()),
        ("FailureAction=reboot-force\n", ("FailureAction=reboot-force",)),
        ("StartLimitAction=poweroff\nSuccessAction=exit\n", ("SuccessAction=exit", "StartLimitAction=poweroff")),
        ("JobTimeoutAction=reboot-immediate\n", ("JobTimeoutAction=reboot-immediate",)),
        ("OnFailure=mail@kubelet.service reboot.target\n", ("OnFailure=reboot.target",)),
        ("OnSuccess=systemd-poweroff.service\n", ("OnSuccess=systemd-poweroff.service",)),
        ("OnFailure=reboot-notice.service my-reboot.target\n", ()),
    ],
)
def test_what_reboots_or_stops_the_machine_is_reported(shown: str, reported: tuple[str, ...], tmp_path: Path) -> None:
    assert SystemdManager(prefix=fake(tmp_path, f'printf "{shown}"')).status("x.service").ends_machine == reported


@pytest.mark.parametrize(
    ("output", "error", "namespace", "where"),
    [
        ("journal", "inherit", "", ""),
        ("journal+console", "inherit", "", ""),
        ("syslog", "inherit", "", ""),
        ("null", "journal", "", ""),
        ("", "", "", ""),
        ("append", "inherit", "", "StandardOutput=append"),
        ("journal", "file", "", "StandardError=file"),
        ("journal", "null", "", "StandardError=null"),
        ("inherit", "inherit", "", "StandardOutput=inherit"),
        ("kmsg", "", "", "StandardOutput=kmsg"),
        ("journal", "inherit", "runtimes", "LogNamespace=runtimes"),
        ("null", "file", "runtimes", "StandardError=file"),
    ],
)
def test_where_a_service_logs_is_told_unless_it_is_the_journal(
    output: str, error: str, namespace: str, where: str, tmp_path: Path
) -> None:
    assert output_of(output, error, namespace) == where

    shown = f"StandardOutput={output}\nStandardError={error}\nLogNamespace={namespace}\n"
    status = SystemdManager(prefix=fake(tmp_path, f'printf "{shown}"')).status("x.service")
    assert status.output == where
    files = [("StandardOutput", output), ("StandardError", error)]
    assert status.log_files == tuple(f"{name}={value}" for name, value in files if value in {"append", "file"})


@pytest.mark.parametrize(("shown", "transient"), [("Transient=yes", True), ("Transient=no", False), ("", False)])
def test_a_unit_that_was_made_at_run_time_is_told(shown: str, transient: bool, tmp_path: Path) -> None:
    assert SystemdManager(prefix=fake(tmp_path, f"echo {shown}")).status("x.service").transient is transient


def test_what_a_unit_unsets_is_told(tmp_path: Path) -> None:
    shown = 'UnsetEnvironment=GOGC \\"A=b c\\"'
    assert SystemdManager(prefix=fake(tmp_path, f'echo "{shown}"')).status("x.service").unset == ("GOGC", "A=b c")


def test_a_command_with_a_line_break_is_shown_whole(tmp_path: Path) -> None:
    """As in ``printf "a\\nb"``, which systemd resolves when it reads the unit."""
    lines = ["/bin/true", "/bin/sh -c echo a\ncp /a /usr/bin/kubelet"]
    shown = [*(f"ExecStartPre={shown_command(line, line.split()[0])}" for line in lines), "Result=success"]
    status = SystemdManager(prefix=(stub(tmp_path, "\n".join(shown)),)).status("x.service")

    assert [command.line for command in status.commands] == lines
    assert status.result == "success"


def fake(tmp_path: Path, script: str) -> tuple[str, ...]:
    """A prefix that runs a script instead of systemctl, with its arguments."""
    program = tmp_path / "fake"
    program.write_text(f"#!/bin/sh\nshift\n{script}\n")
    program.chmod(0o755)
    return (str(program),)


def test_failures_carry_what_systemctl_said(tmp_path: Path) -> None:
    services = SystemdManager(prefix=fake(tmp_path, 'echo "Unit $2 is masked." >&2; exit 1'))
    with pytest.raises(StepFailed, match=r"systemctl stop x\.service ended with status 1: Unit x\.service is masked\."):
        services.stop("x.service")


def test_a_hanging_systemctl_is_given_up(tmp_path: Path) -> None:
    services = SystemdManager(prefix=fake(tmp_path, "exec sleep 60"), timeout=0.2)
    with pytest.raises(StepFailed, match=r"did not end within 0\.2 s"):
        services.stop("x.service")


def test_a_unit_that_takes_long_to_restart_is_not_waited_for_longer(tmp_path: Path) -> None:
    """A container runtime may wait for what pods have put in its way; systemd goes on to start it."""
    services = SystemdManager(prefix=fake(tmp_path, 'test "$1" = reset-failed || exec sleep 600'))
    services.restart("x.service", seconds=0.2)

    services = SystemdManager(prefix=fake(tmp_path, 'test "$1" = reset-failed || exit 1'))
    with pytest.raises(StepFailed):
        services.restart("x.service", seconds=60)


RESTART = functools.partial(SystemdManager.restart, seconds=60)
GOES_AWAY = 'echo "$1" >> {calls}; test $(wc -l < {calls}) -gt 2 || {{ echo "{said}" >&2; exit 1; }}'
REEXECUTED = "Failed to get properties: Message recipient disconnected from message bus without replying"
NOT_CONNECTED = "Failed to get properties: Transport endpoint is not connected"


@pytest.mark.parametrize("said", [REEXECUTED, NOT_CONNECTED, "Failed to start x.service: Connection reset by peer"])
@pytest.mark.parametrize("call", [SystemdManager.status, SystemdManager.start, RESTART])
def test_a_systemd_that_executes_itself_anew_is_asked_again(tmp_path: Path, said: str, call: Any) -> None:
    calls = tmp_path / "calls"
    call(SystemdManager(prefix=fake(tmp_path, GOES_AWAY.format(calls=calls, said=said))), "x.service")
    assert len(calls.read_text().split()) >= 3


def test_nothing_is_killed_twice(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    SystemdManager(prefix=fake(tmp_path, GOES_AWAY.format(calls=calls, said=REEXECUTED))).kill("x.service")
    assert calls.read_text().split() == ["kill"]


def test_a_systemd_that_stays_away_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemctl, "SILENT_SECONDS", 0.5)
    with pytest.raises(StepFailed, match="disconnected from message bus"):
        SystemdManager(prefix=fake(tmp_path, f'echo "{REEXECUTED}" >&2; exit 1')).reload(at_once)


def test_a_missing_systemctl_is_said_to_be_missing() -> None:
    with pytest.raises(StepFailed, match="cannot run systemctl"):
        SystemdManager(prefix=("/nowhere/chroot",)).reload(at_once)


def test_a_unit_that_comes_back_was_not_stopped(tmp_path: Path) -> None:
    services = SystemdManager(prefix=fake(tmp_path, 'test "$1" = stop || printf "ActiveState=active\\nMainPID=7\\n"'))
    with pytest.raises(StepFailed, match="active again right after the stop"):
        services.stop("x.service")


@pytest.mark.parametrize(
    "shown", ["LoadState=loaded\\nActiveState=failed", "LoadState=not-found\\nActiveState=inactive"]
)
def test_what_was_stopped_is_not_listed_as_failed_for_ever(tmp_path: Path, shown: str) -> None:
    """As a timer whose file was deleted and written again: it has failed, and stays listed once the file is removed."""
    calls = tmp_path / "calls"
    services = SystemdManager(prefix=fake(tmp_path, f'echo "$*" >> {calls}; test "$1" != show || printf "{shown}\\n"'))

    services.stop("x.timer")

    assert calls.read_text().splitlines()[-1] == "reset-failed x.timer"


def test_a_fence_that_systemd_ignores_is_no_fence(tmp_path: Path) -> None:
    services = SystemdManager(
        prefix=fake(tmp_path, 'test "$1" = daemon-reload || echo LoadState=loaded'), root=tmp_path
    )
    with pytest.raises(StepFailed, match="ignores the drop-in"):
        services.mask("x.service", at_once)
    assert not Fence("x.service", tmp_path).up()


@pytest.mark.parametrize("unit", ["kubelet", "../x.service", "-x.service", "a b.service", ""])
def test_only_full_names_of_units_are_taken(unit: str) -> None:
    with pytest.raises(StepFailed, match="not the full name of a unit"):
        SystemdManager().status(unit)


LOGGING = 'if test "$1" = show; then echo InvocationID=abc; else yes "line $*" | head -n {lines}; fi'


def test_the_log_is_that_of_the_last_start(tmp_path: Path) -> None:
    [line] = SystemdManager(prefix=fake(tmp_path, LOGGING.format(lines=1))).log("x.service")

    assert "_SYSTEMD_INVOCATION_ID=abc + OBJECT_SYSTEMD_INVOCATION_ID=abc _TRANSPORT=driver" in line, (
        "any user may write a message about a unit, only the journal itself one by the transport driver"
    )


def test_a_log_too_long_to_be_whole_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemctl, "JOURNAL_SECONDS", 600)
    assert SystemdManager(prefix=fake(tmp_path, LOGGING.format(lines=LOG_LINES))).log("x.service") == ()
    assert SystemdManager(prefix=fake(tmp_path, "true")).log("x.service") == ()


LONG = """\
case "$*" in
show*) echo InvocationID=abc;;
*short-monotonic*) printf '{oldest}vm containerd[1]: x\\n';;
*) yes "line $*" | head -n {lines};;
esac
"""


@pytest.mark.parametrize(
    ("oldest", "whole"),
    [("[   99.999999] ", True), ("[  100.000000] ", False), ("[1234.5] ", False), ("no entries ", False)],
)
def test_of_a_log_too_long_to_be_whole_the_newest_lines_are_taken_if_they_go_back_far_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oldest: str, whole: bool
) -> None:
    monkeypatch.setattr(systemctl, "JOURNAL_SECONDS", 600)
    services = SystemdManager(prefix=fake(tmp_path, LONG.format(oldest=oldest, lines=LOG_LINES)))

    log = services.log("x.service", since=AwakeTime(100))

    assert len(log) == (LOG_LINES if whole else 0)
    assert all("_SYSTEMD_INVOCATION_ID=abc + OBJECT" in line for line in log)


STARTED = """\
if test "$1" = show; then echo "ExecMainStartTimestamp={shown}"; else echo "$*" >> {calls}; printf '{oldest}'; fi
"""


@pytest.mark.parametrize(
    ("shown", "oldest", "remembers"),
    [
        ("Sat 2026-11-28 18:00:00 UTC", "what came before\\n", True),
        ("Sat 2026-11-28 18:00:00 UTC", "", False),
        ("", "what came before\\n", False),
    ],
    ids=["whole", "its beginning is gone", "never started"],
)
def test_a_journal_remembers_a_start_while_it_has_anything_from_before(
    tmp_path: Path, shown: str, oldest: str, remembers: bool
) -> None:
    """It gives up its oldest files for the newest messages, with which any user of the node can fill it."""
    calls = tmp_path / "calls"
    services = SystemdManager(prefix=fake(tmp_path, STARTED.format(shown=shown, calls=calls, oldest=oldest)))

    assert services.remembers_start("x.service") is remembers
    if shown:
        assert "--reverse --boot --system --until=@1795888800" in calls.read_text()


def test_a_log_that_takes_long_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemctl, "JOURNAL_SECONDS", 0.3)
    services = SystemdManager(prefix=fake(tmp_path, 'test "$1" = show && echo InvocationID=abc || exec sleep 60'))

    with pytest.raises(StepFailed, match=r"did not end within 0\.3 s"):
        services.log("x.service")


def test_a_log_whose_lines_are_long_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods decide what their probes print, and the kernel ends the executor last."""
    monkeypatch.setattr(systemctl, "LARGEST_ANSWER", 100_000)
    services = SystemdManager(prefix=fake(tmp_path, 'test "$1" = show && echo InvocationID=abc || exec yes'))

    with pytest.raises(StepFailed, match="it prints more than 100000 bytes"):
        services.log("x.service")


def test_what_stops_with_a_unit_is_told_whatever_binds_it_and_what_it_requires(tmp_path: Path) -> None:
    shown = r"LoadState=loaded\nBoundBy=b.service\nRequiredBy=a.service b.service\nPropagatesStopTo=c.service\n"
    shown += r"RequisiteOf=d.service\nRequires=sysinit.target e.service\nBindsTo=e.service\nRequisite=f.service\n"
    shown += r"After=basic.target f.service sysinit.target\nCanStart=yes"
    status = SystemdManager(prefix=fake(tmp_path, f"printf '{shown}\nControlGroup=/system.slice/x.service\n'")).status(
        "x.service"
    )

    assert status.bound_by == ("a.service", "b.service", "c.service", "d.service")
    assert status.requires == ("e.service", "f.service", "sysinit.target")
    assert status.awaits == ("f.service", "sysinit.target")
    assert status.requisite == ("f.service",)
    assert status.startable
    assert status.control_group == "/system.slice/x.service"


@pytest.mark.parametrize(("shown", "startable"), [("CanStart=no", False), ("", True)], ids=["refused", "not shown"])
def test_a_unit_that_nobody_may_start_by_hand_is_told(shown: str, startable: bool, tmp_path: Path) -> None:
    """RefuseManualStart=yes, as systemd 252 shows it."""
    status = SystemdManager(prefix=(stub(tmp_path, f"LoadState=loaded\n{shown}"),)).status("x.service")

    assert status.startable is startable


@pytest.mark.parametrize("name", ["EnvironmentFiles", "EnvironmentFile"], ids=["252", "219"])
def test_environment_files_have_two_names(name: str, tmp_path: Path) -> None:
    shown = [
        "LoadState=loaded", "ActiveState=active", "SubState=running", "MainPID=7", "Result=success",
        f"{name}=/var/lib/kubelet/kubeadm-flags.env (ignore_errors=yes)",
        f"{name}=/etc/sysconfig/kubelet (ignore_errors=no)",
        f"Environment={KUBEADM.replace(' ', chr(92) + 'x20')}",
    ]  # fmt: skip
    manager = SystemdManager(prefix=(stub(tmp_path, "\n".join(shown)),))

    status = manager.status("kubelet.service")

    assert status.environment_files == (
        ("/var/lib/kubelet/kubeadm-flags.env", False),
        ("/etc/sysconfig/kubelet", True),
    )
    assert status.environment == (KUBEADM,)
    assert (status.restarts, status.running) == (0, True), "systemd before 235 does not count restarts"


@pytest.mark.parametrize(
    ("shown", "version"),
    [("Version=252.38-1~deb12u1", 252), ("Version=219", 219), ("Version=systemd 204", 204), ("Version=v257-rc1", 257)],
)
def test_the_version_of_systemd(shown: str, version: int, tmp_path: Path) -> None:
    assert SystemdManager(prefix=(stub(tmp_path, shown),)).version() == version


def test_a_version_that_is_not_shown_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="cannot read the version"):
        SystemdManager(prefix=(stub(tmp_path, ""),)).version()


def test_the_environment_of_all_services_is_read_as_each_version_shows_it(tmp_path: Path) -> None:
    shown = ["PATH=/usr/bin", "OLD=a b", r"""NEW=$'c d'""", 'ALSO="e f"', "EMPTY="]
    environment = SystemdManager(prefix=(stub(tmp_path, "\n".join(shown)),)).environment()

    assert environment == {"PATH": "/usr/bin", "OLD": "a b", "NEW": "c d", "ALSO": "e f", "EMPTY": ""}


@pytest.mark.parametrize(
    ("shown", "names"),
    [
        (r'-.mount "srv-a\\x2db.mount" system.slice', ("-.mount", r"srv-a\x2db.mount", "system.slice")),
        (r"-.mount srv-a\x2db.mount", ("-.mount", r"srv-a\x2db.mount")),  # 234 to 245
        (r"-.mount srv-a\x5cx2db.mount", ("-.mount", r"srv-a\x2db.mount")),  # 219 to 233
    ],
)
def test_every_unit_that_one_requires_can_be_asked_for(shown: str, names: tuple[str, ...], tmp_path: Path) -> None:
    """A unit with a WorkingDirectory, or with PrivateTmp, requires the mounts above it; / is the first of them."""
    services = SystemdManager(prefix=(stub(tmp_path, f"LoadState=loaded\nRequires={shown}\nBoundBy={shown}"),))
    status = services.status("x.service")

    assert status.requires == status.bound_by == names
    assert {services.status(name).load_state for name in names} == {"loaded"}


def test_no_name_of_a_unit_is_an_option(tmp_path: Path) -> None:
    asked = 'test "$3 $4" = "-- -.mount" && echo LoadState=loaded'
    assert SystemdManager(prefix=fake(tmp_path, asked)).status("-.mount").load_state == "loaded"


def stub(directory: Path, shown: str) -> str:
    """A program that shows the same whatever it is asked."""
    (directory / "shown").write_text(f"{shown}\n")
    program = directory / "systemctl"
    program.write_text(f"#!/bin/sh\ncat {directory}/shown\n")
    program.chmod(0o755)
    return str(program)


SCOPES = """Id=cri-containerd-1.scope\\nControlGroup=/kubepods.slice/cri-containerd-1.scope\\nDevicePolicy=strict
DeviceAllow=/dev/char/1:3 rwm\\nDeviceAllow=char-pts rwm\\n
Id=session-1.scope\\nControlGroup=\\nDevicePolicy=auto\\n"""


def test_the_devices_of_scopes_are_read_by_one_call(tmp_path: Path) -> None:
    asked = "show --property=Id,ControlGroup,DevicePolicy,DeviceAllow -- *.scope"
    said = f'[ "$*" = "{asked}" ] && printf "{SCOPES}"'

    assert SystemdManager(prefix=fake(tmp_path, said)).devices() == {
        "cri-containerd-1.scope": UnitDevices(
            policy="strict",
            allowed=("/dev/char/1:3 rwm", "char-pts rwm"),
            group="/kubepods.slice/cri-containerd-1.scope",
        ),
        "session-1.scope": UnitDevices(policy="auto"),
    }
    assert SystemdManager(prefix=fake(tmp_path, "exit 0")).devices() == {}
    with pytest.raises(StepFailed, match=r"cannot read what systemd shows of \*\.scope: 'DevicePolicy=auto'"):
        SystemdManager(prefix=fake(tmp_path, "echo DevicePolicy=auto")).devices()


def test_nothing_is_reloaded_where_the_look_objects(tmp_path: Path) -> None:
    """Whoever asks for a reload gives the last look before it."""
    asked = tmp_path / "asked"
    manager = SystemdManager(prefix=fake(tmp_path, f'echo "$@" >> {asked}'))

    def objects() -> None:
        raise StepFailed("a device would be lost")

    with pytest.raises(StepFailed, match="a device would be lost"):
        manager.reload(objects)
    assert not asked.exists()
    manager.reload(lambda: None)
    assert "daemon-reload" in asked.read_text()

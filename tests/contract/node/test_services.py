"""What every ServiceManager promises."""

import pytest

from e2e.lab.process import wait_until
from nodeupgrade.errors import StepFailed
from tests.builders.looks import at_once
from tests.contract.node.real import SystemdWorld
from tests.contract.node.worlds import ServicesWorld


def test_stopping_and_starting_may_be_repeated(services_world: ServicesWorld) -> None:
    services, unit = services_world.services, services_world.unit
    first = services.status(unit)
    assert first.running

    for _ in range(2):
        services.stop(unit)
    stopped = services.status(unit)
    assert (stopped.active_state, stopped.main_pid, stopped.running) == ("inactive", 0, False)

    for _ in range(2):
        services.start(unit)
    again = services.status(unit)
    assert again.running
    assert again.main_pid != first.main_pid
    assert again.program == first.program != ""


def test_the_start_of_a_unit_can_be_compared_with_the_clock(services_world: ServicesWorld) -> None:
    services, unit = services_world.services, services_world.unit
    services.stop(unit)

    before = services_world.awake()
    services.start(unit)
    started = services.status(unit).started
    after = services_world.awake()

    assert started is not None
    assert before <= started <= after


def test_scopes_have_their_own_devices(services_world: ServicesWorld) -> None:
    for name, devices in services_world.services.devices().items():
        assert name.endswith(".scope")
        assert devices.policy in {"auto", "closed", "strict"}


def test_their_names_are_those_of_the_scopes(services_world: ServicesWorld) -> None:
    assert services_world.services.scope_names() == services_world.services.devices().keys()


def test_a_fenced_unit_runs_on_but_cannot_be_started(services_world: ServicesWorld) -> None:
    services, unit = services_world.services, services_world.unit
    before = services.status(unit)

    for _ in range(2):
        services.mask(unit, at_once)

    fenced = services.status(unit)
    assert (fenced.main_pid, fenced.running, fenced.fenced) == (before.main_pid, True, True)
    services.stop(unit)
    with pytest.raises(StepFailed):
        services.start(unit)
    down = services.status(unit)
    assert (down.running, down.main_pid, down.fenced) == (False, 0, True)

    for _ in range(2):
        services.unmask(unit)
    assert not services.status(unit).fenced
    services.start(unit)
    assert services.status(unit).running


def test_a_fenced_unit_that_dies_stays_dead(services_world: ServicesWorld) -> None:
    services, unit = services_world.services, services_world.unit
    services.mask(unit, at_once)

    services_world.kill()

    assert not services.status(unit).running
    services.unmask(unit)


def test_without_a_fence_it_is_restarted(services_world: ServicesWorld) -> None:
    """The control: what the fence prevents does happen without it."""
    services_world.kill()

    status = services_world.services.status(services_world.unit)
    assert (status.running, status.restarts) == (True, 1)


def test_what_is_run_beside_the_program_is_told_as_of_the_last_reload(services_world: ServicesWorld) -> None:
    services, unit = services_world.services, services_world.unit
    before = services.status(unit)
    assert [c.program for c in before.commands if c.when == "ExecStart"] == [before.program]

    path = services_world.write_drop_in("[Service]\nExecStartPre=-/bin/true one two\nEnvironmentFile=-/etc/none\n")
    unread = services.status(unit)
    assert (unread.commands, unread.drop_ins, unread.needs_reload) == (before.commands, before.drop_ins, True)

    services.reload(at_once)
    read = services.status(unit)
    assert (set(read.drop_ins) - set(before.drop_ins), read.needs_reload) == ({path}, False)
    [added] = set(read.commands) - set(before.commands)
    assert (added.when, added.program, added.line) == ("ExecStartPre", "/bin/true", "/bin/true one two")
    assert added.may_fail
    assert set(read.environment_files) - set(before.environment_files) == {("/etc/none", False)}


def test_a_drop_in_that_is_written_anew_as_it_was_needs_no_reload(services_world: ServicesWorld) -> None:
    services, unit = services_world.services, services_world.unit
    text = '[Service]\nEnvironment="KUBELET_NODE_IP=10.0.0.1"\n'
    services_world.write_drop_in(text)
    services.reload(at_once)

    services_world.write_drop_in(text)
    assert not services.status(unit).needs_reload
    services_world.write_drop_in(text.replace("10.0.0.1", "10.0.0.2"))
    assert services.status(unit).needs_reload


@pytest.mark.e2e
class TestSystemd:
    """What only the real systemd can show."""

    def test_logind_is_asked_in_its_own_words(self, systemd: SystemdWorld) -> None:
        """Its answer would be empty, and so never yes, if it did not know the question."""
        asked = systemd.node.exec("loginctl", "show-session", "--property=PreparingForShutdown")
        assert asked.stdout.strip() == "PreparingForShutdown=no"
        assert not systemd.services.shuts_down()

    def test_a_unit_that_takes_its_time_to_stop_can_be_killed(self, systemd: SystemdWorld) -> None:
        slow = systemd.write_drop_in("[Service]\nExecStop=/bin/sleep 300\nTimeoutStopSec=600\n")
        systemd.services.reload(at_once)
        systemd.services.stop(systemd.unit, wait=False)

        def state() -> str:
            return systemd.services.status(systemd.unit).active_state

        wait_until("it stops", lambda: state() == "deactivating", timeout=60)

        for _ in range(2):
            systemd.services.kill(systemd.unit)

        wait_until("it is gone", lambda: state() in {"failed", "inactive"}, timeout=60)
        systemd.node.exec("rm", slow)
        systemd.services.reload(at_once)
        systemd.services.start(systemd.unit)
        assert systemd.services.status(systemd.unit).running

    def test_an_unknown_unit_is_not_found(self, systemd: SystemdWorld) -> None:
        assert systemd.services.status("no-such-thing.service").load_state == "not-found"
        with pytest.raises(StepFailed, match=r"no-such-thing\.service"):
            systemd.services.start("no-such-thing.service")
        with pytest.raises(StepFailed, match="not the full name of a unit"):
            systemd.services.start("--force")

    @pytest.mark.parametrize(
        "command",
        [
            ("start",),
            ("restart",),
            ("start", "--job-mode=ignore-dependencies"),
            ("reload-or-restart",),
        ],
        ids=" ".join,
    )
    def test_nobody_starts_a_fenced_unit(self, systemd: SystemdWorld, command: tuple[str, ...]) -> None:
        systemd.services.mask(systemd.unit, at_once)
        systemd.services.stop(systemd.unit)
        systemd.services.reload(at_once)

        assert systemd.systemctl(*command, systemd.unit).returncode != 0
        systemd.systemctl("start", "multi-user.target")
        assert not systemd.services.status(systemd.unit).running

    def test_a_runtime_mask_would_not_hold_everywhere(self, systemd: SystemdWorld) -> None:
        """Why the fence is no mask: where a person put the unit file, a mask in /run has no effect."""
        systemd.services.stop(systemd.unit)
        systemd.systemctl("mask", "--runtime", systemd.unit)
        started = systemd.systemctl("start", systemd.unit).returncode == 0
        in_etc = systemd.services.status(systemd.unit).fragment_path.startswith("/etc/")
        systemd.systemctl("unmask", "--runtime", systemd.unit)

        assert started == in_etc

    def test_lifting_the_fence_leaves_nothing(self, systemd: SystemdWorld) -> None:
        shown = ("show", "--property=DropInPaths,NeedDaemonReload,FragmentPath", systemd.unit)
        before = systemd.systemctl(*shown).stdout

        systemd.services.mask(systemd.unit, at_once)
        assert systemd.systemctl(*shown).stdout != before
        systemd.services.remove_mask(systemd.unit)
        systemd.services.reload(at_once)
        assert systemd.services.status(systemd.unit).fenced, "one that is up is not removed"
        systemd.services.unmask(systemd.unit)
        systemd.services.remove_mask(systemd.unit)
        systemd.services.reload(at_once)

        assert systemd.systemctl(*shown).stdout == before
        left = systemd.node.exec("find", "/run/systemd/system", "/run/nodeupgrade", check=False).stdout
        assert "fence" not in left

    def test_where_there_is_no_space_a_unit_is_fenced_again(self, systemd: SystemdWorld) -> None:
        """A rollback fences a unit that was fenced before and started since; nothing else may need space for that."""
        systemd.services.mask(systemd.unit, at_once)
        systemd.services.unmask(systemd.unit)
        with systemd.node.full_run():
            assert systemd.node.exec("sh", "-c", "head -c 65536 /dev/zero > /run/more", check=False).returncode != 0
            systemd.services.mask(systemd.unit, at_once)
            assert systemd.services.status(systemd.unit).fenced
        systemd.node.exec("rm", "-f", "/run/more")
        systemd.services.unmask(systemd.unit)
        systemd.services.remove_mask(systemd.unit)

    def test_masks_of_an_administrator_stay(self, systemd: SystemdWorld) -> None:
        systemd.services.stop(systemd.unit)
        systemd.node.exec("mkdir", "-p", "/run/systemd/system.control")
        systemd.node.exec("ln", "-s", "/dev/null", f"/run/systemd/system.control/{systemd.unit}")
        systemd.services.reload(at_once)
        try:
            systemd.services.mask(systemd.unit, at_once)
            assert systemd.services.status(systemd.unit).fenced
            systemd.services.unmask(systemd.unit)
            assert systemd.services.status(systemd.unit).load_state == "masked"
        finally:
            systemd.node.exec("rm", f"/run/systemd/system.control/{systemd.unit}")
            systemd.services.reload(at_once)

    def test_a_reached_start_limit_does_not_keep_it_down(self, systemd: SystemdWorld) -> None:
        for _ in range(8):
            systemd.systemctl("restart", systemd.unit)
        assert systemd.systemctl("start", systemd.unit).returncode != 0, "the limit is real"

        systemd.services.restart(systemd.unit, seconds=60)
        assert systemd.services.status(systemd.unit).running

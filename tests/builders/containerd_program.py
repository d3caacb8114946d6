"""A stand-in for containerd's program, and for the unit that starts it."""

import tomllib

from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.containerd.command_line import STANDARD_INPUT
from nodeupgrade.node.runtimes.containerd.next_start import Configuration, ContainerdProgram
from nodeupgrade.node.runtimes.containerd.restart_tuning import SETTING, USUAL
from tests.doubles.node.calls import Calls
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.timeline import Timeline

PROGRAM = "/usr/bin/containerd"
CONFIG = "/etc/containerd/config.toml"


class FakeProgram(ContainerdProgram):
    """Shows a configuration as ``containerd config dump`` does; of what is in the file, only what matters here.

    Attributes:
        mute: it shows nothing.
        slow: it does not end in time.
        tells_places: otherwise it says nothing of where it keeps things.
    """

    def __init__(self, disk: dict[str, bytes] | None = None) -> None:
        super().__init__()
        self.disk = {} if disk is None else disk
        self.files: FilesView = SimulatedFiles(self.disk, Calls(Timeline()))
        self.mute = self.slow = False
        self.tells_places = True

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        if self.slow:
            raise TimedOut(f"{PROGRAM} config dump did not end within 10 s")
        if self.mute:
            return None
        named = command[command.index("--config") + 1] if "--config" in command else CONFIG
        try:
            own = tomllib.loads(self.disk.get(CONFIG, b"").decode())
            given = tomllib.loads((text if named == STANDARD_INPUT else self.disk.get(named, b"")).decode())
        except ValueError as error:
            raise StepFailed(f"containerd: failed to load TOML: {named}: {error}") from error
        address = {"grpc": {"address": "/run/containerd/containerd.sock"}}
        places = {"root": own.get("root", "/var/lib/containerd"), "state": "/run/containerd", **address}
        version = {} if named == CONFIG else {"version": given.get("version", 2)}
        read = [path for path in (named, CONFIG) if path in self.disk or path == STANDARD_INPUT]
        timeouts = {SETTING: USUAL, "other": "2s", **given.get("timeouts", {})}
        return {
            "version": 2, **(places if self.tells_places else {}), **version, "imports": read, "timeouts": timeouts
        }  # fmt: skip


def unit(*command: str, program: str | None = None) -> UnitStatus:
    """A unit that starts containerd with that command line."""
    return UnitStatus(
        name="containerd.service", load_state="loaded", active_state="active", sub_state="running", main_pid=1,
        command=command, program=(command[0] if command else "") if program is None else program,
    )  # fmt: skip

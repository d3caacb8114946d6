"""The files that a runtime's next start reads: which of them were changed after its process started."""

from dataclasses import replace

import pytest

from nodeupgrade.node.facts import runtime
from tests.doubles.node import SimulatedNode, pod_json
from tests.doubles.node.containers.runtime_restart import RUNTIME_UNIT


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ({}, ()),
        ({"/usr/share/it": 4e9, "/usr/share/it/hooks": 4e9}, ()),
        ({"/usr/share/it": 4e9, "/usr/share/it/hooks": 4e9 + 1}, ()),
        ({"/usr/share/it": 4e9 + 1, "/usr/share/it/hooks": 4e9}, ("/usr/share/it",)),
        ({"/usr/share/it": 4e9}, ("/usr/share/it",)),
        ({"/etc/it": 4e9, "/usr/share/it/hooks": 4e9}, ("/etc/it",)),
    ],
)
def test_what_the_runtime_made_itself_is_no_change_of_its_configuration(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], found: tuple[str, ...]
) -> None:
    """A file that is not there is told to be gone by its directory's time, which more than a removal changes."""
    seen = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx")])
    unit = seen.services.status(RUNTIME_UNIT)
    following = replace(
        seen.runtime.next_start(unit, None),
        files=("/etc/it/it.conf", "/usr/share/it/it.conf"),
        makes=("/usr/share/it/hooks",),
    )
    monkeypatch.setattr(seen.runtime, "next_start", lambda _unit, _running: following)
    seen.files.touched.update(times)

    looked, _ = runtime.find(seen.ports, unit, seen.runtime.info())

    assert looked.changed == found

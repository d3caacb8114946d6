"""Wait until an API server serves what a CRD defines."""

import json
from collections.abc import Callable

from e2e.lab.process import wait_until

OURS = ("nodeupgrades.nodeupgrade.dev", "nodeupgradetasks.nodeupgrade.dev")
_SECONDS = 180


def wait_until_established(kubectl: Callable[..., str], *names: str) -> None:
    """Wait until CRDs are established; ``kubectl`` runs it with arguments and returns what it prints.

    `kubectl wait` fails at a CRD that has just been created: its conditions are null until they are first set.

    Raises:
        LabError: one is not established after three minutes (times ``patience``).
    """

    def are_established() -> bool:
        return all(_is_established(kubectl("get", "crd", name, "--output=json")) for name in names)

    wait_until(f"establishing {', '.join(names)}", are_established, _SECONDS)


def _is_established(crd: str) -> bool:
    conditions = json.loads(crd).get("status", {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)

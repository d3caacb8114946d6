"""Tests the checks of the surroundings of a kubelet."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.kubelet.settings import configured
from tests.builders.surroundings_cases import CHECKS, GIB, REFUSED, RESERVED, WARNINGS, around, group


@pytest.mark.parametrize(("reason", "told", "given"), REFUSED.values(), ids=REFUSED.keys())
def test_what_forbids_a_run(reason: Reason, told: str, given: dict[str, Any]) -> None:
    (finding,) = ask(CHECKS, around(**given))

    assert (finding.reason, finding.forbids) == (reason, True)
    assert told in finding.detail


LET_PASS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "nothing is known": {"hostname": "", "cgroups": None, "node": {}},
    "daemons that outlive the kubelet": {"daemons": ("glusterfs (77)",), "ends_all": False},
    "a cloud provider that names the node": {
        "hostname": "ip-10-0-0-1", "settings": configured(("--cloud-provider=aws",)),
    },
    "the Node's name on the command line": {
        "hostname": "ip-10-0-0-1", "settings": configured(("--hostname-override=node-a",)),
    },
    "a lower limit that covers the usage": {"settings": RESERVED, "cgroups": group(used=5 * GIB)},
    "the same limit, and more in use than a page": {"settings": RESERVED, "cgroups": group(limit=6 * GIB)},
    "no limit that is enforced": {
        "settings": configured(("--enforce-node-allocatable=",), b"kubeReserved: {memory: 4Gi}"), "cgroups": group(),
    },
    "usage that is unknown": {"settings": RESERVED, "cgroups": group(used=None)},
}  # fmt: skip


@pytest.mark.parametrize("given", LET_PASS.values(), ids=LET_PASS.keys())
def test_what_does_no_harm_is_let_pass(given: dict[str, Any]) -> None:
    assert ask((*CHECKS, *WARNINGS), around(**given)) == ()

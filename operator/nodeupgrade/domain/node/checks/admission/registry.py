"""The checks of admission, in the order in which their findings are reported."""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.admission.asking import (
    apparmor_is_there,
    operating_system_fits,
    sidecars_are_known,
    sysctls_are_allowed,
)
from nodeupgrade.domain.node.checks.admission.exclusive import (
    devices_are_kept,
    memory_is_not_reckoned_twice,
    numa_nodes_are_not_chosen_anew,
    whole_cores_are_not_asked_for_twice,
)
from nodeupgrade.domain.node.checks.admission.facts import Admission
from nodeupgrade.domain.node.checks.admission.fitting import pods_fit

CHECKS: tuple[Check[Admission], ...] = (
    pods_fit,
    operating_system_fits,
    sysctls_are_allowed,
    apparmor_is_there,
    sidecars_are_known,
    devices_are_kept,
    memory_is_not_reckoned_twice,
    whole_cores_are_not_asked_for_twice,
    numa_nodes_are_not_chosen_anew,
)

"""The checks of admission, in the order in which their findings are reported."""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.admission.asking import (
    apparmor_is_there,
    operating_system_fits,
    sidecars_are_known,
    sysctls_are_allowed,
)
from nodeupgrade.domain.node.checks.admission.ended import ended_pods_keep_their_phase
from nodeupgrade.domain.node.checks.admission.exclusive import (
    devices_are_kept,
    memory_is_not_reckoned_twice,
    numa_nodes_are_not_chosen_anew,
    whole_cores_are_not_asked_for_twice,
)
from nodeupgrade.domain.node.checks.admission.facts import Admission
from nodeupgrade.domain.node.checks.admission.fitting import host_ports_are_free, pods_fit
from nodeupgrade.domain.node.checks.admission.labels import labels_are_read_first, labels_tell_the_platform
from nodeupgrade.domain.node.checks.admission.recorded import (
    claims_are_recorded,
    exclusive_cpus_are_recorded,
    exclusive_memory_is_recorded,
)
from nodeupgrade.domain.node.checks.admission.security import (
    groups_policy_is_supported,
    seccomp_profiles_are_there,
    user_namespaces_are_recorded,
    user_namespaces_stay_as_they_are,
)
from nodeupgrade.domain.node.checks.admission.static import static_pods_stand_alone

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
    exclusive_cpus_are_recorded,
    exclusive_memory_is_recorded,
    host_ports_are_free,
    labels_are_read_first,
    labels_tell_the_platform,
    groups_policy_is_supported,
    user_namespaces_are_recorded,
    static_pods_stand_alone,
)
WARNINGS: tuple[Check[Admission], ...] = (
    seccomp_profiles_are_there,
    user_namespaces_stay_as_they_are,
    claims_are_recorded,
    ended_pods_keep_their_phase,
)

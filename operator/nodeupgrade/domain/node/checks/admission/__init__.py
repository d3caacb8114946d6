"""Checks of admission: would a kubelet that starts admit every pod again? One check for each condition of admission.

A kubelet admits all pods again when it starts, running or not, static pods included, in the order of their creation
and source by source; it kills those that it rejects (kubernetes #123980, still true). The order decides which pods are
rejected, not whether any is; so these checks ask whether all of them fit together.
"""

from nodeupgrade.domain.node.checks.admission.facts import NOTHING_SEEN, Admission, HostFacts
from nodeupgrade.domain.node.checks.admission.registry import CHECKS, WARNINGS
from nodeupgrade.domain.node.checks.admission.security import has_user_namespace, seccomp_profiles

__all__ = ["CHECKS", "NOTHING_SEEN", "WARNINGS", "Admission", "HostFacts", "has_user_namespace", "seccomp_profiles"]

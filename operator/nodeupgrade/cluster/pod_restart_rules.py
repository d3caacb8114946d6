"""Restart rules of a container: what its exit code makes a kubelet do, whatever the restart policy says.

A container may name exit codes for which it is started again (kubernetes enhancement 5307), or for which all containers
of its pod are (enhancement 5532). For the latter a kubelet stops what still runs in the pod, without a grace period,
and removes every container, last the one that ended; then it starts the pod again in the same sandbox. So the one whose
end explains everything is gone when everything runs again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion

IN, NOT_IN = "In", "NotIn"
RESTART_ALL = "RestartAllContainers"
GATE = "RestartAllContainersOnContainerExits"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRule:
    """One rule of a container."""

    codes: tuple[int, ...]  # exit codes
    listed: bool = True  # whether it applies to these codes, or to all others
    whole_pod: bool = False  # whether it restarts all containers of the pod, or only its own


@dataclass(frozen=True, slots=True, kw_only=True)
class RuledContainer:
    """A container with rules, in their order: the first that applies counts."""

    pod: PodUid
    name: str
    rules: tuple[ExitRule, ...]

    def rule_for(self, exit_code: int) -> ExitRule | None:
        """Return the rule for an exit code; ``None`` if the restart policy decides."""
        return next((rule for rule in self.rules if (exit_code in rule.codes) is rule.listed), None)


def ruled(pods: Iterable[Pod], *, whole_pods: bool = True) -> tuple[RuledContainer, ...]:
    """Return the containers of pods that have rules.

    Args:
        whole_pods: whether the kubelets in question restart whole pods; if not, such a rule is about its container.
    """
    return tuple(
        RuledContainer(pod=pod.ref.uid, name=container.name, rules=rules)
        for pod in pods
        for container in pod.containers
        if (rules := tuple(_rules(container.spec, whole_pods=whole_pods)))
    )


def may_restart_whole(pod: Pod) -> bool:
    """Report whether a pod has a rule by which all of its containers are restarted."""
    return any(rule.whole_pod for container in ruled((pod,)) for rule in container.rules)


def restarts_whole_pods(kubelets: Iterable[KubeletVersion], gates: Mapping[str, bool]) -> bool:
    """Report whether each of these kubelets does so, for sure; 1.35 only with a gate, which is not counted on."""
    return gates.get(GATE) is not False and all(map(history.ALL_CONTAINERS_RESTART.applies_to, kubelets))


def _rules(spec: Json, *, whole_pods: bool) -> Iterator[ExitRule]:
    """Read the rules. Kubelets ignore one with an unknown operator; one with an unknown action still counts first."""
    for rule in spec.get("restartPolicyRules") or ():
        exits: Json = rule.get("exitCodes") or {}
        if exits.get("operator") in {IN, NOT_IN}:
            yield ExitRule(
                codes=tuple(map(int, exits.get("values") or ())),
                listed=exits["operator"] == IN,
                whole_pod=whole_pods and rule.get("action") == RESTART_ALL,
            )

"""Finds containers that a kubelet may restart only because it begins to act on resize policies."""

from collections.abc import Mapping

from . import changes
from .eras import supported_minor
from .errors import Misfit, UnhashableContainer
from .go import values
from .version import KubeletVersion


def resize_may_restart(container: Mapping[str, object], from_: KubeletVersion | str, to: KubeletVersion | str) -> bool:
    """Report whether a kubelet may restart a running container once, since its minor begins to act on resize policies.

    Kubelets from 1.33 on (gate InPlacePodVerticalScaling) compare a container's resources with a record that older
    ones did not keep, and restart the container if its `resizePolicy` says RestartContainer.

    Raises:
        UnsupportedKubelet: the tables do not cover one of the kubelets.
        UnhashableContainer: a field that should be a list or a map is not one.
    """
    acted_on = changes.RESIZE_POLICY_ACTED_ON
    if acted_on.covers(supported_minor(from_)) or not acted_on.covers(supported_minor(to)):
        return False
    try:
        policies = [values.mapping(each) for each in values.sequence(container.get("resizePolicy") or ())]
        resources = values.mapping(container.get("resources") or {})
    except Misfit as error:
        name = container.get("name")
        raise UnhashableContainer(name if isinstance(name, str) else "", "resizePolicy", error.reason) from None
    restarting = any(policy.get("restartPolicy") == "RestartContainer" for policy in policies)
    return restarting and bool(resources.get("limits") or resources.get("requests"))

"""Containers of pods that came after the planning, and that the new kubelet began: they get the old kind of hash.

Nobody on the node can compute it: the executor has no pods. So the agent is asked, if there is one, and waited for only
a moment; nothing that it says, or does not say, stops the way back.
"""

import re

from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import ContainerInstance, ContainerState, StoredHashes
from nodeupgrade.domain.node.plan import AwaitedContainer, Newcomers, RunPlan
from nodeupgrade.engine.node.evidence.watch import LOOK_SECONDS, WORD_SECONDS
from nodeupgrade.engine.node.node import Node

HASH = re.compile("[0-9a-f]{1,16}")


def take_back(node: Node, plan: RunPlan) -> tuple[tuple[AwaitedContainer, ...], tuple[str, ...]]:
    """Store the old kubelet's hash with each of them that stores the very hash which the agent expects there.

    Returns:
        Those that store it now, and the names of those that the old kubelet may not recognise.
    """
    known = plan.pods()
    present = node.runtime.inventory(full=False).containers
    strangers = [c for c in present if c.pod.uid not in known and c.state is not ContainerState.EXITED]
    told = _told(node, strangers)
    words = {(c.pod, c.name): c for c in told.containers}
    taken, doubtful = [], []
    for container in strangers:
        word = words.get((container.pod.uid, container.name))
        if word is None:
            doubtful += [container.label] if container.pod.uid not in told.pods else []
        elif _store(node, container.id, word):
            taken.append(word)
        else:
            doubtful.append(container.label)
    return tuple(taken), tuple(sorted(doubtful))


def _told(node: Node, strangers: list[ContainerInstance]) -> Newcomers:
    pods = {container.pod.uid for container in strangers}
    patience = node.clock.monotonic() + WORD_SECONDS
    told = (node.newcomers() if strangers else None) or Newcomers()
    while not pods.issubset(told.pods) and node.clock.monotonic() < patience:
        node.clock.sleep(LOOK_SECONDS)
        told = node.newcomers() or told
    return told


def _store(node: Node, container: ContainerId, word: AwaitedContainer) -> bool:
    try:
        image = node.runtime.before_images([container]).get(container)
    except StepFailed:  # of no form that could be changed
        return False
    if image is None or not HASH.fullmatch(word.before):
        return False
    if image.hashes.container == word.after:
        node.runtime.rewrite([(image, StoredHashes(container=word.before))])
    return image.hashes.container in {word.before, word.after}  # the former after an interruption

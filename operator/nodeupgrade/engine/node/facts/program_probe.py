"""Ask a kubelet's program what it is and what it accepts. Starts nothing."""

import re
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import Transient
from nodeupgrade.domain.node.request import RunRequest
from nodeupgrade.kubelet.flags import Arguments, adapt, rejected_flag
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet
from nodeupgrade.ports.kubelet import Kubelet

VERSION_LINE = re.compile(r"^Kubernetes (\S+)\s*$", re.MULTILINE)
STRIPPED_FLAGS_LIMIT = 40


def version_of(kubelet: Kubelet, program: PurePosixPath) -> tuple[str, str]:
    """Return the version that a program reports, and everything that it printed."""
    try:
        status, output = kubelet.version_output(program)
    except Transient as error:
        return "", str(error)
    said = VERSION_LINE.search(output) if status == 0 else None
    return said.group(1) if said else "", output


def parsed(text: str | None) -> KubeletVersion | None:
    """Return a version that a program reports; ``None`` if it reports none that is understood."""
    try:
        return KubeletVersion.parse(text) if text else None
    except UnsupportedKubelet:
        return None


def accepted_arguments(
    kubelet: Kubelet, words: tuple[str, ...], request: RunRequest, program: PurePosixPath
) -> tuple[Arguments, int, str]:
    """Let the new program parse the command line; with ``flagPolicy: Strip``, remove each flag that it rejects."""
    remove = set(request.spec.kubelet.remove_flags)
    for _ in range(STRIPPED_FLAGS_LIMIT):
        arguments = adapt(words, target=request.spec.target, remove=remove)
        try:
            status, output = kubelet.version_output(program, arguments.words)
        except Transient as error:
            return arguments, 1, str(error)
        flag = rejected_flag(output) if status != 0 and request.strips_flags else None
        if flag is None or flag in remove:
            return arguments, status, output
        remove.add(flag)
    return arguments, status, output

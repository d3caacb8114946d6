"""Shell functions with which the rescue script restores the hashes that CRI-O stores. See docs/decisions/rescue.md."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from shlex import quote

from nodeupgrade.node.host.shell import define_function, piped_command
from nodeupgrade.node.runtimes.cri.connection import Call
from nodeupgrade.node.runtimes.cri.rescue_calls import listed_new_hashes, query_functions
from nodeupgrade.node.runtimes.crio.before_images import CONFIG, STATE, STOPPED, decode
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage, RescueFragment


def render(socket: str, listing: Call, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> RescueFragment:
    """Return what SpecificationStore and EndedRecords do, as shell functions.

    ``put`` is the script's own: it replaces a file atomically, and does nothing if the file is as wanted.
    """
    every = tuple(changes)
    lines = [
        *query_functions(socket, listing, listed_new_hashes(every)),
        *define_function("restore_states", [*(line for image, _ in every for line in _state(image)), *_pods(every)]),
        *define_function("restore_configs", (line for image, _ in every for line in _config(image))),
    ]
    return RescueFragment(restores=bool(every), text="\n".join(lines) + LOGIC)


def _config(image: BeforeImage) -> Iterator[str]:
    before = decode(image)
    path, digest = quote(str(before.path(CONFIG))), sha256(before.config).hexdigest()
    yield f"    if [ -e {path} ]; then"
    yield piped_command(f"put {path} {digest}", before.config)
    yield "    fi"


def _state(image: BeforeImage) -> Iterator[str]:
    before = decode(image)
    if before.ended:
        return
    path = quote(str(before.path(STATE)))
    yield f"    if taken_for_ended {path} && still_runs {quote(image.container_id)}; then"
    yield from _put_while_stopped(path, before.state)
    yield "    fi"


def _pods(changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> Iterator[str]:
    pods = {pod.directory: pod for image, _ in changes if (pod := decode(image).sandbox) is not None}
    for pod in pods.values():
        if (process := pod.process) is None:
            continue
        path, marker = quote(str(pod.path(STATE))), quote(str(pod.path(STOPPED)))
        yield f"    if {{ [ -e {marker} ] || taken_for_ended {path}; }} && lives {process.pid} {process.started}; then"
        yield from _put_while_stopped(path, pod.state)
        yield f"    rm -f {marker}"
        yield "    fi"


def _put_while_stopped(path: str, content: bytes) -> Iterator[str]:
    yield "    stop_runtime || return 1"
    yield piped_command(f"put {path} {sha256(content).hexdigest()}", content)


LOGIC = r"""
# A container that is gone needs no hash. CRI-O reads these files when it starts, and not before.
restore_hashes() {
    trouble='a file could not be written'
    restore_configs
}

# What one look finds is put back while nothing else can write it.
reinstate() {
    stopped=''
    restore_states || stopped=${stopped:-failed}
    [ -n "$stopped" ] || return 1
    systemctl reset-failed "$runtime_unit"
    systemctl start "$runtime_unit" && [ "$stopped" = yes ]
}

# CRI-O has written down that it ended.
taken_for_ended() {
    grep -q '"status": *"stopped"\|"exitCode":' "$1" 2> /dev/null
}

# The process that it had when the run was planned is there.
still_runs() {
    set -- $(baseline | grep "^$1 ")
    [ $# = 3 ] && lives "$2" "$3"
}

# By the word of the kernel: of two processes with the same PID, one started later.
lives() {
    wanted=$2
    { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 1
    set -- ${stat##*) }
    case $1 in [ZXx]) return 1 ;; esac
    [ "${20}" = "$wanted" ]
}

stop_runtime() {
    [ -z "$stopped" ] || return 0
    systemctl stop "$runtime_unit" && stopped=yes
}
"""

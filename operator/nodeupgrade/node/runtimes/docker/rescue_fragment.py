"""Shell functions with which the rescue script restores the hashes that dockerd stores.

As the executor does, it stops dockerd, replaces the hashes in its files and starts it. See docs/decisions/rescue.md.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from shlex import quote

from nodeupgrade.node.host.shell import define_function
from nodeupgrade.node.runtimes.cri.hash_annotations import hash_changes
from nodeupgrade.node.runtimes.cri.hash_text import json_entry
from nodeupgrade.node.runtimes.docker.client import KUBERNETES_FILTER
from nodeupgrade.node.runtimes.docker.hash_store import config_path
from nodeupgrade.node.runtimes.docker.metadata import HASH_LABEL, HASH_LABELS
from nodeupgrade.node.runtimes.docker.next_start import SOCKET_UNIT, UNIT
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage, RescueFragment

Change = tuple[BeforeImage, StoredHashes]


def render(socket: PurePosixPath, root: PurePosixPath, changes: Iterable[Change]) -> RescueFragment:
    """Return the functions for these changes."""
    lines, wrong = [], []
    for image, after in changes:
        path = quote(str(config_path(root, image.container_id)))
        for label, old, new in hash_changes(image.hashes, after, HASH_LABELS):
            becomes = quote(json_entry(label, new).decode("ascii"))
            lines.append(f"    restored {path} {becomes} {quote(json_entry(label, old).decode('ascii'))} || return 1")
            if label == HASH_LABEL:
                wrong.append(f"    echo {becomes}")
    text = [
        f"socket={quote(str(socket))}",
        f"containers='http://localhost/containers/json?filters={KUBERNETES_FILTER}'",
        f"units={quote(f'{SOCKET_UNIT} {UNIT}')}",
        f"daemon={quote(UNIT)}",
        "asks_with=curl",
        "trouble=''",
        *define_function("restore_each", lines),
        *define_function("wrong_hashes", wrong),
    ]
    return RescueFragment(restores=bool(lines), text="\n".join(text) + LOGIC)


LOGIC = r"""
ask() {
    curl -q --noproxy '*' --silent --show-error --fail --max-time 10 --unix-socket "$socket" \
        --output "$answers/$1" "$2"
}

# Only what runs is listed.
listing() {
    ask body "$containers"
}

# dockerd must not end containers when it stops, nor write over what is written here.
stop_docker() {
    [ -z "${stopped:-}" ] || return 0
    if systemctl is-active --quiet "$daemon"; then
        trouble='dockerd does not answer'
        ask info http://localhost/info || return 1
        trouble='live-restore is not in effect'
        grep -qF '"LiveRestoreEnabled":true' "$answers/info" || return 1
    fi
    trouble='dockerd does not stop'
    systemctl stop $units 2> /dev/null  # there may be no such socket
    [ "$(systemctl show --property=MainPID "$daemon" | cut -d= -f2)" = 0 ] || return 1
    stopped=yes
}

# Usage: restored FILE NEW OLD. A container that is gone needs no hash.
restored() {
    [ -e "$1" ] || return 0
    ! grep -qF "$3" "$1" || return 0
    stop_docker || return 1
    trouble="the hash in $1 is neither"
    [ "$(grep -oF "$2" "$1" | wc -l)" = 1 ] || return 1
    trouble="$1 cannot be written"
    fresh=${1%/*}/.${1##*/}.nodeupgrade-new
    rm -f "$fresh"
    cp -p "$1" "$fresh" && sed "s/$2/$3/" "$1" > "$fresh" || return 1
    grep -qF "$3" "$fresh" && sync "$fresh" && mv -f "$fresh" "$1" && sync "${1%/*}"
}

restore_hashes() {
    stopped=''
    restore_each
    outcome=$?
    if [ -n "$stopped" ]; then
        systemctl reset-failed $units 2> /dev/null
        systemctl start "$daemon" || return 1
        wait_for_runtime || return 1
    fi
    return $outcome
}

serves_new_hashes() {
    wrong_hashes > "$answers/wrong"
    [ -s "$answers/wrong" ] && grep -qaFf "$answers/wrong" "$answers/body"
}

can_ask() {
    curl -q --version > /dev/null 2>&1
}
"""

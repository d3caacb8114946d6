"""The part of the rescue script that is the same for every run."""

LOGIC = r"""
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL

say() {
    echo "$*"
    echo "$(date -u +%FT%TZ) $*" >> "$run/rescue.log"
}

fail() {
    said="cannot bring kubelet $version back because $*; the kubelet stays fenced, and this is tried again"
    tail -n 1 "$run/rescue.log" 2> /dev/null | grep -qF "$said" || say "$said"
    echo "$seen $(uptime_seconds)" > "$look"
    exit 1
}

uptime_seconds() {
    read -r seconds _ < /proc/uptime
    echo "${seconds%%.*}"
}

# ── looking ──────────────────────────────────────────────────────────────────

main_pid() {
    systemctl show --property=MainPID "$unit" | cut -d= -f2
}

well() {
    [ "$(main_pid)" != 0 ] || return 1
    command -v curl > /dev/null || return 0
    curl --silent --fail --max-time 2 --output /dev/null "$healthz"
}

look_again() {
    if [ ! -e "$run/journal" ] || grep -qF "$finished" "$run/journal" || ! grep -qF "$stopping" "$run/journal" || well
    then
        rm -f "$look"
        exit 0
    fi
    # The executor locks its journal for as long as it lives.
    exec 9<> "$run/journal"
    if flock -n 9; then
        seen=absent patience=$absent_seconds
    else
        seen=at-$(wc -c < "$run/journal") patience=$hung_seconds
    fi
    exec 9>&-
    last='' since=0
    [ -e "$look" ] && read -r last since < "$look"
    if [ "$last" != "$seen" ]; then
        echo "$seen $(uptime_seconds)" > "$look"
        exit 0
    fi
    [ $(($(uptime_seconds) - since)) -ge "$patience" ] || exit 0
}

# ── the runtime ──────────────────────────────────────────────────────────────

call() {
    base64 -d | curl --silent --show-error --max-time 10 --http2-prior-knowledge --unix-socket "$socket" \
        --header 'content-type: application/grpc' --header 'te: trailers' --header 'containerd-namespace: k8s.io' \
        --dump-header "$answers/head" --output "$answers/body" --data-binary @- "http://localhost$1" || return 1
    status=$(sed -n 's/^grpc-status: *\([0-9]*\).*/\1/p' "$answers/head" | tail -n 1)
    [ "$status" = 0 ]
}

# A container that is gone (status 5) needs no hash.
restored() {
    call "$1" || [ "${status:-}" = 5 ]
}

wait_for_runtime() {
    deadline=$(($(uptime_seconds) + runtime_seconds))
    until listing 2> /dev/null; do
        [ "$(uptime_seconds)" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

serves_new_hashes() {
    wrong_hashes > "$answers/wrong"
    [ -s "$answers/wrong" ] && grep -qaFf "$answers/wrong" "$answers/body"
}

hashes() {
    curl --version 2> /dev/null | grep -q HTTP2 || fail "hashes can only be put back by a curl that speaks HTTP/2"
    systemctl is-active --quiet "$runtime_unit" || systemctl start "$runtime_unit"
    wait_for_runtime || fail "the runtime does not answer"
    restore_hashes || fail "the runtime did not take a hash (status ${status:-none})"
    listing || fail "the runtime does not answer"
    if serves_new_hashes; then
        systemctl reset-failed "$runtime_unit"
        systemctl restart "$runtime_unit" || fail "the runtime does not restart"
        wait_for_runtime || fail "the runtime does not answer after its restart"
        ! serves_new_hashes || fail "the runtime still serves hashes of the new kubelet"
    fi
}

# ── files ────────────────────────────────────────────────────────────────────

reads() {
    [ "$(sha256sum < "$1" 2> /dev/null | cut -c 1-64)" = "$2" ]
}

put() {
    reads "$1" "$2" && return 0
    fresh=${1%/*}/.${1##*/}.nodeupgrade-new
    rm -f "$fresh"
    if [ -e "$1" ]; then cp -p "$1" "$fresh"; else (umask 077 && : > "$fresh"); fi || return 1
    base64 -d > "$fresh" && reads "$fresh" "$2" && sync "$fresh" && mv -f "$fresh" "$1"
}

restore_program() {
    reads "$program" "$before" && return 0
    reads "$backup" "$before" || return 1
    fresh=${program%/*}/.${program##*/}.nodeupgrade-new
    ln -f "$backup" "$fresh" && mv -f "$fresh" "$program" && sync "${program%/*}"
}

# ── the rescue ───────────────────────────────────────────────────────────────

note() {
    echo "$1" > "$run/rescue" && sync "$run/rescue" "$run"
}

fence_kubelet() {
    mkdir -p "${flag%/*}" "${drop_in%/*}"
    : > "$flag"
    if [ ! -e "$drop_in" ]; then
        printf '%s\n' "$drop_in_text" > "$drop_in"
        systemctl daemon-reload
    fi
    systemctl stop "$unit"
    [ "$(main_pid)" = 0 ] || fail "the kubelet does not stop"
}

start_kubelet() {
    rm -f "$flag" "$drop_in"
    rmdir "${drop_in%/*}" "${flag%/*}" "${flag%/*/*}" 2> /dev/null
    systemctl daemon-reload
    systemctl reset-failed "$unit"
    systemctl --no-block start "$unit"
}

rescue() {
    exec 9<> "$run/journal"
    systemctl stop nodeupgrade-dead-man.timer
    systemctl kill --signal=KILL nodeupgrade-executor.service 2> /dev/null
    systemctl stop nodeupgrade-executor.service
    flock -w 10 9 || fail "the executor still holds its journal"
    answers=$(mktemp -d /run/nodeupgrade-rescue.XXXXXX) || fail "there is no room in /run"
    trap 'rm -rf "$answers"' EXIT
    lost=$(($(uptime_seconds) - since))
    [ -e "$run/rescue" ] || say "no executor for $lost s ($seen): bringing kubelet $version back"
    note begun || fail "the run's directory cannot be written"
    fence_kubelet
    if grep -qF "$rewriting" "$run/journal"; then hashes; fi
    restore_files || fail "a file cannot be put back"
    restore_program || fail "the program of kubelet $version is not there any more"
    note done || fail "the run's directory cannot be written"
    start_kubelet
    rm -f "$look"
    say "kubelet $version was started; every hash and file is what it was before the run"
}

look_again
rescue
"""

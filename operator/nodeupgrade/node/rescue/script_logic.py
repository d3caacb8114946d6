"""The part of the rescue script that is the same for every run. RescueFragment defines the runtime's functions."""

LOGIC = r"""
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL

say() {
    echo "$*"
    echo "$(date -u +%FT%TZ) $*" >> "$run/rescue.log"
}

# An executor that can run again, or a person, may succeed. Until then the node's Lease is renewed.
fail() {
    said="cannot bring kubelet $version back because $*; the kubelet stays fenced, and this is tried again"
    tail -n 1 "$run/rescue.log" 2> /dev/null | grep -qF "$said" || say "$said"
    systemctl --no-block start nodeupgrade-dead-man.timer
    [ -z "$lease_keeper" ] || systemctl --no-block start "$lease_keeper"
    echo "$seen $(uptime_seconds) $size 0" > "$look"
    exit 1
}

# Nothing is left to do: the files may belong to another run from now on.
over() {
    rm -f "$look" "$script"
    systemctl --no-block stop "$look_timer"
    exit 0
}

uptime_seconds() {
    read -r seconds _ < /proc/uptime
    echo "${seconds%%.*}"
}

main_pid() {
    systemctl show --property=MainPID "$unit" | cut -d= -f2
}

# While a raised shield does not serve, no kubelet is well, whatever its own endpoint says.
well() {
    [ "$(main_pid)" != 0 ] || return 1
    [ -z "$shield" ] || [ ! -S "$runtime_socket" ] || systemctl is-active --quiet "$shield" || return 1
    command -v curl > /dev/null || return 0
    curl -q --noproxy '*' --silent --fail --max-time 2 --output /dev/null "$healthz"
}

# From the commit on, the new kubelet is the one to keep.
ended() {
    [ ! -e "$run/journal" ] || grep -qF "$finished" "$run/journal" || grep -q "$committed" "$run/journal"
}

restored_before() {
    [ "$(cat "$run/rescue" 2> /dev/null)" = done ]
}

look_again() {
    ! ended || over
    if ! grep -qF "$stopping" "$run/journal"; then
        rm -f "$look"
        exit 0
    fi
    size=$(wc -c < "$run/journal")
    # The executor locks its journal for as long as it lives, and touches it when it has nothing to write.
    exec 9<> "$run/journal"
    if ! flock -n 9; then
        seen=at-$size-$(stat -c %Y "$run/journal") patience=$hung_seconds
        ! well || seen=at-work patience=-1
    elif restored_before; then
        finish
    elif well; then
        seen=well patience=$hung_seconds
    else
        seen=absent patience=$absent_seconds
    fi
    exec 9>&-
    last='' since=0 written=0 deaths=0
    [ -e "$look" ] && read -r last since written deaths < "$look"
    [ "$written" = "$size" ] || deaths=0
    if [ "$last" != "$seen" ]; then
        since=$(uptime_seconds)
        [ "$seen" != absent ] || deaths=$((deaths + 1))
        echo "$seen $since $size $deaths" > "$look"
        [ "$deaths" -ge "$most_deaths" ] || exit 0
    fi
    # An executor that dies again and again makes no progress, however short it is absent.
    [ "$seen" != absent ] || [ "$deaths" -lt "$most_deaths" ] || patience=0
    [ "$patience" -ge 0 ] && [ $(($(uptime_seconds) - since)) -ge "$patience" ] || exit 0
    [ "$seen" != well ] || over
}

wait_for_runtime() {
    deadline=$(($(uptime_seconds) + runtime_seconds))
    until listing 2> /dev/null; do
        [ "$(uptime_seconds)" -lt "$deadline" ] || return 1
        sleep 0.1
    done
}

# The runtime's answer must contain what ran when the run was planned and, according to the kernel, still runs.
shows_what_runs() {
    [ ! -e "$go_on" ] || return 0
    baseline > "$answers/baseline"
    missing=0
    while read -r id pid started; do
        { read -r stat < "/proc/$pid/stat"; } 2> /dev/null || continue
        set -- ${stat##*) }
        [ "${20}" = "$started" ] || continue
        case $1 in [ZXx]) continue ;; esac
        grep -qaF "$id" "$answers/body" || missing=$((missing + 1))
    done < "$answers/baseline"
    [ "$missing" = 0 ]
}

# A runtime that lost pods gets neither a hash nor a kubelet, which would create each pod a second time. Its wrong
# records are repaired even if it shows every container: it may consider their pod ended.
require_shown() {
    systemctl is-active --quiet "$runtime_unit" || systemctl start "$runtime_unit"
    wait_for_runtime || fail "the runtime does not answer"
    [ -e "$go_on" ] || ! reinstate || wait_for_runtime || fail "the runtime does not answer"
    shows_what_runs ||
        fail "the runtime does not show $missing of the containers that still run" \
        "(repair its configuration and restart it; to have them created a second time: touch $go_on)"
}

hashes() {
    restore_hashes || fail "the runtime did not take a hash ($trouble)"
    listing || fail "the runtime does not answer"
    if serves_new_hashes; then
        systemctl reset-failed "$runtime_unit"
        systemctl restart "$runtime_unit" || fail "the runtime does not restart"
        wait_for_runtime || fail "the runtime does not answer after its restart"
        ! serves_new_hashes || fail "the runtime still serves hashes of the new kubelet"
        require_shown
    fi
}

stops() {
    case "$(systemctl show --property=ActiveState "$1" | cut -d= -f2)" in
        active | activating | deactivating) return 0 ;;
        *) return 1 ;;
    esac
}

# The kubelet is stopped. The shield lowers itself when it is stopped; if it cannot, for example because it is frozen,
# that is done here. A runtime that starts takes its path back.
lower_shield() {
    [ -n "$shield" ] || return 0
    systemctl --no-block stop "$shield" 2> /dev/null
    waited=0
    while [ "$waited" -lt "$shield_seconds" ] && [ -S "$runtime_socket" ] && stops "$shield"; do
        sleep 1
        waited=$((waited + 1))
    done
    systemctl kill --signal=KILL "$shield" 2> /dev/null
    if [ ! -S "$runtime_socket" ]; then
        :
    elif [ ! -S "$shield_socket" ]; then
        rm -f "$runtime_socket"
        systemctl reset-failed "$runtime_unit"
        systemctl restart "$runtime_unit"
    elif same_file "$kubelet_socket" "$shield_socket"; then
        mv -f "$runtime_socket" "$kubelet_socket" || return 1
    else
        rm -f "$runtime_socket"
    fi
    rm -f "$shield_socket"
}

same_file() {
    [ -e "$1" ] && [ "$(stat -c %d:%i "$1")" = "$(stat -c %d:%i "$2" 2> /dev/null)" ]
}

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

# Where pods can write: made where they cannot, and renamed onto whatever is there, if that is not a directory.
put_from() {
    fresh=$1/.${2##*/}.nodeupgrade-new
    rm -f "$fresh"
    (umask 077 && base64 -d > "$fresh") && reads "$fresh" "$3" && sync "$fresh" || return 1
    mv -fT "$fresh" "$2" && sync "${2%/*}" || { rm -f "$fresh"; say "$2 was left as it is"; }
}

# Restores an exchanged file with mode, owner and attributes, unless it was changed since.
put_back() {
    [ ! -e "$1" ] || reads "$1" "$4" || return 0
    fresh=${1%/*}/.${1##*/}.nodeupgrade-new
    rm -f "$fresh"
    cp -a "$2" "$fresh" && reads "$fresh" "$3" && sync "$fresh" && mv -f "$fresh" "$1" && sync "${1%/*}"
}

restore_program() {
    reads "$program" "$before" && return 0
    reads "$backup" "$before" || return 1
    fresh=${program%/*}/.${program##*/}.nodeupgrade-new
    ln -f "$backup" "$fresh" && mv -f "$fresh" "$program" && sync "${program%/*}"
}

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

finish() {
    [ "$(main_pid)" != 0 ] || start_kubelet
    say "kubelet $version was started; every hash and file is what it was before the run"
    over
}

rescue() {
    exec 9<> "$run/journal"
    systemctl stop nodeupgrade-dead-man.timer
    systemctl kill --signal=KILL nodeupgrade-executor.service 2> /dev/null
    systemctl stop nodeupgrade-executor.service
    flock -w 10 9 || fail "the executor still holds its journal"
    if ended; then  # it ended at the last moment
        systemctl --no-block start nodeupgrade-dead-man.timer
        over
    fi
    answers=$(mktemp -d /run/nodeupgrade-rescue.XXXXXX) || fail "there is no space in /run"
    trap 'rm -rf "$answers"' EXIT
    lost=$(($(uptime_seconds) - since))
    why="no executor for $lost s ($seen)"
    [ "$patience" -gt 0 ] || why="the executor died $deaths times and wrote nothing"
    [ -e "$run/rescue" ] || say "$why: bringing kubelet $version back"
    note begun || fail "the run's directory cannot be written"
    fence_kubelet
    lower_shield || fail "the runtime's socket cannot be put back"
    if grep -qF "$rewriting" "$run/journal"; then
        can_ask || fail "hashes can only be put back by $asks_with"
        require_shown
        hashes
    elif can_ask; then
        require_shown
    fi
    restore_files || fail "a file cannot be put back"
    restore_program || fail "the program of kubelet $version is missing"
    note done || fail "the run's directory cannot be written"
    finish
}

look_again
rescue
"""

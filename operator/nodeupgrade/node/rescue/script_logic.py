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

# It is tried again. An executor that can run again, or a person, may succeed; until then the Lease is renewed.
fail() {
    said="cannot bring kubelet $version back because $*; this is tried again"
    case $(tail -n 1 "$run/rescue.log" 2> /dev/null) in *"$said") ;; *) say "$said" ;; esac
    control --no-block start nodeupgrade-dead-man.timer
    [ -z "$lease_keeper" ] || control --no-block start "$lease_keeper"
    remember 0
    exit 1
}

# Nothing is left to do: the files may belong to another run from now on. An executor that returns still asks for $mark.
over() {
    rm -f "$script" "$look" "$reserve" "$environment"
    control --no-block stop "$look_timer"
    exit 0
}

# A systemd that does not answer must not hold this up.
control() {
    timeout -k 5 120 systemctl "$@"
}

uptime_seconds() {
    read -r seconds _ < /proc/uptime
    echo "${seconds%%.*}"
}

# Sets ``pid``, 0 if there is no kubelet. Fails if systemd does not say.
ask_pid() {
    pid=$(control show --property=MainPID "$unit")
    pid=${pid#MainPID=}
    case $pid in '' | *[!0-9]*) return 1 ;; esac
}

# One that exits again and again has a PID at most looks, too.
# Both times go on while the node is suspended, unlike systemd's. The ticks are hundredths of a second everywhere.
lasts() {
    read -r stat < "/proc/$pid/stat" || return 1
    set -- ${stat##*) }
    case ${20-} in '' | *[!0-9]*) return 1 ;; esac
    [ $(($(uptime_seconds) - ${20} / 100)) -ge "$lasting_seconds" ]
}

# While a raised shield does not serve, no kubelet is well, whatever its own endpoint says.
well() {
    ask_pid && [ "$pid" != 0 ] || return 1
    [ -z "$shield" ] || [ ! -S "$runtime_socket" ] || control is-active --quiet "$shield" || return 1
    command -v curl > /dev/null || { lasts; return; }
    # While no kubelet does, anybody may listen there, and answer with gigabytes.
    [ "$(curl -q --noproxy '*' --silent --fail --max-time 2 "$healthz" | head -c 16)" = ok ]
}

# Succeeds if the journal says so; what grep found is looked at, not its status.
journal_says() {
    case $(grep -aoF -m 1 "$1" "$run/journal") in "$1"*) return 0 ;; *) return 1 ;; esac
}

# From the commit on, the new kubelet is the one to keep. A journal that is gone says nothing: an executor that lives
# makes it again, and the next run on the node removes this script.
ended() {
    ! journal_says "$finished" || return 0
    case $(grep -a "$committed" "$run/journal") in *"$commit_step"*) return 0 ;; *) return 1 ;; esac
}

# Written in place: the file has its space, whatever else fills /run.
remember() {
    printf '%-100s\n' "$seen $(uptime_seconds) $size $1" 1<> "$look"
}

note() {
    { echo "$1" > "$run/rescue" && sync "$run/rescue" "$run"; } 2> /dev/null || echo "$1" > "$mark"
}

noted() {
    [ "$(cat "$run/rescue" 2> /dev/null)" = "$1" ] || [ "$(cat "$mark" 2> /dev/null)" = "$1" ]
}

# An executor locks its journal for as long as it lives.
take_lock() {
    exec 9< "$run/journal"
    flock "$@" 9
}

look_again() {
    ! ended || over
    journal_says "$stopping" || exit 0
    size=$(wc -c < "$run/journal")
    # It touches its journal when it has nothing to write.
    if ! take_lock -n; then
        seen=at-$size-$(stat -c %Y "$run/journal") patience=$hung_seconds
        ! well || seen=at-work patience=-1
    elif noted done; then
        finish
    elif well; then
        seen=well patience=$hung_seconds
    else
        seen=absent patience=$absent_seconds
    fi
    exec 9>&-
    last='' since=0 written=0 deaths=0
    [ ! -s "$look" ] || read -r last since written deaths < "$look"
    [ "$written" = "$size" ] || deaths=0
    if [ "$last" != "$seen" ]; then
        since=$(uptime_seconds)
        [ "$seen" != absent ] || deaths=$((deaths + 1))
        remember "$deaths"
        [ "$deaths" -ge "$most_deaths" ] || exit 0
    fi
    # An executor that dies again and again makes no progress, however short it is absent.
    [ "$seen" != absent ] || [ "$deaths" -lt "$most_deaths" ] || patience=0
    [ "$patience" -ge 0 ] && [ $(($(uptime_seconds) - since)) -ge "$patience" ] || exit 0
    [ "$seen" != well ] || over
}

# Everything that depends on the runtime is done by an executor that runs from another copy of the program.
hand_over() {
    exec 9>&-
    started=''
    control start "$spare" && started=yes
    take_lock -n && return 0
    [ -n "$started" ] || fail "the executor still holds its journal"
    say "an executor runs again, and turns the run back"
    remember 0
    exit 0
}

# The kubelet is stopped. The shield lowers itself when it is stopped; if it cannot, for example because it is frozen,
# that is done here. A runtime that starts takes its path back.
lower_shield() {
    [ -n "$shield" ] || return 0
    control --no-block stop "$shield" 2> /dev/null
    waited=0
    while [ "$waited" -lt "$shield_seconds" ] && [ -S "$runtime_socket" ] && stops "$shield"; do
        sleep 1
        waited=$((waited + 1))
    done
    control kill --signal=KILL "$shield" 2> /dev/null
    if [ ! -S "$runtime_socket" ]; then
        :
    elif [ ! -S "$shield_socket" ]; then
        rm -f "$runtime_socket"
        control reset-failed "$runtime_unit"
        control restart "$runtime_unit"
    elif same_file "$kubelet_socket" "$shield_socket"; then
        mv -f "$runtime_socket" "$kubelet_socket"
    else
        rm -f "$runtime_socket"
    fi
    rm -f "$shield_socket"
    [ ! -S "$runtime_socket" ] && [ ! -S "$shield_socket" ]
}

stops() {
    case "$(control show --property=ActiveState "$1")" in
        *=active | *=activating | *=deactivating) return 0 ;;
        *) return 1 ;;
    esac
}

same_file() {
    [ -e "$1" ] && [ "$(stat -c %d:%i "$1")" = "$(stat -c %d:%i "$2" 2> /dev/null)" ]
}

# What is no file, such as a FIFO, is not opened.
reads() {
    sum=''
    [ ! -f "$1" ] || sum=$({ sha256sum < "$1"; } 2> /dev/null)
    sum=${sum%% *}
    [ "$sum" = "$2" ]
}

# A file that reads otherwise was changed since and is left alone; one that could not be read was not.
is_known() {
    [ ! -f "$1" ] || [ ${#sum} = 64 ] || return 1
    [ -f "$1" ] || [ ! -e "$1" ] || say "$1, which is no file, was left as it is"
}

put() {
    reads "$1" "$2" && return 0
    fresh=${1%/*}/.${1##*/}$unfinished
    rm -f "$fresh"
    if [ -e "$1" ]; then cp -aL "$1" "$fresh"; else (umask 077 && : > "$fresh"); fi &&
        base64 -d > "$fresh" && reads "$fresh" "$2" && sync "$fresh" && mv -f "$fresh" "$1" && reads "$1" "$2" ||
        rename "${1%/*}/.${1##*/}$previous" "$1" "$2"
}

# Nothing is followed: where pods can write, a link may lead to a file server that does not answer.
kind() {
    stat -c %F "$1" 2> /dev/null
}

# Pods may have filled the disk: what was kept of a file takes no more space.
rename() {
    rm -f "$fresh"
    [ ! -L "$1" ] && reads "$1" "$3" && mv -fT "$1" "$2" && reads "$2" "$3" && sync "${2%/*}"
}

# A kubelet starts with a directory in place of such a file.
left() {
    [ "$(kind "$1")" = directory ] || return 1
    say "$1 was left as it is"
    return 0
}

# Where pods can write: made where they cannot, and renamed onto whatever is there, if that is not a directory.
put_from() {
    fresh=$1/.${2##*/}$unfinished
    rm -f "$fresh"
    if ! (umask 077 && base64 -d > "$fresh") || ! reads "$fresh" "$3" || ! sync "$fresh"; then
        rename "${2%/*}/.${2##*/}$previous" "$2" "$3"
        return
    fi
    if left "$2"; then
        remove "$fresh"
        return
    fi
    mv -fT "$fresh" "$2" && sync "${2%/*}" && [ ! -e "$fresh" ]
}

# What lies in place of a file of ours and is none is moved aside.
set_aside() {
    [ ! -f "$1" ] || return 0
    [ -e "$1" ] || [ -L "$1" ] || return 0
    move_aside "$1" file
}

# Pods may have taken any number of the names that they can guess.
move_aside() {
    aside=${1%/*}/.${1##*/}$moved_aside
    [ -z "$(kind "$aside")" ] || { read -r unique < /proc/sys/kernel/random/uuid && aside=$aside-$unique; }
    mv -T "$1" "$aside" && say "what lay at $1, which is no $2, was moved to $aside"
}

# Restores an exchanged file with mode, owner and attributes, unless it was changed since.
put_back() {
    reads "$1" "$3" && return 0
    if [ -e "$1" ] && ! reads "$1" "$4"; then
        is_known "$1"
        return
    fi
    fresh=${1%/*}/.${1##*/}$unfinished
    rm -f "$fresh"
    cp -a "$2" "$fresh" && reads "$fresh" "$3" && sync "$fresh" && mv -f "$fresh" "$1" && reads "$1" "$3" &&
        sync "${1%/*}" || rename "$2" "$1" "$3"
}

remove() {
    rm -f "$1"
    [ ! -e "$1" ]
}

restore_program() {
    set_aside "$program" || return 1
    reads "$program" "$before" && return 0
    reads "$backup" "$before" || return 1
    fresh=${program%/*}/.${program##*/}$unfinished
    ln -f "$backup" "$fresh" && mv -f "$fresh" "$program" && reads "$program" "$before" && sync "${program%/*}"
}

# The flag is renamed, which needs no space.
fence_kubelet() {
    [ -e "$flag" ] || mv -f "$lifted" "$flag" || { mkdir -p "${flag%/*}" && : > "$flag"; }
    [ -e "$flag" ] || fail "the kubelet cannot be fenced"
    if [ ! -e "$drop_in" ]; then
        mkdir -p "${drop_in%/*}"
        printf '%s\n' "$drop_in_text" > "$drop_in" || fail "the kubelet cannot be fenced"
        read_units
    fi
    control stop "$unit"
    ask_pid || fail "systemd does not answer"
    [ "$pid" = 0 ] || fail "the kubelet does not stop"
}

# It may take a device from a container of which systemd does not know, so only what cannot go on without it does it.
read_units() {
    say "systemd reads its files"
    rm -f "$reserve"
    control daemon-reload
}

# Pods can write where a kubelet makes its sockets. It may exit if anything else lies there, and follow links beside it.
make_way() {
    case $(kind "$1") in
        '' | socket) ;;
        directory) move_aside "$1" socket ;;
        *) rm -f "$1" && say "what lay at $1, which is no socket, was removed" ;;
    esac
    find "${1%/*}/." ! -name . -prune -type l -exec rm -f {} + 2> /dev/null
}

# A kubelet exits where it cannot make a directory for logs, such as at a link that leads nowhere.
make_way_for_directory() {
    case $(kind "$1") in
        '' | directory) ;;
        *) move_aside "$1" directory ;;
    esac
}

# Repeated until a kubelet is well: nothing says that systemd has heard it.
start_kubelet() {
    make_way_for_sockets
    make_way_for_logs
    mv -f "$flag" "$lifted" || rm -f "$flag"
    [ -z "$reloads" ] || read_units
    control reset-failed "$unit"
    control --no-block start "$unit"
}

finish() {
    if well; then
        say "kubelet $version runs; every file is what it was before the run"
        over
    fi
    ask_pid && [ "$pid" = 0 ] && start_kubelet
    exit 0
}

rescue() {
    control stop nodeupgrade-dead-man.timer
    for each in nodeupgrade-executor.service "$spare"; do
        control kill --signal=KILL "$each" 2> /dev/null
        control stop "$each"
    done
    take_lock -w 10 || fail "the executor still holds its journal"
    if ended; then  # it ended at the last moment
        control --no-block start nodeupgrade-dead-man.timer
        over
    fi
    lost=$(($(uptime_seconds) - since))
    why="no executor for $lost s ($seen)"
    [ "$patience" -gt 0 ] || why="the executor died $deaths times and wrote nothing"
    noted begun || say "$why: bringing kubelet $version back"
    noted begun || note begun || fail "neither its directory nor /run can be written"
    hand_over
    ! ended || over
    ! journal_says "$rewriting" ||
        fail "no copy of the program starts, and containers may have hashes of another kubelet, which it would restart"
    fence_kubelet
    lower_shield || fail "the runtime's socket cannot be put back"
    restore_files || fail "a file cannot be put back"
    restore_program || fail "the program of kubelet $version is missing"
    note done || fail "neither its directory nor /run can be written"
    finish
}

look_again
rescue
"""

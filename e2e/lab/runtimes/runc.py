"""A wrapper of runc, for runtimes that take no account of what a node of the lab lacks itself."""

_WRAPPER = r"""#!/bin/sh
bundle= before=
for word; do
    case $before in --bundle|-b) bundle=$word ;; esac
    before=$word
done
if [ -n "$bundle" ] && [ -f "$bundle/config.json" ]; then
    edit='{edits}'
    held=$(sed -n 's/^CapBnd:[[:space:]]*/0x/p' /proc/self/status) number=0
    for name in CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE \
        NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT \
        SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE \
        AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ \
        PERFMON BPF CHECKPOINT_RESTORE; do
        [ $((held >> number & 1)) = 1 ] ||
            edit="$edit;s/\"CAP_$name\",//g;s/,\"CAP_$name\"]/]/g;s/\[\"CAP_$name\"]/[]/g"
        number=$((number + 1))
    done
    # On one line, however it was written: no text in it contains a line break or a tab.
    edited=$(tr -d '\n\t' < "$bundle/config.json" | sed "$edit")
    printf '%s' "$edited" > "$bundle/config.json"
fi
exec {program} "$@"
"""
_SCORES = 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/'
"""Scores below our own cannot be set from inside a node."""


def wrapper(*edits: str, program: str = "/usr/sbin/runc") -> str:
    """Return the wrapper: no container gets a capability that the node lacks, or a score below its own.

    Args:
        edits: more changes of a container's specification, as commands of sed.
        program: path of runc.
    """
    return _WRAPPER.replace("{edits}", ";".join((_SCORES, *edits))).replace("{program}", program)

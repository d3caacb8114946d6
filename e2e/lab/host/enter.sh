#!/bin/sh
# Joins cgroups, then becomes a command.  Usage: enter.sh CGROUP.PROCS... -- COMMAND...
set -eu
while [ "$1" != -- ]; do
    echo $$ > "$1"
    shift
done
shift
exec "$@"

#!/bin/sh
# Turns fresh mount, PID, UTS, IPC and cgroup namespaces into a booting machine.
# Usage: boot-node.sh ROOT HOSTNAME [NAME=OPTIONS]...
#   NAME=OPTIONS  a version 1 cgroup hierarchy to mount as /sys/fs/cgroup/NAME (no options: version 2);
#                 none at all: the host is unified and version 2 becomes /sys/fs/cgroup itself.
set -eu
root=$1 hostname=$2
shift 2

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc -o nosuid,nodev,noexec proc proc
echo "$hostname" > proc/sys/kernel/hostname
mount -t sysfs -o nosuid,nodev,noexec sysfs sys

# The cgroup namespace makes the node's own group the root of whatever is mounted now.
if [ $# -eq 0 ]; then
    mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    for hierarchy; do
        name=${hierarchy%%=*} options=${hierarchy#*=}
        mkdir "sys/fs/cgroup/$name"
        if [ -z "$options" ]; then
            mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "sys/fs/cgroup/$name"
        else
            mount -t cgroup -o "nosuid,nodev,noexec,$options" cgroup "sys/fs/cgroup/$name"
            case $name in
                *,*) for one in $(echo "$name" | tr , ' '); do ln -s "$name" "sys/fs/cgroup/$one"; done ;;
            esac
        fi
    done
fi

mount -t tmpfs -o mode=755,nosuid tmpfs dev
for device in null zero full random urandom tty kmsg; do
    [ -e "/dev/$device" ] || continue
    : > "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,nosuid,noexec,mode=620,ptmxmode=666,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "dev/${stream#*:}"; done
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs tmp

# A kubelet sets these for the whole kernel. Here it writes to files of the node, and the host keeps its values.
mkdir run/sysctl
for key in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ -e "proc/sys/$key" ] || continue
    file=run/sysctl/$(echo "$key" | tr / .)
    cat "proc/sys/$key" > "$file"
    mount --bind "$file" "proc/sys/$key"
done

mkdir -p .host
pivot_root . .host
umount -l /.host
rmdir /.host
# Kubelets mount volumes that containers must see, and a systemd that detects a container does not make / shared.
mount --make-rshared /
# In a container systemd reads its own arguments as the kernel's: from 256 on it must be told to accept version 1
# cgroups; older ones ignore the unknown argument.
exec env -i container=lab PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 < /dev/null > /dev/null 2>&1

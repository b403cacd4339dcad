# root.sh - throwaway root file systems of Debian releases, for scripts of this folder.  Source it:
#
#     program=check-release              # the name before messages
#     . "$(dirname "$0")/root.sh"
#     check_machine                      # root, debootstrap, namespaces; sets $mirror
#     trap finish EXIT                   # ends $child, removes $root if $made and not $keep
#     make_root bookworm "$root"
#
# Everything runs in namespaces of its own: processes, mounts and files are gone when the script
# ends, however it ends.

cannot=77
child='' keep='' log='' made='' mirror='' root=''

say() {
    echo "$program: $*"
}

die() {
    echo "$program: $*" >&2
    exit "${status:-1}"
}

# impossible TEXT: this machine cannot do it, which says nothing of the checkout.
impossible() {
    status=$cannot die "$*"
}

# ---- inside: process 1 of namespaces in which all mounts and processes are our own ------

# mount_system DIR: what a running system has in /proc, /sys and /dev.
mount_system() {
    local name
    mount -t proc proc "$1/proc" \
        && mount -t sysfs -o ro sysfs "$1/sys" \
        && mount -t tmpfs -o mode=755 tmpfs "$1/dev" || return 1
    # the host's own /dev is not for tests that run as root
    for name in 'null 1 3' 'zero 1 5' 'full 1 7' 'random 1 8' 'urandom 1 9' 'tty 5 0'; do
        set -- "$1" $name # name, major, minor
        mknod -m 666 "$1/dev/$2" c "$3" "$4" || return 1
    done
    ln -s /proc/self/fd "$1/dev/fd"
    ln -s /proc/self/fd/0 "$1/dev/stdin"
    ln -s /proc/self/fd/1 "$1/dev/stdout"
    ln -s /proc/self/fd/2 "$1/dev/stderr"
    mkdir "$1/dev/shm" "$1/dev/pts" || return 1
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm" \
        && mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" \
        && ln -s pts/ptmx "$1/dev/ptmx"
}

# mount_readonly FROM TO: the folder FROM can be read, not written, as TO.
mount_readonly() {
    mkdir -p "$2" && mount --bind "$1" "$2" && mount -o remount,bind,ro "$2"
}

# ---- outside ---------------------------------------------------------------------------

check_machine() {
    local tool
    [ "$(id -u)" = 0 ] || impossible "a root file system can only be made by root"
    for tool in debootstrap unshare chroot; do
        command -v $tool >/dev/null || impossible "$tool is missing"
    done
    unshare --mount --pid --fork --propagation private true 2>/dev/null \
        || impossible "namespaces are not allowed here"
    [ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(LABEL) $(SITE)' \
        'Created-By: Packages' 2>/dev/null | sed -n 's/^Debian //p' | head -n 1)
    [ -n "$mirror" ] || impossible "apt knows no archive of Debian; name one with --mirror"
}

# remove_tree DIR: the one thing that is removed as a whole.  There is no mount in it: those were
# made in a namespace that is gone.
remove_tree() {
    local i
    if grep -qE " ${1}[ /]" /proc/self/mountinfo; then
        say "$1 has mounts, and stays" >&2
        return
    fi
    for ((i = 0; i < 50; i++)); do # what was killed may write for a moment
        rm -rf --one-file-system "$1" 2>/dev/null && return
        sleep 0.1
    done
    say "$1 cannot be removed" >&2
}

finish() {
    local status=$?
    trap - EXIT
    trap : HUP INT TERM
    if [ -n "$child" ]; then
        kill -s KILL "$child" 2>/dev/null # and with it all processes in there
        wait "$child" 2>/dev/null
    fi
    [ -n "$keep" ] || [ -z "$made" ] || remove_tree "$root"
    [ -z "$log" ] || rm -f "$log"
    exit "$status"
}

# step COMMAND...: in the background, so that a signal need not wait.
step() {
    "$@" &
    child=$!
    wait "$child"
    local status=$?
    child=
    return $status
}

# in_namespaces [OPTION...] COMMAND...: with processes and mounts of its own, which end with it.
# OPTIONs are further ones of unshare.
in_namespaces() {
    step unshare --mount --pid --fork --kill-child --propagation private --mount-proc "$@"
}

# make_root RELEASE DIR: in DIR, which is empty or missing; an unfinished one is removed as $root
# is, also with $keep.
make_root() {
    local kept=$keep
    mkdir -p "$2" || exit 1
    made=yes keep=
    log=$(mktemp) || exit 1
    say "a root file system of $1 in $2"
    # what debootstrap has mounted goes with its namespace
    if ! in_namespaces debootstrap --variant=minbase "$1" "$2" "$mirror" >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        impossible "debootstrap cannot make $1"
    fi
    chmod 755 "$2"
    printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d" # no daemon is started
    chmod 755 "$2/usr/sbin/policy-rc.d"
    echo force-unsafe-io >"$2/etc/dpkg/dpkg.cfg.d/$program"
    keep=$kept
}

# The files of the checkout as they are, with their times; not what was built.
list_checkout() {
    if [ -e .git ] && command -v git >/dev/null; then
        git -c safe.directory='*' ls-files -co --exclude-standard -z \
            | while IFS= read -r -d '' file; do
                if [ -e "$file" ]; then printf '%s\0' "$file"; fi
            done
    else
        find . -path ./build -prune -o -type f -print0
    fi
}

# copy_checkout DIR: into DIR/src, the root file system DIR.
copy_checkout() {
    mkdir -p "$1/src" || exit 1
    list_checkout >"$1/src.new" || die "the checkout cannot be listed"
    if [ -e "$1/src.list" ]; then # what is gone since the last run
        LC_ALL=C comm -z -23 <(sort -z "$1/src.list") <(sort -z "$1/src.new") \
            | (cd "$1/src" && xargs -0 -r rm -f)
    fi
    mv "$1/src.new" "$1/src.list"
    tar -c --null --no-recursion -T "$1/src.list" | tar -x -p --no-same-owner -C "$1/src" \
        || die "the checkout cannot be copied"
}

# copy_network DIR: the names of the archive, and of this host.
copy_network() {
    cp /etc/resolv.conf /etc/hosts "$1/etc/"
}

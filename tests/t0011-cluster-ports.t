#!/bin/bash
# What the throwaway cluster offers to others while an MPI job runs on it: with a network
# namespace nothing at all, of any protocol, on any address; without one nothing but ports of
# 127.0.0.1, which its start says.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

cluster=$MG_SRCDIR/contrib/cluster/slurm-cluster
ends=$MG_BUILDDIR/tests/unit/job/ends.t

slurm_check
mpi_available || skip_all "no MPI, or the modules for it were not built"
[ -x "$ends" ] || skip_all "$ends is not built (make check builds it)"

# open_sockets DIRECTORY: INODE PROTOCOL:ADDRESS:PORT of each socket in these tables of the
# kernel that takes what others send: TCP that listens, UDP and raw sockets of no certain peer.
open_sockets() {
    local file
    for file in tcp tcp6 udp udp6 udplite udplite6 raw raw6; do
        [ ! -r "$1/$file" ] || awk -v name=$file \
            'NR > 1 && $4 == (name ~ /tcp/ ? "0A" : "07") { print $10, name ":" $2 }' "$1/$file"
    done | sort
}

# processes DIR: of the cluster, its jobs and its clients.
processes() {
    {
        grep -lzE "^[A-Z_]+=$1(/|\$)" /proc/[0-9]*/environ
        # from Slurm 24.11 on the daemons overwrite their environment
        find /proc/[0-9]*/fd -lname "$1/*"
    } 2>/dev/null | cut -d / -f 3 | sort -u
}

# offered DIR: NAME PROTOCOL:ADDRESS:PORT of each socket of a process of the cluster, as seen
# from this process's network.
offered() {
    local p
    open_sockets /proc/self/net >"$TEST_DIR/.sockets"
    for p in $(processes "$1"); do
        find "/proc/$p/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n' \
            | sort | join - "$TEST_DIR/.sockets" \
            | sed "s/^[0-9]*/$(cat "/proc/$p/comm" 2>/dev/null)/"
    done | sort -u
}

# seen_inside DIR: the same as the cluster's own network has it.
seen_inside() {
    nsenter --target "$(cut -d ' ' -f 1 "$1/namespace")" --net bash -c \
        "$(declare -f open_sockets processes offered); TEST_DIR='$TEST_DIR'; offered '$1'"
}

# job_listens COMMAND DIR: all ranks, and what started them, have their ports; those of a node
# also have one of their slurmstepd.
job_listens() {
    "$1" "$2" >"$TEST_DIR/listening"
    [ "$(grep -c '^ends\.t .*:[^:]*$' "$TEST_DIR/listening")" -ge 6 ] || return 1
    for name in slurmctld slurmd slurmstepd srun; do
        grep -q "^$name " "$TEST_DIR/listening" || return 1
    done
}

# own_addresses: IPv4 addresses of this machine, 127.0.0.1 among them.
own_addresses() {
    awk '/32 host LOCAL/ { print last } { last = $2 }' /proc/net/fib_trie 2>/dev/null | sort -u
}

# reached ADDRESS...: which ports of the list "listening" can be reached there, but those that
# another process of this machine has.
reached() {
    local port address
    open_sockets /proc/self/net >"$TEST_DIR/.host"
    for port in $(sed -n 's/^.* tcp.*:\(....\)$/\1/p' "$TEST_DIR/listening" | sort -u); do
        grep -q ":$port\$" "$TEST_DIR/.host" && continue
        for address in "$@"; do
            (exec 3<>"/dev/tcp/$address/$((16#$port))") 2>/dev/null \
                && echo "$address $((16#$port))"
        done
    done
}

# check_cluster NAME COMMAND...: a cluster that COMMAND starts, with an MPI job on it.
check_cluster() {
    local name=$1 dir look=offered pid
    shift
    dir=$(mktemp -d "${TMPDIR:-/tmp}/mgslurm.XXXXXX") || bail_out "no directory"
    at_exit "'$cluster' stop '$dir' 2>/dev/null"
    undo_later "'$cluster' stop '$dir'"
    chown "$("$@" id -u)" "$dir"
    run "$@" "$cluster" start "$dir" -N 2
    is "$status" 0 "$name: it starts" || { diag "$err"; return; }
    [ ! -e "$dir/namespace" ] || look=seen_inside
    if [ "$name" != "no namespace" ] && slurm_namespace "$@"; then
        is "$err:$look" ":seen_inside" "$name: in a namespace"
    else
        like "$err:$look" '^slurm-cluster: no network namespace can be made here \(.+\); while jobs run, other users of this machine can reach [^'$'\n'']* 127\.0\.0\.1,[^'$'\n'']*:offered$' \
            "$name: start says in a line what stays open"
    fi
    (cd / && "$@" env MEGATRON_MODULE_DIR="$MEGATRON_MODULE_DIR" \
        "$cluster" run "$dir" srun -Q --mpi=pmix -N2 --ntasks-per-node=2 "$ends" deadline 600) \
        >"$TEST_DIR/srun.log" 2>&1 &
    pid=$!
    ok 'wait_until "job_listens $look $dir" $pid' "$name: an MPI job runs, and listens" \
        || diag "$(cat srun.log listening)"
    if [ $look = seen_inside ]; then
        is "$(offered "$dir")" "" "$name: no port is open outside"
        # shellcheck disable=SC2046  # an argument an address
        is "$(reached $(own_addresses) ::1)" "" "$name: nor can one be reached"
    else
        is "$(grep -vE ' (tcp:0100007F|tcp6:(0{24}01000000|0{16}FFFF00000100007F)):' listening)" \
            "" "$name: all ports are of the loopback"
        # shellcheck disable=SC2046  # an argument an address
        is "$(reached $(own_addresses | grep -v '^127\.'))" "" "$name: no other reaches one"
    fi
    run "$@" "$cluster" stop "$dir"
    is "$status:$err" "0:" "$name: it stops"
    wait $pid
    is "$(processes "$dir")" "" "$name: nothing is left"
}

mkdir fake noip
printf '#!/bin/sh\nexit 1\n' >noip/ip
chmod 755 noip/ip
check_cluster "without ip" env PATH="$TEST_DIR/noip:$PATH"

printf '#!/bin/sh\necho "unshare: unshare failed: Operation not permitted" >&2\nexit 1\n' \
    >fake/unshare
chmod 755 fake/unshare
check_cluster "no namespace" env PATH="$TEST_DIR/fake:$PATH"

as_user() {
    setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=/ "$@"
}
if [ "$(id -u)" = 0 ] && as_user test -x "$cluster" -a -x "$ends" 2>/dev/null; then
    check_cluster "an ordinary user" as_user
else
    skip 7 "only root can try another user, who must be able to read the program"
fi
done_testing

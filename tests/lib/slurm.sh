# slurm.sh - a Slurm cluster of its own for a shell test.  Source it after test.sh:
#
#     . "$MG_SRCDIR/tests/lib/slurm.sh"
#     slurm_start 4                         # or: slurm_start 2 16 -g 4
#     run srun -Q -N4 hostname
#     slurm_stop                            # or leave it to the end of the test
#
# The work is done by contrib/cluster/slurm-cluster, whose options may follow the two
# numbers.  The plugin of the build tree is loaded if it was built.  A test without Slurm
# on the machine is skipped; a cluster that does not come up is the end of the test.
#
# Good to know: a job's nodes are busy for a moment after its srun has ended, and the next
# srun then says on standard error that it is "queued and waiting".  Where that text must
# not be, say srun -Q, or slurm_settle first.  The cluster has a network namespace of its own,
# into which srun and the other commands go by themselves: slurm_start puts wrappers of these
# first in PATH.

SLURM_DIR=

# slurm_start [NODES [CPUS]] [OPTION VALUE]...: leaves SLURM_CONF exported and $SLURM_DIR.
slurm_start() {
    local nodes=4 cpus=8 base=${TMPDIR:-/tmp} plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
    local -a with=()
    case ${1:-} in [0-9]*) nodes=$1; shift ;; esac
    case ${1:-} in [0-9]*) cpus=$1; shift ;; esac
    slurm_check
    [ ! -f "$plugin" ] || with=(--plugin "$plugin")
    [ ${#base} -le 40 ] || base=/tmp # sockets want a short name
    SLURM_DIR=$(mktemp -d "$base/mgslurm.XXXXXX") || bail_out "no directory"
    at_exit slurm_stop
    undo_later "'$MG_SRCDIR/contrib/cluster/slurm-cluster' stop '$SLURM_DIR'"
    undo_later "rm -rf '$SLURM_DIR'"
    "$MG_SRCDIR/contrib/cluster/slurm-cluster" start "$SLURM_DIR" -N "$nodes" \
        -c "$cpus" "${with[@]}" "$@" >"$TEST_DIR/.slurm" 2>&1 \
        || { diag "$(cat "$TEST_DIR/.slurm")"; bail_out "the Slurm cluster did not start"; }
    [ ! -s "$TEST_DIR/.slurm" ] || diag "$(cat "$TEST_DIR/.slurm")"
    eval "$("$MG_SRCDIR/contrib/cluster/slurm-cluster" env "$SLURM_DIR")"
}

# slurm_namespace [COMMAND...]: a network namespace can be made here, by COMMAND as it is by
# slurm-cluster.  Nobody but root may do so in a chroot.
slurm_namespace() {
    local -a user=()
    [ "$("$@" id -u)" = 0 ] || user=(--user --map-current-user --keep-caps)
    "$@" unshare --net "${user[@]}" true 2>/dev/null
}

# slurm_check: the test is skipped if this machine's Slurm cannot be started by this user.
slurm_check() {
    local tool release
    for tool in slurmctld slurmd srun munged; do
        PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null \
            || slurm_missing "$tool is not installed"
    done
    release=$(PATH=$PATH:/usr/sbin:/sbin slurmd -V | tr -dc '0-9.' | cut -d. -f1,2 | tr -d .)
    [ "$(id -un)" != nobody ] || [ "$release" -lt 2511 ] \
        || slurm_missing "Slurm 25.11 and later do not run as the user nobody"
}

# A test that has made checks already cannot be skipped as a whole.
slurm_missing() {
    [ "$test_checks" = 0 ] && skip_all "$1"
    bail_out "$1"
}

# Wait, with a limit, until every job has left its nodes.
slurm_settle() {
    wait_until '[ -z "$(squeue -h -o %A)$(sinfo -h -o %n -t alloc,mix,comp)" ]'
}

# slurm_again JOB: let one that is queued again start.  By itself it waits for two minutes; until
# some seconds have passed its nodes refuse what they were told to forget, by the second.
slurm_again() {
    wait_until "[ \"\$(squeue -h -t PD -o %A -j $1)\" = $1 ]" || return 1
    sleep 4
    scontrol update JobId="$1" StartTime=now
}

# Returns slurm-cluster's status: not 0 if something could not be ended.
slurm_stop() {
    local rc=0
    [ -n "$SLURM_DIR" ] || return 0
    "$MG_SRCDIR/contrib/cluster/slurm-cluster" stop "$SLURM_DIR" || rc=$?
    rm -rf "$SLURM_DIR"
    SLURM_DIR=
    unset SLURM_CONF
    return $rc
}

# ranks.sh - run a program on several ranks of this machine.  Source it after test.sh:
#
#     . "$MG_SRCDIR/tests/lib/ranks.sh"
#     run ranks_run 4 megatron train ...
#
# Ranks are started by "megatron launch" and talk through UCX: they sleep while they wait, so many
# ranks share few cores well.  mpirun starts them where the module for UCX was not built, with
# MG_TEST_LAUNCHER=mpirun, and with MG_TEST_COMM, whose nets want MPI.  A test of what MPI, PMIx or
# mpirun does sources mpi.sh alone.

. "$MG_SRCDIR/tests/lib/mpi.sh"

# True if "megatron launch" starts the ranks.
ranks_launched() {
    [ "${MG_TEST_LAUNCHER:-launch}" = launch ] && [ -z "${MG_TEST_COMM:-}" ] \
        && [ -e "$MEGATRON_MODULE_DIR/comm_ucx.so" ]
}

# True if several ranks can train here.
ranks_available() {
    ranks_launched || mpi_available
}

# Skip the whole test, before any check, where there is only one rank.
ranks_need() {
    ranks_available || skip_all "neither UCX nor MPI"
}

# ranks_run N PROGRAM [ARG...]: the next check that fails shows how a launch failed (test.sh).
ranks_run() {
    local ranks=$1 status=0
    if ! ranks_launched; then
        mpi_run "$@"
        return
    fi
    shift
    rm -f "$TEST_DIR/.launch"
    # another process cannot read the memory of the guarded device
    [[ ${MG_TEST_DEVICE:-} != guarded* ]] || local -x MEGATRON_UCX_TLS=posix,sysv,self
    OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} megatron launch -n "$ranks" -- "$@" || status=$?
    [ $status = 0 ] || {
        echo "status $status of $ranks ranks: $*"
        [ ! -f /proc/self/fd/2 ] || tail -n 8 /proc/self/fd/2
    } >"$TEST_DIR/.launch"
    return $status
}

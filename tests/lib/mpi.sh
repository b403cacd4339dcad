# mpi.sh - run a program on several MPI ranks of this machine.  Source it after test.sh:
#
#     . "$MG_SRCDIR/tests/lib/mpi.sh"
#     run mpi_run 4 "$MG_BUILDDIR/tests/unit/comm/mpi"
#
# Ranks may outnumber the cores, so they yield while they wait and compute on one thread.
# A test without mpirun on the machine must be skipped: mpi_need.

MG_MPIRUN=${MG_MPIRUN:-$(command -v mpirun || :)}

# Skip the whole test, before any check, where there is no MPI.
mpi_need() {
    [ -n "$MG_MPIRUN" ] || skip_all "mpirun was not found by configure"
}

mpi_lost_seconds=60

# mpi_watch SHELL: kill the mpirun that a shell has started once it has had no rank that lives for
# mpi_lost_seconds.  Where ranks have been killed, the mpirun of Open MPI 4.1.4 with PMIx 4.2.2
# sometimes stays for ever: its PMIx server frees an object twice and then waits for the lock in
# it.  This happened once in many thousand runs where a rank had died, and once in 20 runs on a busy
# machine where a rank had been stopped.  The ranks may then be zombies.  The file mpirun-stayed
# tells mpi_run of it.  The watch ends with its standard input: a signal would meet a shell that has
# just begun and still has the traps of the test.
mpi_watch() {
    local launcher lived=$SECONDS rest
    while read -r -t $(((mpi_lost_seconds + 11) / 12)) rest; [ $? -gt 128 ]; do
        launcher=$(pgrep -P "$1" -x 'mpirun|prterun') \
            && ! ps -o stat= --ppid "$launcher" | grep -qv '^Z' || lived=$SECONDS
        [ $((SECONDS - lived)) -lt $mpi_lost_seconds ] \
            || { touch "$TEST_DIR/mpirun-stayed" && kill -KILL "$launcher"; }
    done
} >/dev/null 2>&1 3>&-

# mpi_only_lost_a_rank FILE: does mpirun complain that a rank ended improperly, and nobody of anything
# else?  mpirun of Open MPI 4.1 sees the end of a process before the process's last message now and
# then, beside load, after a run in which all was right (its issue 7833, which was closed without a
# mend).  Ranks of ours that fail say why.
mpi_only_lost_a_rank() {
    awk '/^-----------------------*$/ { inside = !inside; next }
        inside && /^mpirun has exited due to process rank [0-9]+ with PID 0 on$/ { found = 1 }
        !inside && NF { other = 1 }
        END { exit !(found && !other && !inside) }' "$1"
}

# mpi_run N PROGRAM [ARG...]
mpi_run() {
    local ranks=$1 shell=$BASHPID watch watcher status=0
    local -a root=()
    shift
    [ "$(id -u)" != 0 ] || root=(--allow-run-as-root)
    exec {watch}> >(mpi_watch "$shell")
    watcher=$!
    # plm isolated: this host only, so no ssh is looked for.  Single copy needs a right to
    # trace that containers lack.  ob1 over shared memory: UCX would look for networks.
    # Open MPI 4 and 5 ignore each other's names; 5 takes the transport's name of 4.
    env OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" \
        TMPDIR="$TEST_DIR" \
        OMPI_MCA_orte_tmpdir_base="$TEST_DIR" \
        PRTE_MCA_prte_tmpdir_base="$TEST_DIR" \
        OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}" \
        OMPI_MCA_pml="${OMPI_MCA_pml:-ob1}" \
        OMPI_MCA_btl="${OMPI_MCA_btl:-self,vader}" \
        OMPI_MCA_btl_vader_backing_directory="$TEST_DIR" \
        OMPI_MCA_btl_sm_backing_directory="$TEST_DIR" \
        OMPI_MCA_btl_vader_single_copy_mechanism=none \
        OMPI_MCA_smsc=^cma \
        OMPI_MCA_mpi_yield_when_idle=1 \
        "$MG_MPIRUN" "${root[@]}" --oversubscribe --bind-to none -n "$ranks" "$@" \
        {watch}>&- || status=$?
    exec {watch}>&-
    wait $watcher
    if rm "$TEST_DIR/mpirun-stayed" 2>/dev/null; then
        echo "mpirun stayed for $mpi_lost_seconds s after its ranks had ended" >&2
    fi
    # Once in a test: a program of ours that leaves without a word would do it again.
    if [ $status = 1 ] && [ -f /proc/self/fd/2 ] && mpi_only_lost_a_rank /proc/self/fd/2 \
            && mkdir "$TEST_DIR/mpirun-lost" 2>/dev/null; then
        cat /proc/self/fd/2 >"$TEST_DIR/mpirun-lost/err"
        : >/proc/self/fd/2
        status=0
    fi
    return $status
}

# mpi_run_each N PROGRAM [ARG...] [: N PROGRAM [ARG...]]...
# The first N ranks run the first program, and so on.  mpirun starts one script on all
# ranks, which finds its program by rank: the mpirun of Open MPI 5.0.7 (Debian 13) crashes
# when it is given several programs.
mpi_run_each() {
    local script="$TEST_DIR/each.sh" next=0
    {
        echo 'case $OMPI_COMM_WORLD_RANK in'
        while [ $# -gt 0 ]; do
            printf '%s) exec' "$(seq -s '|' "$next" $((next + $1 - 1)))"
            next=$((next + $1))
            shift
            while [ $# -gt 0 ] && [ "$1" != : ]; do
                printf ' %q' "$1"
                shift
            done
            echo ' ;;'
            [ $# = 0 ] || shift
        done
        echo esac
    } >"$script"
    mpi_run "$next" bash "$script"
}

# True if mpirun takes several programs, divided by colons.
mpi_takes_programs() {
    mpi_run 1 true : -n 1 true >/dev/null 2>&1
}

# True if several ranks can train here: mpirun, and the library's MPI and PMIx modules.
mpi_available() {
    [ -n "$MG_MPIRUN" ] && [ -e "$MEGATRON_MODULE_DIR/comm_mpi.so" ] \
        && [ -e "$MEGATRON_MODULE_DIR/boot_pmix.so" ]
}

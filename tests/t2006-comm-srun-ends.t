#!/bin/bash
# Jobs under srun on four virtual nodes that end badly: ranks that die, abort or hang, also while the
# step starts; each is named, and no process is left.  (t2007-comm-srun-starts.t has tasks that do
# not come to their start.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
ends=$MG_BUILDDIR/tests/unit/job/ends.t
[ -x "$ends" ] || skip_all "$ends is not built (make check builds it)"
slurm_start 4
step=(srun -Q --mpi=pmix -N4 --ntasks-per-node=2)

# left: processes of the last step that do not end.
left() {
    wait_until '! pgrep -x ends.t | sed "s|.*|/proc/&/cwd|" | xargs -r readlink | grep -qxF "$TEST_DIR"'
}

# timed COMMAND...: run, and its milliseconds in $took.
timed() {
    local start
    start=$(date +%s%N)
    run "$@"
    took=$((($(date +%s%N) - start) / 1000000))
}

# ---- bad ends
timed "${step[@]}" -K "$ends" die
ok "[ $status != 0 ]" "a killed rank fails the step: $status"
ok "[ $took -lt $(patience 20000) ]" "at once: $took ms"
is "$(left)" "" "and no process is left"
timed "${step[@]}" "$ends" abort
is "$status" 86 "an abort gives its exit code, stuck calls or not"
ok "[ $took -lt $(patience 20000) ]" "at once: $took ms"
is "$(grep -c 'rank 7 ends the job' <<<"$err")" 1 "and its message"
is "$(left)" "" "and no process is left"
seconds=$(apart_seconds 3000) # that ranks may be apart when they start
run "${step[@]}" "$ends" deadline $seconds
is "$status" 3 "a rank that does not come ends the step"
like "$err" "rank [1-7]: all-reduce of 4096 float32 on world waited $seconds s" "naming what waited"
run "${step[@]}" "$ends" late $seconds
is "$status" 3 "also when it does not come to the end"
like "$err" "not all 8 ranks have come to the same point within $seconds s; on node n0 rank 0 has not" \
    "saying which rank, on which node"

# has_come PID: the process has come to its start.
has_come() {
    find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >sockets
    grep '@megatron-.*-0$' "/proc/$1/net/unix" | grep -qwFf sockets
}

# signal_at_start SIGNAL: task 3, while the step starts, since task 2 comes later; leaves $status and
# $err.
signal_at_start() {
    local job
    rm -f go pid.*
    # shellcheck disable=SC2016
    srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 sh -c 'echo $$ >"pid.$SLURM_PROCID"
        [ "$SLURM_PROCID" != 2 ] || until [ -e go ]; do sleep 0.02; done
        exec "$1" late "$2"' - "$ends" "$seconds" >at.out 2>at.err &
    job=$!
    wait_until 'has_come $(cat pid.3)' $job
    kill -s "$1" "$(cat pid.3)"
    touch go
    status=0
    wait $job || status=$?
    err=$(cat at.err)
}

signal_at_start STOP
is "$status" 3 "a task that is stopped while the step starts ends the step"
like "$err" "within $seconds s; on node n1 rank 3 is stopped" "and is named, with its node"
signal_at_start KILL
ok "[ $status != 0 ]" "a task that is killed while the step starts ends the step"
like "$err" 'srun: error: n1: task 3: Killed' "and srun names it"
run srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 "$ends" leave-early $seconds
# Slurm's server may see the end of the connection first. It cancels the step and names the task.
ok "[ $status != 0 ]" "a task that leaves before the first exchange ends the step"
like "$err" "(; on node n1 rank 3 has ended|errhandler: n1 .* source = \\[slurm\\.pmix\\.[0-9.]+:3\\])" \
    "and is named, with its node"
run srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 "$ends" hang-early $seconds
is "$status" 3 "a task that hangs before the first exchange ends the step"
like "$err" "not all 4 ranks have come to the same point within $seconds s; on node n1 rank 3 has not" \
    "and is named, with its node"
run "${step[@]}" "$ends" mismatch
is "$status" 3 "different counts end the step"
like "$err" "all-reduce of 10[01] float32 on world: .*the ranks' counts differ" "saying so"
is "$(left)" "" "and no process is left"
ok "slurm_stop" "the cluster ends cleanly"
done_testing

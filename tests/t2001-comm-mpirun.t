#!/bin/bash
# Communicators under mpirun: every call among 1 to 13 ranks, and how jobs end.
# MG_LONG=1: all numbers of ranks.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/hurt.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
ends=$MG_BUILDDIR/tests/unit/job/ends.t
for program in "$ranks" "$ends"; do
    [ -x "$program" ] || skip_all "$program is not built (make check builds it)"
done

# left: processes of the last job that do not end.
left() {
    wait_until '! pgrep -x ends.t | sed "s|.*|/proc/&/cwd|" | xargs -r readlink | grep -qxF "$TEST_DIR"'
}

seed_draws
some 1 4 7 9 13
for n in 1 2 3 "${some[@]}"; do
    run mpi_run "$n" "$ranks"
    is "$status" 0 "$n ranks: every call is right" || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
    is "$(grep -c '^not ok' <<<"$out")" 0 "$n ranks: no check failed"
    ok "[ $(grep -c '^ok' <<<"$out") -gt 180 ]" "$n ranks: all checks were made"
    is "$err" "" "$n ranks: nothing is printed"
done

run mpi_run 5 "$ends" place
is "$status" 0 "ranks find their places"
is "$(sort <<<"$out")" "$(for i in 0 1 2 3 4; do
        echo "task $i rank $i node 0 of 1 local $i of 5 host -"
    done)" "task i is rank i on one node"
for i in 1 2 3; do
    run mpi_run 5 "$ends" cycle
    is "$status:$out:$err" "0::" "a job begins and ends without a word ($i)"
done
# a step's task that starts mpirun hands its own variables down
inside_a_step() {
    MEGATRON_RANK=3 MEGATRON_WORLD_SIZE=9 SLURM_PROCID=1 SLURM_NTASKS=7 \
        SLURM_STEP_NUM_TASKS=7 SLURM_STEP_ID=0 mpi_run 2 "$ends" cycle
}
run inside_a_step
is "$status:$err" "0:" "what another task was told is not believed"

# ---- bad ends
run mpi_run 5 "$ends" die
ok "[ $status != 0 ]" "a killed rank fails the job: $status"
is "$(left)" "" "and no process is left"
run mpi_run 5 "$ends" abort
is "$status" 86 "an abort gives its exit code, stuck calls or not"
is "$(grep -c 'rank 4 ends the job' <<<"$err")" 1 "and its message"
is "$(left)" "" "and no process is left"
seconds=$(apart_seconds 3000) # that ranks may be apart when they start
run mpi_run 5 "$ends" deadline $seconds
is "$status" 3 "a rank that does not come ends the job"
like "$err" "rank [1-4]: all-reduce of 4096 float32 on world waited $seconds s" "naming what waited"
is "$(left)" "" "and no process is left"
run mpi_run 5 "$ends" mismatch
is "$status" 3 "different counts end the job"
like "$err" "all-reduce of 10[01] float32 on world: .*the ranks' counts differ" "saying so"
hurt_rank "while the others leave" $seconds STOP end 3 mpi_run 5
if long; then
    for place in exchange agreement meeting end; do
        for rank in 0 2 4; do
            hurt_rank "stopped" $seconds STOP $place $rank mpi_run 5
            hurt_rank "killed" $seconds KILL $place $rank mpi_run 5
        done
    done
fi
run mpi_run 5 "$ends" leave
ok "[ $status != 0 ]" "a rank can end the job because of its own failure"
like "$err" 'rank 1: rank 1 has had enough' "with its text"
is "$(left)" "" "and no process is left"
done_testing

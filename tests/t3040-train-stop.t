#!/bin/bash
# A run that is asked to stop, by a signal or the clock, saves and leaves with status 75 at
# a step boundary, whichever rank was asked; the same line goes on, to the same bits.
# (t3049-train-stop-srun.t has runs under srun and sbatch.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/stop.sh"

tokenized_text 20
whole=(megatron train "${args[@]}" --train-iters 400 --save-weights)
run "${whole[@]}" whole.st
is "$status" 0 "in one go" || diag "$err"

# ---- one rank
stop usr1 'kill -USR1 $job' "${endless[@]}"
like "$(cat usr1.out)" "stopping: SIGUSR1 has come" "the signal is named"
stop term 'kill -TERM $job' "${endless[@]}"
stop int 'kill -INT $job' "${heeding[@]}" "${endless[@]}"
like "$(cat int.out)" "stopping: SIGINT has come" "a first SIGINT stops as SIGTERM does"
stop hup 'kill -HUP $job' "${endless[@]}" --exit-signal HUP,USR2
run megatron train "${args[@]}" --train-iters 100000 --exit-duration-in-mins 0.01 --save clock
is "$status" 75 "the clock stops a run, too" || diag "$err"
like "$out" "stopping: --exit-duration-in-mins 0.01 is over" "which is said"
run megatron train "${args[@]}" --train-iters 100000 --exit-duration-in-mins 0
is "$status" 75 "without --save, too"
is "$(grep -c '\] iteration ' <<<"$out")" 1 "after one iteration"
like "$out" "stopped after iteration 1 of 100000, nothing is saved without --save" "and is told"
run megatron train "${args[@]}" --train-iters 3 --exit-duration-in-mins 1000 --exit-signal-handler
is "$status" 0 "a run that ends before is not stopped"
run megatron train "${args[@]}" --train-iters 1 --exit-duration-in-mins 0
is "$status" 0 "nor is one whose last iteration is done"
"${endless[@]}" --no-exit-signal-handler >plain.out 2>&1 &
job=$!
until_iteration 1 plain.out $job
kill -USR1 $job
wait $job
is "$?" $((128 + $(kill -l USR1))) "--no-exit-signal-handler: a signal is a signal"

# handled PID: the first SIGINT is pending no more, and the signal that its handler sends is.
handled() {
    local pending
    pending=$((16#$(sed -n 's/^ShdPnd:[[:space:]]*//p' "/proc/$1/status")))
    ((pending != 0 && (pending & 1 << ($(kill -l INT) - 1)) == 0))
}

# A second SIGINT ends at once: here in a step of many microbatches.
"${heeding[@]}" megatron train "${args[@]}" --train-iters 1 --global-batch-size 1000000 --save twice \
    >twice.out 2>&1 &
job=$!
wait_until "grep -q 'bytes per parameter' twice.out" $job
kill -INT $job
wait_until 'handled $job' $job
kill -INT $job
wait $job
is "$?" $((128 + $(kill -l INT))) "a second SIGINT ends the run at once"
ok "[ ! -e twice/latest_checkpointed_iteration.txt ]" "without a checkpoint"
"${endless[@]}" --exit-interval 30 --log-interval 1 >ignored.out 2>&1 &
job=$!
until_iteration 1 ignored.out $job
kill -INT $job
wait $job
is "$?" 0 "a SIGINT that is ignored stays ignored" || diag "$(tail -n 3 ignored.out)"

# parts NAME COMMAND...: stop and go on until done, as a batch script would: twice after an
# iteration, so that there are parts on any machine, then when the clock says so.
parts() {
    local name=$1 n=0 rc=75 minutes
    shift
    while [ $rc = 75 ] && [ $n -lt 30 ]; do
        n=$((n + 1))
        case $n in
            1 | 2) minutes=0 ;;
            3 | 4) minutes=0.002 ;;
            *) minutes=1 ;; # where starting alone takes as long as that
        esac
        "$@" --load "$name" --save "$name" --exit-duration-in-mins "$minutes" >"$name.out" \
            2>"$name.err"
        rc=$?
        [ $n != 2 ] || is "$(cat "$name/latest_checkpointed_iteration.txt")" 2 \
            "$name: two iterations in two parts" || diag "$(cat "$name.err")"
    done
    is "$rc" 0 "$name: done after $n parts" || diag "$(cat "$name.err")"
    ok "[ $n -ge 3 ]" "$name: which were several"
}
parts one "${whole[@]}" one.st
ok "cmp one.st whole.st" "the same weights, bit for bit"

# ---- several
if ! mpi_available; then
    skip 1 "no MPI"
    done_testing
fi
split=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
stop any 'kill -USR1 $(ranks_here | sed -n 3p)' mpi_run 4 "${endless[@]}" "${split[@]}"
stop rank 'kill -INT $(ranks_here | sed -n 3p)' mpi_run 4 "${heeding[@]}" "${endless[@]}" "${split[@]}"
stop last 'kill -USR1 $(ranks_here | tail -n 1)' mpi_run 2 "${endless[@]}"
run mpi_run 4 "${whole[@]}" whole4.st "${split[@]}"
is "$status" 0 "4 ranks in one go" || diag "$err"
parts four mpi_run 4 "${whole[@]}" four.st "${split[@]}"
ok "cmp four.st whole4.st" "the same weights, bit for bit"
done_testing

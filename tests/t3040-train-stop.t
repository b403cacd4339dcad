#!/bin/bash
# A run that is asked to stop, by a signal or the clock, saves and leaves with status 75 at
# a step boundary, whichever rank was asked; the same line goes on, to the same bits.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
args=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --lr 1e-3)
whole=(megatron train "${args[@]}" --train-iters 400 --save-weights)
run "${whole[@]}" whole.st
is "$status" 0 "in one go" || diag "$err"
endless=(megatron train "${args[@]}" --train-iters 1000000)

# stop NAME HOW COMMAND...: evaluate HOW, which sends a signal, once it runs.
stop() {
    local name=$1 how=$2 job start took
    shift 2
    "$@" --save "$name" --load "$name" --save-interval 100000 >"$name.out" 2>"$name.err" &
    job=$!
    until_iteration 3 "$name.out" $job || :
    start=$(date +%s%N)
    eval "$how"
    status=0
    wait $job || status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    is "$status" 75 "$name: status 75" || diag "$(cat "$name.err")"
    ok "[ $took -lt $(patience 60000) ]" "$name: soon: $took ms"
    last=$(sed -n 's/.*\] iteration *\([0-9]*\)\/.*/\1/p' "$name.out" | tail -n 1)
    is "$(cat "$name/latest_checkpointed_iteration.txt")" "$last" \
        "$name: the last iteration, $last, is saved"
    is "$(grep -c "^stopped after iteration $last of 1000000; to go on: --load $name" \
        "$name.out")" 1 "$name: and one line says how to go on"
}

# ---- one rank
stop usr1 'kill -USR1 $job' "${endless[@]}"
like "$(cat usr1.out)" "stopping: SIGUSR1 has come" "the signal is named"
stop term 'kill -TERM $job' "${endless[@]}"
# A shell that runs a script lets what runs in the background ignore SIGINT.
heeding=(env --default-signal=INT)
stop int 'kill -INT $job' "${heeding[@]}" "${endless[@]}"
like "$(cat int.out)" "stopping: SIGINT has come" "a first SIGINT stops as SIGTERM does"
stop hup 'kill -HUP $job' "${endless[@]}" --exit-signal HUP,USR2
run megatron train "${args[@]}" --train-iters 1000000 --exit-duration-in-mins 0.01 --save clock
is "$status" 75 "the clock stops a run, too" || diag "$err"
like "$out" "stopping: --exit-duration-in-mins 0.01 is over" "which is said"
run megatron train "${args[@]}" --train-iters 1000000 --exit-duration-in-mins 0
is "$status" 75 "without --save, too"
is "$(grep -c '\] iteration ' <<<"$out")" 1 "after one iteration"
like "$out" "stopped after iteration 1 of 1000000, nothing is saved without --save" "and is told"
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

[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || { skip 1 "no plugin"; done_testing; }
slurm_start 4
stop step 'scancel -s USR1 "$(squeue -h -o %A)"' \
    srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 "${endless[@]}"
is "$(grep -v 'Exited with exit code 75\|Terminating\|STEP\|launch' step.err)" "" \
    "srun has little to say" || diag "$(cat step.err)"

# srun keeps a first ^C for itself, unless it is told to pass it on.
stop passed-on 'kill -INT $job' "${heeding[@]}" srun -Q -X -N4 --ntasks-per-node=2 --megatron-tp=2 \
    --megatron-pp=2 "${heeding[@]}" "${endless[@]}"

# A batch script that goes on until it is done: status 75 asks for another turn.  Turns after
# the first take more arguments from a file.
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --requeue --open-mode=append --signal=USR1@60 --time=60 -N4 --ntasks-per-node=2
#SBATCH --megatron-tp=2 --megatron-pp=2
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || more=(--args-file more.args)
srun -Q "$@" "${more[@]}"
status=$?
echo "turn $((SLURM_RESTART_COUNT + 1)): $status"
[ $status != 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $status
END
run sbatch -o batch.out job.sh "${endless[@]}" --load batch --save batch --save-weights batch.st
is "$status" 0 "a batch job is queued" || diag "$err"
job=${out##* }
until_iteration 5 batch.out
scancel -s USR1 "$job" # as Slurm does before the time limit: to the tasks of the step
wait_until "grep -q 'turn 1' batch.out"
last=$(($(cat batch/latest_checkpointed_iteration.txt) + 20))
echo "--exit-interval $last" >more.args # an end that the first turn did not have
run slurm_again "$job"
is "$status" 0 "it is queued again" || diag "$out$err"
wait_until "grep -q 'turn 2' batch.out"
is "$(grep turn batch.out | tr '\n' ' ')" "turn 1: 75 turn 2: 0 " "and done" || diag "$(cat batch.out)"
run mpi_run 8 "${endless[@]}" --exit-interval "$last" --save-weights whole8.st "${split[@]}"
is "$status" 0 "8 ranks in one go, of $last iterations" || diag "$err"
ok "cmp batch.st whole8.st" "with the same bits"

# Slurm's own clock ticks twice a minute.
if long; then
    run sbatch --time=2 -o slow.out job.sh "${endless[@]}" --load slow --save slow
    job=${out##* }
    wait_until "grep -q turn slow.out"
    scancel "$job"
    like "$(cat slow.out)" "stopping: (SIGUSR1|a signal) has come.*turn 1: 75" "sbatch --signal=USR1@60 does it"
else
    skip 1 "MG_LONG is not set: Slurm's clock is slow"
fi
done_testing

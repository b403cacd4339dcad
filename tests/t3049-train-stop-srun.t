#!/bin/bash
# Runs under srun and sbatch that are asked to stop save and leave with status 75, as those of
# t3040-train-stop.t do; a batch script goes on until it is done, to the same bits.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/stop.sh"

mpi_available || skip_all "no MPI"
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "no plugin"
tokenized_text 20
split=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
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

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

# until FILE N: until the log has so many iterations.
until_iteration() {
    local i
    for ((i = 0; i < 400; i++)); do
        [ "$(cat "$1" 2>/dev/null | grep -c '\] iteration ')" -lt "$2" ] || return 0
        sleep 0.05
    done
    diag "$1: no $2 iterations: $(tail -n 3 "$1")"
    return 1
}

# ranks_here: processes of runs in this directory.
ranks_here() {
    local p
    for p in $(pgrep -x megatron); do
        [ "$(readlink "/proc/$p/cwd")" != "$TEST_DIR" ] || echo "$p"
    done
}

# stop NAME HOW COMMAND...: evaluate HOW, which sends a signal, once it runs.
stop() {
    local name=$1 how=$2 job start took
    shift 2
    "$@" --save "$name" --load "$name" --save-interval 100000 >"$name.out" 2>"$name.err" &
    job=$!
    until_iteration "$name.out" 3 || :
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
until_iteration plain.out 1
kill -USR1 $job
wait $job
is "$?" $((128 + $(kill -l USR1))) "--no-exit-signal-handler: a signal is a signal"

# parts NAME ITERATIONS COMMAND...: stop and go on until done, as a batch script would.
parts() {
    local name=$1 n=0 rc=75 job
    shift
    while [ $rc = 75 ] && [ $n -lt 30 ]; do
        n=$((n + 1))
        [ $n -lt 5 ] || minutes=1 # where starting alone takes as long as that
        "$@" --load "$name" --save "$name" --exit-duration-in-mins "$minutes" >"$name.out" \
            2>"$name.err"
        rc=$?
    done
    is "$rc" 0 "$name: done after $n parts" || diag "$(cat "$name.err")"
    ok "[ $n -ge 2 ]" "$name: which were several"
}
minutes=0.002 parts one "${whole[@]}" one.st
ok "cmp one.st whole.st" "the same weights, bit for bit"

# ---- several
if ! mpi_available; then
    skip 1 "no MPI"
    done_testing
fi
split=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
stop any 'kill -USR1 $(ranks_here | sed -n 3p)' mpi_run 4 "${endless[@]}" "${split[@]}"
stop last 'kill -USR1 $(ranks_here | tail -n 1)' mpi_run 2 "${endless[@]}"
run mpi_run 4 "${whole[@]}" whole4.st "${split[@]}"
is "$status" 0 "4 ranks in one go" || diag "$err"
minutes=0.03 parts four mpi_run 4 "${whole[@]}" four.st "${split[@]}"
ok "cmp four.st whole4.st" "the same weights, bit for bit"

[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || { skip 1 "no plugin"; done_testing; }
echo "AuthInfo=cred_expire=1" >more.conf
slurm_start 4 --conf "$PWD/more.conf"
stop step 'scancel -s USR1 "$(squeue -h -o %A)"' \
    srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 "${endless[@]}"
is "$(grep -v 'Exited with exit code 75\|Terminating\|STEP\|launch' step.err)" "" \
    "srun has little to say" || diag "$(cat step.err)"

# A batch script that goes on until it is done: status 75 asks for another turn.
cat >job.sh <<'END'
#!/bin/bash
#SBATCH --requeue --open-mode=append --signal=USR1@60 --time=1 -N4 --ntasks-per-node=2
#SBATCH --megatron-tp=2 --megatron-pp=2
srun -Q "$@"
status=$?
echo "turn $((SLURM_RESTART_COUNT + 1)): $status"
[ $status != 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $status
END
short=(megatron train "${args[@]}" --train-iters 60 --save-weights)
run mpi_run 8 "${short[@]}" whole8.st "${split[@]}"
run sbatch -o batch.out job.sh "${short[@]}" batch.st --load batch --save batch
is "$status" 0 "a batch job is queued" || diag "$err"
job=${out##* }
until_iteration batch.out 5
scancel -s USR1 "$job" # as Slurm does before the time limit: to the tasks of the step
# A job that was queued again waits for two minutes by itself: its nodes must have forgotten
# that its credentials are withdrawn, which they know by the second.
for ((i = 0; i < 1200; i++)); do
    ! grep -qs 'turn .: [^7]' batch.out || break
    sleep 0.1
    if [ -z "${again:-}" ] && grep -qs 'turn 1' batch.out; then
        sleep 4
        again=$(scontrol update JobId="$job" StartTime=now 2>&1) && again=done
    fi
done
is "$(grep turn batch.out | tr '\n' ' ')" "turn 1: 75 turn 2: 0 " "it is queued again, and done" || diag "$(cat batch.out)"
ok "cmp batch.st whole8.st" "with the bits of a run in one go"

# Slurm's own clock ticks twice a minute.
if [ -n "${MG_LONG:-}" ]; then
    run sbatch -o slow.out job.sh "${endless[@]}" --load slow --save slow
    job=${out##* }
    for ((i = 0; i < 900; i++)); do
        ! grep -qs turn slow.out || break
        sleep 0.1
    done
    scancel "$job"
    like "$(cat slow.out)" "stopping: (SIGUSR1|a signal) has come.*turn 1: 75" "sbatch --signal=USR1@60 does it"
else
    skip 1 "MG_LONG is not set: Slurm's clock is slow"
fi
done_testing

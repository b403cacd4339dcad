#!/bin/bash
# One srun line trains: the plugin's sizes reach the run, on 8 ranks over 4 virtual nodes,
# under any distribution; what goes wrong ends the step at once and says why.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

mpi_available || skip_all "no MPI"
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not built"
tokenized_text 20
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --train-iters 6 --lr 1e-3)
slurm_start 4

run megatron train "${args[@]}" --metrics-file one.json --save-weights one.st
is "$status" 0 "one rank" || diag "$err"
for how in block cyclic plane=2; do
    run srun -Q -N4 --ntasks-per-node=2 -m "$how" --megatron-tp=2 --megatron-pp=2 \
        megatron train "${args[@]}" --metrics-file "$how.json" --save-weights "$how.st"
    is "$status" 0 "srun -m $how" || { diag "$err"; continue; }
    like "$out" "8 ranks = tp 2 x pp 2 x dp 2" "the plugin's sizes reach the run"
    is "$(grep -c '\] iteration ' <<<"$out")" 6 "one rank prints the iterations"
    same_metrics "$how.json" one.json 1e-5 1e-4 "$how against one rank"
    same_weights "$how.st" one.st 1e-4 "$how weights" --skip-key-bias 4
done
ok "cmp block.st cyclic.st" "the distribution does not change a bit"
run srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-cp=2 megatron train "${args[@]}" \
    --cp-comm-type a2a p2p a2a p2p --metrics-file cp.json
is "$status" 0 "srun --megatron-cp=2" || diag "$err"
like "$out" "8 ranks = tp 2 x cp 2 x pp 1 x dp 2" "sequences are split"
same_metrics cp.json one.json 1e-5 1e-4 "against one rank"

# ---- refusals
run srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 megatron train "${args[@]}" \
    --tensor-model-parallel-size 4
is "$status" 1 "a contradiction to the plugin is refused"
is "$(grep -c contradicts <<<"$err")" 1 "in one line: $(grep contradicts <<<"$err")"
# once STATUS REGEX COMMAND...: of eight ranks, one says it.
once() {
    local want=$1 regex=$2
    shift 2
    run srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 "$@"
    is "$status" "$want" "$regex: status $want" || diag "$err"
    is "$(grep -c '^megatron train: ' <<<"$err")" 1 "in one line" || diag "$err"
    like "$(grep '^megatron train: ' <<<"$err")" "^megatron train: $regex" "that says it"
}
once 2 "unknown argument --bogus;" megatron train "${args[@]}" --bogus
once 1 "cannot open nosuch.idx" megatron train "${args[@]}" --data-path nosuch
once 1 "iteration 1: .* outside the vocabulary" megatron train "${args[@]}" --vocab-size 41
once 1 "iteration [0-9]*: .* not both finite" megatron train "${args[@]}" --lr 1e6 \
    --train-iters 100
# shellcheck disable=SC2016
once 1 "rank 5: cannot open text_text_document.idx" \
    sh -c '[ "$MEGATRON_RANK" != 5 ] || cd /; exec "$@"' sh megatron train "${args[@]}"
run srun -Q -n2 --mpi=none megatron train "${args[@]}"
ok "[ $status != 0 ]" "two tasks without PMIx are refused"
like "$err" "srun --mpi=pmix" "naming the missing option"

# ---- one rank dies
srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 \
    megatron train "${args[@]}" --train-iters 100000 >long.out 2>long.err &
job=$!
ok "until_iteration 3 long.out $job" "a long run is under way"
pids=$(ranks_here)
is "$(wc -l <<<"$pids")" 8 "on eight ranks"
start=$(date +%s%N)
kill -KILL "$(sed -n 5p <<<"$pids")"
wait $job
status=$?
took=$((($(date +%s%N) - start) / 1000000))
ok "[ $status != 0 ]" "killing one rank fails the step: $status"
ok "[ $took -lt $(patience 20000) ]" "at once: $took ms"
ok 'wait_until "[ -z \"\$(ranks_here)\" ]"' "no process is left" || diag "$(ranks_here)"
done_testing

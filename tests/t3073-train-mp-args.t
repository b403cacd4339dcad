#!/bin/bash
# Parallel sizes from a checkpoint: taken, contradicted, not there.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_batches b.st
run_args=(--batches b.st --lr 1e-3 --lr-decay-style constant
          --hidden-dropout 0 --attention-dropout 0)
first=(megatron train --num-layers 4 --hidden-size 16 --num-attention-heads 2 --vocab-size 256
       "${run_args[@]}")
from=(megatron train --use-checkpoint-args --use-mp-args-from-checkpoint-args "${run_args[@]}")

# refuse TEXT COMMAND...: is refused with TEXT.
refuse() {
    local text=$1
    shift
    run "$@"
    is "$status" 2 "refused"
    is "$err" "megatron train: $text" "in one line"
}

run "${first[@]}" --train-iters 1 --save one --save-weights w.st
is "$status" 0 "a checkpoint of one rank" || diag "$err"
run "${from[@]}" --load one --train-iters 2
like "$out" "^1 rank = tp 1 x pp 1 x dp 1, " "the same"
refuse "--tensor-model-parallel-size 2 contradicts the checkpoint in one, which was written with 1: \
leave out the argument, or --use-mp-args-from-checkpoint-args" \
    "${from[@]}" --load one --train-iters 2 --tensor-model-parallel-size 2
run "${from[@]}" --load one --train-iters 2 --tensor-model-parallel-size 1
is "$status" 0 "a size may be repeated" || diag "$err"
for args in "--load one" "--use-checkpoint-args --load-weights w.st"; do
    read -ra words <<<"$args"
    refuse "--use-mp-args-from-checkpoint-args wants --use-checkpoint-args and --load DIR" \
        "${first[@]}" --use-mp-args-from-checkpoint-args --train-iters 2 "${words[@]}"
done
run megatron checkpoint convert w.st --output fresh --format checkpoint
is "$status" 0 "a checkpoint that no run wrote" || diag "$err"
refuse "--use-mp-args-from-checkpoint-args: the checkpoint in fresh does not hold \
tensor_model_parallel_size (older versions did not write it): give the sizes as arguments" \
    "${from[@]}" --load fresh --train-iters 2

if ! ranks_available; then
    skip 3 "neither UCX nor MPI"
    done_testing
fi
virtual=(--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2)
run ranks_run 2 "${first[@]}" "${virtual[@]}" --train-iters 4 --exit-interval 2 --save two
is "$status" 0 "2 ranks" || diag "$err"
train typed ranks_run 2 "${first[@]}" "${virtual[@]}" --train-iters 4 --load two
train taken ranks_run 2 "${from[@]}" --train-iters 4 --load two
like "$out" "^2 ranks = tp 1 x pp 2 \(vpp 2\) x dp 1, " "go on as 2 stages of 2 virtual ones"
same_bits taken typed "to the same bits"
done_testing

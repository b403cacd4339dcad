#!/bin/bash
# Weights of replicas that differ are found, and the ranks that differ are named; a run compares them
# at its interval.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

replicas=$MG_BUILDDIR/tests/unit/train/replicas.t
[ -x "$replicas" ] || skip_all "$replicas is not built (make check builds it)"
ranks_need

# compare N ARGUMENT...: all ranks find what they have to.
compare() {
    local n=$1
    shift
    run ranks_run "$n" "$replicas" "$@"
    is "$status:$(grep -c '^ok' <<<"$out"):$(grep -c '^not ok' <<<"$out")" "0:$((2 * n)):0" \
        "$n ranks: $*" || diag "$out$err"
}

tell="are not those of the other ranks with the same part of the model; the first that differs between ranks"
compare 4 --global-batch-size=8 --spoil=2 \
    "--want=the weights of rank 2 $tell 0 and 2 is decoder.layers.0.mlp.linear_fc1.weight"
compare 4 --global-batch-size=8 --spoil=0,3 --what=final_layernorm.weight --tensor-model-parallel-size=2 \
    "--want=the weights of ranks 2, 3 $tell 0 and 2 is decoder.final_layernorm.weight"
compare 4 --global-batch-size=8 --spoil=1 --what=experts --num-experts=2 \
    --expert-model-parallel-size=2 "--want=the weights of rank 3 $tell 1 and 3 is decoder.layers.0.mlp.experts"
compare 2 --spoil=1 --tensor-model-parallel-size=2

make_batches b.st
run ranks_run 2 megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
    --vocab-size 256 --batches b.st --train-iters 5 --lr 1e-3 --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather --check-weight-hash-across-dp-replicas-interval 2
is "$status" 0 "a run" || diag "$err"
is "$(grep -o 'Weight hashes match after [0-9]*' <<<"$out" | sed 's/.* //' | paste -sd' ')" "0 2 4" \
    "compares at the start and at its interval"
done_testing

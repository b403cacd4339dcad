#!/bin/bash
# Checks for losses and gradients that are unexpectedly large change no result, on one rank and on
# several, and tell of nothing in a run that is as it should be.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_batches b.st
base=(megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --vocab-size 256
      --batches b.st --train-iters 30 --lr 1e-3 --hidden-dropout 0 --attention-dropout 0)
check=(--check-for-spiky-loss --check-for-large-grads)

train plain "${base[@]}"
train checked "${base[@]}" "${check[@]}"
same_bits checked plain "the same bits"
is "$(grep -c 'microbatches, ' <<<"$out")" 0 "no line"
if ranks_available; then
    base+=(--train-iters 4)
    train plain ranks_run 2 "${base[@]}" --use-distributed-optimizer
    train checked ranks_run 2 "${base[@]}" --use-distributed-optimizer --overlap-grad-reduce \
        --ddp-bucket-size 900 "${check[@]}"
    same_bits checked plain "2 ranks, bucket by bucket: the same bits"
fi
done_testing

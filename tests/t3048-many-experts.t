#!/bin/bash
# 65,536 experts, all of which each token chooses: an iteration ends, and SIGTERM ends the run.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
megatron train --num-layers 1 --hidden-size 8 --num-attention-heads 2 --seq-length 4 \
    --tokenizer-type ByteLevel --data-path text_text_document --micro-batch-size 1 \
    --global-batch-size 1 --lr 1e-4 --split 100,0,0 --eval-iters 0 --train-iters 100000 \
    --num-experts 65536 --moe-router-topk 65536 --moe-ffn-hidden-size 1 --disable-bias-linear \
    --log-interval 1 >out 2>err &
job=$!
until_iteration 1 out $job || :
ok "grep -q 'iteration  *1/' out" "an iteration ends" || diag "$(cat err)"
kill -TERM $job
status=0
wait $job || status=$?
is "$status" 75 "SIGTERM ends the run" || diag "$(cat err)"
like "$(cat out)" "stopping: SIGTERM has come" "which says so"
done_testing

#!/bin/bash
# Commands and a run go through with a stack of 128 KiB, since no function's frame is large.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

# small COMMAND...: with the small stack
small() {
    (ulimit -s 128 && exec "$@")
}

make_text text.txt 20
run small megatron data tokenize --input text.txt --output-prefix text --append-eod
is "$status" 0 "text is tokenized" || diag "$err"
base=(small megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16
      --position-embedding-type rope --mtp-num-layers 1 --num-experts 2 --moe-router-topk 1
      --moe-router-pre-softmax --tokenizer-type ByteLevel --data-path text_text_document
      --micro-batch-size 2 --lr 1e-4 --lr-decay-iters 9 --split 90,10,0 --eval-iters 1 --eval-interval 1)
for type in "" --bf16; do
    # shellcheck disable=SC2086 # none or one
    run "${base[@]}" $type --train-iters 1 --save ckpt --save-weights w.st --metrics-file m.json
    is "$status" 0 "a model is trained and saved $type" || diag "$err"
    # shellcheck disable=SC2086
    run "${base[@]}" $type --train-iters 2 --load ckpt
    is "$status" 0 "and loaded" || diag "$err"
    run small megatron checkpoint inspect --json ckpt
    is "$status" 0 "and inspected" || diag "$err"
    rm -r ckpt
done
run small megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
    --tokenizer-type ByteLevel --data-path text_text_document --micro-batch-size 2 --lr 1e-4 \
    --split 100,0,0 --eval-iters 0 --train-iters 1 --save-weights plain.st
is "$status" 0 "another model" || diag "$err"
run small megatron checkpoint convert plain.st --dtype bf16 --output half.st
is "$status" 0 "is converted" || diag "$err"
run small megatron plan memory "${base[@]:3}"
is "$status" 0 "the memory of a run is planned" || diag "$err"
done_testing

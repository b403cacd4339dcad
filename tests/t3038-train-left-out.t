#!/bin/bash
# Iterations that are left out: their samples are passed over, the schedule waits, and the run goes
# on as any other, also on several ranks and after a resume.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
base=(megatron train "${tiny_model[@]}" --seq-length 8 --tokenizer-type ByteLevel
      --data-path text_text_document --split 100,0,0 --eval-iters 0 --micro-batch-size 1
      --global-batch-size 4 --lr 1e-3 --lr-decay-iters 10)
leave_out=(--iterations-to-skip 1 4 5 8)

values() {
    grep -o "\"$2\": [^,}]*" "$1.json" | sed 's/.*: //' | paste -sd' '
}

train all "${base[@]}" --train-iters 8
train some "${base[@]}" --train-iters 8 "${leave_out[@]}" --save ck --save-interval 2
is "$(grep -c 'is left out' <<<"$out")" 4 "four are left out"
is "$(values some iteration)" "2 3 6 7" "the others have metrics"
is "$(values some "consumed samples")" "8 12 24 28" "all samples are passed over"
is "$(values some "learning rate used")" "0.001 0.0009 0.0008 0.0007" "the schedule waits"
is "$(grep -c '\] iteration ' <<<"$out")" 4 "and so many lines"
is "$(ls ck | grep -c '^iter_')" 3 "no checkpoint follows iterations 4 and 8, but for the last: $(ls ck)"
first=$(values all "lm loss" | cut -d' ' -f2)
train one "${base[@]}" --train-iters 2 --iterations-to-skip 1 --lr 0
train two "${base[@]}" --train-iters 2 --lr 0
is "$(values one "lm loss")" "$(values two "lm loss" | cut -d' ' -f2)" \
    "iteration 2 has the samples that it has anyway"
ok "[ -n '$first' ]" "of a run with all: $first"

train rest "${base[@]}" --train-iters 8 "${leave_out[@]}" --load ck --ckpt-step 2
is "$(cat rest.json)" "$(tail -n 3 some.json)" "a resumed run has the same metrics"
ok "cmp rest.st some.st" "and weights"
run "${base[@]}" --train-iters 2 --iterations-to-skip 1 2 --save none
is "$status" 0 "a run of which nothing is left"
is "$(cat none/latest_checkpointed_iteration.txt)" 2 "has its last checkpoint"
if ranks_available; then
    train many ranks_run 2 "${base[@]}" --train-iters 8 "${leave_out[@]}" --use-distributed-optimizer
    is "$(values many iteration)" "2 3 6 7" "2 ranks"
    same_metrics many.json some.json 1e-5 1e-5 "as on one"
fi
done_testing

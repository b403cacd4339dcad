#!/bin/bash
# Other ways to evaluate: the whole validation data, several sets of it, another batch size, a late
# begin.  The same losses on every layout.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 6
make_text b.txt 1
tr a-y b-z <b.txt >c.txt
for set in a b c; do
    megatron data tokenize --input $set.txt --output-prefix $set --append-eod >/dev/null
done
a=a_text_document b=b_text_document c=c_text_document
one=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 4 --seq-length 12
     --tokenizer-type ByteLevel --micro-batch-size 2 --global-batch-size 8 --seed 5
     --train-iters 4 --lr 4e-3 --lr-decay-style constant --train-data-path $a)
sets=(--valid-data-path $b $c --full-validation --multiple-validation-sets)

# losses NAME: "ITERATION PART SAMPLES LOSS" of each evaluation in NAME.raw
losses() {
    sed -n 's/{"evaluation": "\(.*\)", "iteration": \(.*\), "consumed.*"samples": \(.*\), "lm loss value": \(.*\), "lm loss PPL.*/\2 \1 \3 \4/p' \
        "$1.raw"
}

# near A B TEXT: the losses of two lists
near() {
    local said
    said=$(paste -d' ' "$1" "$2" | awk '
        { d = $4 / $8 - 1; if (d < 0) d = -d; if (d > max) max = d; n++
          if (d > 2e-6 || $1 " " $2 " " $3 != $5 " " $6 " " $7) bad = 1 }
        END { printf "%d evaluations, largest difference %.1e", n, max; exit bad || !n }')
    ok "[ $? = 0 ]" "$3: $said"
}

# ---- all of several sets, each with its loss
n=$(($(megatron data inspect $b --json | grep -o '"tokens":[0-9]*' | cut -d: -f2) - 1))
train whole "${one[@]}" "${sets[@]}" --eval-interval 2 --start-eval-at-iter 3 --eval-iters 1
is "$status" 0 "two validation sets"
losses whole >whole
is "$(cut -d' ' -f1-3 whole | tr '\n' ,)" \
    "4 validation-0 $((n / 12)),4 validation-1 $((n / 12)),4 validation-0 $((n / 12)),4 validation-1 $((n / 12))," \
    "each has all its samples, from the first iteration on that may have one, and at the end"
is "$(grep -c '^ validation-1 loss at iteration 4 | lm loss value: ' <<<"$out")" 1 "and a line"
ok "[ $((n / 12 % 8)) != 0 ]" "the last batch is not full"

# the same weights, one sample after the other, in batches that divide their number
train single "${one[@]}" --valid-data-path $b --full-validation --train-iters 4 --eval-interval 0 \
    --micro-batch-size 1 --eval-global-batch-size 1
losses single | sed 's/validation/&-0/' >single
head -n 3 whole | tail -n 1 >want
near single want "batches of one sample"

# ---- layouts
train dp ranks_run 2 "${one[@]}" "${sets[@]}" --eval-interval 4 --validation-set-names even more
is "$status" 0 "two data-parallel ranks"
losses dp | sed 's/even/0/; s/more/1/' >got
near got whole "the same losses"
train pp ranks_run 2 "${one[@]}" "${sets[@]}" --eval-interval 4 --pipeline-model-parallel-size 2 \
    --eval-global-batch-size 4
is "$status" 0 "two pipeline ranks, and another batch size"
losses pp >got
near got whole "the same losses"

run "${one[@]}" "${sets[@]}" --eval-global-batch-size 3
is "$status" 1 "a batch that does not go with the micro batch"
like "$err" "eval-global-batch-size 3 is not a multiple of micro-batch-size 2 x dp 1 = 2" "says so"

done_testing

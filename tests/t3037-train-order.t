#!/bin/bash
# Which sample comes next: a cyclic order, phases of other data, mock data, a file that names the
# data.  The same on every layout, and where a run goes on.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 1
tr a-y b-z <a.txt >b.txt
for set in a b; do
    megatron data tokenize --input $set.txt --output-prefix $set --append-eod >/dev/null
done
a=a_text_document b=b_text_document
one=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 4 --seq-length 12
     --micro-batch-size 2 --global-batch-size 8 --seed 5 --lr 4e-3 --lr-decay-style constant
     --eval-iters 1)
bytes=(--tokenizer-type ByteLevel)

# ---- data without weights that is shorter than the run; validation and test are cyclic too
short=("${one[@]}" "${bytes[@]}" --train-iters 26 --train-data-path $a $b --valid-data-path $b)
run "${short[@]}"
like "$err" "is one epoch of each dataset: [0-9]+ samples of 12 tokens for train, want 208" \
    "a single pass wants samples for all iterations"
cycle=("${short[@]}" --dataloader-type cyclic --eval-interval 20)
train whole "${cycle[@]}"
is "$status" 0 "a cyclic order takes them again"
train half "${cycle[@]}" --exit-interval 22 --save ck
train rest "${cycle[@]}" --load ck
ok "cat half.json rest.json | cmp - whole.json && cmp rest.st whole.st" \
    "a run goes on in the second epoch to the bit"
train dp ranks_run 2 "${cycle[@]}"
same_metrics dp.json whole.json 1e-5 1e-4 "two data-parallel ranks take the same samples"

# ---- phases: each begins with the first sample of its data
phases=("${one[@]}" "${bytes[@]}" --train-iters 5 --phase-transition-iterations 4,2 --save ph --load ph)
rm -rf ph
train first "${phases[@]}" --train-data-path $a
like "$out" "a phase ends after iteration 2 of 5" "a phase ends"
train second "${phases[@]}" --train-data-path $b --exit-interval 3
train third "${phases[@]}" --train-data-path $b
is "$(grep -o '"iteration": [0-9]*' third.json | tr -dc '0-9\n')" 4 "the rest of the second phase"
train fourth "${phases[@]}" --train-data-path $a
is "$(grep -o '"iteration": [0-9]*' fourth.json | tr -dc '0-9\n' | head -n 1)" 5 "the last phase"
# with a learning rate of 0, a loss is that of the samples
still=("${phases[@]}" --lr 0 --hidden-dropout 0 --attention-dropout 0 --eval-iters 0)
rm -rf ph
train first "${still[@]}" --train-data-path $b
train second "${still[@]}" --train-data-path $b
is "$(grep -o '"lm loss": [^,]*' second.json)" "$(grep -o '"lm loss": [^,]*' first.json)" \
    "a phase has the samples of the one before it, from the first on"
run "${phases[@]}" --train-data-path $a --rampup-batch-size 2 2 8
is "$status" 2 "a batch size that grows"
like "$err" "--phase-transition-iterations wants one global batch size" "does not go with phases"

# ---- mock data, and a file that names data
echo "{\"train\": [1, \"$a\"], \"valid\": \"$b\", \"test\": null}" >data.json
train named "${one[@]}" "${bytes[@]}" --train-iters 2 --per-split-data-args-path data.json
train typed "${one[@]}" "${bytes[@]}" --train-iters 2 --train-data-path 1 $a --valid-data-path $b
same_bits named typed "a JSON file names the same data"
null=(--mock-data --seq-length 120 --tokenizer-type NullTokenizer --vocab-size 100 --train-iters 2)
train mock "${one[@]}" "${null[@]}"
is "$status" 0 "mock data of a NullTokenizer"
train pp ranks_run 2 "${one[@]}" "${null[@]}" --pipeline-model-parallel-size 2
same_metrics pp.json mock.json 1e-5 1e-4 "and on two pipeline ranks"
is "$(grep -c '"evaluation": "' mock.json)" 2 "validation and test have some of it"

# ---- plans learn the vocabulary from the tokenizer, and read no data
run megatron plan memory --num-layers 2 --hidden-size 16 --num-attention-heads 4 --seq-length 12 \
    --micro-batch-size 2 --global-batch-size 8 "${bytes[@]}" --data-path not/here 1 $a \
    --per-split-data-args-path not/here
is "$status" 2 "two ways to name data"
touch bad.bin bad.idx
run megatron plan memory --num-layers 2 --hidden-size 16 --num-attention-heads 4 --seq-length 12 \
    --micro-batch-size 2 --global-batch-size 8 "${bytes[@]}" --data-path bad
is "$status" 0 "a dataset that cannot be read does not matter"

done_testing

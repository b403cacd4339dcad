#!/bin/bash
# Any layout trains the same model: random tensor-, pipeline- and data-parallel sizes with
# dropout on, against one rank.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
tokenized_text 40

# tp pp dp microbatches [sp]; and some of these with up to 16 ranks, all in the long run
layouts=("2 1 1 2" "1 2 1 3" "1 1 2 1" "2 2 2 2" "4 1 1 1" "1 4 1 5" "3 1 1 2" "2 1 1 2 sp"
         "4 2 1 3 sp")
seed_draws
some 2 "1 3 2 4" "2 4 2 3" "4 2 2 1" "4 4 1 6" "2 2 4 2" "1 1 16 1" "6 2 1 2" "1 12 1 13" "12 1 1 1" \
    "6 1 2 2 sp" "2 2 4 2 sp" "12 1 1 1 sp"
layouts+=("${some[@]}")

for layout in "${layouts[@]}"; do
    read -r tp pp dp m sp <<<"$layout"
    n=$((tp * pp * dp))
    mbs=2
    args=(--num-layers 12 --hidden-size 48 --num-attention-heads 12 --seq-length 24
          --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
          --micro-batch-size $mbs --global-batch-size $((mbs * m * dp)) --train-iters 12
          --lr 2e-3 --lr-decay-style cosine --lr-warmup-iters 3 --min-lr 1e-4
          --seed $((100 + n)))
    run megatron train "${args[@]}" --metrics-file one.json --save-weights one.st \
        --save-gradients one.grad
    is "$status" 0 "one rank, $m microbatches x $dp" || diag "$err"
    run ranks_run "$n" megatron train "${args[@]}" --tensor-model-parallel-size "$tp" \
        --pipeline-model-parallel-size "$pp" ${sp:+--sequence-parallel} --metrics-file n.json --save-weights n.st \
        --save-gradients n.grad
    is "$status" 0 "$n ranks: tp $tp pp $pp dp $dp $sp" || { diag "$err"; continue; }
    same_metrics n.json one.json 1e-5 1e-4 "tp $tp pp $pp dp $dp $sp"
    same_weights n.grad one.grad 1e-5 "gradients of the first step" --skip-key-bias 12
    same_weights n.st one.st 1e-4 "weights at the end" --skip-key-bias 12
done
done_testing

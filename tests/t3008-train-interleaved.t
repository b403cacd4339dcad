#!/bin/bash
# However layers are dealt out to stages and virtual stages, and however the batch size
# changes, the pipeline trains the model that one rank trains.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
tokenized_text 40

common=(--hidden-size 24 --num-attention-heads 4 --seq-length 16 --tokenizer-type ByteLevel
        --data-path text_text_document --split 100,0,0 --micro-batch-size 2 --lr 2e-3
        --lr-decay-style cosine --lr-warmup-iters 3 --min-lr 1e-4)

# against_one TEXT RANKS LAYERS "ARGUMENTS OF BOTH" "ARGUMENTS OF THE RANKS" [VARIABLE=VALUE]
against_one() {
    local text=$1 ranks=$2 layers=$3 both own
    read -r -d '' -a both <<<"$4" || :
    read -r -d '' -a own <<<"$5" || :
    run megatron train "${common[@]}" --num-layers "$layers" "${both[@]}" --metrics-file one.json \
        --save-weights one.st --save-gradients one.grad
    is "$status" 0 "$text: one rank" || diag "$err"
    run ranks_run "$ranks" env ${6+"$6"} megatron train "${common[@]}" --num-layers "$layers" \
        "${both[@]}" "${own[@]}" --metrics-file n.json --save-weights n.st --save-gradients n.grad
    is "$status" 0 "$text: $ranks ranks" || { diag "$err"; return; }
    same_metrics n.json one.json 1e-5 1e-4 "$text"
    same_weights n.grad one.grad 1e-5 "$text: gradients of the first step" \
        --skip-key-bias "$layers"
    same_weights n.st one.st 1e-4 "$text: weights at the end" --skip-key-bias "$layers"
}

# Interleaved: tp pp dp vpp microbatches group [sp]; and one of these, all in the long run
layouts=("1 2 1 2 4 2" "1 2 1 3 5 3" "1 3 1 2 3 3" "2 2 1 2 3 3 sp" "1 2 2 2 8 8")
seed_draws
some 1 "1 4 1 3 4 4" "1 4 1 2 9 5" "2 2 2 3 4 2" "1 2 1 6 12 12" "2 4 1 2 8 4 sp" "1 6 1 2 13 7" \
    "4 2 1 3 6 4"
layouts+=("${some[@]}")
for layout in "${layouts[@]}"; do
    read -r tp pp dp vpp m group sp <<<"$layout"
    against_one "tp $tp pp $pp x $vpp dp $dp $sp, $m microbatches in groups of $group" \
        $((tp * pp * dp)) $((pp * vpp)) "--train-iters 8 --global-batch-size $((2 * m * dp))" \
        "--tensor-model-parallel-size $tp --pipeline-model-parallel-size $pp
         --num-virtual-stages-per-pipeline-rank $vpp
         --microbatch-group-size-per-virtual-pipeline-stage $group ${sp:+--sequence-parallel}"
    like "$out" "tp $tp x pp $pp \\(vpp $vpp\\) x dp $dp, " "and says so"
done

# One call for the transfers between two passes: the bits of a call for each transfer, in training
# and evaluation.  Two of these, all in the long run.
mapfile -t layouts <<'END'
2 --pipeline-model-parallel-size 2 --global-batch-size 2 --eval-global-batch-size 10
2 --pipeline-model-parallel-size 2 --global-batch-size 10
4 --pipeline-model-parallel-size 4 --global-batch-size 14
2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 8
2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 4 --global-batch-size 18 --microbatch-group-size-per-virtual-pipeline-stage 7
4 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 18 --microbatch-group-size-per-virtual-pipeline-stage 5
3 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2 --global-batch-size 8
8 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 16
4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --step-batch-size-schedule 0:8,256:16,900:24
4 --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 8 --cuda-graph-impl full_iteration --cuda-graph-warmup-steps 1
END
some 2 "${layouts[@]}"
for layout in "${some[@]}"; do
    read -r ranks own <<<"$layout"
    read -ra own <<<"$own"
    run_calls=(ranks_run "$ranks" megatron train "${common[@]}" --num-layers 8 --train-iters 5
               --split 80,20,0 --eval-iters 1 --eval-interval 2 "${own[@]}")
    train lanes "${run_calls[@]}" --overlap-p2p-communication
    is "$status" 0 "$layout: a call for each transfer" || diag "$err"
    train grouped "${run_calls[@]}" --no-overlap-p2p-communication
    is "$status" 0 "one call between two passes" || diag "$err"
    same_bits grouped lanes "the same bits"
    is "$(grep -c loss grouped.json)" "$(grep -c loss lanes.json)" "the same losses"
done

# Stages of all sizes: layers, arguments of the ranks
while read -r ranks layers own; do
    against_one "$layers layers, $own" "$ranks" "$layers" \
        "--train-iters 5 --global-batch-size 12 --untie-embeddings-and-output-weights" \
        "--pipeline-model-parallel-size $ranks ${own//_/ }"
done <<'END'
3 5 --decoder-first-pipeline-num-layers_1
2 2 --num-layers-per-virtual-pipeline-stage_1_--account-for-embedding-in-pipeline-split_--account-for-loss-in-pipeline-split
2 2 --pipeline-model-parallel-layout_E|t|t|L
3 3 --pipeline-model-parallel-layout_Et||tt||L|
4 2 --pipeline-model-parallel-layout_Et|||tL
END

# Virtual stages from the job
against_one "virtual stages of the job" 2 4 "--train-iters 5 --global-batch-size 8" \
    "--pipeline-model-parallel-size 2" MEGATRON_VPP_SIZE=2
like "$out" "pp 2 \\(vpp 2\\)" "are taken"

# Batch sizes that change, whatever the ranks; a sample of 16 tokens
against_one "steps of the batch size" 4 4 \
    "--train-iters 7 --step-batch-size-schedule 0:8,256:16,900:24" \
    "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"
is "$(grep -o '"global batch size":[ 0-9]*' n.json | grep -o '[0-9]*$' | paste -sd' ')" \
    "8 8 16 16 16 24 24" "each as long as it is to hold"
common=("${common[@]/--lr-warmup-iters/--lr-warmup-samples}")
against_one "a ramp over samples" 2 2 \
    "--train-samples 60 --global-batch-size 12 --rampup-batch-size 4 4 30 --lr-decay-style WSD
     --lr-wsd-decay-samples 20 --lr-wsd-decay-style minus_sqrt" \
    "--pipeline-model-parallel-size 2"
is "$(grep -o '"consumed samples":[ 0-9]*' n.json | grep -o '[0-9]*$' | paste -sd' ')" \
    "4 8 12 16 24 32 44 56 68" "to the last sample"

# Going on in the middle of a schedule, bit for bit, and on other ranks
common=("${common[@]/--lr-warmup-samples/--lr-warmup-iters}")
schedule=(--num-layers 4 --train-iters 7 --step-batch-size-schedule "0:8 256:16 900:12")
pipeline=(--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2)
run ranks_run 2 megatron train "${common[@]}" "${schedule[@]}" "${pipeline[@]}" --save-weights whole.st
is "$status" 0 "in one go" || diag "$err"
for _ in 1 2 3; do
    run ranks_run 2 megatron train "${common[@]}" "${schedule[@]}" "${pipeline[@]}" \
        --exit-interval 3 --save ckpt --load ckpt --save-weights parts.st
    is "$status" 0 "a part" || diag "$err"
done
ok "cmp whole.st parts.st" "the same weights, bit for bit"
rm -rf ckpt
run ranks_run 2 megatron train "${common[@]}" "${schedule[@]}" "${pipeline[@]}" --exit-interval 3 \
    --save ckpt
run megatron train "${common[@]}" "${schedule[@]}" --load ckpt --save-weights other.st
is "$status" 0 "one rank goes on" || diag "$err"
same_weights other.st whole.st 1e-4 "to the same weights" --skip-key-bias 4

# Refusals, in one line
while IFS='|' read -r ranks line args; do
    # shellcheck disable=SC2086
    run ranks_run "$ranks" megatron train "${common[@]}" $args
    is "$status" 2 "refused: $args"
    like "$err" "(^|"$'\n'")megatron train: $line" "one line says why"
    is "$(grep -c '^megatron train' <<<"$err")" 1 "and only one"
done <<'END'
1|vpp 2 needs pp > 1, but pp is 1|--num-layers 4 --train-iters 9 --num-virtual-stages-per-pipeline-rank 2
2|num-layers 6 is not a multiple of pipeline-model-parallel-size 2 x 2 virtual stages = 4; use 4 or 8|--num-layers 6 --train-iters 9 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
2|3 microbatches in groups of 2 leave 1|--num-layers 4 --train-iters 9 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 6
2|after 16 samples: global-batch-size 10 is not a multiple|--num-layers 2 --train-iters 9 --lr-warmup-iters 1 --step-batch-size-schedule 0:8,256:10
2|after 16 samples: global-batch-size 1 is not a multiple of micro-batch-size|--num-layers 2 --train-iters 9 --lr-warmup-iters 1 --step-batch-size-schedule 0:8,256:1
2|after 16 samples: interleaved schedule: 1 microbatches are fewer|--num-layers 4 --train-iters 9 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --step-batch-size-schedule 0:8,256:2
END
done_testing

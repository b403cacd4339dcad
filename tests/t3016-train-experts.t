#!/bin/bash
# Layers with experts: models of the reference data, ten steps that Megatron-LM itself took; and any
# layout of dense and expert ranks trains as one rank does.  (t3024 has other models.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

# ---- reference data
# golden_metrics GOLDEN:SECTION TEXT: m.json is near, in the first step more than later
golden_metrics() {
    head -n 1 m.json >first.json
    jq "{ x: (getpath(\"${1#*:}\" / \"/\") | map_values (.[:1]? // .)) }" "${1%:*}" >want.json
    same_metrics first.json want.json:x 5e-6 5e-5 "$2, first step"
    same_metrics m.json "$1" 1e-5 1e-4 "$2"
}

reference_tiny() {
    local golden=$MG_SHARED/golden/11_tiny_moe_gpt aux
    local -a args

    golden_run "$golden"
    run megatron train "${args[@]}" --micro-batch-size 4 --metrics-file m.json \
        --save-weights w.safetensors --save-gradients g.safetensors
    is "$status" 0 "tiny: one rank trains" || diag "$err"
    golden_metrics "$golden.json:f64" "tiny: float64 reference"
    golden_metrics "$golden.json:f32_megatron_stack" "tiny: Megatron-LM"
    same_weights g.safetensors "$golden.npz:grad0_f64_as_f32." 1e-5 "tiny: gradients of step 1"
    same_weights w.safetensors "$golden.npz:final_f64_as_f32." 1e-4 "tiny: weights at the end" --absolute
    aux=$(jq -s --slurpfile g "$golden.json" '[[.[] | [.experts[].load_balancing_loss] | add * 0.01],
        $g[0].plain_torch_f64.aux_loss] | transpose | map (.[0] / .[1] - 1 | fabs) | max < 1e-5' m.json)
    is "$aux" true "tiny: auxiliary losses"
    run megatron train "${args[@]}" --micro-batch-size 4 --moe-router-pre-softmax \
        --metrics-file m.json
    golden_metrics "$golden.json:pre_softmax_variant/f64" "softmax before top-k"
}

reference_modern() {
    local golden=$MG_SHARED/golden/12_modern_moe_$1
    local -a args

    golden_run "$golden"
    run megatron train "${args[@]}" --micro-batch-size 4 --metrics-file m.json \
        --save-weights w.safetensors --save-gradients g.safetensors
    is "$status" 0 "$1: one rank trains" || diag "$err"
    golden_metrics "$golden.json:f64" "$1: float64 reference"
    golden_metrics "$golden.json:f32_megatron_stack" "$1: Megatron-LM"
    same_experts m.json "$golden.json" "$1: tokens, losses, biases" w.safetensors
    same_weights g.safetensors "$golden.npz:grad0_f64_as_f32." 1e-5 "$1: gradients of step 1"
    same_weights w.safetensors "$golden.npz:final_f64_as_f32." 1e-4 "$1: weights at the end" \
        --absolute --skip expert_bias
    run megatron train "${args[@]}" --micro-batch-size 2 --metrics-file m.json
    golden_metrics "$golden.json:f32_megatron_stack_2_microbatches" "$1: two microbatches"
}

if [ -r "$MG_SHARED/golden/11_tiny_moe_gpt.json" ]; then
    reference_tiny
    for name in mixtral deepseek capacity; do
        reference_modern $name
    done
else
    skip 1 "no reference data in $MG_SHARED"
fi

# ---- layouts against one rank: microbatches of one sample, so that all have the same ones
ranks_available || { skip 1 "neither UCX nor MPI"; done_testing; }
tokenized_text 40
base=(megatron train "${experts_sizes[@]}" --tokenizer-type ByteLevel
      --data-path text_text_document --split 100,0,0 --micro-batch-size 1 --global-batch-size 8
      --train-iters 3 --lr 2e-3 --lr-decay-style constant --adam-eps 1e-6 --eval-iters 0)
router="${experts_router[*]}"
a2a="--moe-token-dispatcher-type alltoall"
tp2="--tensor-model-parallel-size 2 --sequence-parallel"
tp4="--tensor-model-parallel-size 4 --sequence-parallel"
cp2="--context-parallel-size 2"
pp2="--pipeline-model-parallel-size 2"
shards="--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000"
bound="--moe-expert-rank-capacity-factor"

compare_layouts <<EOF
2 2 1|$router
2 2 1 $a2a|$router
2 1 2 $tp2 $a2a|$router
2 2 1 $tp2|$router
4 4 1 $tp2 $cp2 $a2a $bound 0.3|$router
4 2 2 $tp2 $a2a $shards|$router
4 1 4 $tp2 $cp2 $a2a $bound 0.2|$router
4 1 4 $cp2 $bound 0.2|$router
4 2 1 $pp2 $a2a $shards|$router
4 1 2 $pp2 --num-virtual-stages-per-pipeline-rank 2 $tp2|$router
8 4 1 $tp4 $cp2 $shards|$router
8 2 2 $tp2 $cp2 $a2a $shards $bound 0.5|$router
8 4 1 $tp2 $pp2 $a2a --moe-shared-expert-overlap|$router
8 2 4 $a2a --use-distributed-optimizer|$router
8 8 1 $cp2 $a2a $bound 0.25 --moe-shared-expert-overlap|$router
EOF
done_testing

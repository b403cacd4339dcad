#!/bin/bash
# Layers with experts: routings at their extremes, and other types, with never a byte beyond the plan.
# MG_LONG=1: each routing on four layouts and with two types; else on one and with one, drawn.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
seed_draws
experts_runs

# ---- routings at their extremes: biases that choose before any score does
plain=(--swiglu --disable-bias-linear --moe-router-score-function sigmoid
       --moe-router-enable-expert-bias)
run "${base[@]}" "${plain[@]}" --train-iters 0 --save-weights start.weights
is "$status" 0 "initial weights" || diag "$err"
# chosen FILE EXPERT...: a file in which all layers choose these experts
chosen() {
    local file=$1 expert layer
    shift
    cp start.weights "$file"
    for layer in 1 2 3; do
        for expert; do
            poke "$file" decoder.layers.$layer.mlp.router.expert_bias "$expert" '\0\0\310\102' # 100
        done
    done
}
chosen one.weights 5
chosen two.weights 6 7
chosen ends.weights 0 7
mapfile -t layouts <<'END'
4 --expert-model-parallel-size 4 --moe-token-dispatcher-type alltoall
4 --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 --moe-token-dispatcher-type alltoall --moe-expert-rank-capacity-factor 0.2
4 --expert-model-parallel-size 4
4 --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 --moe-expert-rank-capacity-factor 0.2 --pipeline-model-parallel-size 1
END
one_token="--moe-router-topk 2 --moe-aux-loss-coeff 0.02 --moe-expert-capacity-factor 0.01"
while IFS='|' read -r file tokens model; do
    model="${plain[*]} $model --load-weights $file.weights"
    # shellcheck disable=SC2086
    run_planned one 1 $model
    like "$(jq -cs '[.[].experts[]] | [(map (.["least tokens per expert"]) | min),
        (map (.["most tokens per expert"]) | max)]' one.json)" "^$tokens\$" "$file: tokens of an expert"
    some 1 "${layouts[@]}"
    for layout in "${some[@]}"; do
        read -r n more <<<"$layout"
        # shellcheck disable=SC2086
        run_planned many "$n" $model $more
        same_metrics many.json one.json 1e-5 1e-4 "$file: $n ranks $more"
        same_experts many.json one.json "experts"
    done
    some 1 "--bf16" "--bf16 --fp8-param-gather --use-distributed-optimizer"
    for type in "${some[@]}"; do
        # shellcheck disable=SC2086
        run_planned narrow 4 $model $type --expert-model-parallel-size 4 \
            --moe-token-dispatcher-type alltoall
        same_metrics narrow.json one.json 2e-3 5e-2 "$file: $type"
    done
done <<EOF
one|\[0,128\]|--moe-router-topk 1
two|\[0,128\]|--moe-router-topk 2
ends|\[0,128\]|--moe-router-topk 2
start|\[[0-9],8\]|$one_token --moe-pad-expert-input-to-capacity
two|\[0,8\]|$one_token --moe-token-drop-policy position
EOF

# ---- other types
for grid in "4 1" "2 2"; do
    read -r ep etp <<<"$grid"
    layout=("${router[@]}" "${a2a[@]}" "${split[@]}" --expert-tensor-parallel-size "$etp"
            --expert-model-parallel-size "$ep" "$bound" 0.6)
    run_planned exact 4 "${layout[@]}"
    while read -r loss norm type; do
        # shellcheck disable=SC2086
        run_planned narrow 4 "${layout[@]}" $type
        same_metrics narrow.json exact.json "$loss" "$norm" "ep $ep, etp $etp: $type"
    done <<'EOF'
5e-3 5e-2 --bf16
5e-3 5e-2 --fp16 --initial-loss-scale 1024
2e-2 1e-1 --bf16 --fp8-param-gather --use-distributed-optimizer --overlap-param-gather --overlap-grad-reduce
EOF
done
done_testing

#!/bin/bash
# Layers with experts: the same bits run twice, resumed, recomputed and overlapped; checkpoints under
# other layouts; and never a byte beyond the plan.  (t3028-train-experts-extremes.t has routings at
# their extremes.)
# MG_LONG=1: all grids for more rounds; else two, drawn.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
experts_runs

# ---- bits
layout=("${router[@]}" "${a2a[@]}" "${split[@]}" --expert-tensor-parallel-size 2
        --expert-model-parallel-size 2 --use-distributed-optimizer "$bound" 0.6)
run_planned whole 4 "${layout[@]}" --save saved --save-interval 2
tail -n 2 whole.json >rest.json
echo 2 >saved/latest_checkpointed_iteration.txt
while IFS='|' read -r text more; do
    # shellcheck disable=SC2086 # words
    run_planned other 4 "${layout[@]}" $more
    sed -i '/evaluation/d' other.json
    same_bits other whole "$text: the same bits"
done <<'EOF'
twice|
saved aside|--async-save --save aside --save-interval 2
with evaluations|--eval-iters 1 --eval-interval 1
shared experts overlapped|--moe-shared-expert-overlap
recomputed experts|--recompute-granularity selective --recompute-modules moe layernorm
recomputed activations|--recompute-granularity selective --recompute-modules moe_act shared_experts
recomputed layers|--recompute-granularity full --recompute-method uniform --recompute-num-layers 2
some of them|--recompute-granularity full --recompute-method block --recompute-num-layers 1
overlapped optimizer|--overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 1500
EOF
echo 2 >aside/latest_checkpointed_iteration.txt
for from in saved aside; do
    run_planned other 4 "${layout[@]}" --load $from
    ok "cmp other.st whole.st && cmp other.json rest.json" "resumed from $from: the same bits"
done
gathered=("${router[@]}" "${split[@]}" --expert-tensor-parallel-size 1 --expert-model-parallel-size 4
          "$bound" 0.6)
run_planned once 4 "${gathered[@]}"
run_planned twice 4 "${gathered[@]}" --recompute-granularity selective --recompute-modules moe
same_bits twice once "all-gather, recomputed: the same bits"

# ---- more rounds
seed_draws
some 2 "alltoall 4 1" "alltoall 2 2" "alltoall 1 4" "allgather 4 1" "allgather 2 2" "allgather 1 4"
for grid in "${some[@]}"; do
    read -r how ep etp <<<"$grid"
    for factor in 4 0.1; do
        run_planned rounds$factor 4 "${router[@]}" "${split[@]}" $bound $factor \
            --expert-model-parallel-size "$ep" --expert-tensor-parallel-size "$etp" \
            --moe-token-dispatcher-type "$how"
    done
    same_metrics rounds0.1.json rounds4.json 1e-6 1e-6 "$how, ep $ep etp $etp: more rounds"
    same_experts rounds0.1.json rounds4.json "tokens"
done

# ---- checkpoints: of ep 4, etp 1 under others
run_planned long 4 "${router[@]}" "${a2a[@]}" "${split[@]}" --expert-tensor-parallel-size 1 \
    --expert-model-parallel-size 4 --train-iters 12 --save four --save-interval 2
tail -n 10 long.json >rest.json
echo 2 >four/latest_checkpointed_iteration.txt
while read -r n more; do
    # shellcheck disable=SC2086
    run_planned other "$n" "${router[@]}" --train-iters 12 --load four $more
    same_metrics other.json rest.json 1e-5 1e-4 "a checkpoint of ep 4 etp 1 on $n ranks $more"
    same_experts other.json rest.json "its experts and their biases"
done <<'EOF'
4 --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 --use-distributed-optimizer
2 --pipeline-model-parallel-size 2
1
4 --expert-tensor-parallel-size 4 --moe-token-dispatcher-type alltoall
EOF
done_testing

#!/bin/bash
# Multi-token prediction: every layout trains as one rank does, losses of the layers included; the
# same bits with recomputation; checkpoints go from one layout to another; a loss over tokens and one
# over microbatches are the same for one microbatch; what is refused.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 40
base=(megatron train --num-layers 4 --hidden-size 16 --num-attention-heads 4 --seq-length 16
      --position-embedding-type rope --mtp-num-layers 2 --mtp-loss-scaling-factor 0.6
      --tokenizer-type ByteLevel --data-path text_text_document --split 90,10,0
      --micro-batch-size 2 --global-batch-size 4 --lr 2e-3 --lr-decay-style constant
      --init-method-std 0.1 --adam-eps 1e-6 --eval-iters 1)
untied="--untie-embeddings-and-output-weights --normalization RMSNorm"
experts="$untied --num-experts 4 --moe-router-topk 2 --disable-bias-linear --moe-aux-loss-coeff 0.01"
documents="--eod-token-id 32 --reset-attention-mask --eod-mask-loss"
vpp="--num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1"

# mtp_losses FILE: of each iteration, on lines
mtp_losses() {
    jq -r 'select (has ("lm loss")) | [."mtp_1 loss", ."mtp_2 loss"] | @tsv' "$1"
}

# same_losses FILE FILE TEXT: within 1e-5
same_losses() {
    ok "paste <(mtp_losses $1) <(mtp_losses $2) | awk 'function far(a, b) {
            return (a > b ? a - b : b - a) > 1e-5 }
        NF != 4 || far(\$1, \$3) || far(\$2, \$4) { bad = 1 } END { exit bad || !NR }'" "$3"
}
export -f mtp_losses

run "${base[@]}" --train-iters 2 --metrics-file a.json
is "$status" 0 "one rank trains" || diag "$err"
like "$out" "lm loss: [0-9.E+]+ \| mtp_1 loss: [0-9.E+]+ \| mtp_2 loss: [0-9.E+]+ \|" \
    "the line has the losses"
ok "mtp_losses a.json | awk '\$1 < 4 || \$1 > 7 || \$2 < 4 || \$2 > 7 { exit 1 }'" \
    "about the logarithm of the vocabulary"

# ---- the same bits
for model in "$untied --hidden-dropout 0.1" "$experts"; do
    # shellcheck disable=SC2206 # words
    args=("${base[@]}" $model --train-iters 3)
    run "${args[@]}" --save-weights one.st
    for how in "full --recompute-method uniform --recompute-num-layers 1" \
            "full --recompute-method block --recompute-num-layers 2" \
            "selective --recompute-modules core_attn layernorm"; do
        # shellcheck disable=SC2086
        run "${args[@]}" --save-weights n.st --recompute-granularity $how
        ok "cmp one.st n.st" "recomputed: $how" || diag "$err"
    done
done
run "${base[@]}" --train-iters 3 --micro-batch-size 4 --metrics-file a.json --save-weights one.st
run "${base[@]}" --train-iters 3 --micro-batch-size 4 --metrics-file b.json --save-weights n.st \
    --calculate-per-token-loss
same_metrics a.json b.json 1e-5 1e-4 "per token, one microbatch: losses and norms"
same_losses a.json b.json "losses of the layers"
same_weights n.st one.st 1e-4 "weights"

ranks_available || { skip 1 "neither UCX nor MPI"; done_testing; exit; }
# ranks and arguments of the layout, then the model's; the one-rank run is made once a model
done=none
while IFS='|' read -r layout model; do
    read -r n more <<<"$layout"
    read -ra layout_args <<<"$more"
    read -ra model_args <<<"$model"
    if [ "$model" != "$done" ]; then
        run "${base[@]}" "${model_args[@]}" --train-iters 3 --eval-interval 3 \
            --metrics-file one.json --save-weights one.st --save-gradients one.grad
        is "$status" 0 "one rank: $model" || diag "$err"
        done=$model
    fi
    run ranks_run "$n" "${base[@]}" "${model_args[@]}" "${layout_args[@]}" --train-iters 3 \
        --eval-interval 3 --metrics-file n.json --save-weights n.st --save-gradients n.grad
    is "$status" 0 "$n ranks $more" || { diag "$err"; continue; }
    same_metrics n.json one.json 1e-5 1e-4 "losses and norms"
    same_losses n.json one.json "losses of the layers"
    same_weights n.grad one.grad 1e-5 "gradients of the first step"
    same_weights n.st one.st 1e-4 "weights at the end"
done <<EOF
2 --tensor-model-parallel-size 2|
2 --pipeline-model-parallel-size 2|
4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather|
4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel|$untied --hidden-dropout 0.1
2 --pipeline-model-parallel-size 2 $vpp|$untied --hidden-dropout 0.1
4 --pipeline-model-parallel-size 4 --use-distributed-optimizer|$untied --hidden-dropout 0.1
4 --context-parallel-size 2 --pipeline-model-parallel-size 2|$untied $documents
4 --context-parallel-size 4 --calculate-per-token-loss|$untied $documents --calculate-per-token-loss
2 --use-distributed-optimizer --ddp-average-in-collective|$untied $documents
4 --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 2 --expert-tensor-parallel-size 1|$experts
4 --pipeline-model-parallel-size 2 --expert-model-parallel-size 2 --use-distributed-optimizer|$experts
EOF

# ---- checkpoints from one layout to another
for model in "" "$untied" "$experts"; do
    # shellcheck disable=SC2206
    args=("${base[@]}" $model)
    run "${args[@]}" --train-iters 6 --metrics-file all.json --save-weights all.st
    run ranks_run 4 "${args[@]}" --train-iters 3 --save ckpt --pipeline-model-parallel-size 2 \
        --use-distributed-optimizer
    is "$status" 0 "4 ranks save: $model" || diag "$err"
    run ranks_run 2 "${args[@]}" --train-iters 6 --load ckpt --tensor-model-parallel-size 2 \
        --sequence-parallel --save-weights n.st
    is "$status" 0 "2 ranks load" || diag "$err"
    same_weights n.st all.st 1e-4 "weights at the end"
    rm -rf ckpt
done

# ---- refused
run ranks_run 2 "${base[@]}" --train-iters 1 --pipeline-model-parallel-size 2 \
    --pipeline-model-parallel-layout "Et|tt|tmm|L"
like "$err" "the last stage of the layout must have all m" "the loss has a stage of its own"
run "${base[@]}" --train-iters 1 --position-embedding-type learned_absolute
like "$err" "mtp-num-layers 2 needs position-embedding-type rope or none" "learned positions"
done_testing

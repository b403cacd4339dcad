#!/bin/bash
# Heads of all kinds train the same model under every layout: fewer groups of query heads than
# tensor-parallel ranks, attention sinks, multi-latent attention; with dropout, against one rank,
# and through checkpoints that go from one layout to another.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
tokenized_text 40

# an epsilon that does not make steps of rounding errors
base=(megatron train --num-layers 4 --hidden-size 48 --num-attention-heads 8 --kv-channels 6
      --seq-length 24 --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 2 --global-batch-size 8 --train-iters 4 --lr 2e-3
      --lr-decay-style constant --eval-iters 0 --init-method-std 0.1 --disable-bias-linear
      --log-num-zeros-in-grad --adam-eps 1e-6)
sharded="--use-distributed-optimizer --sequence-parallel"
grouped="--group-query-attention --num-query-groups"
rope="--position-embedding-type rope --normalization RMSNorm --swiglu --ffn-hidden-size 64"
latent="--multi-latent-attention --kv-lora-rank 10 --qk-head-dim 6 --qk-pos-emb-head-dim 4"
latent+=" --v-head-dim 5"

models=("$grouped 2 --softmax-type learnable $rope" "$latent --qk-layernorm --q-lora-rank 7")

# tp pp dp and arguments of the layout, then the model's
while IFS='|' read -r layout model; do
    read -r tp pp dp more <<<"$layout"
    read -ra layout_args <<<"$more"
    read -ra model_args <<<"$model"
    what="tp $tp pp $pp dp $dp $more:$model"
    rm -f ./*.st ./*.grad ./*.json
    run "${base[@]}" "${model_args[@]}" --metrics-file one.json --save-weights one.st \
        --save-gradients one.grad
    is "$status" 0 "one rank:$model" || diag "$err"
    run ranks_run $((tp * pp * dp)) "${base[@]}" "${model_args[@]}" "${layout_args[@]}" \
        --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" \
        --metrics-file n.json --save-weights n.st --save-gradients n.grad
    is "$status" 0 "$what" || { diag "$err"; continue; }
    same_metrics n.json one.json 1e-5 1e-4 "$what"
    same_weights n.grad one.grad 1e-5 "gradients of the first step"
    same_weights n.st one.st 1e-4 "weights at the end"
done <<EOF
4 1 1|--group-query-attention
4 2 1 $sharded|$grouped 2 $rope --qk-layernorm --add-qkv-bias
4 1 2 $sharded|$grouped 1 --softmax-type learnable $rope
8 1 1 --sequence-parallel|$grouped 4 --qk-layernorm --normalization RMSNorm
2 2 1|--softmax-type off-by-one
2 1 2 $sharded|--softmax-type learnable --window-size 5,0
2 1 1|$latent
4 1 1 --sequence-parallel|$latent $rope --qk-layernorm --q-lora-rank 7
2 2 2 $sharded|$latent --qk-layernorm --rope-type rope --softmax-type learnable
4 1 1 --sequence-parallel|$latent --q-lora-rank 12 --rotary-scaling-factor 8
2 1 1 --sequence-parallel|$latent $rope --mscale-all-dim 1 --rotary-scaling-factor 4
EOF

# ---- 16-bit types: the distributed optimizer has the same bits, and one rank is near
for model in "${models[@]}"; do
    read -ra model_args <<<"$model"
    many=("${base[@]}" "${model_args[@]}" --bf16 --tensor-model-parallel-size)
    train plain ranks_run 4 "${many[@]}" 2 --clip-grad 0
    train n ranks_run 4 "${many[@]}" 2 --clip-grad 0 --use-distributed-optimizer
    ok "[ -s n.st ] && cmp n.st plain.st" "bf16, distributed optimizer: the same bits: $model"
    train n ranks_run 4 "${many[@]}" 4 --sequence-parallel
    train one "${many[@]}" 1
    same_metrics n.json one.json 5e-3 5e-2 "bf16, tp 4"
done

# ---- float8 weights
read -ra model_args <<<"${models[1]}"
many=("${base[@]}" "${model_args[@]}" --bf16 --fp8-param-gather --use-distributed-optimizer)
train one "${many[@]}"
is "$status" 0 "latents with float8 weights, one rank"
train n ranks_run 2 "${many[@]}" --tensor-model-parallel-size 2
same_metrics n.json one.json 1e-2 1e-1 "tp 2"

# ---- checkpoints: two iterations on one layout, two on another
for model in "${models[@]}"; do
    read -ra model_args <<<"$model"
    train whole "${base[@]}" "${model_args[@]}"
    for pair in "4 1" "4 2" "1 4"; do
        read -r from to <<<"$pair"
        rm -rf ckpt
        run ranks_run "$from" "${base[@]}" "${model_args[@]}" --tensor-model-parallel-size "$from" \
            --save ckpt --exit-interval 2
        is "$status" 0 "tp $from saves: $model" || diag "$err"
        train later ranks_run "$to" "${base[@]}" "${model_args[@]}" --load ckpt \
            --tensor-model-parallel-size "$to"
        is "$status" 0 "tp $to goes on"
        same_weights later.st whole.st 1e-4 "weights at the end"
    done
done
done_testing

#!/bin/bash
# Recomputed activations: losses, norms and weights are those without recomputation, bit for bit,
# whatever is recomputed and however ranks share the model; it takes less memory.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
base=(--num-layers 4 --hidden-size 24 --num-attention-heads 4 --seq-length 12
      --tokenizer-type ByteLevel --data-path text_text_document --split 90,10,0
      --micro-batch-size 2 --global-batch-size 8 --train-iters 2 --eval-interval 1
      --eval-iters 1 --lr 2e-3)
llama=(--normalization RMSNorm --swiglu --position-embedding-type rope --disable-bias-linear
       --group-query-attention --num-query-groups 2 --qk-layernorm
       --untie-embeddings-and-output-weights)
selective="--recompute-granularity selective --recompute-modules"
uniform="--recompute-granularity full --recompute-method uniform --recompute-num-layers"
block="--recompute-granularity full --recompute-method block --recompute-num-layers"
split=--distribute-saved-activations

# same_with RANKS "ARGUMENTS" RECOMPUTATION...: of a run without and one with each of these
same_with() {
    local ranks=$1 launch=() args how
    read -r -d '' -a args <<<"$2" || :
    shift 2
    [ "$ranks" = 1 ] || launch=(mpi_run "$ranks")
    train kept "${launch[@]}" megatron train "${base[@]}" "${args[@]}"
    is "$status" 0 "$ranks ranks ${args[*]:-} train"
    for how in "$@"; do
        # shellcheck disable=SC2086 # words
        train again "${launch[@]}" megatron train "${base[@]}" "${args[@]}" $how
        same_bits again kept "${how#--recompute-granularity }: the same bits"
    done
}

same_with 1 "" "--recompute-activations" "$selective layernorm" "$selective mlp" \
    "$selective core_attn layernorm mlp" "$selective" "$uniform 1" "$uniform 3" "$uniform 9" \
    "$block 0" "$block 2" "$block 9"
same_with 1 "--bf16 ${llama[*]}" "$selective core_attn" "$selective core_attn layernorm mlp moe" \
    "$uniform 1" "$uniform 2"
if mpi_available; then
    tp=(--tensor-model-parallel-size 2) pp=(--pipeline-model-parallel-size 2)
    vpp=(--num-virtual-stages-per-pipeline-rank 2)
    overlap=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
             --ddp-bucket-size 3000)
    same_with 2 "${tp[*]} --num-layers 6" "$selective core_attn layernorm mlp" "$uniform 2" \
        "$uniform 1 $split" "$uniform 2 $split" "$block 5 $split"
    same_with 2 "${tp[*]} --sequence-parallel --bf16 ${llama[*]}" \
        "$selective core_attn layernorm mlp" "$uniform 1" "$uniform 3"
    same_with 2 "${pp[*]} ${vpp[*]} --num-layers 8" "$selective mlp layernorm" "$uniform 2" \
        "$block 1"
    same_with 4 "${tp[*]} ${pp[*]} ${overlap[*]} --bf16 --fp8-param-gather" "$uniform 2 $split"
else
    skip 18 "no MPI"
fi
done_testing

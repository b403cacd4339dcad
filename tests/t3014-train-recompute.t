#!/bin/bash
# Recomputed activations: losses, norms and weights are those without recomputation, bit for bit,
# whatever is recomputed and however ranks share the model; it takes less memory.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
base=(--num-layers 4 --hidden-size 24 --num-attention-heads 4 --seq-length 12
      --tokenizer-type ByteLevel --data-path text_text_document --split 90,10,0
      --micro-batch-size 2 --global-batch-size 8 --train-iters 2 --eval-interval 1
      --eval-iters 1 --lr 2e-3)
llama=(--normalization RMSNorm --swiglu --position-embedding-type rope --disable-bias-linear
       --group-query-attention --num-query-groups 2 --qk-layernorm
       --untie-embeddings-and-output-weights)
latent="--multi-latent-attention --q-lora-rank 8 --kv-lora-rank 8 --qk-head-dim 6
        --qk-pos-emb-head-dim 4 --v-head-dim 6 --qk-layernorm --normalization RMSNorm --swiglu"
selective="--recompute-granularity selective --recompute-modules"
uniform="--recompute-granularity full --recompute-method uniform --recompute-num-layers"
block="--recompute-granularity full --recompute-method block --recompute-num-layers"
split=--distribute-saved-activations

# same_with RANKS "ARGUMENTS" RECOMPUTATION...: of a run without and one with each of these
same_with() {
    local ranks=$1 launch=() args how
    read -r -d '' -a args <<<"$2" || :
    shift 2
    [ "$ranks" = 1 ] || launch=(ranks_run "$ranks")
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
same_with 1 "$latent" "$selective mla_up_proj" "$selective mla_up_proj core_attn layernorm" \
    "$uniform 2"
if ranks_available; then
    tp=(--tensor-model-parallel-size 2) pp=(--pipeline-model-parallel-size 2)
    vpp=(--num-virtual-stages-per-pipeline-rank 2)
    overlap=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
             --ddp-bucket-size 3000)
    same_with 2 "${tp[*]} --num-layers 6" "$selective core_attn layernorm mlp" "$uniform 2" \
        "$uniform 1 $split" "$uniform 2 $split" "$block 5 $split"
    same_with 2 "${tp[*]} --sequence-parallel --bf16 ${llama[*]}" \
        "$selective core_attn layernorm mlp" "$uniform 1" "$uniform 3"
    same_with 2 "${tp[*]} --sequence-parallel $latent" "$selective mla_up_proj core_attn"
    same_with 2 "${pp[*]} ${vpp[*]} --num-layers 8" "$selective mlp layernorm" "$uniform 2" \
        "$block 1"
    cp="--context-parallel-size 2 --cp-comm-type"
    same_with 2 "$cp p2p a2a all_gather p2p ${llama[*]}" "$selective core_attn layernorm mlp" \
        "$uniform 2" "$block 3"
    same_with 2 "$cp a2a $latent" "$selective mla_up_proj" "$selective mla_up_proj core_attn"
    same_with 2 "$cp all_gather $latent" "$selective mla_up_proj core_attn" "$uniform 2"
    levels="--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2"
    same_with 4 "$levels --seq-length 16 $latent --bf16" \
        "$uniform 1"
    same_with 4 "$cp a2a ${tp[*]}" "$uniform 1 $split"
    same_with 4 "${tp[*]} ${pp[*]} ${overlap[*]} --bf16 --fp8-param-gather" "$uniform 2 $split"
else
    skip 31 "neither UCX nor MPI"
fi

# ---- what has no effect is told
while read -r name how; do
    # shellcheck disable=SC2086 # words
    run megatron train "${base[@]}" --train-iters 1 $how
    like "$status:$out" "^0:.*--recompute-$name has no effect with" "$how: a note"
done <<END
method --recompute-method uniform --recompute-num-layers 1
num-layers --recompute-num-layers 1
modules --recompute-modules mlp
modules $uniform 1 --recompute-modules mlp
END

# ---- the plan: what choices save, and which one fits
model=(--num-layers 6 --hidden-size 36 --num-attention-heads 4 --seq-length 24
       --tokenizer-type ByteLevel --micro-batch-size 4)
kind() { # NAME ARGUMENT...: its bytes
    local name=$1
    shift
    megatron plan memory "${model[@]}" --threads 1 "$@" | awk -v n="$name" '$1 == n { print $2 }'
}
full=$(kind total)
# shellcheck disable=SC2086 # words
{
    less=$(kind total $selective core_attn layernorm mlp)
    least=$(kind total $uniform 1)
    ok "[ $least -lt $less -a $less -lt $full ]" "$full bytes, then $less, then $least"
    ok "[ $(kind activations $block 4) -lt $(kind activations $block 2) ]" "more blocks, less"
    ok "[ $(kind activations $uniform 3) -lt $(kind activations $uniform 1)\
        -a $(kind workspace $uniform 3) -gt $(kind workspace $uniform 1) ]" \
        "larger units keep less in slots, and work in more"
    like "$(megatron plan memory "${model[@]}" $selective mlp | grep recomputation)" \
        "^  recomputation: [0-9.]+% of the forward passes$" "the plan says what it costs"
    tp2=(--tensor-model-parallel-size 2)
    ok "[ $(kind activations "${tp2[@]}" $uniform 1 $split) -lt\
        $(kind activations "${tp2[@]}" $uniform 1) ]" "split inputs take less"
}
run megatron plan memory "${model[@]}" --num-layers 1025 --choices
is "$status" 1 "too many layers for choices"
like "$err" "a virtual stage of 1025 layers, want at most 1024" "are told"
run megatron plan memory "${model[@]}" --threads 1 --choices
is "$status" 0 "choices" || diag "$err"
is "$(awk '$1 ~ /^[0-9]/ { print $1 + $2 }' <<<"$out" | sort -u)" "$full" "what each saves"
is "$(awk '$1 ~ /^[0-9]/ { print $3 + 0 }' <<<"$out" | sort -n)" \
    "$(awk '$1 ~ /^[0-9]/ { print $3 + 0 }' <<<"$out")" "sorted by what they compute again"
is "$(awk '$1 ~ /^[0-9]/ { print $1 }' <<<"$out" | sort -rn)" \
    "$(awk '$1 ~ /^[0-9]/ { print $1 }' <<<"$out")" "and by what they take"
run megatron plan memory "${model[@]}" --threads 1 --fit "$less"
read -ra found < <(sed -n 's/^fits: //p' <<<"$out")
ok "[ $(kind total "${found[@]}") -le $less ]" "fits $less: ${found[*]}"
is "$(grep -B 99 '^fits' <<<"$out" | awk -v most="$less" '$1 ~ /^[0-9]/ && $1 <= most' | head -n 1 \
    | sed 's/.*%  //')" "${found[*]}" "and is the cheapest one that does"
run megatron plan memory "${model[@]}" --threads 1 --fit 16GiB
is "${out##*$'\n'}" "fits: without recomputation" "much is enough for all"
run megatron plan memory "${model[@]}" --threads 1 --fit 16K
is "$status" 1 "too little"
like "$err" "no choice of recomputation fits 16000 bytes a rank: the least is [0-9]+ with --rec" \
    "is refused with the least"
run megatron plan memory "${model[@]}" --threads 1 --choices --cuda-graph-impl local
is "$status:$(grep -c 'granularity full' <<<"$out")" 0:0 "graphs of layers leave no full one"
run megatron plan memory "${model[@]}" --fit 16X
is "$status" 2 "no size: $err"
if command -v jq >/dev/null; then
    megatron plan memory "${model[@]}" --threads 1 --fit "$less" --json >fit.json
    is "$(jq -r .fits fit.json)" "${found[*]}" "in JSON"
else
    skip 1 "no jq"
fi

# ---- a run that is refused without recomputation, and starts with it: of a size for this machine
each=$(megatron plan memory --num-layers 400 --hidden-size 8 --ffn-hidden-size 1024 \
    --num-attention-heads 2 --seq-length 64 --tokenizer-type ByteLevel --micro-batch-size 8 \
    | awk '$1 == "activations" { print $2 / 8 }')
batch=$(awk -v each="$each" '$1 == "MemTotal:" { print int (1.2 * $2 * 1024 / each) + 1 }' \
    /proc/meminfo)
large=(--num-layers 400 --hidden-size 8 --ffn-hidden-size 1024 --num-attention-heads 2
       --seq-length 64 --tokenizer-type ByteLevel --micro-batch-size "$batch"
       --data-path text_text_document --split 100,0,0 --eval-iters 0 --lr 1e-3 --train-iters 0)
run megatron train "${large[@]}"
is "$status" 1 "$batch samples are too many"
like "$err" "GiB less; recomputation \\(megatron plan memory --fit finds which\\), a smaller" \
    "which is told, and what would help"
# shellcheck disable=SC2086 # words
run megatron train "${large[@]}" $uniform 1
is "$status" 0 "with recomputation they fit" || diag "$err"
done_testing

#!/bin/bash
# Runs on the CUDA device with graphs have the bits of runs without: layers, modules and whole
# iterations, in any order in which the device works; resumed, saved meanwhile.  What is captured is
# what "plan graphs" says.  A capture that fails leaves nothing behind.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"

# ---- the unit test on the device
for order in last lazy first $((RANDOM + 1)); do
    run env MG_CUDA_ORDER="$order" MG_CUDA_MEMORY_MIB=4 MG_TEST_DEVICE=cuda \
        "$MG_BUILDDIR/tests/unit/device/graph.t"
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "graphs on the device, order $order"
done

# ---- runs
tokenized_text 20
iterations=3
! long || iterations=20
base=(--num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6 --ffn-hidden-size 28
      --seq-length 8 --tokenizer-type ByteLevel --data-path text_text_document --split 80,20,0
      --micro-batch-size 1 --global-batch-size 4 --train-iters $iterations --lr 2e-3
      --lr-decay-style constant --eval-iters 0)
dense=("${base[@]}" --hidden-dropout 0.1 --attention-dropout 0.1 --eval-interval 2 --eval-iters 1)
modern=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
        --group-query-attention --num-query-groups 2 --qk-layernorm)
experts=("${base[@]}" "${modern[@]}" --num-experts 4 --moe-router-topk 2
         --moe-aux-loss-coeff 1e-2 --moe-shared-expert-intermediate-size 12
         --moe-token-dispatcher-type alltoall)
partial=(--cuda-graph-modules attn moe_router moe_preprocess)
whole=(--cuda-graph-impl full_iteration)

captured() { # GRAPHS NODES INPUT INTERMEDIATE HAND-OVER of the run's line in $out
    sed -n 's/^ graphs of rank 0 | \(.*\) | host bytes: [0-9]* | device bytes: [1-9].*/\1/p' \
        <<<"$out" | tr -dc '0-9 \n' | tr -s ' '
}
planned() { # the same from the JSON of "plan graphs"
    grep -o '"rank":.*' <<<"$out" | sed -E 's/.*"graphs":([0-9]+),"nodes":([0-9]+),'\
'"static_input_bytes":([0-9]+),"intermediate_bytes":([0-9]+),"handover_bytes":([0-9]+),.*/ \1 \2 \3 \4 \5/'
}

# replays TEXT ARGUMENT... -- GRAPH-ARGUMENT...: without and with; the first run is kept for the next
# call if the arguments are the same
last=
replays() {
    local text=$1 got
    local -a plain=()
    shift
    while [ "$1" != -- ]; do plain+=("$1"); shift; done
    shift
    if [ "$last" != "${plain[*]}" ]; then
        train eager megatron train "${plain[@]}" --device cuda
        is "$status" 0 "$text: eager" || diag "$err"
        last="${plain[*]}"
    fi
    train graphs megatron train "${plain[@]}" --device cuda --cuda-graph-impl local \
        --cuda-graph-warmup-steps 1 "$@"
    is "$status" 0 "$text: with graphs" || diag "$err"
    same_bits graphs eager "$text: the same bits"
    got=$(captured)
    run megatron plan graphs "${plain[@]}" --device cuda --cuda-graph-impl local "$@" --json
    ok "[ -n '$got' ]" "$text: captured"
    is "$got" "$(planned)" "$text: as planned"
}

replays "dense" "${dense[@]}" --
replays "an iteration" "${dense[@]}" -- "${whole[@]}"
# ---- the order in which the device works changes no bit
orders=($((RANDOM + 1)))
! long || orders+=(lazy first $((RANDOM + 1)) $((RANDOM + 1)))
for order in "${orders[@]}"; do
    for impl in local full_iteration; do
        train graphs env MG_CUDA_ORDER="$order" megatron train "${dense[@]}" --device cuda \
            --cuda-graph-impl $impl --cuda-graph-warmup-steps 0
        same_bits graphs eager "$impl: the same bits in the order $order"
    done
done

# ---- layers of all kinds
dense+=(--global-batch-size 2)
experts+=(--global-batch-size 2)
drops=(--moe-expert-capacity-factor 1)
replays "experts, drops" "${experts[@]}" "${drops[@]}" -- "${partial[@]}"
pads=("${drops[@]}" --moe-pad-expert-input-to-capacity)
replays "experts, drops and pads, one microbatch" "${experts[@]}" "${pads[@]}" \
    --global-batch-size 1 --
replays "recomputed" "${dense[@]}" --bf16 --recompute-granularity selective \
    --recompute-modules core_attn layernorm mlp --
if long; then
    replays "experts" "${experts[@]}" --global-batch-size 4 -- "${partial[@]}"
    replays "attention alone" "${dense[@]}" -- --cuda-graph-modules attn
    replays "feed-forward alone" "${dense[@]}" -- --cuda-graph-modules mlp
    replays "no warm-up" "${dense[@]}" -- --cuda-graph-warmup-steps 0
    replays "no warm-up, an iteration" "${dense[@]}" -- "${whole[@]}" --cuda-graph-warmup-steps 0
    replays "one microbatch" "${dense[@]}" --global-batch-size 1 --
    replays "modern" "${dense[@]}" "${modern[@]}" --
    replays "modern, an iteration" "${dense[@]}" "${modern[@]}" -- "${whole[@]}"
    replays "bfloat16, a distributed optimizer" "${dense[@]}" --bf16 --use-distributed-optimizer \
        --overlap-grad-reduce --overlap-param-gather --
    replays "float16" "${dense[@]}" --fp16 --initial-loss-scale 1048576 --loss-scale-window 1 \
        --hysteresis 1 -- --cuda-graph-warmup-steps 0
    replays "padded, whole layers" "${experts[@]}" "${pads[@]}" --
    replays "padded, an iteration" "${experts[@]}" "${pads[@]}" -- "${whole[@]}"
    replays "the router alone" "${experts[@]}" -- --cuda-graph-modules moe_router
    replays "overlapped shared experts" "${experts[@]}" --moe-shared-expert-overlap -- \
        "${partial[@]}"
    replays "recomputed experts" "${experts[@]}" --recompute-granularity selective \
        --recompute-modules moe -- --cuda-graph-modules attn
    replays "recomputed layers" "${dense[@]}" --recompute-granularity full \
        --recompute-method uniform --recompute-num-layers 1 -- "${whole[@]}"
    replays "documents and multi-token prediction" "${dense[@]}" --reset-position-ids \
        --reset-attention-mask --eod-mask-loss --mtp-num-layers 1 --position-embedding-type rope --
    replays "growing batches" "${dense[@]}" --global-batch-size 4 --rampup-batch-size 2 2 4 --
fi

# ---- resumed; saved while a capture goes on
saved=("${dense[@]}" --train-iters 3 --device cuda)
train first megatron train "${saved[@]}" --save saved --save-interval 2
grep -E '"iteration": 3,' first.json >rest.json
echo 2 >saved/latest_checkpointed_iteration.txt
impls=(local)
! long || impls+=(full_iteration)
for impl in "${impls[@]}"; do
    train graphs megatron train "${saved[@]}" --load saved --cuda-graph-impl $impl \
        --cuda-graph-warmup-steps 0
    ok "cmp graphs.st first.st && cmp graphs.json rest.json" "$impl: resumed, the same bits" \
        || diag "$err"
done
train aside megatron train "${saved[@]}" --save aside --save-interval 1 --async-save \
    --cuda-graph-impl local --cuda-graph-warmup-steps 1
ok "cmp aside.st first.st" "saved aside, the same bits" || diag "$err"

# ---- --device auto
run megatron train "${saved[@]}" --train-iters 1 --device auto --cuda-graph-warmup-steps 0 --cuda-graph-impl local
like "$status $out" "^0 .*device cuda:0: .* graphs of rank 0" "--device auto is the GPU, with graphs"
done_testing

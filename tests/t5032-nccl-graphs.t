#!/bin/bash
# Runs of several ranks on the CUDA device with graphs have the bits of runs without: collectives
# of tensor, context and expert parallelism are captured.  What is captured is what "plan graphs"
# says.
# MG_LONG=1: 20 iterations and all layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
cuda_nccl

seed_draws
tokenized_text 20
iterations=3
! long || iterations=20
base=(--num-layers 2 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 24 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 80,20,0
      --micro-batch-size 1 --global-batch-size 2 --train-iters $iterations --lr 2e-3
      --lr-decay-style constant --eval-iters 0)
dense=("${base[@]}" --hidden-dropout 0.1 --attention-dropout 0.1)
modern=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
        --group-query-attention --num-query-groups 2 --qk-layernorm)
experts=("${base[@]}" "${modern[@]}" --num-experts 4 --moe-router-topk 2 --moe-aux-loss-coeff 1e-2
         --moe-shared-expert-intermediate-size 12 --moe-token-dispatcher-type alltoall
         --expert-model-parallel-size 2)
drops=(--moe-expert-capacity-factor 1)
pads=("${drops[@]}" --moe-pad-expert-input-to-capacity)
sp=(--tensor-model-parallel-size 2 --sequence-parallel)
cp=(--context-parallel-size 2)
partial=(--cuda-graph-modules attn moe_router moe_preprocess)
whole=(--cuda-graph-impl full_iteration)
sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
         --ddp-bucket-size 3000)

# Rank, graphs, nodes, input, intermediate and hand-over of each rank, from a run's lines in $out
captured() {
    sed -n 's/^ graphs of rank \([-0-9]*\) | \(.*\) | host bytes: [0-9]* | device bytes: [1-9].*/\1 \2/p' \
            <<<"$out" \
        | awk '{ split ($1, r, "-"); if (r[2] == "") r[2] = r[1]; gsub (/[^0-9 ]/, "", $0)
                 $1 = ""; $0 = $0; $1 = $1; for (i = r[1]; i <= r[2]; i++) print i, $0 }'
}
planned() { # the same from the JSON of "plan graphs"
    grep -o '"rank":.*' <<<"$out" | sed -E 's/"rank":([0-9]+),"graphs":([0-9]+),"nodes":([0-9]+),'\
'"static_input_bytes":([0-9]+),"intermediate_bytes":([0-9]+),"handover_bytes":([0-9]+),.*/\1 \2 \3 \4 \5 \6/'
}

# replays TEXT N ARGUMENT... -- GRAPH-ARGUMENT...: on N ranks, without and with, in an order of the
# device that is drawn; the first run is kept for the next call if the arguments are the same
last=
replays() {
    local text=$1 n=$2 got
    local -a plain=()
    shift 2
    while [ "$1" != -- ]; do plain+=("$1"); shift; done
    shift
    local launch=(env MG_CUDA_DEVICES=$n MG_CUDA_ORDER=$((RANDOM + 1)) megatron launch -n "$n")
    if [ "$last" != "$n ${plain[*]}" ]; then
        train eager "${launch[@]}" megatron train "${plain[@]}" --device cuda
        is "$status" 0 "$text: eager"
        last="$n ${plain[*]}"
    fi
    train graphs "${launch[@]}" megatron train "${plain[@]}" --device cuda --cuda-graph-impl local \
        --cuda-graph-warmup-steps 1 "$@"
    is "$status" 0 "$text: with graphs"
    same_bits graphs eager "$text: the same bits"
    got=$(captured)
    run megatron plan graphs "${plain[@]}" --device cuda --cuda-graph-impl local "$@" \
        --world-size "$n" --json
    ok "[ -n '$got' ]" "$text: captured"
    is "$got" "$(planned)" "$text: as planned"
}

replays "sequence parallelism" 2 "${dense[@]}" "${modern[@]}" "${sp[@]}" --
replays "experts, drops and pads" 2 "${experts[@]}" "${pads[@]}" --
if long; then
    replays "sequence parallelism, an iteration" 2 "${dense[@]}" "${modern[@]}" "${sp[@]}" -- \
        "${whole[@]}"
    for how in p2p all_gather a2a; do
        replays "context parallelism, $how" 2 "${dense[@]}" "${cp[@]}" --cp-comm-type $how --
    done
    replays "context parallelism, an iteration" 2 "${dense[@]}" "${cp[@]}" -- "${whole[@]}"
    replays "experts, drops" 2 "${experts[@]}" "${drops[@]}" -- "${partial[@]}"
    replays "experts" 2 "${experts[@]}" -- "${partial[@]}"
    replays "experts, padded, an iteration" 2 "${experts[@]}" "${pads[@]}" -- "${whole[@]}"
    replays "overlapped shared experts" 2 "${experts[@]}" --moe-shared-expert-overlap -- \
        "${partial[@]}"
    replays "recomputed" 2 "${dense[@]}" "${sp[@]}" --bf16 --recompute-granularity selective \
        --recompute-modules core_attn layernorm mlp --
    replays "recomputed experts" 2 "${experts[@]}" --recompute-granularity selective \
        --recompute-modules moe -- --cuda-graph-modules attn
    for batch in 1 4; do
        replays "$batch microbatches" 2 "${dense[@]}" "${sp[@]}" --global-batch-size $batch --
    done
    replays "sharded with overlap" 2 "${dense[@]}" "${sharded[@]}" --
    replays "sharded with overlap, an iteration" 2 "${dense[@]}" "${sharded[@]}" -- "${whole[@]}"
    pipeline=(--pipeline-model-parallel-size 2 --num-layers 4 --global-batch-size 4)
    replays "a pipeline" 2 "${dense[@]}" "${pipeline[@]}" --
    replays "interleaved" 2 "${dense[@]}" "${pipeline[@]}" \
        --num-virtual-stages-per-pipeline-rank 2 --
    replays "folded experts" 4 "${experts[@]}" "${sp[@]}" "${cp[@]}" "${sharded[@]}" \
        --expert-tensor-parallel-size 2 -- "${partial[@]}"
fi

# ---- resumed
resumed() { # TEXT ARGUMENT...
    local text=$1
    shift
    local launch=(env MG_CUDA_DEVICES=2 megatron launch -n 2 megatron train "$@" --device cuda)
    rm -rf saved
    train first "${launch[@]}" --train-iters 3 --save saved --save-interval 2
    grep -E '"iteration": 3,' first.json >rest.json
    echo 2 >saved/latest_checkpointed_iteration.txt
    train graphs "${launch[@]}" --train-iters 3 --load saved --cuda-graph-impl local \
        --cuda-graph-warmup-steps 0
    ok "[ -s rest.json ] && cmp graphs.st first.st && cmp graphs.json rest.json" \
        "$text: resumed, the same bits" || diag "$err"
}
resumed "sequence parallelism" "${dense[@]}" "${sp[@]}" --global-batch-size 1
! long || resumed "experts" "${experts[@]}" "${pads[@]}"

# ---- what is refused
refused="--cuda-graph-impl full_iteration with --device cuda needs --pipeline-model-parallel-size 1, \
not 2: ranks of a pipeline would wait for each other inside of graphs; give --cuda-graph-impl local"
pipeline=("${dense[@]}" --pipeline-model-parallel-size 2 --device cuda "${whole[@]}")
run env MG_CUDA_DEVICES=2 megatron launch -n 2 megatron train "${pipeline[@]}"
ok "[ $status != 0 ]" "a graph of an iteration of a pipeline"
is "${err%%$'\n'*}" "megatron train: $refused" "is refused in one line"
run env MG_CUDA_DEVICES=2 megatron launch -n 2 megatron train "${pipeline[@]}" --device auto
like "$status $err" "^[1-9].*$refused" "also where --device auto means GPUs"
run megatron plan graphs "${pipeline[@]}" --world-size 2
is "$status $err" "1 megatron: $refused" "and by the plan"
done_testing

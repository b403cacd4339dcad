#!/bin/bash
# Evaluations with a micro batch and a sequence length of their own: the losses are those of a run
# that is made for this shape, on every layout; training does not notice; memory is planned.  The
# long run has all layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

one=(megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --vocab-size 90
     --max-position-embeddings 32 --mock-data --global-batch-size 8 --seed 5 --init-method-std 0.3
     --lr 1e-3 --lr-decay-style constant --eval-iters 2)
llama=(--normalization RMSNorm --position-embedding-type rope --swiglu --disable-bias-linear
       --group-query-attention --num-query-groups 2 --qk-layernorm
       --untie-embeddings-and-output-weights)
moe=("${llama[@]}" --num-experts 4 --moe-ffn-hidden-size 24 --moe-router-topk 2
     --expert-model-parallel-size 2)

# losses NAME: those of each evaluation in NAME.raw, as they are
losses() {
    sed -n 's/{"evaluation": "\([^"]*\)".*"lm loss value": \([^,]*\),.*/\1 \2/p' "$1.raw"
}

# same TEXT RANKS SHAPE OTHER ARGS...: evaluations of SHAPE, once as the shape of evaluations of a
# run of OTHER, once in a run that has it.  A shape is SAMPLESxTOKENS.
same() {
    local text=$1 ranks=$2 batch=${3%x*} seq=${3#*x} other=$4 run=()
    shift 4
    [ "$ranks" = 1 ] || run=(ranks_run "$ranks")
    train own "${run[@]}" "${one[@]}" "$@" --skip-train --micro-batch-size "${other%x*}" \
        --seq-length "${other#*x}" --eval-micro-batch-size "$batch" --eval-seq-length "$seq"
    is "$status" 0 "$text: $batch x $seq in a run of $other"
    losses own >got
    train made "${run[@]}" "${one[@]}" "$@" --skip-train --micro-batch-size "$batch" \
        --seq-length "$seq"
    losses made >want
    ok "[ $(wc -l <want) = 2 ]" "$text: two losses"
    is "$(cat got)" "$(cat want)" "$text: the losses of a run that is made for it"
}

MG_TEST_DEVICE=guarded-pages same "one rank" 1 4x32 2x16
MG_TEST_DEVICE=guarded-pages same "one rank" 1 1x12 4x24 "${llama[@]}"
same "multi-token prediction" 1 4x16 2x32 "${llama[@]}" --mtp-num-layers 1

# layout NAME: one with several ranks.
layout() {
    local sp=(--tensor-model-parallel-size 2 --sequence-parallel)
    case $1 in
    sequence) same "sequence parallelism" 2 4x32 2x16 "${llama[@]}" "${sp[@]}" --bf16 ;;
    latents) same "latents" 2 2x16 4x32 "${sp[@]}" --multi-latent-attention --q-lora-rank 16 \
        --kv-lora-rank 12 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8 \
        --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
        --qk-layernorm ;;
    split) same "split activations" 2 4x16 2x32 --tensor-model-parallel-size 2 \
        --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
        --distribute-saved-activations ;;
    stages) same "stages" 2 4x16 2x32 --pipeline-model-parallel-size 2 ;;
    p2p | a2a | all_gather) same "context parallelism with $1" 2 4x32 2x16 "${llama[@]}" \
        --context-parallel-size 2 --cp-comm-type "$1" ;;
    alltoall) same "experts, all-to-all" 4 4x32 2x16 "${moe[@]}" "${sp[@]}" \
        --expert-tensor-parallel-size 2 --moe-token-dispatcher-type alltoall ;;
    allgather) same "experts, all-gather" 2 2x16 4x32 "${moe[@]}" \
        --moe-token-dispatcher-type allgather ;;
    capacity) same "experts with a capacity" 2 2x16 4x32 "${moe[@]}" \
        --moe-token-dispatcher-type alltoall --moe-expert-capacity-factor 1 \
        --moe-pad-expert-input-to-capacity ;;
    esac
}
seed_draws
some 3 sequence latents split stages p2p a2a all_gather alltoall allgather capacity
for name in "${some[@]}"; do
    layout "$name"
done

# ---- training does not notice
steps() {
    grep -o '"lm loss": [^,]*\|"grad norm": [^,}]*' "$1.raw"
}
loop=("${one[@]}" --micro-batch-size 2 --seq-length 16 --train-iters 4)
for impl in none local; do
    train plain "${loop[@]}" --cuda-graph-impl $impl
    steps plain >want
    train evaluated "${loop[@]}" --cuda-graph-impl $impl --eval-interval 1 \
        --eval-micro-batch-size 4 --eval-seq-length 32
    is "$status" 0 "training, graphs: $impl"
    ok "[ $(wc -l <want) = 8 ]" "four iterations"
    steps evaluated >got
    ok "cmp got want" "as without these evaluations"
done

# ---- memory
plan() {
    megatron plan memory --world-size 1 "${one[@]:2}" "$@" --json
}
# activations ARGS...: their bytes
activations() {
    plan "$@" | grep -o '"activations[^:]*": *[0-9]*' | head -n 1 | grep -o '[0-9]*$'
}
small=$(activations --micro-batch-size 2 --seq-length 16)
large=$(activations --micro-batch-size 4 --seq-length 32)
ok "[ $small -gt 0 ] && [ $large -gt $small ]" "activations of $small and $large bytes"
is "$(activations --micro-batch-size 2 --seq-length 16 --eval-micro-batch-size 4 \
    --eval-seq-length 32)" "$large" "the larger ones are planned"
is "$(activations --micro-batch-size 4 --seq-length 32 --eval-micro-batch-size 2 \
    --eval-seq-length 16)" "$large" "also the other way round"

# ---- what is wrong
run "${one[@]}" --micro-batch-size 2 --seq-length 16 --skip-train --eval-seq-length 33
is "$status" 1 "more positions than there are"
like "$err" "evaluation with eval-seq-length 33: max-position-embeddings 32 is less than seq-length 33" "says so"
run "${one[@]}" --micro-batch-size 2 --seq-length 16 --skip-train --eval-micro-batch-size 3
is "$status" 1 "a micro batch that does not divide the batch"
like "$err" "8 is not a multiple of eval-micro-batch-size 3 x dp 1" "says so"
run "${one[@]}" --micro-batch-size 2 --seq-length 16 --eval-micro-batch-size 0
is "$status" 2 "no micro batch"

done_testing

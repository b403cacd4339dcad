#!/bin/bash
# Few hardware queues and multiprocessors, on the double of CUDA and NCCL: what the double claims of
# them, and layouts that end with the same bits or are refused before the first step.  None hangs but
# the planted one: transfers on lanes, on a device with fewer queues than the variable says.
# MG_LONG=1: all layouts to 4 ranks, with 32, 8 and 1 queues.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
cuda_nccl
unset CUDA_DEVICE_MAX_CONNECTIONS NCCL_MAX_CTAS NCCL_MIN_CTAS

run "$MG_BUILDDIR/tests/cuda/nccl-check"
is "$status $(grep '^not ok\|^#' <<<"$out")" "0 " "what the double of NCCL claims"
ok "[ $(grep -c '^ok' <<<"$out") -ge 20 ]" "(with checks)"

tokenized_text 20
one=(megatron train --num-layers 4 --hidden-size 16 --num-attention-heads 2 --ffn-hidden-size 20
     --seq-length 8 --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
     --micro-batch-size 1 --global-batch-size 4 --train-iters 2 --lr 2e-3 --eval-iters 0
     --device cuda)
pipeline=(--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2)

# same NAME RANKS TEXT [VARIABLE=VALUE]... -- ARGUMENT...: the bits of NAME, which the first call makes
# on a device with a queue for each stream
same() {
    local name=$1 n=$2 text=$3 variables=()
    shift 3
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    if [ ! -e "$name.st" ]; then
        train "$name" env MG_CUDA_DEVICES=$n CUDA_DEVICE_MAX_CONNECTIONS=32 MG_CUDA_QUEUES=0 \
            megatron launch -n "$n" "${one[@]}" "$@"
        is "$status" 0 "$name" || diag "$err"
    fi
    train now env MG_CUDA_DEVICES=$n "${variables[@]}" megatron launch -n "$n" "${one[@]}" "$@"
    is "$status" 0 "$name, $text" || diag "$err"
    same_bits now "$name" "the same bits"
}

# refused TEXT WORDS [VARIABLE=VALUE]... ARGUMENT...: before the first step
refused() {
    local text=$1 words=$2
    shift 2
    run env MG_CUDA_DEVICES=2 "$@"
    ok "[ $status != 0 ]" "$text is refused"
    like "$err" "^megatron train: .*$words" "in one line"
    ok "! grep -q '\] iteration ' <<<\"\$out\"" "before the first step"
}
launch=(megatron launch -n 2 "${one[@]}")

same pipeline 2 "1 queue" CUDA_DEVICE_MAX_CONNECTIONS=1 -- "${pipeline[@]}"
refused "1 queue for lanes" \
    "[0-9]+ streams share 1 queues, .*: set CUDA_DEVICE_MAX_CONNECTIONS to [0-9]+ to 32, or leave out" \
    CUDA_DEVICE_MAX_CONNECTIONS=1 "${launch[@]}" "${pipeline[@]}" --overlap-p2p-communication
# The planted fault: the list without groups is let through, and the device has 1 queue.
run env MG_CUDA_DEVICES=2 CUDA_DEVICE_MAX_CONNECTIONS=32 MG_CUDA_QUEUES=1 "${launch[@]}" \
    "${pipeline[@]}" --overlap-p2p-communication --distributed-timeout-minutes 0.1
ok "[ $status != 0 ]" "a list without groups and 1 queue: found"
like "$err" "waited 6 s" "as a wait that does not end" || diag "$err"
same data 2 "3 multiprocessors" MG_CUDA_MULTIPROCESSORS=3 -- --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather
like "$out" "NCCL: each communicator takes at most 2 of 3 multiprocessors, since this rank has 1 comm" \
    "with a line"
refused "no multiprocessor for kernels" "\(1\) need a multiprocessor each, and the GPU has 1" \
    MG_CUDA_MULTIPROCESSORS=1 "${launch[@]}"
refused "NCCL_MAX_CTAS that does not fit" \
    "NCCL_MAX_CTAS is 132: want at most 131, since .* \(1\) share 132 multiprocessors" \
    NCCL_MAX_CTAS=132 "${launch[@]}"
refused "a bad NCCL_MAX_CTAS" "NCCL_MAX_CTAS is many: want a number of thread blocks" \
    NCCL_MAX_CTAS=many "${launch[@]}"
long || done_testing

same lanes 2 "lanes, 32 queues" CUDA_DEVICE_MAX_CONNECTIONS=32 -- "${pipeline[@]}" \
    --overlap-p2p-communication
# layout NAME RANKS ARGUMENT...
layout() {
    local name=$1 n=$2 queues
    shift 2
    for queues in 32 8 1; do
        same "$name" "$n" "$queues queues" CUDA_DEVICE_MAX_CONNECTIONS=$queues -- "$@"
    done
    same "$name" "$n" "9 multiprocessors" MG_CUDA_MULTIPROCESSORS=9 -- "$@"
    same "$name" "$n" "a random order, 8 queues" MG_CUDA_ORDER=$((RANDOM + 1)) \
        CUDA_DEVICE_MAX_CONNECTIONS=8 -- "$@"
}
seed_draws
sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather)
layout tp 2 --tensor-model-parallel-size 2 --sequence-parallel
layout pp 4 --pipeline-model-parallel-size 4
layout tp-pp 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
layout vpp-dp 4 "${pipeline[@]}" "${sharded[@]}"
layout dp 4 "${sharded[@]}"
layout cp-dp 4 --context-parallel-size 2 "${sharded[@]}"
one=(megatron train "${experts_sizes[@]}" "${experts_router[@]}" --tokenizer-type ByteLevel
     --data-path text_text_document --split 100,0,0 --micro-batch-size 1 --global-batch-size 4
     --train-iters 2 --lr 2e-3 --eval-iters 0 --device cuda)
layout ep 2 --expert-model-parallel-size 2
layout ep-pp 4 --expert-model-parallel-size 2 --pipeline-model-parallel-size 2
layout ep-tp 4 --expert-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel \
    --expert-tensor-parallel-size 1
done_testing

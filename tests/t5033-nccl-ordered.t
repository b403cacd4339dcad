#!/bin/bash
# --deterministic-mode on the double of CUDA and NCCL, whose own sums are not in rank order: sums have
# the bits of the CPU's definition, and runs the same bits for any buckets and overlap.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
cuda_nccl
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
[ -x "$ranks" ] || skip_all "$ranks is not built (make check builds it)"
seed_draws

# ---- reductions of every type, in place and apart, of odd lengths, in graphs and on two streams
orders=(first)
! long || orders=(first last lazy $((RANDOM + 1)) $((RANDOM + 1)))
for order in "${orders[@]}"; do
    for n in 2 3 4; do
        run env MG_TEST_DEVICE=cuda MG_CUDA_DEVICES=$n MG_CUDA_ORDER="$order" \
            megatron launch -n $n "$ranks" ordered
        is "$status" 0 "$n ranks, order $order: reductions have the bits of the definition" \
            || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
        ok "[ $(grep -c '^ok\|: ok' <<<"$out") -gt 150 ]" "all checks were made"
    done
done

# ---- runs
tokenized_text 20
base=(megatron train --num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6
      --ffn-hidden-size 28 --seq-length 8 --tokenizer-type ByteLevel
      --data-path text_text_document --split 80,20,0 --micro-batch-size 1 --global-batch-size 4
      --train-iters 3 --lr 2e-3 --lr-decay-style constant --eval-iters 0)
three=(env MG_CUDA_DEVICES=3 megatron launch -n 3 "${base[@]}" --device cuda --global-batch-size 3)
four=(env MG_CUDA_DEVICES=4 megatron launch -n 4 "${base[@]}" --device cuda --deterministic-mode)
overlap=(--overlap-grad-reduce --ddp-bucket-size)

# Data parallelism of three ranks, where the order of a sum shows.
train one "${three[@]}" --deterministic-mode
is "$status" 0 "--deterministic-mode: one bucket"
ok "! grep -q 'change nothing here' <<<\"\$out\"" "it changes something"
train small "${three[@]}" --deterministic-mode "${overlap[@]}" 700
same_bits small one "buckets of 700, overlapped: the same bits"
train own "${three[@]}" "${overlap[@]}" 700
ok "[ -s own.st ] && ! cmp -s own.st one.st" "NCCL's own order gives other bits"
if long; then
    train own-one "${three[@]}"
    ok "[ -s own-one.st ] && ! cmp -s own.st own-one.st" "which depend on buckets"
    for size in 1 64 2500 100000; do
        train other "${three[@]}" --deterministic-mode "${overlap[@]}" $size
        same_bits other one "buckets of $size: the same bits"
    done
    train whole "${three[@]}" --deterministic-mode --clip-grad 0
    for sharded in "--overlap-param-gather ${overlap[*]} 700" "${overlap[*]} 2500" ""; do
        train shards "${three[@]}" --deterministic-mode --use-distributed-optimizer --clip-grad 0 \
            $sharded
        ok "[ -s whole.st ] && cmp shards.st whole.st" "sharded $sharded: the same weights"
    done
fi

# Tensor and data parallelism of two ranks each.
both=("${four[@]}" --tensor-model-parallel-size 2 --sequence-parallel)
train both "${both[@]}"
is "$status" 0 "tensor and data parallelism: one bucket"
train both-small "${both[@]}" "${overlap[@]}" 300
same_bits both-small both "buckets of 300, overlapped: the same bits"
if long; then
    train both-other "${both[@]}" "${overlap[@]}" 2500
    same_bits both-other both "buckets of 2500: the same bits"
fi

# ---- the plan
plan() { # ARGUMENT...: bytes of communication of rank 0
    run megatron plan memory "${base[@]:2}" --device cuda --world-size 4 --json "$@"
    grep -o '"communication":[0-9]*' <<<"$out" | head -n 1 | tr -dc '0-9'
}
without=$(plan)
with=$(plan --deterministic-mode)
is "$((with - without))" $((12 << 20)) "the plan has 16 MiB, not 4, for the one communicator"
done_testing

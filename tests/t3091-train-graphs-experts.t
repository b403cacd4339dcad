#!/bin/bash
# Runs with device graphs have the bits of runs without: layers with experts.  (t3090 has all else.)
# MG_LONG=1: 100 iterations instead of 12.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
. "$MG_SRCDIR/tests/lib/graphs.sh"
pipeline=(--pipeline-model-parallel-size 2)
pipeline+=(--num-layers-per-virtual-pipeline-stage 1)
sp=(--tensor-model-parallel-size 2 --sequence-parallel)
sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
         --ddp-bucket-size 3000)

one=("${experts[@]}" "${a2a[@]}")
replays "experts of one rank" 1 "${one[@]}" -- "${partial[@]}"
ep=("${experts[@]}" --expert-model-parallel-size 2)
replays "all-to-all" 2 "${ep[@]}" "${a2a[@]}" -- "${partial[@]}"
replays "the router alone" 2 "${ep[@]}" "${a2a[@]}" -- --cuda-graph-modules moe_router
replays "attention alone" 2 "${ep[@]}" "${a2a[@]}" -- --cuda-graph-modules attn
replays "all-gather" 2 "${ep[@]}" --moe-token-dispatcher-type allgather -- "${partial[@]}"
replays "drops without padding" 2 "${ep[@]}" "${a2a[@]}" --moe-expert-capacity-factor 1 -- \
    "${partial[@]}"
replays "drops with padding" 2 "${ep[@]}" "${padded[@]}" -- --cuda-graph-modules attn mlp moe
replays "drops with padding, whole layers" 2 "${ep[@]}" "${padded[@]}" --
replays "drops with padding, an iteration" 2 "${ep[@]}" "${padded[@]}" -- "${whole[@]}"
replays "padded, experts of one rank, an iteration" 1 "${experts[@]}" "${padded[@]}" -- \
    "${whole[@]}"
replays "overlapped shared experts" 2 "${ep[@]}" "${a2a[@]}" --moe-shared-expert-overlap -- \
    "${partial[@]}"
replays "empty experts" 2 "${ep[@]}" "${a2a[@]}" --num-experts 16 --moe-router-topk 1 \
    --moe-router-num-groups 2 --moe-router-group-topk 1 --init-method-std 2 -- "${partial[@]}"
replays "recomputed experts" 2 "${ep[@]}" "${a2a[@]}" --recompute-granularity selective \
    --recompute-modules moe -- --cuda-graph-modules attn
replays "recomputed router" 2 "${ep[@]}" "${a2a[@]}" --recompute-granularity selective \
    --recompute-modules moe layernorm -- "${partial[@]}"
folded=(--expert-model-parallel-size 2 --expert-tensor-parallel-size 2 "${sp[@]}"
        --context-parallel-size 2 "${sharded[@]}" --moe-expert-rank-capacity-factor 0.6)
replays "a folded layout in rounds" 4 "${experts[@]}" "${a2a[@]}" "${folded[@]}" -- \
    "${partial[@]}"
replays "interleaved experts" 4 "${experts[@]}" "${a2a[@]}" --expert-model-parallel-size 2 \
    "${pipeline[@]}" -- "${partial[@]}"
# a device whose memory the host must not touch
MG_TEST_DEVICE=guarded-pages replays "guarded" 2 "${ep[@]}" "${a2a[@]}" -- "${partial[@]}"
done_testing

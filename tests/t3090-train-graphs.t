#!/bin/bash
# Runs with device graphs have the bits of runs without: layers and modules of all kinds, whole
# iterations, under every layout; resumed, with evaluations, with other batch sizes.  What is captured
# is what "plan graphs" says, and traces have the replays.  (t3091 has layers with experts.)
# MG_LONG=1: 100 iterations instead of 12.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
. "$MG_SRCDIR/tests/lib/graphs.sh"

# captured: RANK GRAPHS NODES INPUT INTERMEDIATE HAND-OVER HOST of each rank, from a run's lines in
# $out; planned: the same from the JSON of "plan graphs"
captured() {
    sed -n 's/^ graphs of rank \([-0-9]*\) | \(.*\) | device bytes: 0 | captured in .*/\1 \2/p' \
            <<<"$out" \
        | awk '{ split ($1, r, "-"); if (r[2] == "") r[2] = r[1]; gsub (/[^0-9 ]/, "", $0)
                 $1 = ""; $0 = $0; $1 = $1; for (i = r[1]; i <= r[2]; i++) print i, $0 }'
}
planned() {
    grep -o '"rank":.*' <<<"$out" | sed -E 's/"rank":([0-9]+),"graphs":([0-9]+),"nodes":([0-9]+),'\
'"static_input_bytes":([0-9]+),"intermediate_bytes":([0-9]+),"handover_bytes":([0-9]+),.*'\
'"host_bytes":([0-9]+).*/\1 \2 \3 \4 \5 \6 \7/'
}

# as_planned TEXT N ARGUMENT...: replays() on N ranks captures what "plan graphs" says
as_planned() {
    local text=$1 n=$2 run
    local -a all=()
    replays "$@"
    run=$(captured)
    shift 2
    for word in "$@"; do [ "$word" = -- ] || all+=("$word"); done
    run megatron plan graphs --cuda-graph-impl local "${all[@]}" --world-size "$n" --json
    is "$run" "$(planned)" "$text: as planned"
}

# ---- dense layers
replays "dense" 1 "${dense[@]}" --
is "$(grep -o 'graphs: 8 ' <<<"$out")" "graphs: 8 " "two for each layer"
replays "attention alone" 1 "${dense[@]}" -- --cuda-graph-modules attn
replays "feed-forward alone" 1 "${dense[@]}" -- --cuda-graph-modules mlp
replays "an iteration" 1 "${dense[@]}" -- "${whole[@]}"
is "$(grep -o 'graphs: 1 ' <<<"$out")" "graphs: 1 " "one graph"
replays "an iteration, as it was called" 1 "${dense[@]}" -- --cuda-graph-scope full_iteration
modern=(--normalization RMSNorm --swiglu --position-embedding-type rope --qk-layernorm
        --group-query-attention --num-query-groups 2 --disable-bias-linear)
sp=(--tensor-model-parallel-size 2 --sequence-parallel)
replays "sequence parallelism" 2 "${dense[@]}" "${modern[@]}" "${sp[@]}" --
replays "sequence parallelism, an iteration" 2 "${dense[@]}" "${modern[@]}" "${sp[@]}" -- \
    "${whole[@]}"
for how in p2p all_gather a2a; do
    replays "context parallelism, $how" 2 "${dense[@]}" --context-parallel-size 2 \
        --cp-comm-type $how --
done
replays "context parallelism, an iteration" 2 "${dense[@]}" --context-parallel-size 2 -- \
    "${whole[@]}"
pipeline=(--pipeline-model-parallel-size 2)
replays "a pipeline" 2 "${dense[@]}" "${pipeline[@]}" --
replays "a pipeline, an iteration" 2 "${dense[@]}" "${pipeline[@]}" -- "${whole[@]}"
pipeline+=(--num-layers-per-virtual-pipeline-stage 1)
replays "interleaved" 2 "${dense[@]}" "${pipeline[@]}" --
replays "interleaved, an iteration" 2 "${dense[@]}" "${pipeline[@]}" -- "${whole[@]}"
sharded=(--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
         --ddp-bucket-size 3000)
replays "sharded with overlap" 2 "${dense[@]}" "${sharded[@]}" -- \
    --trace-file graphs-trace.json --trace-iterations 4-5
replays "sharded with overlap, an iteration" 2 "${dense[@]}" "${sharded[@]}" -- "${whole[@]}"
replays "bfloat16" 2 "${dense[@]}" --bf16 "${sharded[@]}" --
# the scale falls after capture, and rises again
fp16=(--fp16 --initial-loss-scale 1048576 --loss-scale-window 1 --hysteresis 1)
replays "float16 with a loss scale" 1 "${dense[@]}" "${fp16[@]}" -- --cuda-graph-warmup-steps 0
replays "float16, an iteration" 1 "${dense[@]}" "${fp16[@]}" -- "${whole[@]}" \
    --cuda-graph-warmup-steps 0
is "$(grep -o '"skipped": [a-z]*' graphs.json | sort -u | tr '\n' ' ')" \
    '"skipped": false "skipped": true ' "some updates are skipped"
replays "float8 weights" 2 "${dense[@]}" --bf16 --use-distributed-optimizer \
    --fp8-param-gather --
for modules in "core_attn" "layernorm mlp"; do
    # shellcheck disable=SC2086 # words
    replays "recomputed $modules" 1 "${dense[@]}" --recompute-granularity selective \
        --recompute-modules $modules --
done
replays "recomputed outside of graphs" 1 "${dense[@]}" --recompute-granularity selective \
    --recompute-modules mlp -- --cuda-graph-modules attn
replays "recomputed layers" 1 "${dense[@]}" --recompute-granularity full \
    --recompute-method uniform --recompute-num-layers 2 -- "${whole[@]}"
for batch in 1 2 16; do
    replays "$batch microbatches" 1 "${dense[@]}" --global-batch-size $batch --
done
replays "documents and multi-token prediction" 1 "${dense[@]}" --reset-position-ids \
    --reset-attention-mask --eod-mask-loss --mtp-num-layers 1 \
    --position-embedding-type rope --

eight=("${dense[@]}" --pipeline-model-parallel-size 4 --num-layers 8 --global-batch-size 16)
as_planned "eight ranks" 8 "${eight[@]}" --
as_planned "eight ranks, interleaved" 8 "${eight[@]}" --num-layers-per-virtual-pipeline-stage 1 --
as_planned "eight ranks, an iteration" 8 "${eight[@]}" -- "${whole[@]}"
as_planned "eight ranks, experts" 8 "${experts[@]}" "${a2a[@]}" "${sp[@]}" \
    --pipeline-model-parallel-size 2 --expert-model-parallel-size 4 \
    --expert-tensor-parallel-size 1 -- "${partial[@]}"

# ---- state
saved=("${dense[@]}" --train-iters 6)
train first megatron train "${saved[@]}" --save saved --save-interval 3
grep -E '"iteration": [456],' first.json >rest.json
echo 3 >saved/latest_checkpointed_iteration.txt
for impl in local full_iteration; do
    train graphs megatron train "${saved[@]}" --load saved --cuda-graph-impl $impl \
        --cuda-graph-warmup-steps 1
    ok "cmp graphs.st first.st && cmp graphs.json rest.json" "$impl: resumed, the same bits" \
        || diag "$err"
    ok "[ \$(grep -c 'graphs of rank' <<<'$out') = 1 ]" "$impl: captured after a warm-up"
done
ramp=("${dense[@]}" --rampup-batch-size 2 2 24 --pipeline-model-parallel-size 2)
replays "growing batches" 2 "${ramp[@]}" --
is "$(sed -n 's/ graphs of rank \([0-9]\) | \(graphs: [0-9]*\) .*/\1 \2/p' <<<"$out" | tr '\n' ' ')" \
    "0 graphs: 8 1 graphs: 4 " "captured for all of them: 2 layers in 2 slots, in 1"
replays "saved aside" 1 "${dense[@]}" -- --save aside --save-interval 2 --async-save
replays "no warm-up" 1 "${dense[@]}" -- --cuda-graph-warmup-steps 0

# ---- the trace: a replay a layer and pass, and gradients that are reduced meanwhile
ok "grep -q '\"graph-replay\".*\"layer\":3,\"nodes\":[1-9]' graphs-trace-0.json" "replays are traced"
is "$(grep -c '"graph-replay"' graphs-trace-0.json)" $((2 * 4 * 2 * 4)) \
    "two iterations, four microbatches, two directions, four layers"
begin_at='s/.*"ts":\([0-9.]*\),.*/\1/p'
last_replay=$(grep '"graph-replay".*"iteration":4' graphs-trace-0.json | sed -n "$begin_at" | tail -n 1)
# A reduction counts from when the run asks for it: on a busy machine the communication thread may
# come to it after the last replay.
ok "grep '\"reduce-scatter\"' graphs-trace-0.json | sed -n 's/.*\"enqueued\":\([0-9.]*\).*/\1/p' \
    | awk '\$1 < $last_replay { n++ } END { exit !n }'" "gradients are reduced between replays"

# ---- a NaN is found although its layer is captured
run megatron train "${dense[@]}" --train-iters 0 --save-weights good.st
cp good.st bad.st && poke bad.st decoder.layers.2.mlp.linear_fc1.weight 0 '\0\0\140\177' # 3e38
for impl in none local full_iteration; do
    run megatron train "${dense[@]}" --load-weights bad.st --cuda-graph-impl $impl \
        --cuda-graph-warmup-steps 0
    is "$status" 1 "$impl: an infinity ends the run"
    like "$err" "layer 2: [a-z_0-9]*, forward of microbatch .* is (infinite|NaN)" \
        "$impl: and its place is found"
    is "$err" "${place:=$err}" "$impl: as without graphs"
done

# ---- the host touches no device memory
last=
MG_TEST_DEVICE=guarded-pages replays "guarded, an iteration" 1 "${dense[@]}" -- "${whole[@]}"

done_testing

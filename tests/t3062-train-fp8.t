#!/bin/bash
# Weights of layers in float8: the run follows the bfloat16 run, whatever the layout, overlap
# or bucket; checkpoints and weights go from one to the other; refusals.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 40
base=("${falling_run[@]}")
bf16=(--bf16 --use-distributed-optimizer)
fp8=("${bf16[@]}" --fp8-param-gather)
long=(--train-iters 30)
short=(--train-iters 8)

# ---- one rank: the loss is off by 1.2e-3, the norm by 0.017, a weight by 0.21 (a bias, which
# moves with the signs of small gradients) in 30 iterations
train bf16 "${base[@]}" "${long[@]}" "${bf16[@]}"
is "$status" 0 "bfloat16"
train fp8 "${base[@]}" "${long[@]}" "${fp8[@]}"
is "$status" 0 "float8"
same_metrics fp8.json bf16.json 2e-3 0.03 "float8 follows bfloat16"
same_weights fp8.st bf16.st 0.3 "weights" --skip-key-bias 4
ok "! '$METRICS_DIFF' fp8.json bf16.json 1e-4 1e-3" "but is not bfloat16"
train again env OMP_NUM_THREADS=3 "${base[@]}" "${long[@]}" "${fp8[@]}"
same_bits again fp8 "the same bits with three threads"
# Weights ten times as large, where the layers decide: 9.5e-3, 0.022.
large=(--init-method-std 0.2 --lr 1e-3)
train bf16 "${base[@]}" "${short[@]}" "${bf16[@]}" "${large[@]}"
train fp8 "${base[@]}" "${short[@]}" "${fp8[@]}" "${large[@]}"
same_metrics fp8.json bf16.json 0.015 0.04 "with large weights"

# ---- checkpoints: main parameters and moments, which are bfloat16's
train first "${base[@]}" --train-iters 4 --save ck8 "${fp8[@]}"
train whole "${base[@]}" "${short[@]}" "${fp8[@]}"
train rest "${base[@]}" "${short[@]}" --load ck8 "${fp8[@]}"
ok "cmp rest.st whole.st" "resumed: same bits"
train rest "${base[@]}" "${short[@]}" --load ck8 --bf16
is "$status" 0 "in bfloat16, not sharded"
same_weights rest.st whole.st 0.15 "weights" --skip-key-bias 4
train part "${base[@]}" --train-iters 4 --save ck16 --bf16
train rest "${base[@]}" "${short[@]}" --load ck16 "${fp8[@]}"
is "$status" 0 "from bfloat16"
same_weights rest.st whole.st 0.3 "weights" --skip-key-bias 4
train loaded "${base[@]}" --train-iters 0 --load-weights first.st "${fp8[@]}"
ok "cmp loaded.st first.st" "weights come back unrounded"

# ---- refusals
# refused TEXT ARGUMENT...
refused() {
    local text=$1
    shift
    run "${base[@]}" "${short[@]}" --fp8-param-gather "$@"
    is "$status" 2 "$text is refused: $err"
    like "$err" "^megatron train: --fp8-param-gather wants --bf16 and --use-dist" "with what it wants"
    is "$(wc -l <<<"$err")" 1 "in one line"
}
refused "float32" --use-distributed-optimizer
refused "float16" --use-distributed-optimizer --fp16
refused "an optimizer that is not distributed" --bf16

ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; exit; }

# ---- scales and codes, element by element: ranks, of them tensor-parallel
while read -r ranks tp; do
    run ranks_run "$ranks" "$MG_BUILDDIR/tests/unit/model/float8.t" "$tp"
    is "$status:$(grep -c '^ok' <<<"$out")" 0:14 "codes on $ranks ranks, tp $tp" \
        || diag "$(grep '^not ok' <<<"$out")" "$err"
done <<'EOT'
2 2
2 1
4 2
EOT

# ---- layouts: tp pp vpp dp and further arguments
while read -r tp pp vpp dp more; do
    what="tp $tp pp $pp vpp $vpp dp $dp $more"
    read -ra args <<<"$more"
    many=(ranks_run $((tp * pp * dp)) "${base[@]}" "${short[@]}" --tensor-model-parallel-size "$tp"
          --pipeline-model-parallel-size "$pp" "${args[@]}" "${fp8[@]}")
    [ "$vpp" = 1 ] || many+=(--num-virtual-stages-per-pipeline-rank "$vpp")
    train n "${many[@]}"
    is "$status" 0 "$what"
    same_metrics n.json whole.json 1e-3 5e-3 "as on one rank"
    same_weights n.st whole.st 0.15 "weights" --skip-key-bias 4
    train again "${many[@]}"
    same_bits again n "the same bits again"
    train plain "${many[@]}" --clip-grad 0
    train reduce "${many[@]}" --clip-grad 0 --overlap-grad-reduce --ddp-bucket-size 2000
    ok "[ -s plain.st ] && cmp reduce.st plain.st" "reductions overlapped, in buckets: the same bits"
    train gather "${many[@]}" --clip-grad 0 --overlap-grad-reduce --ddp-bucket-size 2000 \
        --overlap-param-gather
    same_bits gather reduce "gatherings too: the same bits"
done <<'EOT'
2 1 1 1 --sequence-parallel
1 2 2 1
1 1 1 3
2 2 1 2
1 1 1 2 --num-distributed-optimizer-instances 2
2 1 1 2 --sequence-parallel --grad-reduce-in-bf16
EOT

# ---- a stage without layers agrees on scales, too
train n ranks_run 3 "${base[@]}" "${short[@]}" --pipeline-model-parallel-layout 'E|tttt|L' \
    --pipeline-model-parallel-size 3 "${fp8[@]}"
is "$status" 0 "stages without layers"
same_metrics n.json whole.json 1e-3 5e-3 "as on one rank"

# ---- under another layout
train two ranks_run 2 "${base[@]}" "${short[@]}" --load ck8 "${fp8[@]}" \
    --pipeline-model-parallel-size 2
is "$status" 0 "a checkpoint under another layout"
same_weights two.st whole.st 0.15 "weights" --skip-key-bias 4
done_testing

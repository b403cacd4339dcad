#!/bin/bash
# 16-bit runs: they follow the float32 run, whatever the layout; checkpoints and weights go
# from one precision to another; loss scales; bytes a parameter.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 40
base=("${falling_run[@]}")
long=(--train-iters 30)
short=(--train-iters 8)
fp16=(--fp16 --initial-loss-scale 65536)

# values NAME KEY: of all iterations, on one line.
values() {
    sed 's/.*"'"$2"'": \([^,}]*\).*/\1/' "$1.json" | paste -sd' '
}

# Weights are compared tensor by tensor: a small bias moves with the signs of small gradients,
# so tolerances are far above the rounding, and far below what a wrong tensor would be off.

# ---- one rank: the curve, while the loss falls by more than a third
train wide "${base[@]}" "${long[@]}"
is "$status" 0 "float32"
read -ra losses <<<"$(values wide "lm loss")"
ok "awk 'BEGIN { exit !(${losses[29]} < 0.66 * ${losses[0]}) }'" \
    "it learns: ${losses[0]} to ${losses[29]}"
train bf16 "${base[@]}" "${long[@]}" --bf16
is "$status" 0 "bfloat16"
same_metrics bf16.json wide.json 2e-3 0.02 "bfloat16 follows float32"
ok "! cmp -s bf16.st wide.st" "but is not float32"
same_weights bf16.st wide.st 0.2 "weights" --skip-key-bias 4
train half "${base[@]}" "${long[@]}" "${fp16[@]}" --initial-loss-scale 4096
is "$status" 0 "float16"
same_metrics half.json wide.json 3e-4 4e-3 "float16 follows float32 more closely"
same_weights half.st wide.st 0.05 "weights" --skip-key-bias 4
train grads "${base[@]}" "${long[@]}" --bf16 --grad-reduce-in-bf16
is "$status" 0 "bfloat16 gradients"
same_metrics grads.json wide.json 3e-3 0.03 "follow float32 too"
same_weights grads.st wide.st 0.2 "weights" --skip-key-bias 4
ok "! cmp -s grads.st bf16.st" "but not as float32 gradients do"
train added "${base[@]}" "${long[@]}" "${fp16[@]}" --initial-loss-scale 4096 \
    --accumulate-allreduce-grads-in-fp32
is "$status" 0 "float16, float32 gradients"
same_metrics added.json wide.json 3e-4 4e-3 "follow float32"
same_metrics added.json half.json 3e-4 4e-3 "and the other float16 run"
ok "! cmp -s added.st half.st" "which has float16 gradients"
train same "${base[@]}" "${long[@]}" --bf16 --accumulate-allreduce-grads-in-fp32
same_bits same bf16 "what bfloat16 does anyway"
for type in bf16 grads half; do
    args=(--bf16)
    [ "$type" != grads ] || args+=(--grad-reduce-in-bf16)
    [ "$type" != half ] || args=("${fp16[@]}" --initial-loss-scale 4096)
    train again env OMP_NUM_THREADS=3 "${base[@]}" "${long[@]}" "${args[@]}"
    same_bits again "$type" "$type: the same bits with three threads"
done

# ---- constant scales that are powers of two change no bit, as nothing underflows in bfloat16
train wide "${base[@]}" "${short[@]}" --bf16
train scaled "${base[@]}" "${short[@]}" --bf16 --loss-scale 1024
is "$(values scaled "loss scale" | cut -c1-9)" "1024 1024" "a constant scale"
sed -i 's/"loss scale": 1024/"loss scale": 1/' scaled.json
same_bits scaled wide "leaves bfloat16 as it is, to the bit"

# ---- overflow: skipped, halved after the hysteresis, doubled after the window
train scale "${base[@]}" "${short[@]}" --fp16 --initial-loss-scale 1e30 --hysteresis 3
is "$status" 0 "an absurd scale"
read -ra scales <<<"$(values scale "loss scale")"
is "$(values scale skipped | tr ' ' '\n' | grep -c true)" 8 "all iterations are skipped"
ok "awk 'BEGIN { exit !(${scales[0]} == ${scales[2]} && ${scales[2]} / ${scales[3]} > 1.999 &&
    ${scales[2]} / ${scales[3]} < 2.001 && ${scales[2]} / ${scales[7]} > 31.99 &&
    ${scales[2]} / ${scales[7]} < 32.01) }'" "halved from the third overflow on: ${scales[*]}"
cp scale.st skipped.st
train scale "${base[@]}" --fp16 --train-iters 0
ok "cmp scale.st skipped.st" "and nothing was updated"
train scale "${base[@]}" "${short[@]}" --fp16 --initial-loss-scale 64 --loss-scale-window 3 \
    --lr-decay-style linear --lr-decay-iters 100
is "$(values scale "loss scale")" "64 64 64 128 128 128 256 256" "doubled in a window of 3"
run "${base[@]}" "${short[@]}" --fp16 --initial-loss-scale 10 --min-loss-scale 20
is "$status" 2 "a least scale above the first: $err"
run "${base[@]}" "${short[@]}" --fp16 --bf16
is "$status" 2 "both types: $err"
run "${base[@]}" "${short[@]}" --loss-scale 2
is "$status" 2 "a scale in float32: $err"

# ---- the learning rate waits for skipped iterations, also across a resume
args=("${base[@]}" --fp16 --initial-loss-scale 1e30 --lr-decay-style linear --lr-decay-iters 100)
train all "${args[@]}" --train-iters 100
train part "${args[@]}" --train-iters 100 --exit-interval 60 --save ck
train rest "${args[@]}" --train-iters 100 --load ck
tail -n 40 all.json >tail.json
ok "cmp tail.json rest.json && cmp all.st rest.st" "resumed among changes of the scale: same bits"
skipped=$(values all skipped | tr ' ' '\n' | grep -c true)
done=$((100 - skipped))
ok "[ $skipped -gt 60 -a $done -gt 3 ]" "$skipped of 100 skipped"
is "$(values all "learning rate" | awk '{ printf "%.7f", $100 }')" \
    "$(awk -v n="$done" 'BEGIN { printf "%.7f", 5e-3 * (100 - n) / 100 }')" \
    "the learning rate is that of $done updates"

# ---- checkpoints from one precision to another: main parameters and moments are kept
train first "${base[@]}" --train-iters 4 --save ck16 --bf16
train whole "${base[@]}" "${short[@]}" --bf16
train rest "${base[@]}" "${short[@]}" --load ck16 --bf16
ok "cmp rest.st whole.st" "bfloat16 resumed: same bits"
train other "${base[@]}" "${short[@]}" --load ck16
is "$status" 0 "in float32"
same_weights other.st whole.st 0.15 "weights" --skip-key-bias 4
train other "${base[@]}" "${short[@]}" --load ck16 --fp16 --initial-loss-scale 4096
is "$status" 0 "in float16"
same_weights other.st whole.st 0.15 "weights" --skip-key-bias 4
train loaded "${base[@]}" --train-iters 0 --load-weights first.st --bf16
ok "cmp loaded.st first.st" "weights come back unrounded"

# ---- bytes a parameter
memory() {
    "${base[@]}" --train-iters 0 "$@" | sed -n 's/.*takes \([0-9.]*\) MiB for param.*/\1/p'
}
ok "awk 'BEGIN { exit !(sqrt (($(memory --bf16) / $(memory) - 18 / 16) ^ 2) < 0.06) }'" \
    "18 bytes a parameter against 16 in float32"
ok "awk 'BEGIN { exit !(sqrt (($(memory --fp16) / $(memory) - 20 / 16) ^ 2) < 0.06) }'" \
    "20 with 16-bit gradients"

ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; exit; }

# ---- layouts: tp pp vpp dp and further arguments
train unclipped "${base[@]}" "${short[@]}" --bf16 --clip-grad 0
while read -r tp pp vpp dp more; do
    what="tp $tp pp $pp vpp $vpp dp $dp $more"
    read -ra args <<<"$more"
    many=(ranks_run $((tp * pp * dp)) "${base[@]}" "${short[@]}" --tensor-model-parallel-size "$tp"
          --pipeline-model-parallel-size "$pp" "${args[@]}")
    [ "$vpp" = 1 ] || many+=(--num-virtual-stages-per-pipeline-rank "$vpp")
    train n "${many[@]}" --bf16
    is "$status" 0 "$what"
    same_metrics n.json whole.json 1e-3 5e-3 "bfloat16 as on one rank"
    same_weights n.st whole.st 0.15 "weights" --skip-key-bias 4
    train again "${many[@]}" --bf16
    same_bits again n "the same bits again"
    train sharded "${many[@]}" --bf16 --use-distributed-optimizer --clip-grad 0
    train plain "${many[@]}" --bf16 --clip-grad 0
    ok "[ -s plain.st ] && cmp sharded.st plain.st" "distributed optimizer: the same bits"
    train overlap "${many[@]}" --bf16 --use-distributed-optimizer --clip-grad 0 \
        --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000
    ok "cmp overlap.st plain.st" "overlapped: the same bits"
    for type in "--bf16 --grad-reduce-in-bf16" "--fp16 --initial-loss-scale 4096"; do
        read -ra types <<<"$type"
        train plain "${many[@]}" "${types[@]}" --clip-grad 0 --save-gradients plain.grad
        is "$status" 0 "16-bit gradients: $type"
        same_metrics plain.json unclipped.json 1e-3 5e-3 "follow bfloat16 on one rank"
        same_weights plain.st unclipped.st 0.2 "weights" --skip-key-bias 4
        train sharded "${many[@]}" "${types[@]}" --clip-grad 0 --use-distributed-optimizer \
            --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000 \
            --save-gradients sharded.grad
        ok "[ -s plain.st ] && cmp sharded.st plain.st && cmp sharded.grad plain.grad" \
            "sharded, overlapped: the same bits"
    done
done <<'EOF'
2 1 1 1 --sequence-parallel
1 2 2 1
1 1 1 3
2 2 1 2
EOF

# ---- a rank's overflow is everybody's: in float16 gradients it comes at lower scales
for type in "1048576" "33554432 --accumulate-allreduce-grads-in-fp32"; do
    read -ra args <<<"--fp16 --initial-loss-scale $type"
    train one "${base[@]}" "${short[@]}" "${args[@]}"
    ok "[[ \"$(values one skipped)\" == true*false ]]" "$type: skipped: $(values one skipped)"
    train n ranks_run 4 "${base[@]}" "${short[@]}" "${args[@]}" \
        --tensor-model-parallel-size 2 --use-distributed-optimizer
    is "$(values n skipped):$(values n "loss scale")" \
        "$(values one skipped):$(values one "loss scale")" "four ranks skip what one rank skips"
    train n ranks_run 4 "${base[@]}" "${short[@]}" "${args[@]}" \
        --pipeline-model-parallel-size 2 --ddp-average-in-collective
    is "$status" 0 "averaged, in two stages"
    ok "[[ \"$(values n skipped)\" == true*false ]]" "skipped: $(values n skipped)"
done
train two ranks_run 2 "${base[@]}" "${short[@]}" --load ck16 --bf16 --pipeline-model-parallel-size 2 \
    --use-distributed-optimizer
is "$status" 0 "a checkpoint under another layout"
same_weights two.st whole.st 0.15 "weights" --skip-key-bias 4
done_testing

#!/bin/bash
# The precision-aware optimizer: runs follow one with float32 state, whatever the types and
# the layout; they are resumed bit for bit; checkpoints go from types to types.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 40
base=("${falling_run[@]}" --use-distributed-optimizer)
long=(--train-iters 30)
short=(--train-iters 8)
aware=(--bf16 --use-precision-aware-optimizer)

# types MAIN M V: arguments that say so.
types() {
    echo "--main-params-dtype $1 --exp-avg-dtype $2 --exp-avg-sq-dtype $3"
}

# ---- float32 state: the kernels are others, the numbers the same
train plain "${base[@]}" "${long[@]}" --bf16
train whole "${base[@]}" "${long[@]}" "${aware[@]}" --no-store-param-remainders
same_bits whole plain "whole float32 state: the same bits"
train same "${base[@]}" "${long[@]}" "${aware[@]}"
is "$status" 0 "remainders"
same_metrics same.json plain.json 2e-4 5e-3 "differ in ties alone"
same_weights same.st plain.st 0.06 "weights" --skip-key-bias 4
ok "! cmp -s same.st plain.st" "but there are ties"
train again env OMP_NUM_THREADS=3 "${base[@]}" "${long[@]}" "${aware[@]}"
same_bits again same "the same bits with three threads"

# ---- every type: how far it is from float32 state after 30 iterations.  fp8 second moments
# cannot follow those of small gradients beside large ones.
while read -r main m v loss norm weights; do
    # shellcheck disable=SC2046
    train x "${base[@]}" "${long[@]}" "${aware[@]}" $(types "$main" "$m" "$v")
    is "$status" 0 "main parameters $main, moments $m $v"
    same_metrics x.json plain.json "$loss" "$norm" "follow float32"
    same_weights x.st plain.st "$weights" "weights" --skip-key-bias 4
    ok "! cmp -s x.st same.st" "and are not it"
done <<'EOF'
fp32 bf16 fp32 3e-4 0.01 0.06
fp32 fp16 fp32 3e-4 0.01 0.06
fp32 fp8 fp32 2e-3 0.06 0.15
fp32 fp32 bf16 3e-4 0.01 0.1
fp32 fp32 fp16 3e-4 0.01 0.06
fp32 fp32 fp8 2e-3 0.1 0.8
fp32 bf16 bf16 3e-4 0.01 0.1
fp32 fp8 fp8 3e-3 0.15 0.8
fp16 fp32 fp32 2e-3 0.01 0.1
fp16 fp16 fp16 2e-3 0.01 0.1
EOF
# gradients in bfloat16: as without the precision-aware optimizer, which has them in float32
# again for the update
train reduced "${base[@]}" "${long[@]}" --bf16 --grad-reduce-in-bf16
train x "${base[@]}" "${long[@]}" "${aware[@]}" --main-grads-dtype bf16 --no-store-param-remainders
same_bits x reduced "bfloat16 main gradients: the same bits as reduced so"
ok "! cmp -s x.st plain.st" "not as in float32"
train x "${base[@]}" "${long[@]}" "${aware[@]}" --main-grads-dtype bf16
is "$status" 0 "and with remainders"
same_weights x.st reduced.st 0.06 "weights" --skip-key-bias 4
half=(--fp16 --initial-loss-scale 4096)
train half "${base[@]}" "${long[@]}" "${half[@]}"
# shellcheck disable=SC2046
train x "${base[@]}" "${long[@]}" "${half[@]}" --use-precision-aware-optimizer \
    $(types fp16 bf16 fp16)
is "$status" 0 "a float16 model"
same_metrics x.json half.json 2e-3 0.01 "follows float32"
same_weights x.st half.st 0.1 "weights" --skip-key-bias 4

# ---- resume: bit for bit; skipped iterations leave everything as it is
while IFS=: read -r name args; do
    read -ra words <<<"$args"
    rm -rf ck
    train all "${base[@]}" "${short[@]}" "${words[@]}"
    is "$status" 0 "$name"
    train part "${base[@]}" "${short[@]}" "${words[@]}" --exit-interval 5 --save ck
    train rest "${base[@]}" "${short[@]}" "${words[@]}" --load ck
    tail -n 3 all.json >tail.json
    ok "[ -s rest.json ] && cmp tail.json rest.json && cmp all.st rest.st" "resumed: same bits"
    rm -rf sync aside
    train part "${base[@]}" "${short[@]}" "${words[@]}" --save-interval 4 --save sync
    train part "${base[@]}" "${short[@]}" "${words[@]}" --save-interval 4 --save aside --async-save
    ok "cmp -i 64 sync/iter_0000004/shard_00000.bin aside/iter_0000004/shard_00000.bin" \
        "saved while it goes on: the same shard"
    train loaded "${base[@]}" --train-iters 0 "${words[@]}" --load-weights all.st
    ok "cmp loaded.st all.st" "weights come back as they are"
done <<EOF
remainders: ${aware[*]}
bfloat16: ${aware[*]} --main-grads-dtype bf16 $(types fp32 bf16 bf16)
fp8: ${aware[*]} $(types fp32 fp8 fp8)
float16: ${aware[*]} $(types fp16 fp16 fp16)
float8 weights: ${aware[*]} --fp8-param-gather $(types fp32 bf16 fp32)
float8 weights of float16: ${aware[*]} --fp8-param-gather $(types fp16 fp8 fp16)
mixed: --fp16 --initial-loss-scale 1e9 --use-precision-aware-optimizer $(types fp16 fp8 bf16)
EOF

# ---- checkpoints hold float32: from types to other types, to none, and back
rm -rf ck
# shellcheck disable=SC2046
train first "${base[@]}" --train-iters 4 --save ck "${aware[@]}" $(types fp32 bf16 bf16)
train whole "${base[@]}" "${short[@]}" --bf16
while read -r name args; do
    read -ra words <<<"$args"
    train other "${base[@]}" "${short[@]}" --load ck "${words[@]}"
    is "$status" 0 "goes on as $name"
    is "$(wc -l <other.json)" 4 "from iteration 4 on"
    same_weights other.st whole.st 0.2 "weights" --skip-key-bias 4
done <<EOF
bfloat16 --bf16
float32
remainders ${aware[*]}
fp8 ${aware[*]} $(types fp16 fp8 fp16)
float16 ${half[*]} --use-precision-aware-optimizer $(types fp16 fp16 fp16)
EOF
# types that have room for what is loaded save it as it was
rm -rf ck2
train moved "${base[@]}" --train-iters 4 --load ck --save ck2 "${aware[@]}"
is "$status" 0 "loaded with remainders, saved"
run megatron checkpoint inspect ck2
is "$status" 0 "a checkpoint" || diag "$err"
train back "${base[@]}" "${short[@]}" --load ck --bf16
train moved "${base[@]}" "${short[@]}" --load ck2 --bf16
same_bits moved back "nothing was lost on the way"

ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; exit; }

# ---- layouts: tp pp vpp dp and further arguments.  A tensor has one scale, however buckets and
# ranks cut it.
while read -r tp pp vpp dp more; do
    read -ra args <<<"$more"
    many=(ranks_run $((tp * pp * dp)) "${base[@]}" "${short[@]}" --tensor-model-parallel-size "$tp"
          --pipeline-model-parallel-size "$pp" "${args[@]}" "${aware[@]}")
    [ "$vpp" = 1 ] || many+=(--num-virtual-stages-per-pipeline-rank "$vpp")
    for what in "fp32 bf16 fp32" "fp16 fp8 bf16"; do
        # shellcheck disable=SC2046,SC2086
        train n "${many[@]}" $(types $what)
        is "$status" 0 "tp $tp pp $pp vpp $vpp dp $dp $more: $what"
        same_metrics n.json whole.json 4e-3 0.05 "as on one rank"
        same_weights n.st whole.st 0.3 "weights" --skip-key-bias 4
        # shellcheck disable=SC2046,SC2086
        train overlap "${many[@]}" $(types $what) --overlap-grad-reduce --overlap-param-gather \
            --ddp-bucket-size 2000
        ok "[ -s n.st ] && cmp overlap.st n.st" "overlapped: the same bits"
    done
    train two "${many[@]}" --load ck
    is "$status" 0 "a checkpoint of one rank"
    same_weights two.st whole.st 0.3 "weights" --skip-key-bias 4
done <<'EOF'
1 1 1 3 --main-grads-dtype bf16
2 1 1 2 --main-grads-dtype bf16 --sequence-parallel
1 2 1 2 --num-distributed-optimizer-instances 2
1 2 2 1 --fp8-param-gather
EOF

# ---- resume of several ranks
many=(ranks_run 3 "${base[@]}" "${short[@]}" "${aware[@]}" --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16
      --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000)
rm -rf ck
train all "${many[@]}"
train part "${many[@]}" --exit-interval 5 --save ck
train rest "${many[@]}" --load ck
ok "[ -s rest.json ] && cmp all.st rest.st" "three ranks resumed: the same bits"
train rest "${many[@]}" --load ck --ddp-bucket-size 1000
ok "[ -s rest.json ] && cmp all.st rest.st" "and with other buckets"
done_testing

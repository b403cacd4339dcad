#!/bin/bash
# The host touches no device memory: runs of all kinds on the guarded device, where that ends in
# SIGSEGV, have the bits of those on the CPU device.  What the guarded device catches is in
# tests/unit/device/device_guarded.c.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
unset MG_TEST_DEVICE

tokenized_text 20
one=(megatron train --num-layers 4 --hidden-size 20 --num-attention-heads 4 --kv-channels 7
     --ffn-hidden-size 28 --seq-length 8 --tokenizer-type ByteLevel
     --data-path text_text_document --split 80,20,0 --micro-batch-size 2
     --global-batch-size 8 --train-iters 3 --lr 2e-3 --eval-iters 0)

# both NAME TEXT COMMAND...: on the CPU device and on the guarded one.
devices=(guarded guarded-pages)
both() {
    local name=$1 text=$2 device=${devices[0]}
    shift 2
    devices=("${devices[1]}" "$device")
    train "$name" "$@"
    is "$status" 0 "$text"
    MG_TEST_DEVICE=$device train "$name.guarded" "$@"
    is "$status" 0 "on the device $device"
    same_bits "$name.guarded" "$name" "the same bits"
}

run env MG_TEST_DEVICE=abacus "${one[@]}"
is "$status" 1 "the variable counts"
like "$err" 'MG_TEST_DEVICE: there is no device "abacus", want auto or cuda or cpu' "and is told"

run "${one[@]}" --device abacus
is "$status" 2 "a device that no backend has"
like "$err" '--device: there is no device "abacus", want auto or cuda or cpu' "is refused with those that are"
run "${one[@]}" --device guarded
like "$err" '--device: there is no device "guarded", want auto or cuda or cpu' "and so is a device of tests"
run "${one[@]}" --device cpu:1
is "$status" 1 "a number that does not exist"
like "$err" 'device cpu: there is no number 1, want 0' "is refused"
run megatron plan check -- "${one[@]:2}" --device cpu:x
like "$err" "--device: device's number: \"x\" is not a whole number" "a plan reads the argument, too"

# ---- one rank
train cpu "${one[@]}" --device cpu:0
is "$status" 0 "a device by name and number"
[ ! -e "$MG_BUILDDIR/tests/lib/.libs/device_module.so" ] || {
    MG_TEST_DEVICE=module:1 MEGATRON_MODULE_DIR=$MG_BUILDDIR/tests/lib/.libs train module "${one[@]}"
    is "$status" 0 "a device in a module"
    same_bits module cpu "the same bits"
}
both fp32 "float32, with an evaluation and a checkpoint" \
    "${one[@]}" --eval-iters 1 --eval-interval 2 --save ck --save-interval 2
both resume "resumed" "${one[@]}" --train-iters 5 --lr-decay-iters 3 --load ck
both weights "from a file of weights" "${one[@]}" --load-weights fp32.st
both fp16 "float16 with a loss scale" \
    "${one[@]}" --fp16 --initial-loss-scale 65536 --async-save --save async --save-interval 1
both fp8 "float8 storage" \
    "${one[@]}" --bf16 --use-distributed-optimizer --fp8-param-gather --save fp8 --save-interval 3
both fp8-resume "resumed" "${one[@]}" --train-iters 5 --lr-decay-iters 3 --bf16 \
    --use-distributed-optimizer --fp8-param-gather --load fp8
both fp8-weights "evaluated alone" "${one[@]}" --bf16 --use-distributed-optimizer \
    --fp8-param-gather --load fp8 --skip-train --eval-iters 1
both small "an optimizer's state in fewer bytes" \
    "${one[@]}" --bf16 --use-distributed-optimizer --use-precision-aware-optimizer \
    --main-params-dtype fp16 --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16 --log-num-zeros-in-grad
both again "recomputed activations" "${one[@]}" --recompute-granularity selective \
    --recompute-modules core_attn layernorm mlp
experts=(--num-experts 4 --moe-ffn-hidden-size 12 --swiglu --disable-bias-linear
         --moe-router-score-function sigmoid --moe-router-enable-expert-bias
         --moe-router-load-balancing-type aux_loss seq_aux_loss global_aux_loss
         --moe-aux-loss-coeff 0.01 0.02 0.03 --moe-z-loss-coeff 0.01
         --moe-shared-expert-intermediate-size 8 --moe-shared-expert-gate)
both experts "experts, with an evaluation and a checkpoint" "${one[@]}" "${experts[@]}" \
    --moe-input-jitter-eps 0.1 --eval-iters 1 --eval-interval 2 --save experts --save-interval 2
both experts-resume "resumed" "${one[@]}" "${experts[@]}" --moe-input-jitter-eps 0.1 \
    --train-iters 5 --lr-decay-iters 3 --load experts
both dropped "experts that drop tokens" "${one[@]}" --num-experts 4 --moe-router-dtype fp64 \
    --disable-bias-linear --moe-expert-capacity-factor 0.5 --moe-pad-expert-input-to-capacity --moe-latent-size 8
both weighed "experts of weighted tokens" "${one[@]}" --num-experts 4 --moe-router-topk 1 \
    --moe-router-score-function sigmoid --moe-apply-probs-on-input --moe-router-dtype fp64

# ---- several ranks
mpi_available || { skip 1 "no MPI"; done_testing; }
both tp2 "tp 2 with sequence parallelism" mpi_run 2 "${one[@]}" \
    --tensor-model-parallel-size 2 --sequence-parallel
both split "tp 2 with recomputed layers whose inputs are split" mpi_run 2 "${one[@]}" \
    --tensor-model-parallel-size 2 --recompute-granularity full --recompute-method uniform \
    --recompute-num-layers 2 --distribute-saved-activations
both pp2 "pp 2 interleaved" mpi_run 2 "${one[@]}" --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1
both grouped "the same, with one call between two passes" mpi_run 2 "${one[@]}" \
    --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 \
    --no-overlap-p2p-communication
same_bits grouped pp2 "which changes no bit"
for how in p2p all_gather a2a; do
    both $how "cp 2, $how" mpi_run 2 "${one[@]}" --context-parallel-size 2 --cp-comm-type $how \
        --bf16 --eod-token-id 32 --reset-attention-mask
done
both levels "cp 4, a2a+p2p" mpi_run 4 "${one[@]}" --context-parallel-size 4 --bf16 \
    --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2
both dp4 "a distributed optimizer of two instances, overlapped" mpi_run 4 "${one[@]}" --bf16 \
    --use-distributed-optimizer --num-distributed-optimizer-instances 2 \
    --overlap-grad-reduce --overlap-param-gather --save dp4 --save-interval 2
small=(--moe-expert-rank-capacity-factor 0.4)
tp2=(--tensor-model-parallel-size 2 --sequence-parallel)
both a2a "experts, all-to-all in several rounds" mpi_run 4 "${one[@]}" "${experts[@]}" "${small[@]}" \
    "${tp2[@]}" --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 \
    --moe-token-dispatcher-type alltoall --moe-shared-expert-overlap
both gather "experts, all-gather in several rounds" mpi_run 4 "${one[@]}" "${experts[@]}" "${small[@]}" \
    "${tp2[@]}" --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --async-save \
    --save gather --save-interval 2
for kind in sinkhorn quantile_balancing; do
    both $kind "experts, $kind" mpi_run 2 "${one[@]}" --num-experts 4 --context-parallel-size 2 \
        --moe-router-load-balancing-type $kind --expert-model-parallel-size 2 --bf16
done

# ---- a data net that moves no host memory, beside a control net that does
apart=$MG_BUILDDIR/tests/lib/.libs/comm_apart.so
[ -e "$apart" ] || { skip 1 "comm_apart is not built (make check builds it)"; done_testing; }
mkdir modules
ln -s "$apart" "$MG_BUILDDIR/.libs"/{comm_mpi,boot_pmix}.so modules
export MEGATRON_MODULE_DIR=$PWD/modules
# nets NAME COMMAND...: the bits of the run NAME with two nets.
nets() {
    local name=$1
    shift
    MG_TEST_COMM=apart MG_TEST_DEVICE=guarded train "$name.nets" "$@"
    is "$status" 0 "two nets: $name" || diag "$err"
    same_bits "$name.nets" "$name" "the same bits"
}
nets tp2 mpi_run 2 "${one[@]}" --tensor-model-parallel-size 2 --sequence-parallel
nets pp2 mpi_run 2 "${one[@]}" --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1
nets p2p mpi_run 2 "${one[@]}" --context-parallel-size 2 --cp-comm-type p2p --bf16 \
    --eod-token-id 32 --reset-attention-mask
nets levels mpi_run 4 "${one[@]}" --context-parallel-size 4 --bf16 \
    --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2
nets dp4 mpi_run 4 "${one[@]}" --bf16 --use-distributed-optimizer \
    --num-distributed-optimizer-instances 2 --overlap-grad-reduce --overlap-param-gather
nets a2a mpi_run 4 "${one[@]}" "${experts[@]}" "${small[@]}" \
    "${tp2[@]}" --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 \
    --moe-token-dispatcher-type alltoall --moe-shared-expert-overlap
MG_TEST_COMM=apart run mpi_run 2 "${one[@]}" --tensor-model-parallel-size 2
ok "[ $status != 0 ]" "the data net refuses memory that is not of its device"
like "$err" "apart: 0x[0-9a-f]* is host memory" "and says so"

done_testing

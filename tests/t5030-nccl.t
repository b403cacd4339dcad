#!/bin/bash
# Communicators over NCCL, on the double of CUDA and NCCL: every call among several ranks, a run, and
# what is refused.  t5031 has the layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"

[ -e modules/comm_nccl.so ] && [ -e "$MG_BUILDDIR/tests/cuda/lib/libnccl.so.2" ] \
    || skip_all "NCCL is not there: ${MG_CUDA:-CUDA is off}"
[ -e modules/comm_ucx.so ] || skip_all "the module for UCX was not built"
rm -f modules/comm_mpi.so # MPI is not needed
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
[ -x "$ranks" ] || skip_all "$ranks is not built (make check builds it)"

# ---- every call
for n in 2 4; do
    run env MG_TEST_DEVICE=cuda MG_CUDA_DEVICES=$n megatron launch -n $n "$ranks"
    is "$status" 0 "$n ranks: every call is right" || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
    ok "[ $(grep -c '^ok\|: ok' <<<"$out") -gt 150 ]" "all checks were made"
    is "$err" "" "nothing is printed"
done

# ---- runs
tokenized_text 20
one=(megatron train --num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6
     --ffn-hidden-size 28 --seq-length 8 --tokenizer-type ByteLevel
     --data-path text_text_document --split 80,20,0 --micro-batch-size 2 --global-batch-size 4
     --train-iters 1 --lr 2e-3 --lr-decay-style constant --override-opt-param-scheduler
     --eval-iters 0)
run env MG_CUDA_DEVICES=2 megatron launch -n 2 "${one[@]}" --device cuda --distributed-backend nccl \
    --tensor-model-parallel-size 2
is "$status" 0 "two ranks train" || diag "$err"
ok "! grep -q 'change nothing here' <<<\"\$out\"" "--distributed-backend nccl is meant"

# ---- what is refused
refused() {
    local text=$1 words=$2
    shift 2
    run env MG_CUDA_DEVICES=2 "$@"
    ok "[ $status != 0 ]" "$text"
    like "$err" "$words" "is refused in one line"
}
refused "a transport for host memory" \
    "^megatron train: device cuda: 2 ranks cannot exchange the memory of GPUs through ucx: want the transport nccl" \
    megatron launch -n 2 "${one[@]}" --device cuda --distributed-backend ucx
rm modules/comm_nccl.so
refused "no module" "there is no .*/comm_nccl.so; GPUs talk through NCCL: configure --with-cuda" \
    megatron launch -n 2 "${one[@]}" --device cuda
run megatron launch -n 2 "${one[@]}" --train-iters 1 --distributed-backend nccl
is "$status" 0 "without GPUs --distributed-backend nccl"
like "$out" "change nothing here: --distributed-backend nccl .ranks talk through the default transport" \
    "means the default"
done_testing

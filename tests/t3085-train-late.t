#!/bin/bash
# A device whose streams run behind the host, as a GPU's do (tests/lib/device_late.c): runs have the
# bits of those on the CPU device, traces have the device's times, and a stall is told by what the
# device is at.  Grouped transfers end if the device has one queue for all streams.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/layouts.sh"
unset MG_TEST_DEVICE

libs=$MG_BUILDDIR/tests/lib/.libs
[ -e "$libs/device_late.so" ] || skip_all "device_late is not built (make check builds it)"
mkdir modules
for module in "$MG_BUILDDIR/.libs"/{comm_mpi,boot_pmix}.so "$libs"/{device_late,comm_apart}.so; do
    [ ! -e "$module" ] || ln -s "$module" modules
done
export MEGATRON_MODULE_DIR=$PWD/modules MG_LATE_US=20

tokenized_text 20
one=(megatron train --num-layers 4 --hidden-size 20 --num-attention-heads 4 --kv-channels 7
     --ffn-hidden-size 28 --seq-length 8 --tokenizer-type ByteLevel
     --data-path text_text_document --split 80,20,0 --micro-batch-size 2
     --global-batch-size 8 --train-iters 3 --lr 2e-3 --eval-iters 0)

# both NAME TEXT COMMAND...: on the CPU device and on the late one, where a data net of several
# ranks moves no host memory.
both() {
    local name=$1 text=$2
    shift 2
    train "$name" "$@"
    is "$status" 0 "$text"
    MG_TEST_COMM=apart MG_TEST_DEVICE=late train "$name.late" "$@"
    is "$status" 0 "on the device" || diag "$err"
    same_bits "$name.late" "$name" "the same bits"
}

both fp16 "one rank, float16, with saves aside" env MG_LATE_BARE=1 "${one[@]}" --fp16 --initial-loss-scale 65536 \
    --async-save --save async --save-interval 1 --eval-iters 1 --eval-interval 2
# A tensor of 2 MB goes to the device in parts, through 1.5 MiB of host memory
wide=("${one[@]}" --num-layers 1 --hidden-size 320 --ffn-hidden-size 1600 --train-iters 1 --save wide)
train wide "${wide[@]}"
is "$status" 0 "a large tensor is saved"
MG_TEST_DEVICE=late train back "${wide[@]}" --load wide
is "$status" 0 "and loaded on the device" || diag "$err"
ok "cmp back.st wide.st" "with the same bits"
run env MG_TEST_DEVICE=late MG_LATE_STUCK=adamw:2 "${one[@]}" --distributed-timeout-minutes 0.02
is "$status" 1 "a kernel that does not end"
is "$err" "megatron train: stream compute waited 1.2 s" "ends the run with one line"

run env MG_TEST_DEVICE=late MG_LATE_MIB=1 "${one[@]}" --ffn-hidden-size 2800
is "$status" 1 "a device with too little memory"
like "$err" "GiB are needed of the device .*--no-check-memory" "is refused by the plan"

mpi_available || { skip 1 "no MPI"; done_testing; exit; }
both pp2 "pp 2 interleaved" mpi_run 2 "${one[@]}" --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1
both grouped "the same, with one call between two passes" mpi_run 2 "${one[@]}" \
    --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1 \
    --no-overlap-p2p-communication
same_bits grouped pp2 "which changes no bit"
both dp4 "a distributed optimizer of two instances, overlapped" mpi_run 4 "${one[@]}" --bf16 \
    --use-distributed-optimizer --num-distributed-optimizer-instances 2 \
    --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 1000 --trace-file trace.json
both experts "experts" mpi_run 4 "${one[@]}" --num-experts 4 --moe-ffn-hidden-size 12 --swiglu \
    --disable-bias-linear --moe-shared-expert-intermediate-size 8 --moe-shared-expert-overlap \
    --moe-expert-rank-capacity-factor 0.4 --tensor-model-parallel-size 2 --sequence-parallel \
    --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 \
    --moe-token-dispatcher-type alltoall

# ---- times: a call begins after it was enqueued, and in the iteration that it is of
if command -v python3 >/dev/null; then
    for r in 0 3; do
        said=$(python3 - trace-$r.json <<'END2'
import json, sys
events = [e for e in json.load (open (sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
calls = [e for e in events if e["cat"] == "communication"]
its = [e for e in events if e["name"] == "iteration"]
passes = [e for e in events if e["name"] in ("forward-compute", "backward-compute")]
inner = [e for e in events if e["name"] == "optimizer-inner-step"]
end = lambda e: e["ts"] + e["dur"]
late = [e for e in calls if e["ts"] < e["args"]["enqueued"] - 1000]
kernels = min (e["dur"] for e in passes) # each has more than 20, and each of these takes 20 us
print (len (its), len (passes), len (calls) > 20, len (late), kernels > 400,
       all (any (i["ts"] - 1 <= p["ts"] and end (p) <= end (i) + 1 for i in its)
            for p in passes + inner))
END2
        )
        is "$said" "3 6 True 0 True True" "rank $r: intervals are the device's"
    done
else
    skip 2 "no python3"
fi

# ---- one queue for all streams, as CUDA may have: every call of a run ends, whatever the layout, if
# transfers are grouped
queue=("${one[@]}" --kv-channels 8 --hidden-size 24 --ffn-hidden-size 48 --eval-iters 1 --eval-interval 2)
# in_queue RANKS ARGUMENT...: the bits of the CPU device, with a call for each transfer there
in_queue() {
    local ranks=$1
    shift
    train plain mpi_run "$ranks" "${queue[@]}" "$@"
    is "$status" 0 "$*"
    MG_TEST_COMM=apart MG_TEST_DEVICE=late MG_LATE_ONE_QUEUE=1 \
        train queue mpi_run "$ranks" "${queue[@]}" "$@" --no-overlap-p2p-communication
    is "$status" 0 "in one queue" || diag "$err"
    same_bits queue plain "the same bits"
}
seed_draws
vpp="--num-virtual-stages-per-pipeline-rank"
mapfile -t layouts <<END2
4 --pipeline-model-parallel-size 4 --global-batch-size 10 --eval-global-batch-size 4
4 --pipeline-model-parallel-size 2 --context-parallel-size 2 $vpp 2
4 --pipeline-model-parallel-size 2 --num-experts 4 --expert-model-parallel-size 2 --moe-ffn-hidden-size 12 --moe-token-dispatcher-type alltoall --global-batch-size 12
4 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --sequence-parallel $vpp 2 --global-batch-size 6 --microbatch-group-size-per-virtual-pipeline-stage 3
2 --pipeline-model-parallel-size 2 $vpp 2 --cuda-graph-impl local --cuda-graph-warmup-steps 1
END2
some 1 "${layouts[@]}"
for layout in "${some[@]}"; do
    read -ra words <<<"$layout"
    in_queue "${words[@]}"
done
tps=(1 2) pps=(2 3 4) dps=(1 2)
draws=1
! long || draws=12
for ((i = 0; i < draws; i++)); do
    draw_sizes 8
    draw_optimizer
    stages=1
    ! coin || stages=2
    batch=$((2 * dp * (pp + RANDOM % 4)))
    ((stages == 1)) || batch=$((2 * dp * pp * (1 + RANDOM % 3)))
    in_queue $n --tensor-model-parallel-size $tp --pipeline-model-parallel-size $pp \
        --num-layers $((2 * pp)) $vpp $stages --global-batch-size $batch \
        "${optimizer[@]}" "${neutral[@]}"
done
MG_TEST_COMM=apart MG_TEST_DEVICE=late MG_LATE_ONE_QUEUE=1 run mpi_run 2 "${queue[@]}" \
    --pipeline-model-parallel-size 2 $vpp 2 --distributed-timeout-minutes 0.04
ok "[ $status != 0 ]" "a call for each transfer does not end"
like "$err" "(send to|receive from) [01] of [0-9]* float32 on pp" "and the transfer is named"

# ---- a rank whose device is stuck in a kernel is the one that the others wait for
stuck=("${one[@]}" --distributed-timeout-minutes 0.05)
MG_TEST_DEVICE=late run mpi_run_each 1 "${stuck[@]}" : 1 env MG_LATE_STUCK=adamw:2 "${stuck[@]}"
ok "[ $status != 0 ]" "the job fails"
said=$(sed -n '/^megatron train: /,$p' <<<"$err" | grep '^megatron train: \|^  rank')
like "$said" '^megatron train: rank 1 (on [^ ]* )?is waited for' "the rank is named"
like "$said" '  rank 0: in iteration 1, waiting in [a-z-]+ #[0-9]+ on [a-z-]+, for rank 1' \
    "what the other one waits in"
like "$said" '  rank 1: in iteration 1, running kernels \(stream compute\) after [a-z-]+ #[0-9]+' \
    "and that it runs kernels"
done_testing

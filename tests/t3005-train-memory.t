#!/bin/bash
# A steady step allocates nothing of ours: runs of 3 and of 13 iterations make the same
# allocations, caller by caller.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

counter=$MG_BUILDDIR/tests/lib/.libs/count-allocs.so
[ -e "$counter" ] || skip_all "$counter is not built (make check builds it)"
! ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san' || skip_all "a sanitizer counts already"

tokenized_text 20
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 2 --seq-length 16
      --tokenizer-type ByteLevel
      --micro-batch-size 2 --lr 1e-3)
data=(--data-path text_text_document --split 100,0,0)
batch=(--global-batch-size 16)

# allocations ITERATIONS COMMAND...: "CALLER COUNT" of all ranks together.
allocations() {
    local iterations=$1 rc=0
    shift
    rm -rf count.* aside
    MG_COUNT_ALLOCS=$TEST_DIR/count "${launch[@]}" env LD_PRELOAD="$counter" megatron train \
        "${args[@]}" "${data[@]}" "${batch[@]}" --train-iters "$iterations" "$@" >out.txt 2>err.txt || rc=$?
    [ $rc = 0 ] || diag "$(cat err.txt)"
    cat count.* | awk '{ n[$2] += $1 } END { for (k in n) print k, n[k] }' | sort
}

# where: names for what diff shows.
where() {
    local mark caller count
    while read -r mark caller count; do
        case $mark in
        [\<\>])
            echo "$mark $count $(addr2line -fse "${caller%+*}" "${caller#*+}" | tr '\n' ' ')"
        esac
    done
}

# steady TEXT [ARGUMENT...]
steady() {
    local text=$1
    shift
    allocations 3 "$@" >short
    allocations 13 "$@" >long
    ok "[ $(wc -l <short) -gt 40 ]" "$text: callers are seen: $(wc -l <short)"
    is "$(diff short long | where)" "" "$text: ten iterations more allocate nothing more"
}

evals=(--train-data-path text_text_document --valid-data-path text_text_document
       --test-data-path text_text_document --eval-interval 2 --eval-iters 2)
launch=(env OMP_NUM_THREADS=1)
steady "one rank"
data=()
steady "one rank that evaluates" "${evals[@]}" --calculate-per-token-loss
data=(--data-path text_text_document --split 100,0,0)
steady "one rank that saves aside" --save aside --async-save --bf16
launch=(env OMP_NUM_THREADS=2)
steady "one rank, two threads" --overlap-grad-reduce --ddp-bucket-size 5000
if ranks_available; then
    launch=(ranks_run 2)
    steady "tp 2" --tensor-model-parallel-size 2
    steady "tp 2 by sequence" --tensor-model-parallel-size 2 --sequence-parallel
    steady "pp 2" --pipeline-model-parallel-size 2
    steady "dp 2" --overlap-grad-reduce --ddp-bucket-size 5000
    steady "dp 2, sharded" --ddp-bucket-size 5000 --use-distributed-optimizer
    steady "dp 2, overlapped" --ddp-bucket-size 5000 --use-distributed-optimizer \
        --overlap-grad-reduce --overlap-param-gather
    steady "dp 2, overlapped, float8" --ddp-bucket-size 5000 --use-distributed-optimizer \
        --overlap-grad-reduce --overlap-param-gather --bf16 --fp8-param-gather
    steady "dp 2, averaged float16 gradients" --ddp-bucket-size 5000 --overlap-grad-reduce \
        --use-distributed-optimizer --fp16 --ddp-average-in-collective
    steady "dp 2, fewer bytes of state" --use-distributed-optimizer --bf16 \
        --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype fp8
    steady "pp 2 x 2" --pipeline-model-parallel-size 2 \
        --num-virtual-stages-per-pipeline-rank 2
    data=()
    steady "pp 2 x 2 that evaluates" --pipeline-model-parallel-size 2 \
        --num-virtual-stages-per-pipeline-rank 2 "${evals[@]}"
    data=(--data-path text_text_document --split 100,0,0)
    batch=(--step-batch-size-schedule "0:8 600:16")
    steady "a batch size that changes" --pipeline-model-parallel-size 2 \
        --num-virtual-stages-per-pipeline-rank 2
    batch=(--global-batch-size 16)
    launch=(ranks_run 4)
    steady "pp 4, with all that can be logged" --pipeline-model-parallel-size 4 \
        --metrics-file m.json --log-throughput --timing-log-level 2 --log-memory-interval 1
    mkdir runs # which allocates
    run megatron train "${args[@]}" "${data[@]}" --train-iters 0 --tensorboard-dir runs
    if ! grep -q "this build lacks" <<<"$err"; then
        data=() launch=(ranks_run 2)
        steady "event files" --tensorboard-dir runs --log-timers-to-tensorboard \
            --log-throughput --timing-log-level 2 --log-memory-to-tensorboard "${evals[@]}" \
            --log-validation-ppl-to-tensorboard --log-world-size-to-tensorboard
    else
        skip 2 "this build has no protobuf-c"
    fi
else
    skip 28 "neither UCX nor MPI"
fi
done_testing

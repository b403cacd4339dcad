#!/bin/bash
# Ranks that die or stop, on the double of CUDA and NCCL: the job ends soon, the report names the rank
# and what the others wait in, and no process calls CUDA or NCCL on its way out, but to ask what is
# done.  MG_LONG=1: at the start (while communicators are made, in their first calls, while ranks
# agree), in a step, in a save, at the end, killed and stopped each; otherwise four of them.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
. "$MG_SRCDIR/tests/lib/hurt.sh"
cuda_nccl
slow=$MG_BUILDDIR/tests/lib/.libs/slow-sync.so
tokenized_text 20
train=(megatron train --num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6
       --ffn-hidden-size 28 --seq-length 8 --tokenizer-type ByteLevel
       --data-path text_text_document --split 100,0,0 --micro-batch-size 1 --global-batch-size 4
       --lr 1e-3 --device cuda --tensor-model-parallel-size 2 --eval-iters 0)
export MG_CUDA_DEVICES=4 MG_CUDA_END=$TEST_DIR/calls

now() { date +%s%3N; }

# start RANK HURT ARGUMENT...: 4 ranks, of which one sends itself a signal (MG_NCCL_HURT) or, with
# HURT "fail ...", gets an error from a call (MG_NCCL_FAIL).
start() {
    local rank=$1 hurt=$2
    shift 2
    : >log
    rm -f calls said
    began=$(now)
    # shellcheck disable=SC2016
    MG_HURT=$hurt megatron launch -n 4 sh -c '
        case $RANK$MG_HURT in
            '"$rank"'fail*) export MG_NCCL_FAIL="${MG_HURT#fail }" ;;
            '"$rank"'*) export MG_NCCL_HURT="$MG_HURT" ;;
        esac
        exec "$@"' sh \
        "${train[@]}" "$@" >log 2>said &
    job=$!
}

# ends NAME WITHIN-MS: leaves $report.  The job has been hurt at $hurt_at.
ends() {
    local took
    status=0
    wait $job || status=$?
    took=$(($(now) - hurt_at))
    report=$(sed -n '/^megatron train: /,$p' said | grep '^megatron train: \|^  rank')
    ok "[ $status != 0 ]" "$1: the job fails: $status"
    ok "[ $took -lt $(patience "$2") ]" "$1: within $took ms"
}

# silent NAME: nothing but questions on the way out
silent() {
    is "$(grep -v 'cuda\(Stream\|Event\)Query$' calls 2>/dev/null | sort | uniq -c)" "" \
        "$1: and no process calls CUDA or NCCL on its way out"
}

# at_call NAME RANK SIGNAL CALL WITHIN-MS ARGUMENT...: leaves $came, the ms until the signal
at_call() {
    local name=$1 within=$5
    start "$2" "$3 $4" "${@:6}"
    wait_until 'grep -q "^nccl double: signal" said' $job
    hurt_at=$(sed -n 's/^nccl double: signal.* at \([0-9]*\) ms$/\1/p' said)
    : "${hurt_at:=$(now)}"
    came=$((hurt_at - began))
    ends "$name" "$within"
}

# named RANK WHAT [OTHERS]: the report names the rank, and says what the others were in.
named() {
    like "$report" "^megatron train: rank $1 on [^ ]* $2" "rank $1 is named" || diag "$(cat said)"
    like "$report" "  ranks? [-0-9,]+: ${3:-in [a-z]}" "and what others were in" || diag "$(cat said)"
}

# stall: a timeout longer than ranks can be apart when they start, by the last run.
stall() {
    local ms=$((came * 2 + 2000))
    timeout=(--distributed-timeout-minutes "$(awk "BEGIN { print $ms / 60000 }")")
    soon=$((ms + 5000))
    apart=$(((ms + 999) / 1000))
}

stopped="does not answer: it is stopped, or its node is lost; rank [0-9]: .* waited "
waiting="in iteration [0-9]*, waiting in all-reduce #[0-9]* on tp, for rank"
creating="in starting, waiting in creation of the communicator"
ending="in the end of the job, waiting in end of the communicator"
forever=(--train-iters 100000)

at_call "killed in a step" 1 9 "40 ncclAllReduce" 5000 "${forever[@]}"
named 1 died "$waiting 1"
silent "killed in a step"
stall
at_call "stopped in a step" 3 19 "40 ncclAllReduce" $soon "${forever[@]}" "${timeout[@]}"
named 3 "$stopped" "$waiting 3"
silent "stopped in a step"
at_call "stopped at the end" 3 19 "1 ncclCommFinalize" $soon --train-iters 2 "${timeout[@]}"
named 3 "$stopped" "$ending"

# A first call of a communicator fails in one rank.
start 1 "fail 1 ncclAllReduce" "${forever[@]}"
hurt_at=$(now)
wait_until 'grep -q "^megatron train: " said' $job
ends "a first call that fails" 8000
like "$report" "rank 1: communicator [a-z-]+: first all-reduce: NCCL: .*internal error" \
    "a first call that fails: rank, communicator and call are named" || diag "$(cat said)"
silent "a first call that fails"
long || done_testing

# ---- the start
hurt_rank "while the others agree" $apart STOP agreement 2 \
    env MG_TEST_DEVICE=cuda MG_CUDA_DEVICES=4 megatron launch -n 4
hurt_rank "while the others agree" $apart KILL agreement 0 \
    env MG_TEST_DEVICE=cuda MG_CUDA_DEVICES=4 megatron launch -n 4
at_call "killed at the start" 2 9 "2 ncclCommInitRankConfig" 5000 "${forever[@]}"
named 2 died "$creating"
silent "killed at the start"
at_call "killed at the start, rank 0" 0 9 "1 ncclCommInitRankConfig" 8000 "${forever[@]}"
named 0 died
silent "killed at the start, rank 0"
# Every other rank waits for this one in a creation, or for one that does.
at_call "stopped at the start" 3 19 "1 ncclCommInitRankConfig" $soon "${forever[@]}" "${timeout[@]}"
named 3 "$stopped" "$creating"
silent "stopped at the start"
at_call "stopped at the start, rank 0" 0 19 "1 ncclCommInitRankConfig" $soon "${forever[@]}" \
    "${timeout[@]}"
named 0 "$stopped" "$creating"
at_call "killed in a first call" 1 9 "1 ncclAllReduce" 5000 "${forever[@]}"
named 1 died
at_call "stopped in a first call" 1 19 "1 ncclAllReduce" $soon "${forever[@]}" "${timeout[@]}"
named 1 "$stopped" "in starting, (waiting in|running kernels) "
like "$report" "communicator [a-z-]+: first all-reduce: .* waited " "with communicator and call"
silent "stopped in a first call"

# ---- steps
at_call "stopped in a step, rank 0" 0 19 "40 ncclAllReduce" $soon "${forever[@]}" "${timeout[@]}"
named 0 "$stopped" "$waiting 0"
at_call "killed in a group" 3 9 "30 ncclGroupEnd" 5000 "${forever[@]}" \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 2
named 3 died
silent "killed in a group"

# ---- the end
at_call "killed at the end" 1 9 "1 ncclCommFinalize" 5000 --train-iters 2
named 1 died
at_call "killed in the last end" 0 9 "2 ncclCommDestroy" 5000 --train-iters 2
at_call "stopped at the end, rank 0" 0 19 "1 ncclCommFinalize" $soon --train-iters 2 "${timeout[@]}"
named 0 "$stopped" "$ending"
at_call "stopped in the last end" 1 19 "2 ncclCommDestroy" $soon --train-iters 2 "${timeout[@]}"
named 1 "does not answer: it is stopped, or its node is lost; rank [0-9]: the end of the other ranks" \
    "left"
for place in meeting end; do
    for rank in 0 2; do
        hurt_rank "the end" $apart STOP $place $rank \
            env MG_TEST_DEVICE=cuda MG_CUDA_DEVICES=4 megatron launch -n 4
    done
done

# ---- saves
# in_save NAME SIGNAL WITHIN-MS ARGUMENT...: rank 1 while a thread writes to a disk that does not answer
in_save() {
    local name=$1 signal=$2 within=$3
    LD_PRELOAD=$slow MG_SLOW_SYNC=100 MG_SLOW_SYNC_UNTIL=$TEST_DIR/never \
        start 1 "0 0 none" "${forever[@]}" --save "save-$signal" --save-interval 2 --async-save "${@:4}"
    wait_until 'grep -q "^saving " log' $job
    for pid in $(ranks_here); do
        ! tr '\0' '\n' <"/proc/$pid/environ" | grep -qx RANK=1 || kill "-$signal" "$pid"
    done
    hurt_at=$(now)
    ends "$name" "$within"
}
if [ -e "$slow" ]; then
    in_save "killed in a save" KILL 5000
    named 1 died
    silent "killed in a save"
    in_save "stopped in a save" STOP $soon "${timeout[@]}"
    named 1 "$stopped"
    silent "stopped in a save"
else
    skip 8 "$slow is not built"
fi
done_testing

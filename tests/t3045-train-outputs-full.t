#!/bin/bash
# Metrics, traces and event files that cannot be written: the run ends after a save, says why in
# one line, and goes on from there.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

[ -w /dev/full ] || skip_all "/dev/full is not there"

make_batches b.st
base=(megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --vocab-size 256
      --batches b.st --lr 1e-3)
ln -s /dev/full m.json

# ended NAME REASON: the last run, of NAME, ended by itself, saved, and told REASON alone.
ended() {
    local last
    is "$status" 1 "$1: status 1"
    last=$(cat "$1/latest_checkpointed_iteration.txt")
    like "$err" "^megatron train: $2; the run ends after iteration $last of 100000, which is saved: \
to go on, give it another output and --load $1\$" "one line says why, and what to do"
    is "$(grep -c . <<<"$err")" 1 "and no other line"
}

run "${base[@]}" --train-iters 100000 --save metrics --metrics-file m.json
ended metrics "m.json: cannot write metrics: No space left on device"
run "${base[@]}" --train-iters 100000 --load metrics --save metrics --exit-interval 9
like "$out" "going on from iteration 2 in metrics" "and the run can go on"

run "${base[@]}" --train-iters 1 --save end --metrics-file m.json
is "$status" 1 "the last iteration's: status 1"
like "$err" "^megatron train: m.json: .*; the run ends after iteration 1 of 1, which is saved in end\$" \
    "one line says why"
run "${base[@]}" --train-iters 3 --metrics-file m.json
like "$err" "m.json: .*; the run ends after iteration 2 of 3, nothing is saved without --save\$" \
    "nothing to save in"

# A small file system of its own, where that can be had without rights: for event files, and for a
# trace.
cat >small <<'END'
#!/bin/bash
mount -t tmpfs -o size=$1k none small.d && shift && exec "$@"
END
chmod +x small
mkdir small.d
if ! unshare -rm ./small 4 true 2>/dev/null; then
    skip 6 "no file system can be mounted"
else
    run unshare -rm ./small 4 "${base[@]}" --train-iters 100000 --save trace \
        --trace-file small.d/t.json --trace-iterations 2-90
    ended trace "--trace-file small.d/t-0.json: it cannot be written: No space left on device"
    run unshare -rm ./small 100 "${base[@]}" --train-iters 100000 --save events \
        --tensorboard-dir small.d
    if grep -q protobuf-c <<<"$err"; then
        skip 3 "built without protobuf-c"
    else
        ended events "small.d/events.out.tfevents.*: cannot write events: No space left on device"
    fi
fi

# ---- several ranks, of which the last one writes metrics
if ! mpi_available; then
    skip 4 "no MPI"
    done_testing
fi
run mpi_run 2 "${base[@]}" --tensor-model-parallel-size 2 --train-iters 100000 --save two \
    --metrics-file m.json
is "$status" 1 "2 ranks: status 1"
like "$(grep -a ^megatron <<<"$err")" "^megatron train: rank 1: m.json: .*; the run ends after iteration 2 of 100000, which is saved" \
    "rank 1 says why"
is "$(grep -ac ^megatron <<<"$err")" 1 "in one line"
is "$(cat two/latest_checkpointed_iteration.txt)" 2 "there is a checkpoint"
done_testing

#!/bin/bash
# Save and resume: bit for bit on the same layout, and refusals of what does not fit.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
args=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 2 --global-batch-size 8 --train-iters 8 --lr 1e-3
      --lr-decay-style cosine --lr-warmup-iters 2)

# resume PREFIX COMMAND...: a run in one go, and one that leaves after 3 and 6 iterations.
resume() {
    local prefix=$1 launch=("${@:2}")
    run "${launch[@]}" megatron train "${args[@]}" --save-weights "$prefix.whole" \
        --metrics-file "$prefix.whole.json"
    is "$status" 0 "$prefix: in one go" || diag "$err"
    for _ in 1 2 3; do
        run "${launch[@]}" megatron train "${args[@]}" --exit-interval 3 \
            --save "$prefix.ckpt" --load "$prefix.ckpt" --save-weights "$prefix.parts" \
            --metrics-file "$prefix.parts.json"
        is "$status" 0 "$prefix: a part" || diag "$err"
    done
    ok "cmp $prefix.whole $prefix.parts" "$prefix: the same weights, bit for bit"
    same_metrics "$prefix.parts.json" "$prefix.whole.json" 0 0 "$prefix: the same metrics"
    is "$(cat "$prefix.ckpt/latest_checkpointed_iteration.txt")" 8 "$prefix: latest is 8"
}

# kept DIR: numbers of the checkpoints there.
kept() {
    (cd "$1" && ls -d iter_*) | sed 's/iter_0*//' | tr '\n' ' '
}

resume one env
for case in "7 8 :--keep-last-n-checkpoints 2" "3 6 8 :--save-retain-interval 3" \
    "4 7 8 :--save-retain-interval 4 --keep-last-n-checkpoints 2" "8 :--keep-last-n-checkpoints 1"; do
    rm -rf keep
    # shellcheck disable=SC2086
    run megatron train "${args[@]}" --save keep --save-interval 1 ${case#*:}
    is "$(kept keep)" "${case%%:*}" "${case#*:}" || diag "$out$err"
done
mkdir old && cp -r one.ckpt/iter_0000003 old
other=(--override-opt-param-scheduler)
run megatron train "${args[@]}" "${other[@]}" --load old --save old --save-interval 100 \
    --train-iters 4 --keep-last-n-checkpoints 1
is "$(kept old)" "4 " "what a run began with goes when there is a newer one" || diag "$out$err"
rm -rf old && mkdir old && cp -r one.ckpt/iter_0000003 old
run megatron train "${args[@]}" "${other[@]}" --load old --save new --train-iters 4 \
    --keep-last-n-checkpoints 1
is "$(kept old)$(kept new)" "3 4 " "but not from another directory" || diag "$out$err"
head -c 500 text.txt >short.txt
run megatron data tokenize --input short.txt --output-prefix short --append-eod
short=(--data-path short_text_document --lr-warmup-iters 0)
run megatron train "${args[@]}" "${short[@]}" --global-batch-size 100 --train-iters 1 --save large
run megatron train "${args[@]}" "${short[@]}" "${other[@]}" --global-batch-size 2 --train-iters 5 \
    --load large
is "$status" 1 "smaller batches whose data are used up do not begin"
like "$err" "megatron train: 100 samples are consumed, 108 will be by iteration 5, but .* [0-9]*:" \
    "and the line says why"
is "$(grep -c ' iteration  *[0-9]*/' <<<"$out")" 0 "before any iteration"
run megatron train "${args[@]}" --hidden-size 64 --load one.ckpt
is "$status" 1 "another model does not load"
like "$err" "megatron train: .*(shape|rows|64)" "and the line says why"
is "$(wc -l <<<"$err")" 1 "in one line"

# not_loaded TEXT REGEX ARGUMENT...
not_loaded() {
    run megatron train "${args[@]}" "${@:3}"
    is "$status" 1 "$1 does not load"
    like "$err" "^megatron train: $2" "and the line says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
    is "$(grep -c ' iteration  *[0-9]*/' <<<"$out")" 0 "before any iteration"
}
not_loaded "a model of fewer layers" \
    "checkpoint 8 not loaded: .*36 of its 84 tensors are not of this model: model.decoder.layers.1" \
    --num-layers 1 --load one.ckpt
run megatron train "${args[@]}" --exit-interval 3 --untie-embeddings-and-output-weights --save untied
not_loaded "a model that is tied" \
    "checkpoint 3 not loaded: .*not of this model: .*model.output_layer.weight" --load untied
not_loaded "a model of more heads" \
    "checkpoint 8 in one.ckpt: it is of a model with 2 attention heads, want 4" \
    --num-attention-heads 4 --load one.ckpt

# ---- what is not complete
cp -r one.ckpt bad
truncate -s -1 bad/iter_0000008/shard_00000.bin
run megatron train "${args[@]}" "${other[@]}" --load bad --train-iters 7
is "$status" 0 "an older checkpoint is taken in place of one that is not complete" || diag "$err"
like "$out" "a checkpoint is passed over: bad/iter_0000008: shard_00000.bin has .*bytes, want .*
going on from iteration 6 in bad" "and it is told why"
rm -r bad/iter_000000[36]
not_loaded "a directory where none is complete" \
    "bad: no complete checkpoint there: bad/iter_0000008: shard_00000.bin has" --load bad --save bad
is "$(kept bad)" "8 " "and it stays as it is"
rm -r bad/iter_0000008
not_loaded "one where what was saved is gone" \
    "bad: no complete checkpoint there: bad: no checkpoint of iteration 8" --load bad
rm bad/latest_checkpointed_iteration.txt
run megatron train "${args[@]}" --load bad --save bad --train-iters 3
like "$out" "no checkpoint in bad: starting from the beginning" "an empty one is a beginning"

if ranks_available; then
    resume two ranks_run 2
    args+=(--tensor-model-parallel-size 2)
    resume tp2 ranks_run 2

    # ---- what one rank alone cannot do ends all of them at once
    run ranks_run 3 timeout 120 "$MG_BUILDDIR/tests/unit/train/state.t" state.ckpt
    is "$status" 0 "state that one rank cannot store" || diag "$out" "$err"
    is "$(grep -c '^ok' <<<"$out")" 33 "all checks were made"
    mkdir here && run megatron train "${args[@]}" --tensor-model-parallel-size 1 \
        --train-iters 0 --lr-warmup-iters 0 --save-weights here/w.st
    is "$status" 0 "weights are written where one rank reads them" || diag "$err"
    begin=$SECONDS
    # shellcheck disable=SC2016
    run ranks_run 2 sh -c '[ "${RANK:-$OMPI_COMM_WORLD_RANK}" = 1 ] || cd here; exec "$@"' sh \
        megatron train "${args[@]/#text_text/$PWD/text_text}" --load-weights w.st \
        --use-distributed-optimizer --bf16
    is "$status" 1 "weights that one rank cannot read"
    is "$(grep -a '^megatron train' <<<"$err")" \
        "megatron train: rank 1: w.st: cannot open: No such file or directory" "one line"
    ok "[ $((SECONDS - begin)) -lt 120 ]" "in $((SECONDS - begin)) s"
else
    skip 18 "neither UCX nor MPI"
fi
done_testing

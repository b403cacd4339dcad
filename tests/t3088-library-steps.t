#!/bin/bash
# Runs that a program takes step by step through <megatron/train.h>: on files as "megatron train", on
# samples of its own; evaluation, stopping, resuming on another layout; parameters by name.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

command -v cc >/dev/null || skip_all "cc is not installed"
! ldd "$MG_BUILDDIR/.libs/libmegatron.so" | grep -q 'lib[a-z]*san' \
    || skip_all "the library is built with sanitizers"
run cc -Wall -Werror -o steps "$MG_SRCDIR/tests/lib/library-steps.c" \
    -I"$MG_SRCDIR/libcore/include" -I"$MG_BUILDDIR/libcore/include" \
    -L"$MG_BUILDDIR/.libs" -lmegatron
is "$status:$err" "0:" "the program is built"
export LD_LIBRARY_PATH=$MG_BUILDDIR/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
      --micro-batch-size 2 --global-batch-size 8 --lr 1e-2 --train-iters 6 --eval-iters 2)
own=("${args[@]}" --vocab-size 61 --eval-interval 100)

# steps MODE RANKS ARGUMENT...
steps() {
    local mode=$1 ranks=$2
    shift 2
    export MODE=$mode
    if [ "$ranks" = 1 ]; then
        run ./steps "$@"
    else
        run ranks_run "$ranks" ./steps "$@"
    fi
}

# ---- data in files: the same run as "megatron train" takes
tokenized_text 20
on_files=("${args[@]}" --tokenizer-type ByteLevel --data-path text_text_document --eval-interval 3)
train whole megatron train "${on_files[@]}" --iterations-to-skip 2
export MODE=files
train files ./steps "${on_files[@]}" --iterations-to-skip 2
same_bits whole files "step by step, data in files give the bits of megatron train"
is "$(grep -c '^step' <<<"$out")" 5 "each step is told, but for one that is left out"

# ---- samples of the program
steps steps 1 "${own[@]}" --save-weights one.st
is "$status:$err" "0:" "samples of the program train"
one=$out
is "$(grep -c '^step' <<<"$one"):$(grep -c '^evaluation .* of 16$' <<<"$one")" "6:3" \
    "all steps are taken, and evaluated in between"
first=$(sed -n 's/^step 1: loss //p' <<<"$one") last=$(sed -n 's/^step 6: loss //p' <<<"$one")
ok "awk 'BEGIN { exit !($last < $first - 0.2) }'" "the loss falls: $first, $last"
steps drop 1 "${own[@]}" --save dropped --save-interval 2 --async-save
is "$status" 0 "a run that nobody ends"
is "$(cat dropped/latest_checkpointed_iteration.txt)" 2 "completes its checkpoint"
steps early 1 "${own[@]}" --save early --save-interval 100
is "$status:$(cat early/latest_checkpointed_iteration.txt)" "0:2" "one that ends early saves"
steps names 1 "${own[@]}"
NAMES=$out
export NAMES

if ! ranks_available; then
    skip 1 "neither UCX nor MPI"
    done_testing
    exit
fi

# ---- layouts
tp2pp2=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
steps stop 4 "${own[@]}" "${tp2pp2[@]}" --save saved --load saved
is "$(grep -c '^step' <<<"$out")" 3 "a rank that asks to stop ends the run after this step" || diag "$err"
ok "[ $status = 75 ]" "with the status of a run that was stopped"
before=$out
steps samples 2 "${own[@]}" --pipeline-model-parallel-size 2 --save saved --load saved
is "$status" 0 "another layout goes on" || diag "$err"
is "$(printf '%s\n%s\n' "$before" "$out")" "$(grep '^step' <<<"$one")" \
    "with the losses of one rank from the beginning"
steps names 4 "${own[@]}" "${tp2pp2[@]}"
is "$(sort -u <<<"$out")" "$(sort <<<"$NAMES")" "ranks together have the names of one"

# ---- parameters
# undisturbed RANKS TEXT ARGUMENT...: parameters that are changed and put back change nothing.
undisturbed() {
    local ranks=$1 text=$2
    shift 2
    steps samples "$ranks" "$@" --train-iters 3 --save-weights plain.st
    steps parts "$ranks" "$@" --train-iters 3 --save-weights parts.st
    is "$status" 0 "parts and wholes agree: $text" || diag "$err"
    ok "cmp plain.st parts.st" "and the run goes on as if nothing had been changed"
}
undisturbed 4 "tp 2 x pp 2, tied embeddings, bfloat16, sharded" "${own[@]}" "${tp2pp2[@]}" --bf16 \
    --use-distributed-optimizer
export FILE=$TEST_DIR/dump
steps dump 2 "${own[@]}" --tensor-model-parallel-size 2 --save-weights dump.st
is "$status" 0 "all parameters are read" || diag "$err"
steps fill 2 "${own[@]}" --seed 77 --pipeline-model-parallel-size 2 --bf16 --save-weights fill.st
is "$status" 0 "and written on another layout" || diag "$err"
run "$WEIGHTS_DIFF" fill.st dump.st 0
is "$status" 0 "files have them" || diag "$out$err"

experts=("${own[@]}" --num-layers 2 --swiglu --normalization RMSNorm --group-query-attention
         --num-query-groups 2 --disable-bias-linear --untie-embeddings-and-output-weights
         --num-experts 4 --moe-ffn-hidden-size 24 --moe-router-topk 2
         --moe-router-enable-expert-bias --moe-router-score-function sigmoid
         --tensor-model-parallel-size 2 --sequence-parallel)
steps names 2 "${experts[@]}"
NAMES=$(sort -u <<<"$out")
like "$NAMES" "experts.*linear_fc1" "experts have names"
like "$NAMES" "expert_bias" "routers have"
undisturbed 2 "tp 2 x ep 2, float8, sharded" "${experts[@]}" --expert-model-parallel-size 2 \
    --expert-tensor-parallel-size 1 --bf16 --fp8-param-gather --use-distributed-optimizer
done_testing

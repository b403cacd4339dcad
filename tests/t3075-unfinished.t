#!/bin/bash
# Commands that a signal ends leave nothing unfinished, and the old output as it was; after SIGKILL
# the same command runs again.  (t3020-data.t has those that stop at a boundary of their work.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

lib=$MG_BUILDDIR/tests/lib/.libs/signal-at.so
[ -s "$lib" ] || skip_all "the preloaded library is not built"
! ldd "$(command -v megatron)" | grep -q 'lib[a-z]*san' \
    || skip_all "a program with sanitizers takes no other library before theirs"

make_text a.txt 4
megatron data tokenize --input a.txt --output-prefix a >/dev/null
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16
       --tokenizer-type ByteLevel --micro-batch-size 2 --data-path a_text_document --lr 1e-2
       --split 100,0,0 --eval-iters 0)
run megatron train "${model[@]}" --train-iters 1 --save ck --save-weights w.st
is "$status" 0 "a model" || diag "$err"

# found: what the folder 'o' holds, old output and the directories that it stands in aside.
found() {
    find o -mindepth 1 ! -name old ! -path o/dir ! -path o/ck | sort | paste -sd ' '
}

# unfinished WHERE COMMAND...: one of $signals, and SIGKILL, comes where a file with WHERE in its path is synced.
unfinished() {
    local where=$1 what="${*:2:3}" signal
    shift
    for signal in "${signals[@]}" KILL; do
        rm -rf o && mkdir o && echo old >o/old
        run env MG_SIGNAL_AT="$where" MG_SIGNAL="$(kill -l $signal)" LD_PRELOAD="$lib" "$@"
        is "$status" $((128 + $(kill -l $signal))) "$what: SIG$signal ends it" || diag "$err"
        if [ $signal != KILL ]; then
            is "$(found)$(cat o/old)" "old" "and leaves nothing"
        else
            ok "[ -n '$(found)' ] && [ \$(cat o/old) = old ]" "and leaves something"
        fi
    done
    run "$@"
    is "$status" 0 "which keeps no later one from its work" || diag "$err"
    is "$(find o -name '*.tmp-*')" "" "that removes it"
}

signals=(HUP INT TERM)
unfinished .tmp- megatron checkpoint convert ck --output o/old
signals=(TERM)
unfinished .tmp- megatron checkpoint convert ck --output o/w.st --format hf-gpt2 \
    --num-attention-heads 2
unfinished model.safetensors.tmp- megatron checkpoint convert ck --output o/dir --format hf
shards=(megatron checkpoint convert ck --output o/dir --format hf --max-shard-size 4KB)
for place in model-00003-of- index.json.tmp- config.json.tmp-; do
    unfinished $place "${shards[@]}"
done
run "${shards[@]}"
is "$status" 1 "a whole model is not replaced"
ok "[ $(ls o/dir/model-* | wc -l) -ge 3 ]" "of several files"
for place in shard_ manifest.json; do
    unfinished $place megatron checkpoint convert w.st --output o/ck --format checkpoint
done
convert=(megatron checkpoint convert w.st --output o/ck --format checkpoint)
for signal in TERM KILL; do
    rm -rf o && mkdir o
    run env MG_SIGNAL_AT=latest MG_SIGNAL="$(kill -l $signal)" LD_PRELOAD="$lib" "${convert[@]}"
    is "$status" $((128 + $(kill -l $signal))) "SIG$signal before the latest file is written"
    run "${convert[@]}"
    is "$status" 0 "keeps no later conversion from its work" || diag "$err"
    is "$(find o -name '*.*-*')$(cat o/ck/latest*)" 0 "that removes what is left"
done
run "${convert[@]}"
is "$status" 1 "a whole checkpoint is not replaced"
unfinished .tmp- megatron data train-tokenizer a.txt --vocab-size 260 --output o/tokenizer.json
unfinished .tmp- megatron plan schedule --pp 2 --num-microbatches 4 --svg o/plan.svg
unfinished .tmp- megatron data index a_text_document --seq-length 16 --num-samples 20 \
    --data-cache-path o
unfinished .tmp- megatron train "${model[@]}" --train-iters 1 --save-weights o/w.st \
    --exit-signal SIGUSR1
unfinished shard_ megatron train "${model[@]}" --train-iters 1 --save o/ck --exit-signal SIGUSR1

# A signal that is ignored stays ignored.
rm -rf o && mkdir o
run env MG_SIGNAL_AT=.tmp- MG_SIGNAL=1 LD_PRELOAD="$lib" nohup \
    megatron checkpoint convert ck --output o/w.st
is "$status $(found)" "0 o/w.st" "nohup"
done_testing

#!/bin/bash
# --async-save: the same checkpoints and the same bits as without; training goes on while they
# are written; stops wait for them; one that fails is told in one line, the older ones stay.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

slow=$MG_BUILDDIR/tests/lib/.libs/slow-sync.so
tokenized_text 20
args=(--num-layers 2 --hidden-size 24 --num-attention-heads 2 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --lr-decay-style constant)

# train NAME COMMAND...: into the directory NAME.
train() {
    local name=$1
    shift
    run "$@" --save "$name" --save-weights "$name.st" --metrics-file "$name.raw"
    is "$status" 0 "$name" || diag "$err"
    sed 's/, "elapsed.*/}/' "$name.raw" >"$name.json"
}

# what a checkpoint holds, the identity of its save left out
manifest() {
    sed 's/"save":"[0-9a-f]*"//; s/"checksum":"[0-9a-f]*"}$//' "$1/manifest.json"
}

# same_checkpoints A B TEXT
same_checkpoints() {
    local file other n=0 bad=
    for file in "$1"/iter_*/shard_*.bin; do
        other=$2/${file#*/}
        n=$((n + 1))
        cmp -s -i 64 "$file" "$other" || bad+="$file "
    done
    for file in "$1"/iter_*; do
        [ "$(manifest "$file")" = "$(manifest "$2/${file#*/}")" ] || bad+="$file/manifest.json "
    done
    is "$(ls "$1")" "$(ls "$2")" "$3: as many checkpoints"
    ok "[ $n -gt 0 ] && [ -z '$bad' ]" "$3: $n shards, the same bytes $bad"
    ok "[ -s $1.json ] && cmp $1.json $2.json && cmp $1.st $2.st" "$3: the same metrics and weights"
}

# compare TEXT COMMAND...
compare() {
    local text=$1
    shift
    rm -rf sync async sync.* async.*
    train sync "$@" --save-interval 2
    train async "$@" --save-interval 2 --async-save
    same_checkpoints async sync "$text"
}

one=(megatron train "${args[@]}")
compare "one rank" "${one[@]}" --train-iters 5
# said: what the last run has begun and completed
said() {
    sed -n 's/^sav\(ing\|ed\) checkpoint of iteration \([0-9]*\) .*/sav\1 \2/p' <<<"$out" | paste -sd' '
}
is "$(said)" "saving 2 saved 2 saving 4 saved 4 saving 5 saved 5" "begun, complete, the next"
run megatron checkpoint verify async
is "$status" 0 "verified: $out"
compare "bfloat16" "${one[@]}" --train-iters 4 --bf16
compare "float8" "${one[@]}" --train-iters 4 --bf16 --fp8-param-gather --use-distributed-optimizer
few=(--bf16 --use-distributed-optimizer --use-precision-aware-optimizer)
compare "fewer bytes" "${one[@]}" --train-iters 4 "${few[@]}" --exp-avg-dtype fp8 \
    --exp-avg-sq-dtype fp8
compare "main parameters in float16" "${one[@]}" --train-iters 4 "${few[@]}" \
    --main-params-dtype fp16 --exp-avg-dtype bf16 --exp-avg-sq-dtype fp16
compare "a loss scale" "${one[@]}" --train-iters 4 --fp16 --initial-loss-scale 1e30
# on one CPU, where the run goes on before the thread that writes
experts=(--num-experts 4 --moe-router-topk 2 --moe-router-score-function sigmoid --disable-bias-linear
         --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.02)
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
compare "biases of routers" taskset -c "$cpu" "${one[@]}" --train-iters 20 "${experts[@]}"
compare "one kept" "${one[@]}" --train-iters 5 --keep-last-n-checkpoints 1
is "$(ls async | paste -sd' ')" "iter_0000005 latest_checkpointed_iteration.txt" "the last"

# ---- faults of a checkpoint are told apart as they always are
run "${one[@]}" --train-iters 5 --save other --async-save
while read -r what command; do
    rm -rf bad
    cp -r async bad
    (cd bad/iter_0000005 && eval "$command")
    run megatron train "${args[@]}" --train-iters 6 --load bad
    like "$err" "megatron train: .*$what" "$command"
done <<'END'
damaged printf x | dd of=shard_00000.bin bs=1 seek=5000 conv=notrunc 2>/dev/null
not.a.file.of.a.checkpoint printf x | dd of=shard_00000.bin bs=1 conv=notrunc 2>/dev/null
of.another.save cp ../../other/iter_0000005/shard_00000.bin .
END
for command in "rm shard_00000.bin" "truncate -s -1 shard_00000.bin" "rm manifest.json"; do
    rm -rf bad
    cp -r async bad
    (cd bad/iter_0000005 && eval "$command")
    run megatron train "${args[@]}" --train-iters 1 --load bad
    is "$status" 1 "$command: not a complete one"
    like "$err" "^megatron train: bad: no complete checkpoint there: .*iter_0000005" "which is told"
done

refused="megatron train: checkpoint [0-9]+ not saved: rank"

# ---- a disk that waits for a file "go"
until_line() {
    wait_until "grep -qE '$2' '$1'" $job || { diag "$1: $(tail -n 3 "$1")"; return 1; }
}
endless=1000000
# start NAME COMMAND...: as $job, its writing held up.
start() {
    local name=$1
    shift
    rm -rf go "$name"
    "$@" --train-iters "$endless" --save "$name" >"$name.out" 2>"$name.err" &
    job=$!
}
finish() {
    status=0
    wait $job || status=$?
    last=$(sed -n 's/.*\] iteration *\([0-9]*\)\/.*/\1/p' "$1.out" | tail -n 1)
}
hold=(env LD_PRELOAD="$slow" MG_SLOW_SYNC_UNTIL="$TEST_DIR/go")
held=("${hold[@]}" "${one[@]}" --async-save)
if ! ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san'; then
    start slow "${held[@]}" --save-interval 100 --timing-log-level 1 --hidden-size 128 \
        --seq-length 64 --max-position-embeddings 64
    until_line slow.out '^saving checkpoint of iteration 100 '
    until_line slow.out '\] iteration +110/' || :
    ok "! grep -q '^saved' slow.out" "10 iterations while one is written"
    ok "ls -d slow/iter_0000100.tmp-* && [ ! -e slow/latest_checkpointed_iteration.txt ]" \
        "which is not there yet"
    touch go
    until_line slow.out '^saved checkpoint of iteration 100 '
    is "$(cat slow/latest_checkpointed_iteration.txt)" 100 "then it is"
    kill -TERM $job
    finish slow
    is "$status" 75 "stopped"
    is "$(cat slow/latest_checkpointed_iteration.txt)" "$last" "and saved again"
    like "$(grep save-checkpoint slow.out | head -n 1)" ' \.+: \([0-9.]+, [0-9.]+\)$' \
        "how long it kept the run is told"
    is "$(grep -c 'save-checkpoint' slow.out)" "$(grep -c '^saved ' slow.out)" "told once of each"
    run env LD_PRELOAD="$slow" MG_SLOW_SYNC=300 "${one[@]}" --train-iters 1 --save slow \
        --timing-log-level 1
    took=$(sed -n 's/.*save-checkpoint \.*: (.*, \(.*\))/\1/p' <<<"$out" | head -n 1)
    ok "awk 'BEGIN { exit !(${took:-0} >= 300) }'" "without --async-save $took ms"

    for how in "kill -TERM \$job" ":"; do
        more=() end='^stopping: '
        [ "$how" != ":" ] || more=(--exit-interval 30) end='\] iteration +30/'
        start stop "${held[@]}" "${more[@]}" --save-interval 20
        until_line stop.out '^saving checkpoint of iteration 20 '
        eval "$how"
        # Unless it has come to the next save before the signal, which waits for this one.
        for ((i = 0; i < 40; i++)); do
            ! grep -qE "$end" stop.out || break
            sleep 0.05
        done
        sleep 0.3 # which it would not need to end
        ok "kill -0 $job" "asked to end by $how, it waits"
        touch go
        finish stop
        ok "[ $status = 75 ] || [ '$how' = : -a $status = 0 ]" "then ends: $status"
        is "$(grep -c '^saved checkpoint of iteration 20 ' stop.out)" 1 \
            "what was under way is complete"
        is "$(cat stop/latest_checkpointed_iteration.txt)" "$last" "and so is the last"
    done

    run env LD_PRELOAD="$slow" MG_SLOW_SYNC=30 "${one[@]}" --async-save --train-iters 4 \
        --save order --save-interval 1
    is "$(said)" "saving 1 saved 1 saving 2 saved 2 saving 3 saved 3 saving 4 saved 4" \
        "a save waits for the one before"

    # one directory, two runs: the second is refused while the first lives, and no longer
    for more in "" --async-save; do
        rm -f go
        # shellcheck disable=SC2086
        SLURM_JOB_ID=4711 "${hold[@]}" "${one[@]}" --train-iters $endless --save both \
            --save-interval 5 $more >both.out 2>both.err &
        job=$!
        wait_until 'ls both/iter_*.tmp-*/shard_00000.bin' $job
        run "${one[@]}" --train-iters 1 --load both --save both
        is "$status" 1 "a second run on the directory of one that saves $more"
        like "$err" "^megatron train: --save both: another run saves there: host $(hostname), \
process $job, Slurm job 4711, since 2[-0-9T:]+Z; " "is refused"
        is "$(wc -l <<<"$err")" 1 "in one line"
        run megatron checkpoint convert sync.st --output both --format checkpoint
        like "$status $err" "^1 megatron: checkpoint convert: both: another run saves there: " \
            "so is a conversion"
        ok "ls both/iter_*.tmp-*/shard_00000.bin" "what the first writes is untouched"
        kill -KILL $job
        finish both
        run "${one[@]}" --train-iters 1 --load both --save both
        is "$status $err" "0 " "once the first is killed nobody is kept out"
        is "$(ls -A both | paste -sd' ')" "iter_0000001 latest_checkpointed_iteration.txt" \
            "and nothing is left of it"
        rm -r both
    done

    # a run that fails on all ranks alike, at a token that is none
    for suffix in bin idx; do
        cp text_text_document.$suffix bad.$suffix
    done
    printf '\377\377' | dd of=bad.bin bs=1 seek=20000 conv=notrunc 2>/dev/null
    run "${one[@]}" --train-iters $endless --data-path bad
    read -r iteration _ <<<"${err#*iteration }"
    iteration=${iteration%:}
    ok "[ '$iteration' -gt 1 ]" "fails: $err"
    start fails "${held[@]}" --save-interval $((iteration - 1)) --data-path bad
    until_line fails.out '^saving checkpoint of iteration '
    touch go
    finish fails
    is "$(cat fails.err)" "$err" "the same failure"
    is "$(cat fails/latest_checkpointed_iteration.txt)" $((iteration - 1)) \
        "and what was under way is complete"

    # the directory goes while it is written
    start gone "${held[@]}" --save-interval 10
    touch go
    until_line gone.out '^saved checkpoint of iteration 10 '
    rm go
    # writing is held up again: what is still there after a while stays
    wait_until 'had=$(ls -d gone/iter_*.tmp-*/shard*) && sleep 0.5 && [ -e "$had" ]' $job
    had=$(cat gone/latest_checkpointed_iteration.txt)
    rm -rf gone/iter_*.tmp-*
    touch go
    finish gone
    is "$status" 1 "a directory that is removed"
    like "$(cat gone.err)" "^$refused 0: cannot .* gone/iter_" "is told: $(cat gone.err)"
    is "$(wc -l <gone.err)" 1 "in one line"
    is "$(cat gone/latest_checkpointed_iteration.txt)" "$had" "the one before stays"
    run megatron checkpoint verify gone
    is "$status" 0 "and is whole: $out"
else
    skip 44 "a sanitizer comes first"
fi

# ---- no room: what may be written is limited, as for one that fills the disk
# limit NAME PID: so that the next save fails
limit() {
    until_line "$1.out" 'saved checkpoint of iteration 20 '
    prlimit --fsize=20000 --pid "$2"
}
if command -v prlimit >/dev/null; then
    for more in "" --async-save; do
        rm -rf full full.*
        # shellcheck disable=SC2016
        (trap '' XFSZ; exec "${one[@]}" --train-iters $endless --save full --save-interval 20 $more \
            2>full.err | cat >full.out) &
        job=$!
        until_line full.out '\] iteration ' || :
        pid=$(pgrep -P $job -x megatron)
        limit full "$pid"
        wait $job || :
        like "$(cat full.err)" "^$refused 0: cannot write full/iter_.*/shard_00000.bin: File too" \
            "no room $more: $(cat full.err)"
        is "$(wc -l <full.err)" 1 "in one line"
        run megatron checkpoint verify full
        is "$status" 0 "the one before is there: $out"
        is "$(ls -d full/*.tmp-* 2>/dev/null)" "" "nothing is left of the other"
    done
else
    skip 8 "no prlimit"
fi

# ---- several ranks
ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; }
while read -r n more; do
    read -ra words <<<"$more"
    compare "$n ranks $more" ranks_run "$n" "${one[@]}" --train-iters 5 "${words[@]}"
done <<'END'
2
3 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --bf16 --global-batch-size 6
4 --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer
4 --use-distributed-optimizer --num-distributed-optimizer-instances 2
4 --pipeline-model-parallel-size 2 --num-layers 4 --num-virtual-stages-per-pipeline-rank 2
END
if command -v prlimit >/dev/null; then
    for more in "" --async-save; do
        rm -rf full full.*
        # shellcheck disable=SC2016
        ranks_run 2 bash -c 'trap "" XFSZ; exec "$@"' - "${one[@]}" --train-iters $endless \
            --tensor-model-parallel-size 2 --save full --save-interval 20 $more \
            >full.out 2>full.err &
        job=$!
        until_line full.out '\] iteration ' || :
        for pid in $(pgrep -x megatron); do
            [ "$(readlink "/proc/$pid/cwd")" = "$TEST_DIR" ] || continue
            ! tr '\0' '\n' <"/proc/$pid/environ" | grep -Eqx '(PMIX_)?RANK=1' || limit full "$pid"
        done
        finish full
        is "$status" 1 "no room on rank 1 $more"
        like "$(cat full.err)" "(^|"$'\n'")$refused 1: cannot write full/.*/shard_00001.bin: File" \
            "is told"
        is "$(grep -c '^megatron train' full.err)" 1 "by one" || diag "$(cat full.err)"
        run megatron checkpoint verify full
        is "$status" 0 "the one before is there: $out"
    done
else
    skip 8 "no prlimit"
fi
done_testing

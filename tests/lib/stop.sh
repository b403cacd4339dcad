# stop.sh - runs that are asked to stop.  Source it after train.sh, whose tokenized_text they need.

args=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --lr 1e-3)
endless=(megatron train "${args[@]}" --train-iters 100000)
# A shell that runs a script lets what runs in the background ignore SIGINT.
heeding=(env --default-signal=INT)

# stop NAME HOW COMMAND...: evaluate HOW, which sends a signal, once it runs.
stop() {
    local name=$1 how=$2 job start took
    shift 2
    "$@" --save "$name" --load "$name" --save-interval 100000 >"$name.out" 2>"$name.err" &
    job=$!
    until_iteration 3 "$name.out" $job || :
    start=$(date +%s%N)
    eval "$how"
    status=0
    wait $job || status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    is "$status" 75 "$name: status 75" || diag "$(cat "$name.err")"
    ok "[ $took -lt $(patience 60000) ]" "$name: soon: $took ms"
    last=$(sed -n 's/.*\] iteration *\([0-9]*\)\/.*/\1/p' "$name.out" | tail -n 1)
    is "$(cat "$name/latest_checkpointed_iteration.txt")" "$last" \
        "$name: the last iteration, $last, is saved"
    is "$(grep -c "^stopped after iteration $last of 100000; to go on: --load $name" \
        "$name.out")" 1 "$name: and one line says how to go on"
}

#!/bin/bash
# What happens to the files under a run: data that become shorter while they are read, and an
# output that cannot be written.  One line names the file and the reason, the status is not 0,
# and what was trained is saved.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text text.txt 40
tokenize() {
    run megatron data tokenize --input text.txt --output-prefix text --append-eod
    is "$status" 0 "text is tokenized" || diag "$err"
}
tokenize
endless=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
         --tokenizer-type ByteLevel --data-path text_text_document --split 90,10,0 --eval-iters 2
         --micro-batch-size 1 --global-batch-size 8 --train-iters 100000 --lr 1e-3)

# cut NAME HOW REGEX COMMAND...: once it trains, HOW cuts a file; one line says so, and all end.
cut() {
    local name=$1 how=$2 regex=$3 job status=0
    shift 3
    "$@" >"$name.out" 2>"$name.err" &
    job=$!
    until_iteration 3 "$name.out" $job || :
    eval "$how"
    wait $job || status=$?
    is "$status" 1 "$name: status 1" || diag "$(cat "$name.err")"
    like "$(grep -a '^megatron' "$name.err")" "$regex" "$name: the file is named"
    wait_until '[ -z "$(ranks_here)" ]' # mpirun may end before the last of them
    is "$(ranks_here)" "" "$name: no rank is left"
    rm -f text_text_document.* cache/*
    tokenize
}
again="restore it, and run the same command again"
shorter=': it has become shorter, or was removed, while it was in use; '
bin='truncate -s 100 text_text_document.bin'
idx='truncate -s 0 text_text_document.idx'
tail='truncate -s -8 text_text_document.idx' # the last number: the page stays, and reads as zeros
cut bin "$bin" "^megatron train: iteration [0-9]*: sample [0-9]*: text_text_document.bin: it ends at byte [0-9]*, and had [0-9]* bytes when it was opened; $again$" \
    "${endless[@]}"
cut idx "$idx" "^megatron: /.*/text_text_document.idx$shorter$again$" "${endless[@]}"
cut tail "$tail" "^megatron train: iteration [0-9]*: sample [0-9]*: text_text_document.idx: it has become shorter than the [0-9]* bytes .*$again$" \
    "${endless[@]}"
# The run that makes the files of a cache keeps what it made; another one maps them.
cached() {
    run "${endless[@]}" --data-cache-path cache --exit-interval 1
    is "$status" 0 "a cache is made" || diag "$err"
}
cached
cut cache 'truncate -s 0 cache/*-shuffle_index.npy' "^megatron: /.*shuffle_index.npy$shorter$again$" \
    "${endless[@]}" --data-cache-path cache
cached
cut cached 'truncate -s -8 cache/*-sample_index.npy' \
    "^megatron train: .*sample_index.npy: it has become shorter .*; remove the file, and run" \
    "${endless[@]}" --data-cache-path cache
cut evaluated "$bin" "^megatron train: .*text_text_document.bin: it ends at byte" \
    "${endless[@]}" --eval-interval 1
make_batches b.st
batches=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --vocab-size 256
         --batches b.st --train-iters 100000 --lr 1e-3)
cut batches 'truncate -s 0 b.st' "^megatron: /.*/b.st$shorter$again$" "${batches[@]}"

# ---- an output that cannot be written
# lost STATUS REASON COMMAND...: a run that ends since its output does.
lost() {
    is "$1" 1 "$3: status 1"
    is "$(cat err)" "megatron train: standard output cannot be written: $2" "one line says why"
}
ended='; the run ends after iteration [0-9]* of 100000, '
if [ -w /dev/full ]; then
    status=0
    "${endless[@]}" --save full >/dev/full 2>err || status=$?
    lost $status "No space left on device" "a full disk"
    ok "[ ! -e full/latest_checkpointed_iteration.txt ]" "nothing is trained"
    status=0
    megatron data inspect text_text_document --sequence 0 >/dev/full 2>err || status=$?
    is "$status:$(cat err)" "1:megatron: standard output cannot be written: No space left on device" \
        "another command says so, too"
else
    skip 5 "/dev/full is not there"
fi
status=0
"${endless[@]}" --save closed >&- 2>err || status=$?
lost $status "Bad file descriptor" "a closed output"
status=0
"${endless[@]}" --metrics-file m.json --exit-interval 2 >&- 2>&- || status=$?
is "$status:$(cat m.json)" "1:" "nothing that is printed gets into another file"
"${endless[@]}" --save pipe 2>err | grep -m1 'iteration .*2/' >/dev/null
status=${PIPESTATUS[0]}
is "$status" 1 "a closed pipe: status 1"
last=$(cat pipe/latest_checkpointed_iteration.txt)
is "$(cat err)" "megatron train: standard output cannot be written: Broken pipe; the run ends after \
iteration $last of 100000, which is saved: to go on, give it another output and --load pipe" \
    "what was trained is saved: iteration $last"
run "${endless[@]}" --load pipe --save pipe --exit-interval $((last + 1))
like "$out" "going on from iteration $last in pipe" "and the run can go on"
"${endless[@]}" 2>err | grep -m1 'iteration .*2/' >/dev/null
like "$(cat err)" "^megatron train: .* Broken pipe$ended""nothing is saved without --save$" "without --save, too"
status=0
"${endless[@]}" --exit-interval 2 2>&- >out || status=$?
is "$status:$(grep -c '\] iteration' out)" 0:2 "a closed standard error stops nothing"

# ---- several ranks
if ! mpi_available; then
    skip 1 "no MPI"
    done_testing
fi
ranks=(mpi_run 4 "${endless[@]}" --tensor-model-parallel-size 2)
cut bin4 "$bin" "^megatron train: (rank [0-3]: )?iteration [0-9]*: sample [0-9]*: text_text_document.bin: it ends at" \
    "${ranks[@]}"
is "$(grep -ac '^megatron' bin4.err)" 1 "and one rank says it"
cut idx4 "$idx" "megatron: rank [0-3]: /.*/text_text_document.idx$shorter$again" "${ranks[@]}"
# The launcher reads what ranks print; here one of them has an output of its own that ends.
cat >deaf <<'END'
#!/bin/bash
[ "$OMPI_COMM_WORLD_RANK" != 3 ] || exec "$@" > >(head -n 3 >/dev/null)
exec "$@"
END
chmod +x deaf
status=0
mpi_run 4 ./deaf "${endless[@]}" --save deaf4 >out 2>err || status=$?
is "$status" 1 "4 ranks, of which one cannot write: status 1" || diag "$(cat err)"
like "$(grep -a '^megatron' err)" "^megatron train: rank 3: standard output cannot be written: Broken pipe$ended""which is saved" \
    "rank 3 says why, and all have saved"
is "$(grep -ac '^megatron' err)" 1 "in one line"
ok "[ -s deaf4/latest_checkpointed_iteration.txt ]" "there is a checkpoint"
done_testing

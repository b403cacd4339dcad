#!/bin/bash
# Arguments from files: the same run as typed, what is typed wins, errors by file and line.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 12
megatron data tokenize --input a.txt --output-prefix 'a b' --append-eod >/dev/null
cat >model.args <<'END'
# the model
--num-layers 2 --hidden-size 16 \
    --num-attention-heads 2   # two heads
--seq-length=16
	--tokenizer-type 'ByteLevel'
--untie-embeddings-and-output-weights
END
printf -- '--micro-batch-size 2\r\n--step-batch-size-schedule "0:2 128:4"\r\n--train-iters\r\n5\r\n' >batch.args
printf -- '--train-data-path 3 "a b_text_document" 1 a\\ b_text_document\n--lr 1e-2' >data.args
typed=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16
       --tokenizer-type ByteLevel --untie-embeddings-and-output-weights --micro-batch-size 2
       --step-batch-size-schedule "0:2 128:4" --train-iters 5
       --train-data-path 3 "a b_text_document" 1 "a b_text_document" --lr 1e-2)
files=(--args-file model.args --args-file=batch.args --args-file data.args)

# losses COMMAND...
losses() {
    rm -f m.json
    run "$@" --metrics-file m.json
    [ "$status" = 0 ] || diag "$err"
    sed 's/, "elapsed.*//' m.json
}

one=$(losses megatron train "${typed[@]}")
is "$(wc -l <<<"$one")" 5 "typed"
is "$(losses megatron train "${files[@]}")" "$one" "from three files"
is "$(losses megatron train --args-file <(cat model.args batch.args data.args))" "$one" "from a pipe"
two=$(losses megatron train "${typed[@]}" --lr 2e-2 --train-iters 3)
is "$(losses megatron train --lr 2e-2 "${files[@]}" --train-iters 3)" "$two" \
    "what is typed wins, wherever it stands"
echo "--lr 2e-2 --train-iters 3" >later.args
is "$(losses megatron train "${files[@]}" --args-file later.args)" "$two" \
    "so does the later file"
is "$(losses megatron train "${files[@]}" --train-data-path 'a b_text_document')" \
    "$(losses megatron train "${typed[@]}" --train-data-path 'a b_text_document')" \
    "a list is replaced as a whole"
: >empty.args
is "$(losses megatron train "${typed[@]}" --args-file empty.args)" "$one" "an empty file"
if ranks_available; then
    is "$(losses ranks_run 2 megatron train "${files[@]}" --pipeline-model-parallel-size 2 | wc -l)" \
        5 "two ranks"
    run ranks_run 2 megatron train "${files[@]}" --args-file nosuch.args
    is "$status$(grep -c '^megatron train: --args-file: cannot open nosuch.args' <<<"$err")" 21 \
        "two ranks, no file: told once"
else
    skip 2 "neither UCX nor MPI"
fi

# One line for what is wrong: WHAT|TEXT OF THE FILE
while IFS='|' read -r want text; do
    printf -- "$text" >x.args
    run megatron train "${typed[@]}" --args-file x.args
    is "$status" 2 "refused: $text"
    like "$err" "^megatron train: $want" "says where and why"
    is "$(grep -ac . <<<"$err")" 1 "in one line"
done <<'END'
x.args:3: --lr: "x" is not|\n# a\n--lr x\n
x.args:2: --lr: -1 is out of range|--seed 3\n--lr\n-1\n
x.args:1: --lr wants a value|--lr
x.args:2: unknown argument --lrr|--lr 1e-3\n--lrr 3
x.args:1: "hello" is not an argument|hello
x.args:2: --untie-embeddings-and-output-weights takes no value|\n--untie-embeddings-and-output-weights=1
x.args:1: --rampup-batch-size wants three values|--rampup-batch-size 1 2
--args-file: x.args:2: a double quote is not closed on its line|\n--split "1,2
--args-file: x.args:2: a zero byte|\n\0
x.args:2: --args-file stands in a file of arguments|--seed 1\n--args-file x.args
x.args:1: --args-file stands in a file of arguments|--args-file=nosuch
x.args:1: --load: the value is empty|--load ""
END
run megatron train --args-file .
like "$status $err" "^2 megatron train: --args-file: cannot read \.: Is a directory" "a directory"
truncate -s 1048577 x.args
run megatron train --args-file x.args
like "$status $err" "^2 megatron train: --args-file: x.args: more than 1048576 bytes" "a large file"
run megatron train --args-file
like "$status $err" "^2 megatron train: --args-file wants a value: FILE" "no name"
done_testing

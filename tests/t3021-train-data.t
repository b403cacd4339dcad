#!/bin/bash
# Which data megatron train reads: blends, parts of their own, index caches, tokenizers.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 20
tr a-z b-za <a.txt >b.txt
for set in a b; do
    megatron data tokenize --input $set.txt --output-prefix $set --append-eod >/dev/null
done
a=a_text_document b=b_text_document
model=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16
       --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --lr 1e-2
       --hidden-dropout 0 --attention-dropout 0)
bytes=(--tokenizer-type ByteLevel --eval-iters 0)

# losses [ARGUMENT...]: "lm loss" of each iteration, of one rank
losses() {
    run megatron train "${model[@]}" "${bytes[@]}" --metrics-file metrics "$@"
    [ "$status" = 0 ] || diag "$err"
    grep -o '"lm loss": [^,]*' metrics
    rm -f metrics
}

one=$(losses --data-path $a --split 1)
is "$(wc -l <<<"$one")" 4 "four losses"
is "$(losses --train-data-path $a)" "$one" "--train-data-path is all documents"
is "$(losses --train-data-path $a --valid-data-path $b --test-data-path 1 $a 2 $b)" "$one" \
    "whatever the other parts are"
is "$(losses --data-path=$a --split=1,0,0)" "$one" "with an equals sign"
blend=$(losses --data-path 3 $a 1 $b)
ok "[ '$blend' != '$one' ]" "a blend is something else"
is "$(losses --data-path 75 $a 25 $b)" "$blend" "of weights in proportion"
is "$(losses --data-path 3 $a 1 $b --data-cache-path cache)" "$blend" "the same with a cache"
is "$(find cache -type f | wc -l)" 11 "of eleven files"
is "$(losses --data-path 3 $a 1 $b --data-cache-path cache)" "$blend" "and from it"
run megatron data index 3 $a 1 $b --seq-length 16 --num-samples 16 --split 969,30,1 \
    --part train --data-cache-path cache
is "$status$(find cache -type f | wc -l)" 011 "megatron data index makes the same files"
ok "[ \"\$(losses --data-path $a $b)\" != '$blend' ]" "without weights, by size"

if mpi_available; then
    run mpi_run 2 megatron train "${model[@]}" "${bytes[@]}" --data-path 3 $a 1 $b \
        --metrics-file metrics
    is "$status" 0 "two ranks" || diag "$err"
    two=$(cat metrics)
    rm metrics
    for i in 1 2; do # the first makes the files, the second reads them
        run mpi_run 2 megatron train "${model[@]}" "${bytes[@]}" --data-path 3 $a 1 $b \
            --data-cache-path cache2 --metrics-file metrics
        is "$status" 0 "two ranks, one cache" || diag "$err"
        is "$(grep -o '"lm loss": [^,]*' metrics)" \
            "$(grep -o '"lm loss": [^,]*' <<<"$two")" "and the same losses"
        rm metrics
    done
    is "$(find cache2 -type f | wc -l)" 11 "eleven files, no other"
    for file in cache2/*-shuffle_index.npy; do
        head -c 130 "$file" >cut && mv cut "$file"
        break
    done
    run mpi_run 2 megatron train "${model[@]}" "${bytes[@]}" --data-path 3 $a 1 $b \
        --data-cache-path cache2
    is "$status" 1 "a file that is cut"
    is "$(grep -ac '^megatron train: ' <<<"$err")" 1 "is told once"
    like "$err" "megatron train: .*: $file: shape .* truncated" "by name"
else
    skip 1 "several ranks cannot train here: no mpirun, MPI or PMIx"
fi

# One line for what is wrong
while IFS='|' read -r want args; do
    # shellcheck disable=SC2086
    run megatron train "${model[@]}" $args
    ok "[ $status = 1 -o $status = 2 ]" "refused: $args"
    like "$err" "^megatron train: $want" "says why"
    is "$(grep -ac . <<<"$err")" 1 "in one line"
done <<END
--data-path: "x" stands where a weight should|--vocab-size 257 --data-path 1 $a x $b
--data-path and --train-data-path exclude|--vocab-size 257 --data-path $a --train-data-path $a
--data-path, --train-data-path or --batches is req|--vocab-size 257 --valid-data-path $a
--data-path without weights is one epoch of each dataset: [0-9]+ samples of 16|--vocab-size 257 --data-path $a $b --train-iters 100000
cannot open no.idx|--vocab-size 257 --data-path 1 $a 1 no
$b: split 0,1 leaves no document for train|--vocab-size 257 --data-path 1 $b 1 $a --split 0,1
tokenizer GPT2BPETokenizer needs --vocab-file|--tokenizer-type GPT2BPETokenizer --data-path $a
END

gpt2=$MG_SHARED/data/vocab/gpt2
run megatron train "${model[@]}" --data-path $a --tokenizer-type GPT2BPETokenizer \
    --vocab-file "$gpt2/encoder.json" --merge-file "$gpt2/vocab.bpe"
if [[ $err == *PCRE2* ]]; then
    skip 1 "this build has no PCRE2"
elif [ ! -r "$gpt2/encoder.json" ]; then
    skip 1 "no reference data: $gpt2/encoder.json"
else
    is "$status" 0 "a vocabulary of 50257" || diag "$err"
    like "$out" " 8[0-9]{5} parameters" "padded to 50304, of 16 numbers each"
fi
done_testing

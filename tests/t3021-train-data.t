#!/bin/bash
# Which data megatron train reads: blends, parts of their own, index caches, tokenizers.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
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

if ranks_available; then
    run ranks_run 2 megatron train "${model[@]}" "${bytes[@]}" --data-path 3 $a 1 $b \
        --metrics-file metrics
    is "$status" 0 "two ranks" || diag "$err"
    two=$(cat metrics)
    rm metrics
    for i in 1 2; do # the first makes the files, the second reads them
        run ranks_run 2 megatron train "${model[@]}" "${bytes[@]}" --data-path 3 $a 1 $b \
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
    run ranks_run 2 megatron train "${model[@]}" "${bytes[@]}" --data-path 3 $a 1 $b \
        --data-cache-path cache2
    is "$status" 1 "a file that is cut"
    is "$(grep -ac '^megatron train: ' <<<"$err")" 1 "is told once"
    like "$err" "megatron train: .*: $file: shape .* truncated" "by name"
else
    skip 1 "neither UCX nor MPI"
fi

# ---- samples that are changed: the ends of documents, fill-in-the-middle
# Documents of a line each, so that most samples have the end of one.
seq 150 | awk '{ print $1, $1 * 7919 % 100003 }' >c.txt
megatron data tokenize --input c.txt --output-prefix c --append-eod --split-documents line >/dev/null
# weights ARGUMENT...: losses of a run whose weights stay as they are, to eight digits
weights() {
    losses --data-path c_text_document --split 1 --lr 0 --calculate-per-token-loss "$@" \
        | awk '{ printf "%.7e\n", $3 }'
}
plain=$(weights)
masked=$(weights --eod-mask-loss)
is "$(wc -l <<<"$masked")" 4 "--eod-mask-loss"
ok "[ '$plain' != '$masked' ]" "changes the loss"
is "$(weights --eod-mask-loss --eod-token-id 256)" "$masked" "of the tokenizer's token"
ok "[ \"\$(weights --eod-mask-loss --eod-token-id 10)\" != '$masked' ]" "or of another one"
is "$(weights --eod-mask-loss --eod-token-id 255)" "$plain" "one that is not there changes nothing"
fim=(--fim-data --vocab-size 261 --fim-prefix-token 257 --fim-middle-token 258
     --fim-suffix-token 259 --fim-pad-token 260)
wide=$(weights --vocab-size 261)
cut=$(weights "${fim[@]}" --fim-rate 1)
is "$(wc -l <<<"$cut")" 4 "--fim-data"
ok "[ '$cut' != '$wide' ]" "changes the samples"
is "$(weights "${fim[@]}" --fim-rate 1)" "$cut" "in the same way each time"
is "$(weights "${fim[@]}" --fim-rate 1 --fim-eod-token 256)" "$cut" "documents end with 256"
is "$(weights "${fim[@]}" --fim-rate 0 --fim-eod-token 260)" "$wide" "rate 0 changes nothing"
is "$(weights "${fim[@]}" --fim-rate 1 --fim-split-sample z --fim-fragment-rate 1)" "$cut" \
    "a split token that is not there neither"
for more in "--fim-spm-rate 1" "--fim-split-sample 10 --fim-fragment-rate 1" "--seed 5" \
    "--fim-no-prefix 1"; do
    # shellcheck disable=SC2086
    ok "[ \"\$(weights ${fim[*]} --fim-rate 1 $more)\" != '$cut' ]" "$more changes them"
done

# ---- a run that stops inside an epoch and goes on with another dp and micro batch size
# The run takes both datasets more than once; with --lr 0, a loss depends on the samples alone.
run megatron data index c_text_document --seq-length 16 --num-samples 107
like "$out" "samples of 16 tokens in 2 epochs" "two epochs of it are taken" || diag "$out"
# part LAUNCHER... -- ARGUMENT...: 5 or more iterations, losses appended to the file all
part() {
    local launch=()
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    run "${launch[@]}" megatron train "${model[@]}" "${bytes[@]}" --data-path 2 c_text_document \
        1 $b --split 1 --train-iters 20 --global-batch-size 8 --lr 0 --calculate-per-token-loss \
        --metrics-file metrics "$@"
    is "$status" 0 "${launch[*]:-one rank}: $*" || diag "$err"
    grep -o '"lm loss": [^,]*' metrics >>all
    rm -f metrics
}
# alike FILE: the losses of all are those of FILE, but for rounding
alike() {
    paste "$1" all | awk '{ d = $3 / $6 - 1; if (d < 0) d = -d; if (d > 2e-6) bad++; n++ }
        END { print n + 0, bad + 0 }'
}
rm -f all
if ranks_available; then
    for edit in "" "--eod-mask-loss ${fim[*]}" \
        "--global-batch-size 16 --rampup-batch-size 8 8 48"; do
        # shellcheck disable=SC2086
        part -- --micro-batch-size 4 $edit
        mv all whole
        is "$(sort -u whole | wc -l)" 20 "20 iterations of different samples"
        rm -rf go
        # shellcheck disable=SC2086
        {
            part -- --micro-batch-size 8 --save go --exit-interval 5 $edit
            part ranks_run 2 -- --micro-batch-size 2 --save go --load go --exit-interval 9 $edit
            part ranks_run 4 -- --micro-batch-size 1 --save go --load go --exit-interval 17 $edit
            part ranks_run 2 -- --micro-batch-size 4 --save go --load go $edit
        }
        is "$(alike whole)" "20 0" "dp 1, 2, 4 and 2 in turn take the samples of one rank"
        rm -f all
    done
else
    skip 1 "neither UCX nor MPI"
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
--data-path, --train-data-path, --batches or --mock-data is req|--vocab-size 257 --valid-data-path $a
--data-path without weights is one epoch of each dataset: [0-9]+ samples of 16|--vocab-size 257 --data-path $a $b --train-iters 100000
cannot open no.idx|--vocab-size 257 --data-path 1 $a 1 no
$b: split 0,1 leaves no document for train|--vocab-size 257 --data-path 1 $b 1 $a --split 0,1
--eod-mask-loss wants --eod-token-id or --tokenizer-type|--vocab-size 257 --data-path $a --eod-mask-loss
--eod-token-id: token 257 is outside the vocabulary, want 0 to 256|--vocab-size 257 --data-path $a --eod-mask-loss --eod-token-id 257
--eod-mask-loss and --batches exclude each other|--vocab-size 257 --batches x --eod-mask-loss --eod-token-id 0
--fim-data wants --eod-token-id or --tokenizer-type|--vocab-size 257 --data-path $a --fim-data
--fim-data and --batches exclude each other|--vocab-size 257 --batches x --fim-data --eod-token-id 0
--fim-split-sample and --fim-fragment-rate want each other|--vocab-size 257 --data-path $a --fim-data --fim-split-sample 1 --eod-token-id 0
--fim-no-prefix wants --fim-data|--vocab-size 257 --data-path $a --fim-no-prefix x
--fim-no-prefix wants --tokenizer-type|--vocab-size 257 --data-path $a --fim-data --fim-no-prefix x --eod-token-id 0
--fim-prefix-token: "<fim_prefix>" is no id; its id, or --tokenizer-type|--vocab-size 257 --data-path $a --fim-data --eod-token-id 0
--fim-prefix-token: tokenizer ByteLevel has no token "<fim_prefix>", want one|--tokenizer-type ByteLevel --data-path $a --fim-data
--fim-prefix-token: 257 is out of range, want 0 to 256|--tokenizer-type ByteLevel --data-path $a --fim-data --fim-prefix-token 257
--fim-rate: 1.5 is out of range|--vocab-size 257 --data-path $a --fim-data --fim-rate 1.5
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
    bpe=(--tokenizer-type GPT2BPETokenizer --vocab-file "$gpt2/encoder.json"
         --merge-file "$gpt2/vocab.bpe")
    megatron data tokenize --input a.txt --output-prefix g --append-eod "${bpe[@]}" >/dev/null
    bytes=("${bpe[@]}" --eval-iters 0)
    fim=(--data-path g_text_document --lr 0 --vocab-size 50261 --fim-data --fim-prefix-token 50257
         --fim-middle-token 50258 --fim-suffix-token 50259 --fim-pad-token 50260)
    cut=$(losses "${fim[@]}" --fim-rate 1)
    is "$(wc -l <<<"$cut")" 4 "fill-in-the-middle by characters, with GPT-2's tokens"
    ok "[ \"\$(losses ${fim[*]} --fim-rate 0)\" != '$cut' ]" "changes the samples"
    is "$(losses "${fim[@]}" --fim-rate 1 --fim-eod-token '<|endoftext|>')" "$cut" \
        "a token by its text"
    run megatron train "${model[@]}" "${bytes[@]}" "${fim[@]}" --fim-pad-token '<pad>'
    like "$err" 'GPT2BPETokenizer has no token "<pad>", want one .* or an id from 0 to 50260' \
        "one that is not there is told"
fi
done_testing

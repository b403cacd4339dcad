#!/bin/bash
# megatron data: text to datasets and back, sample order, what is refused and how.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

# text PREFIX: the documents of a dataset of bytes as one text.
text() {
    local i n
    n=$(megatron data inspect "$1" --json | sed 's/.*"sequences":\([0-9]*\).*/\1/')
    for ((i = 0; i < n; i++)); do
        megatron data inspect "$1" --sequence "$i"
    done | tr ' ' '\n' | awk 'NF && $1 < 256 { printf "\\%03o", $1 }' \
        | xargs -0 printf '%b'
}

# sequences PREFIX: the tokens of each, a line a sequence
sequences() {
    local i n
    n=$(megatron data inspect "$1" --json | sed 's/.*"sequences":\([0-9]*\).*/\1/')
    for ((i = 0; i < n; i++)); do
        megatron data inspect "$1" --sequence "$i"
    done
}

# counts PREFIX: documents, sequences, tokens
counts() {
    megatron data inspect "$1" --json \
        | sed 's/.*"documents":\([0-9]*\),"sequences":\([0-9]*\),"tokens":\([0-9]*\),.*/\1 \2 \3/'
}

only() {
    is "$(ls -A out)" "$1" "$2"
}
mkdir out

# Plain text
printf 'a b\nc\n\n \t\nd\ne\r\n\r\nf' >plain.txt
run megatron data tokenize --input plain.txt --output-prefix out/p
is "$status" 0 "tokenize succeeds"
is "$out" "out/p_text_document: 3 documents, 18 tokens, uint16" "and says what it wrote"
is "$err" "" "and nothing else"
only $'p_text_document.bin\np_text_document.idx' "two files are there, no other"
is "$(counts out/p_text_document)" "3 3 18" "a paragraph is a document"
is "$(sequences out/p_text_document)" "97 32 98 10 99 10 10 32 9 10
100 10 101 13 10 13 10
102" "with the blank lines behind it"
text out/p_text_document >back
ok "cmp back plain.txt" "together they are the text"
is "$(od -An -v -tx1 out/p_text_document.idx | tr -d ' \n')" \
"4d4d4944494458000001000000000000000803000000000000000400000000000000\
0a0000000700000001000000\
000000000000000014000000000000002200000000000000\
0000000000000000010000000000000002000000000000000300000000000000" \
    "the index is Megatron's, byte for byte"

run megatron data tokenize --input plain.txt --output-prefix out/p --append-eod \
    --split-documents line
is "$out" "out/p_text_document: 5 documents, 23 tokens, uint16" "a line a document"
is "$(sequences out/p_text_document)" "97 32 98 10 256
99 10 10 32 9 10 256
100 10 256
101 13 10 13 10 256
102 256" "with 256 at the end of each"
text out/p_text_document >back
ok "cmp back plain.txt" "together they are the text"

run megatron data tokenize --input=plain.txt,plain.txt --output-prefix=out/p \
    --split-documents=none
is "$out" "out/p_text_document: 2 documents, 36 tokens, uint16" "a file a document"
run megatron data tokenize --input plain.txt --output-prefix out/p --split-documents none
is "$err" "megatron: data tokenize: note: out/p_text_document has one document, which \
--split cannot divide into train, valid and test" "one document is worth a note"

printf '\n\n\n' >blank.txt
: >empty.txt
head -c 300000 /dev/urandom >noise.txt
run megatron data tokenize --input blank.txt,empty.txt,noise.txt --output-prefix out/n
is "$status" 0 "blank, empty and binary files are texts"
is "$(megatron data inspect out/n_text_document --json | sed 's/.*"tokens":\([0-9]*\).*/\1/')" \
    300003 "no byte is lost"
is "$(megatron data inspect out/n_text_document --sequence 0)" "10 10 10" \
    "blank lines alone are a document"
rm out/*

# JSON lines
printf '%s\n' '{"text":"ab","title":"T"}' '' '{"title":["x","","yz"],"text":"\u00e9\u0000"}' \
    '{"text":"","title":[]}' '{"text":["q",""],"title":"w"}' >docs.jsonl
run megatron data tokenize --input docs.jsonl --output-prefix out/j --append-eod \
    --json-keys text,title
is "$status" 0 "JSON lines"
is "$out" "out/j_text_document: 4 documents, 9 tokens, uint16
out/j_title_document: 4 documents, 8 tokens, uint16" "a dataset a key"
is "$(sequences out/j_text_document)" "97 98 256
195 169 0 256
113 256" "strings; an empty one has no sequence"
is "$(sequences out/j_title_document)" "84 256
120
121 122 256
119 256" "an element a sequence, 256 after the last"
is "$(counts out/j_title_document)" "4 4 8" "a document of nothing is counted"
cp docs.jsonl docs.other
run megatron data tokenize --input docs.other --output-prefix out/o --input-format jsonl
is "$out" "out/o_text_document: 4 documents, 6 tokens, uint16" "by --input-format"
run megatron data tokenize --input docs.jsonl --output-prefix out/o --input-format text
is "$out" "out/o_text_document: 2 documents, $(wc -c <docs.jsonl) tokens, uint16" \
    "as plain text too"
rm out/*

printf '%s\n' '{"text":"a","note":""}' '{"text":"b","note":[]}' >void.jsonl
run megatron data tokenize --input void.jsonl --output-prefix out/v --json-keys text,note
is "$status $out" "0 out/v_text_document: 2 documents, 2 tokens, uint16
out/v_note_document: 2 documents, 0 tokens, uint16" "a key without text is a dataset"
is "$err" "megatron: data tokenize: note: out/v_note_document has no token, its documents are \
all empty" "and worth a note"
is "$(stat -c %s out/v_note_document.bin) $(counts out/v_note_document)" "0 2 0 0" \
    "of nothing, as Megatron's tool writes it"
rm out/*

# Keys as words, as Megatron-LM's tool has them; numbers of any size are not our business
printf '%s\n' '{"a":"x","b":"yz","id":123456789012345678901234567890}' >words.jsonl
run megatron data tokenize --input words.jsonl --json-keys a b --output-prefix out/w
is "$out" "out/w_a_document: 1 documents, 1 tokens, uint16
out/w_b_document: 1 documents, 2 tokens, uint16" "keys as words"
run megatron data tokenize --input words.jsonl --json-keys b --json-keys a --output-prefix out/w
is "$out" "out/w_a_document: 1 documents, 1 tokens, uint16" "the last --json-keys counts"
rm out/*

while IFS='|' read -r line want; do
    printf '%s\n' '{"text":"good"}' "$line" >bad.jsonl
    run megatron data tokenize --input bad.jsonl --output-prefix out/b
    is "$status" 1 "refused: $line"
    like "$err" "^megatron: data tokenize: bad.jsonl:2: $want" "by file and line"
    is "$(wc -l <<<"$err")" 1 "in one line"
    only "" "and nothing is left"
done <<'END'
{"text":"cut|no JSON object on this line:
["text"]|an array, want an object
"text"|a string, want an object
{"txt":"a"}|no key "text"
{"text":7}|value of "text" is a number, want a string or an array of strings
{"text":null}|value of "text" is null, want
{"text":["a",["b"]]}|element 1 of "text" is an array, want a string
{"text":"a"} {"text":"b"}|no JSON object on this line:
{"text":"\ud800"}|no JSON object on this line:
END
printf '{"text":"\xff\xfe"}\n' >bad.jsonl
run megatron data tokenize --input bad.jsonl --output-prefix out/b
like "$err" '^megatron: data tokenize: bad.jsonl:1: no JSON object' "so is bad UTF-8"
only "" "and nothing is left"

# An older dataset stays if the new one fails; what cannot be written is told.
megatron data tokenize --input plain.txt --output-prefix out/k >/dev/null
cp out/k_text_document.bin old.bin
run megatron data tokenize --input plain.txt,bad.jsonl --output-prefix out/k
is "$status" 1 "a second input that is bad"
ok "cmp old.bin out/k_text_document.bin" "leaves the older dataset as it was"
only $'k_text_document.bin\nk_text_document.idx' "and no other file"
run bash -c 'ulimit -f 64; megatron data tokenize --input noise.txt --output-prefix out/k'
is "$status" 1 "a file that cannot grow"
like "$err" '^megatron: data tokenize: cannot write out/k_text_document.bin[^ ]*: ' "is told"
ok "cmp old.bin out/k_text_document.bin" "and leaves the older dataset as it was"
only $'k_text_document.bin\nk_text_document.idx' "and no other file"
rm out/*

# What is no regular file stays what it is, found before the input is read; a link is followed.
mkdir out/f_text_document.bin
run megatron data tokenize --input bad.jsonl --output-prefix out/f
is "$status $err" "1 megatron: data tokenize: out/f_text_document.bin: it is a directory" \
    "a directory has the name"
mkfifo out/g_text_document.idx
run megatron data tokenize --input bad.jsonl --output-prefix out/g
is "$status $err" "1 megatron: data tokenize: out/g_text_document.idx: it is a FIFO" "or a FIFO"
only $'f_text_document.bin\ng_text_document.idx' "both stay, and nothing else is left"
rm -r out/*
mkdir disk
ln -s ../disk/tokens out/l_text_document.bin
run megatron data tokenize --input plain.txt --output-prefix out/l
is "$status $err" "0 " "a link"
ok "[ -L out/l_text_document.bin ] && cmp old.bin disk/tokens" "stays, and where it leads is written"
is "$(counts out/l_text_document)" "3 3 18" "and read"
rm out/*

# Threads: the same files from any number of them, and the same fault.
for i in $(seq 1 4000); do
    printf '{"text":["%*s","","%*s"],"title":"%*s"}\n' $((i * 7919 % 301)) a \
        $((i * 104729 % 97)) b $((i % 3)) ""
done >many.jsonl
seq 100000 | sed 's/7$/\n/' >many.txt
for workers in 1 2 7; do
    run megatron data tokenize --input many.jsonl --json-keys text title --append-eod \
        --output-prefix out/$workers --workers $workers
    is "$status" 0 "$workers threads, JSON lines"
    run megatron data tokenize --input many.txt,noise.txt,many.txt \
        --output-prefix out/p$workers --workers $workers
    is "$status" 0 "$workers threads, plain text"
done
for workers in 2 7; do
    for file in _text _title; do
        ok "cmp out/1${file}_document.bin out/$workers${file}_document.bin" "same tokens"
        ok "cmp out/1${file}_document.idx out/$workers${file}_document.idx" "same index"
    done
    ok "cmp out/p1_text_document.bin out/p${workers}_text_document.bin" "same tokens"
    ok "cmp out/p1_text_document.idx out/p${workers}_text_document.idx" "same index"
done
is "$(counts out/1_text_document)" "4000 8000 $((4000 + $(sed 's/"title.*//' many.jsonl \
    | tr -d '{}[]",:\n' | sed 's/text//g' | wc -c)))" "as many tokens as bytes"
rm out/*
sed '3100s/.*/{"text":1}/; 3900s/.*/{/' many.jsonl >late.jsonl
for workers in 1 7; do
    run megatron data tokenize --input late.jsonl,out --output-prefix out/l \
        --workers $workers
    like "$err" "^megatron: data tokenize: late.jsonl:3100: value of" "the first fault"
    only "" "and nothing is left"
done

# On a terminal: how far, how fast, how long
run script -qec "megatron data tokenize --input many.txt --output-prefix out/s" /dev/null
like "$(tr '\r' '\n' <<<"$out")" \
    '(^|[^0-9])[0-9]{1,3}% \[#*\.*\] [0-9.]+ of 0\.6 MB, [0-9.]+ MB/s, [0-9]+:[0-9][0-9] left' \
    "a terminal shows progress"
run bash -c 'megatron data tokenize --input many.txt --output-prefix out/s 2>&1 | cat'
is "$out" "out/s_text_document: 10001 documents, 588895 tokens, uint16" "a pipe does not"
rm out/*

# A signal ends it, and nothing is left.
mkfifo pipe
for signal in INT TERM; do
    # background jobs of a script ignore INT: give it back
    env --default-signal=INT megatron data tokenize --input pipe --output-prefix out/s \
        2>err &
    pid=$!
    exec 3>pipe
    head -c 100000 noise.txt >&3
    wait_until '[ -n "$(ls -A out)" ]' $pid
    kill -s "$signal" $pid
    status=0
    wait $pid 2>/dev/null || status=$?
    exec 3>&-
    is "$status" $((128 + $(kill -l "$signal"))) "$signal ends it as $signal does"
    only "" "and nothing is left"
done

# What a killed one left goes when its prefix is written again; what a living one writes stays.
names() {
    (cd out && ls | sed 's/tmp-[0-9a-f]*$/tmp/' | sort | uniq -c | sed 's/^ *//' | paste -sd,)
}
megatron data tokenize --input pipe --output-prefix out/s 2>err &
killed=$!
exec 3>pipe
wait_until '[ "$(ls out | wc -l)" = 2 ]' $killed
kill -KILL $killed
wait $killed 2>/dev/null || :
exec 3>&-
is "$(names)" "1 s_text_document.bin.tmp,1 s_text_document.idx.tmp" "a killed one leaves two files"
touch out/s_text_document.bin.tmp-mine out/other.bin.tmp-0123456789abcdef
megatron data tokenize --input pipe --output-prefix out/s 2>err &
living=$!
exec 3>pipe
wait_until '[ "$(names | tr , "\n" | grep -c "^1 s_.*tmp$")" = 2 ]' $living
run megatron data tokenize --input plain.txt --output-prefix out/s
is "$status $err" "0 " "another of the same prefix"
is "$(names)" "1 other.bin.tmp,1 s_text_document.bin,1 s_text_document.bin.tmp,1 \
s_text_document.bin.tmp-mine,1 s_text_document.idx,1 s_text_document.idx.tmp" \
    "what the killed one left is gone, the living one's and others' files are there"
printf 'xyz' >&3
exec 3>&-
status=0
wait $living || status=$?
is "$status $(counts out/s_text_document)" "0 1 1 3" "the living one ends as it should"
is "$(names)" "1 other.bin.tmp,1 s_text_document.bin,1 s_text_document.bin.tmp-mine,1 \
s_text_document.idx" "and nothing of it is left"
rm out/*

# One text to ids and back
# feed FILE COMMAND...: run with this input
feed() {
    local file=$1
    shift
    run bash -c '"$@" <"$0"' "$file" "$@"
}

feed plain.txt megatron data encode
is "$status $out" "0 97 32 98 10 99 10 10 32 9 10 100 10 101 13 10 13 10 102" "encode"
feed empty.txt megatron data encode
is "$status $out" "0 " "nothing is no ids"
megatron data encode <noise.txt | megatron data decode >back
ok "cmp back noise.txt" "decode gives the bytes back"
printf '97\t98\n\n 99 256\r100' >ids
feed ids megatron data decode
is "$status $out" "0 abcd" "ids between any white space; 256 is no text"
while IFS='|' read -r ids want; do
    echo "$ids" >ids
    feed ids megatron data decode
    is "$status $err" "1 megatron: data decode: $want" "refused: $ids"
done <<'END'
97 98 257|token 3: 257 is out of range, want 0 to 256
-1|token 1: -1 is out of range, want 0 to 256
97 9x|token 2: "9x" is not a whole number, want 0 to 256
END
# tokenizer.json: the unit test has the library's ids, this the way there
golden=$MG_SRCDIR/tests/golden/tokenizers
feed plain.txt megatron data encode --tokenizer-type HuggingFaceTokenizer --tokenizer-model no
is "$status" 1 "no such tokenizer.json"
like "$err" "^megatron: data encode: (cannot open no: No such file|.*PCRE2)" "is told"
if [[ $err == *PCRE2* ]]; then
    skip 1 "this build has no PCRE2"
else
    hf=(--tokenizer-type HuggingFaceTokenizer --tokenizer-model)
    mkdir -p hf out
    cp "$golden/llama3.json" hf/tokenizer.json
    echo '{"eos_token": "<|endoftext|>"}' >hf/tokenizer_config.json
    while read -r name; do
        jq -c "select (.file == \"$name\" and .text != \"\")" "$golden/ids.jsonl" >lines.jsonl
        path=$golden/$name.json
        [ "$name" != llama3 ] || path=hf
        for workers in 1 3; do
            run megatron data tokenize --input lines.jsonl --output-prefix out/hf \
                "${hf[@]}" "$path" --workers "$workers"
            is "$status $err" "0 " "$name: tokenized by $workers"
            is "$(od -An -v -w2 -tu2 out/hf_text_document.bin | tr -d ' ')" \
                "$(jq '.ids[]' lines.jsonl)" "$name: the library's ids"
        done
    done <<<$'gpt2\nllama3\nfalcon\nllama2\nmistral'
    printf '{"text": "the"}\n{"text": ""}\n{"text": ["the", "cat"]}\n' >some.jsonl
    run megatron data tokenize --input some.jsonl --output-prefix out/hf "${hf[@]}" hf \
        --append-eod
    is "$status $out" "0 out/hf_text_document: 3 documents, 9 tokens, uint16" \
        "each text has its begin, an empty one nothing"
    run megatron data tokenize --input some.jsonl --output-prefix out/hf "${hf[@]}" hf \
        --append-eod --tokenizer-hf-no-include-special-tokens
    is "$status $out" "0 out/hf_text_document: 3 documents, 6 tokens, uint16" "without begins"
    megatron data encode "${hf[@]}" "$golden/gpt2.json" <noise.txt \
        | megatron data decode "${hf[@]}" "$golden/gpt2.json" >back
    ok "cmp back noise.txt" "any bytes have ids, which give them back"

    # a tokenizer of one's own
    run megatron data train-tokenizer "$golden/text.txt" --vocab-size 300 --output own
    is "$status $err" "0 " "a tokenizer is trained"
    is "$out" "own: 300 tokens" "and says so"
    is "$(jq -r .eos_token own/tokenizer_config.json)" "<|endoftext|>" "its end of document"
    megatron data encode "${hf[@]}" own <"$golden/text.txt" >ids
    ok "[ $(wc -w <ids) -lt $(wc -c <"$golden/text.txt") ]" "it makes fewer tokens than bytes"
    megatron data decode "${hf[@]}" own <ids >back
    ok "cmp back '$golden/text.txt'" "which give the text back"
    jq -n --rawfile t "$golden/text.txt" -c '$t | split ("\n")[] | { body: . }' >body.jsonl
    run megatron data train-tokenizer body.jsonl --json-key body --vocab-size 290 \
        --pattern llama3 --special-tokens '</s>,<s>' --min-frequency 3 --output own.json
    is "$status $out" "0 own.json: 290 tokens" "of JSON lines, to a file"
    is "$(jq -c '[.added_tokens[].content], .pre_tokenizer.type' own.json | tr '\n' ' ')" \
        '["</s>","<s>"] "Sequence" ' "as it was asked for"
    run megatron data train-tokenizer plain.txt --vocab-size 90000 --output own.json
    is "$status" 0 "fewer pairs than were wanted"
    like "$err" "note: no further pair occurs 2 times, 90000 tokens were wanted" "is said"
    run megatron data train-tokenizer nofile --vocab-size 300 --output own.json
    is "$status $err" "1 megatron: data train-tokenizer: cannot open nofile: No such file or directory" \
        "no such text"
    cp body.jsonl %s%n.jsonl
    run megatron data train-tokenizer %s%n.jsonl --vocab-size 300 --output own.json
    is "$status $err" "1 megatron: data train-tokenizer: %s%n.jsonl:1: no key \"text\"" \
        "a name that looks like a format"
    run megatron data train-tokenizer body.jsonl --vocab-size 300 --output own.json
    is "$status $err" "1 megatron: data train-tokenizer: body.jsonl:1: no key \"text\"" \
        "no such key"
    sed 's/"BPE"/"Unigram"/' hf/tokenizer.json >unigram.json
    feed plain.txt megatron data encode "${hf[@]}" unigram.json
    is "$status $err" "1 megatron: data encode: unigram.json: model.type: the model \"Unigram\" is not supported, want BPE" \
        "what is not supported is named"
fi

feed plain.txt megatron data encode --tokenizer-type GPT2BPETokenizer --vocab-file no \
    --merge-file no
is "$status" 1 "no such vocabulary"
like "$err" "^megatron: data encode: (cannot open no: No such file|.*PCRE2)" "is told"

# The tokenizer of GPT-2
gpt2=$MG_SHARED/data/vocab/gpt2
if [[ $err == *PCRE2* ]]; then
    skip 1 "this build has no PCRE2"
elif [ ! -r "$gpt2/encoder.json" ]; then
    skip 1 "no reference data: $gpt2/encoder.json"
else
    bpe=(--tokenizer-type GPT2BPETokenizer --vocab-file "$gpt2/encoder.json"
         --merge-file "$gpt2/vocab.bpe")
    echo "Hello world, it's <|endoftext|>" >hello.txt
    feed hello.txt megatron data encode "${bpe[@]}"
    is "$out" "15496 995 11 340 338 1279 91 437 1659 5239 91 29 198" "GPT-2's ids"
    echo "15496 995 50256" >ids
    feed ids megatron data decode "${bpe[@]}"
    is "$out" "Hello world<|endoftext|>" "and their text"
    megatron data encode "${bpe[@]}" <noise.txt | megatron data decode "${bpe[@]}" >back
    ok "cmp back noise.txt" "any bytes have ids, which give them back"
    text=$MG_SHARED/data/wikitext/wikitext103.wiki.test.detok.txt
    megatron data encode "${bpe[@]}" <"$text" >ids
    is "$(tr ' ' '\n' <ids | cmp - <(od -An -v -w2 -tu2 \
        "$MG_SHARED/data/golden/wikitext103.test.detok.gpt2.u16.bin" | tr -d ' ') 2>&1)" "" \
        "WikiText-103's test text"
    megatron data decode "${bpe[@]}" <ids >back
    ok "cmp back '$text'" "and back"
    want=$MG_SHARED/data/megatron_bin/tinyshakespeare
    for workers in 1 3; do
        run megatron data tokenize --input "${want}_paragraphs.jsonl" --output-prefix out/g \
            "${bpe[@]}" --append-eod --workers $workers
        is "$out" "out/g_text_document: 7222 documents, 330804 tokens, uint16" "tokenize"
        for ending in bin idx; do
            ok "cmp out/g_text_document.$ending '${want}_gpt2_uint16_text_document.$ending'" \
                "Megatron's .$ending byte for byte, $workers threads"
        done
    done
    rm out/*
fi

# Sample order: depends on the lengths of the documents only; Megatron's own numbers
for n in 10 3 7 25 1 8 30 5 12 4; do
    printf '{"text":"%s"}\n' "$(printf '%*s' "$n" '')"
done >ten.jsonl
megatron data tokenize --input ten.jsonl --output-prefix out/t >/dev/null
ten=out/t_text_document
run megatron data index $ten --seq-length 8 --num-samples 14 --seed 1234 --json
is "$status" 0 "index succeeds"
is "$out" '{"document_index":[7,2,9,1,0,8,4,5,6,3,7,3,5,1,4,8,0,2,6,9],"sample_index":'\
'[[0,0],[1,3],[3,0],[4,5],[5,3],[5,11],[7,6],[8,6],[8,14],[8,22],[9,0],[9,8],[9,16],'\
'[9,24],[11,2],[11,10],[11,18],[12,1],[13,1],[15,5],[16,1],[16,9],[18,0],[18,8],[18,16],'\
'[18,24],[19,2]],"shuffle_index":[4,7,1,10,9,3,8,12,11,5,0,2,6,25,18,17,21,23,19,20,22,'\
'14,24,15,16,13]}' "two epochs, the last apart"
run megatron data index --json --seq-length 8 --seed 0 $ten
is "$out" '{"document_index":[2,8,4,9,1,6,7,3,0,5],"sample_index":[[0,0],[1,1],[1,9],[4,0],'\
'[5,5],[5,13],[5,21],[5,29],[7,2],[7,10],[7,18],[8,1],[8,9],[9,7]],"shuffle_index":[11,10,'\
'3,5,0,1,2,12,9,8,6,7,4]}' "one epoch"
run megatron data index $ten --seq-length 8 --num-samples 14
is "$out" "$ten: 10 documents, 105 tokens an epoch
26 samples of 8 tokens in 2 epochs, the last shuffled apart, seed 1234
the first begins at token 3 of document 8" "text for people"
run megatron data index $ten --seq-length 8 --split 5,3,2 --part valid --num-samples 2 --json
like "$out" '^\{"document_index":\[[5-7],[5-7],[5-7]\],"sample_index":\[\[0,0\],' \
    "documents of one part"
run megatron data index $ten --seq-length 105 --json
like "$out" '"sample_index":\[\[0,0\]\],"shuffle_index":\[\]\}$' "an epoch without a sample"

# Blends: a has 26 samples of 8 tokens in two epochs, b 7 in one
for n in 20 3 7 9 1 8 3 5 2 4; do
    printf '{"text":"%s"}\n' "$(printf '%*s' "$n" '')"
done >b.jsonl
megatron data tokenize --input b.jsonl --output-prefix out/b >/dev/null
b=out/b_text_document
run megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 20
is "$status" 0 "a blend by weights"
is "$out" "20 samples of 8 tokens from 2 datasets, seed 1234
$ten: 15 of 26 samples, 75.000 %
$b: 5 of 7 samples, 25.000 %" "takes three of the one to one of the other"
run megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 8 --json
is "$out" '{"dataset_index":[0,1,0,0,0,1,0,0],"dataset_sample_index":[0,0,1,2,3,1,4,5],'\
'"datasets":[{"prefix":"'$ten'","requested":7,"samples":13},'\
'{"prefix":"'$b'","requested":3,"samples":7}]}' "who is furthest behind is next"
run megatron data index $ten $b --seq-length 8
is "$out" "20 samples of 8 tokens from 2 datasets, seed 1234
$ten: 13 of 13 samples, 65.000 %
$b: 7 of 7 samples, 35.000 %" "without weights, all of one epoch"
run megatron data index $ten $b --seq-length 8 --num-samples 10
like "$out" "^10 samples of 8 tokens" "or as many as wanted"
run megatron data index 1 $ten 1 $b --seq-length 8
is "$status $err" "1 megatron: data index: a blend by weights needs a number of samples" \
    "weights need a number"
run megatron data index 1 $ten 1 $b --seq-length 8 --num-samples 7 --split 0,1 --part train
is "$err" "megatron: data index: $ten: split 0,1 leaves no document for train: it is \
[0, 0) of 10" "a part without documents is told by its dataset"

# Index caches
run megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 8 --json
want=$out
for i in 1 2 3 4; do
    megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 8 --json \
        --data-cache-path out/deep/cache >"out$i" &
done
wait
for i in 1 2 3 4; do
    is "$(cat "out$i")" "$want" "with a cache, four at once"
done
is "$(ls out/deep/cache | wc -l)" 11 "eleven files, of two datasets and the blend"
is "$(cd out/deep/cache && for f in *-description.txt; do
        [ "$(md5sum <"$f" | cut -c 1-32)" = "${f%%-*}" ] || echo "$f"; done)" "" \
    "named by the sum of their description"
chmod -w out/deep/cache
run megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 8 --json \
    --data-cache-path out/deep/cache
is "$out" "$want" "which are read"
chmod +w out/deep/cache
for file in out/deep/cache/*.npy; do
    cp "$file" whole
    head -c 140 whole >"$file"
    run megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 8 \
        --data-cache-path out/deep/cache
    is "$status" 1 "a file that is cut"
    like "$err" "^megatron: data index: (.*: )?$file: shape .*truncated" "is told by name"
    cp whole "$file"
done
megatron data tokenize --input docs.jsonl --output-prefix out/b >/dev/null
run megatron data index 3 $ten 1 $b --seq-length 8 --num-samples 8 \
    --data-cache-path out/deep/cache
like "$err" "$b: out/deep/cache/.*: shape is .*, want .*, as the dataset has it now" \
    "a cache of an older dataset is refused"
rm -r out/deep out/b_*

# A million documents
seq 1000000 >million.txt
run timeout 300 megatron data tokenize --input million.txt --output-prefix out/m \
    --split-documents line
is "$out" "out/m_text_document: 1000000 documents, 6888896 tokens, uint16" \
    "a million documents"
run timeout 300 megatron data index out/m_text_document --seq-length 128 \
    --num-samples 100000 --split 969,30,1
is "$(head -n 2 <<<"$out")" "out/m_text_document: train of 969,30,1, 969000 documents, \
6671895 tokens an epoch
104248 samples of 128 tokens in 2 epochs, seed 1234" "are put in order at once"

# A dataset that is damaged
cp $ten.idx whole
head -c 100 whole >$ten.idx
run megatron data inspect $ten
is "$status" 1 "a cut index is refused"
like "$err" "^megatron: data inspect: $ten.idx: .*truncated" "by name"
cp whole $ten.idx
head -c 100 $ten.bin > part.bin && mv part.bin $ten.bin
run megatron data index $ten --seq-length 8
like "$err" "^megatron: data index: $ten.idx: .* of $ten.bin, which has 100" "so are tokens"

# What is wrong on the command line: status 2, one line, nothing done.
while IFS='|' read -r args want; do
    # shellcheck disable=SC2086
    run megatron data $args
    is "$status" 2 "usage: $args"
    like "$err" "^megatron: data$want" "says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
done <<'END'
|: a part is missing
frob|: "frob" is not a part
index| index: PREFIX is missing
index x| index: --seq-length is missing
index 1 x y z --seq-length 8| index: "y" stands where a weight should
index 0 x --seq-length 8| index: weight of x is 0, want more than 0
index x.idx --seq-length 8| index: .WEIGHT. PREFIX...: "x.idx" is one of two files
index x --seq-length 8 --mid-level-dataset-surplus -1| index: --mid-level-dataset-surplus: -1
index x --seq-length 8 --data-cache-path=| index: --data-cache-path: an empty name
inspect x y| inspect: PREFIX: "y" is one too many
index x --seq-length| index: --seq-length needs a value
index x --seq-length 1| index: --seq-length: 1 is out of range, want 2
index x --seq-length eight| index: --seq-length: "eight" is not a whole number
index x --seq-length 8 --num-samples 0| index: --num-samples: 0 is out of range
index x --seq-length 8 --seed 4294967296| index: --seed: 4294967296 is out of range
index x --seq-length 8 --split 1,2,3,4| index: split "1,2,3,4", want up to 3 weights
index x --seq-length 8 --split 0| index: split "0": the sum of the weights is 0
index x --seq-length 8 --part test| index: --part needs --split
index x --seq-length 8 --split 1 --part all| index: part: "all" is not train, valid or test
index x --seq-len 8| index: unknown option "--seq-len"
inspect| inspect: PREFIX is missing
merge --output x| merge: PREFIX is missing
merge x y| merge: --output is missing
merge x --input y --output z| merge: --input DIR and PREFIX... exclude each other
merge x.bin --output y| merge: PREFIX...: "x.bin" is one of two files
merge x --output y.idx| merge: --output: "y.idx" is one of two files
merge x --output=| merge: --output: an empty name
merge --input= --output x| merge: --input: an empty name
split x --output= --split 1| split: --output: an empty name
tokenize --input x --output-prefix=| tokenize: --output-prefix: an empty name
split --output x --split 1| split: PREFIX is missing
split x --split 1| split: --output is missing
split x --output y| split: none of --split, --documents and --tokens
split x --output y --tokens 1 --documents 1| split: more than one of --split, --documents
split x y --output z --tokens 1| split: PREFIX: "y" is one too many
split x --output z --tokens 0| split: --tokens: 0 is out of range
split x --output z --documents -1| split: --documents: -1 is out of range
split x --output z --split 1,2,3,4| split: split "1,2,3,4", want up to 3 weights
inspect x --sequence -1| inspect: --sequence: -1 is out of range
tokenize| tokenize: --input is missing
tokenize --input x| tokenize: --output-prefix is missing
tokenize --input x, --output-prefix y| tokenize: --input: "x," has an empty part
tokenize --input x --output-prefix y z| tokenize: "z" is not an option
tokenize --input x --output-prefix y --tokenizer-type z| tokenize: tokenizer type: "z" is
tokenize --input x --output-prefix y --workers 0| tokenize: --workers: 0 is out of range
tokenize --input x --output-prefix y --vocab-file v| tokenize: tokenizer ByteLevel reads no
tokenize --input x --output-prefix y --tokenizer-type GPT2BPETokenizer| tokenize: tokenizer GPT2BPETokenizer needs --vocab-file and --merge-file
encode --tokenizer-type HuggingFaceTokenizer| encode: tokenizer HuggingFaceTokenizer needs --tokenizer-model
encode --tokenizer-model v| encode: tokenizer ByteLevel reads no files, but --tokenizer-model v
train-tokenizer| train-tokenizer: FILE is missing
train-tokenizer x| train-tokenizer: --vocab-size is missing
train-tokenizer x --vocab-size 300| train-tokenizer: --output is missing
train-tokenizer x --vocab-size 256| train-tokenizer: --vocab-size: 256 is out of range
train-tokenizer x --min-frequency 0| train-tokenizer: --min-frequency: 0 is out of range
train-tokenizer x --special-tokens a,| train-tokenizer: --special-tokens: "a," has an empty part
train-tokenizer x --input-format y| train-tokenizer: --input-format: "y" is unknown
encode --merge-file v| encode: tokenizer ByteLevel reads no files, but --merge-file v is
encode x| encode: "x" is not an option
decode --tokenizer-type z| decode: tokenizer type: "z" is unknown, want one of ByteLevel, G
tokenize --input x --output-prefix y --input-format z| tokenize: --input-format: "z" is
tokenize --input x --output-prefix y --split-documents z| tokenize: --split-documents: "z"
tokenize --input x --output-prefix y --json-keys a,a| tokenize: --json-keys: "a" is there
tokenize --input x --output-prefix y --json-keys a/b| tokenize: --json-keys: "a/b" has a
tokenize --input x --output-prefix y --json-keys a,b| tokenize: --json-keys: 2 keys, but x
END

run megatron data inspect ""
is "$status$err" "2megatron: data inspect: PREFIX: an empty name; see megatron data inspect --help" \
    "no name is no dataset"

# What fails at work: status 1, one line.
while IFS='|' read -r args want; do
    # shellcheck disable=SC2086
    run megatron data $args
    is "$status" 1 "fails: $args"
    like "$err" "^megatron: data $want" "says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
done <<'END'
index no --seq-length 8|index: cannot open no.idx: No such file
index 1 out/m_text_document 1 no --seq-length 8 --num-samples 9|index: cannot open no.idx: No
index out/m_text_document --seq-length 8 --data-cache-path plain.txt|index: out/m_text_document: cannot create directory plain.txt: Not a directory
index out/m_text_document --seq-length 8 --split 1 --part valid|index: out/m.* leaves no doc
inspect out/m_text_document --sequence 1000000|inspect: --sequence: no sequence 1000000
tokenize --input plain.txt,no --output-prefix out/x|tokenize: cannot open no: No such file
tokenize --input plain.txt --output-prefix no/x|tokenize: no/x_text_document.bin: its directory cannot be written
tokenize --input empty.txt --output-prefix out/x|tokenize: the input has no text for out/x
tokenize --input out --output-prefix out/x|tokenize: cannot read out: Is a directory
END

for part in "" tokenize encode decode index merge split inspect; do
    # shellcheck disable=SC2086
    run megatron data $part --help
    is "$status" 0 "data $part --help succeeds"
    like "$out" "^Usage: megatron data" "with the usage"
done

# The manual has every option.
page=$MG_SRCDIR/man/megatron-data.1.in
missing=
for part in tokenize encode decode index merge split inspect; do
    for option in $(megatron data $part --help | grep -o '^  --[a-z-]*'); do
        grep -q -e "^\.[A-Z]* .*${option//-/\\\\-}" "$page" || missing+="$part $option "
    done
done
is "$missing" "" "every option is in the manual page"
done_testing

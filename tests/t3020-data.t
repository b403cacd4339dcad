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
"text"|no JSON object on this line:
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

# A signal ends it, and nothing is left.
mkfifo pipe
for signal in INT TERM; do
    # background jobs of a script ignore INT: give it back
    env --default-signal=INT megatron data tokenize --input pipe --output-prefix out/s \
        2>err &
    pid=$!
    exec 3>pipe
    head -c 100000 noise.txt >&3
    for ((i = 0; i < 100; i++)); do
        [ -z "$(ls -A out)" ] || break
        sleep 0.05
    done
    kill -s "$signal" $pid
    status=0
    wait $pid 2>/dev/null || status=$?
    exec 3>&-
    is "$status" $((128 + $(kill -l "$signal"))) "$signal ends it as $signal does"
    only "" "and nothing is left"
done

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

# A million documents
seq 1000000 >million.txt
run timeout 100 megatron data tokenize --input million.txt --output-prefix out/m \
    --split-documents line
is "$out" "out/m_text_document: 1000000 documents, 6888896 tokens, uint16" \
    "a million documents"
run timeout 100 megatron data index out/m_text_document --seq-length 128 \
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
index x y --seq-length 8| index: PREFIX: "y" is one too many
index x.idx --seq-length 8| index: PREFIX: "x.idx" is one of two files
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
inspect x --sequence -1| inspect: --sequence: -1 is out of range
tokenize| tokenize: --input is missing
tokenize --input x| tokenize: --output-prefix is missing
tokenize --input x, --output-prefix y| tokenize: --input: "x," has an empty part
tokenize --input x --output-prefix y z| tokenize: "z" is not an option
tokenize --input x --output-prefix y --tokenizer-type z| tokenize: tokenizer type: "z" is
tokenize --input x --output-prefix y --input-format z| tokenize: --input-format: "z" is
tokenize --input x --output-prefix y --split-documents z| tokenize: --split-documents: "z"
tokenize --input x --output-prefix y --json-keys a,a| tokenize: --json-keys: "a" is there
tokenize --input x --output-prefix y --json-keys a/b| tokenize: --json-keys: "a/b" has a
tokenize --input x --output-prefix y --json-keys a,b| tokenize: --json-keys: 2 keys, but x
END

# What fails at work: status 1, one line.
while IFS='|' read -r args want; do
    # shellcheck disable=SC2086
    run megatron data $args
    is "$status" 1 "fails: $args"
    like "$err" "^megatron: data $want" "says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
done <<'END'
index no --seq-length 8|index: cannot open no.idx: No such file
index out/m_text_document --seq-length 8 --split 1 --part valid|index: out/m.* leaves no doc
inspect out/m_text_document --sequence 1000000|inspect: --sequence: no sequence 1000000
tokenize --input plain.txt,no --output-prefix out/x|tokenize: cannot open no: No such file
tokenize --input plain.txt --output-prefix no/x|tokenize: cannot create no/x_text_document
tokenize --input empty.txt --output-prefix out/x|tokenize: the input has no text for out/x
tokenize --input out --output-prefix out/x|tokenize: cannot read out: Is a directory
END

for part in "" tokenize index inspect; do
    # shellcheck disable=SC2086
    run megatron data $part --help
    is "$status" 0 "data $part --help succeeds"
    like "$out" "^Usage: megatron data" "with the usage"
done

# The manual has every option.
page=$MG_SRCDIR/man/megatron-data.1.in
missing=
for part in tokenize index inspect; do
    for option in $(megatron data $part --help | grep -o '^  --[a-z-]*'); do
        grep -q -e "^\.[A-Z]* .*${option//-/\\\\-}" "$page" || missing+="$part $option "
    done
done
is "$missing" "" "every option is in the manual page"
done_testing

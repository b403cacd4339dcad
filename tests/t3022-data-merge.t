#!/bin/bash
# megatron data merge and split: the same documents in other datasets, and nothing lost.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

# same A B TEXT: two datasets have the same bytes.
same() {
    ok "cmp $1.bin $2.bin && cmp $1.idx $2.idx" "$3"
}

# counts PREFIX: documents, sequences, tokens
counts() {
    megatron data inspect "$1" --json \
        | sed 's/.*"documents":\([0-9]*\),"sequences":\([0-9]*\),"tokens":\([0-9]*\),.*/\1 \2 \3/'
}

seq 1000 >a.txt
seq 5000 5300 >b.txt
cat a.txt b.txt >ab.txt
for set in a b ab; do
    megatron data tokenize --input $set.txt --output-prefix $set --split-documents line \
        --append-eod >/dev/null
done
a=a_text_document b=b_text_document ab=ab_text_document

# ---- merge
run megatron data merge $a $b --output m
is "$status $err" "0 " "two datasets are merged"
is "$out" "m: 1301 documents, 6699 tokens, uint16" "and the command says what it wrote"
same m $ab "the result is the dataset of both texts"
run megatron data merge $a --output=one
same one $a "one dataset is copied"
run megatron data merge $a $a $a --output three
is "$(counts three)" "3000 3000 $((3 * 4893))" "a dataset can be given several times"

mkdir dir
for set in a b; do
    for ending in bin idx; do cp ${set}_text_document.$ending dir/$set.$ending; done
done
touch dir/README dir/b.bin.tmp-0123456789abcdef
run megatron data merge --input dir --output-prefix m2
is "$status" 0 "a directory, with Megatron-LM's option" || diag "$err"
same m2 m "is merged in the order of names"

# sequences, documents without any, and modes
printf '%s\n' '{"text":["ab","c"]}' '{"text":[]}' '{"text":"def"}' >docs.jsonl
megatron data tokenize --input docs.jsonl --output-prefix d >/dev/null
d=d_text_document
run megatron data merge $d $a $d --output m3
is "$(counts m3)" "1006 1006 $((4893 + 12))" "documents of several sequences and of none"
is "$(megatron data inspect m3 --json | grep -o '"empty_documents":[0-9]*')" \
    '"empty_documents":2' "are the same documents again"
cp $d.bin mode.bin
{ cat $d.idx; printf '\1\0\2'; } >mode.idx
run megatron data merge mode mode --output m4 --multimodal
is "$status $(tail -c 6 m4.idx | od -An -tu1)" "0    1   0   2   1   0   2" "modes are merged"
is "$(megatron data inspect m4 --json | grep -o '"modes":.*')" '"modes":true}' "and found"

# what cannot be merged: one line, and the older dataset stays
megatron data inspect m4 --json >before
cp $d.idx int32.idx
printf '\4' | dd of=int32.idx bs=1 seek=17 conv=notrunc 2>/dev/null
head -c 24 /dev/zero >int32.bin
perl -e 'print pack ("q<3", 0, 8, 12)' | dd of=int32.idx bs=1 seek=46 conv=notrunc 2>/dev/null
ok "megatron data inspect int32 >/dev/null" "a dataset of another type"
head -c 60 $a.idx >cut.idx
cp $a.bin cut.bin
mkdir lone empty
cp $a.bin lone/x.bin
while IFS='|' read -r args want; do
    # shellcheck disable=SC2086
    run megatron data merge $args --output m4
    is "$status" 1 "refused: merge $args"
    like "$err" "^megatron: data merge: $want" "says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
done <<END
$a int32|int32 has int32 tokens, but $a has uint16: want one type
$d mode|the sequences of mode have modes, but those of $d have no modes: want
mode $d --multimodal|--multimodal: the sequences of $d have no modes
$a no|cannot open no.idx: No such file
$a cut|cut.idx: .*truncated
$a m4|m4.idx: the output would replace the input m4.idx
--input lone|cannot open lone/x.idx: No such file
--input empty|empty: no dataset there
--input no|cannot open no: No such file
END
is "$(megatron data inspect m4 --json)" "$(cat before)" "the older dataset stays as it was"
is "$(ls -- *tmp-* 2>/dev/null)" "" "and no temporary file is left"
run bash -c "ulimit -f 4; megatron data merge $a $a --output m4"
is "$status" 1 "a file that cannot grow"
like "$err" '^megatron: data merge: cannot write m4.bin: ' "is told"
is "$(megatron data inspect m4 --json)" "$(cat before)" "the older dataset stays then too"
is "$(ls -- *tmp-* 2>/dev/null)" "" "and no temporary file is left"
ln m4.bin hard.bin && ln m4.idx hard.idx
run megatron data merge hard $d --output m4
like "$err" "^megatron: data merge: m4.idx: the output would replace the input hard.idx" "also by another name"
rm -r m[0-9].* three.* one.*

# ---- split as training does
run megatron data split $ab --output part --split 969,30,1
is "$status $err" "0 " "a dataset is split"
is "$out" "part_train: 1261 documents, 6459 tokens, uint16
part_valid: 39 documents, 234 tokens, uint16
part_test: 1 documents, 6 tokens, uint16" "and the command says what it wrote"
megatron data merge part_train part_valid part_test --output back >/dev/null
same back $ab "the parts together are the dataset"
for part in train valid test; do
    megatron data index $ab --seq-length 2 --split 969,30,1 --part $part --json \
        | sed 's/"document_index.*"sample_index/"sample_index/' >whole
    megatron data index part_$part --seq-length 2 --json \
        | sed 's/"document_index.*"sample_index/"sample_index/' >alone
    ok "cmp whole alone" "$part has the samples of training's --split"
done
run megatron data split $ab --output half --split 1,0,1
is "$out" "half_train: 650 documents, 3142 tokens, uint16
half_test: 651 documents, 3557 tokens, uint16" "a part of weight 0"
is "$err$(ls half_valid* 2>/dev/null)" "" "is not written"
run megatron data split $ab --output part --split 1,0,1
is "$status:$err" "1:megatron: data split: part_valid.idx is there, but the last dataset to write \
is part_test: remove the datasets of an earlier split" "a part of an earlier split stands in the way"
run megatron data split $d --output tiny --split 100,1
is "$status" 0 "a part that gets no document"
is "$err" "megatron: data split: note: no document is left for valid, it is not written" \
    "is told and not written"
run megatron data split $d --output cut --split 1,2
is "$err" "megatron: data split: note: document 0 is cut at the end of train: --split counts \
sequences, as training does" "a document that is cut is told"
is "$(counts cut_train), $(counts cut_valid)" "1 1 2, 3 2 4" "and has a part on both sides"
run megatron data split mode --output mode --split 1,2
is "$(tail -c 1 mode_train.idx | od -An -tu1)$(tail -c 2 mode_valid.idx | od -An -tu1)" \
    "   1   0   2" "modes are split too"

# ---- shards
run megatron data split $ab --output shard --documents 500
is "$out" "shard_00000: 500 documents, 2392 tokens, uint16
shard_00001: 500 documents, 2501 tokens, uint16
shard_00002: 301 documents, 1806 tokens, uint16" "shards of as many documents"
mkdir shards && mv shard_* shards
megatron data merge --input shards --output back >/dev/null
same back $ab "together they are the dataset"
run megatron data split $ab --output few --tokens 3000
is "$(cut -d' ' -f1,4- <<<"$out")" "few_00000: 2997 tokens, uint16
few_00001: 3000 tokens, uint16
few_00002: 702 tokens, uint16" "shards of as many tokens, at most"
run megatron data split $d --output long --tokens 1
is "$out" "long_00000: 1 documents, 3 tokens, uint16
long_00001: 1 documents, 0 tokens, uint16
long_00002: 1 documents, 3 tokens, uint16" "a longer document is a shard of its own"
run megatron data split $d --output all --documents 9223372036854775807
is "$out" "all_00000: 3 documents, 6 tokens, uint16" "one shard of all"
same all_00000 $d "is the dataset"

# what cannot be split
: >nothing.bin
printf 'MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >nothing.idx
mkdir here_00001.bin
seq 20000 >many.txt
megatron data tokenize --input many.txt --output-prefix many --split-documents line >/dev/null
while IFS='|' read -r args want; do
    # shellcheck disable=SC2086
    run megatron data split $args
    is "$status" 1 "refused: split $args"
    like "$err" "^megatron: data split: $want" "says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
done <<END
no --output x --split 1|cannot open no.idx: No such file
cut --output x --split 1|cut.idx: .*truncated
nothing --output x --documents 1|nothing has no document to write
$ab --output few --documents 1000|few_00002.idx is there, but the last dataset to write is few_00001: remove
$ab --output here --documents 700|here_00001.bin: it is a directory
many_text_document --output x --documents 1|--documents 1 gives more than 10000 datasets
shards/shard_00000 --output shards/shard --documents 100|shards/shard_00000.idx: the output would replace the input shards/shard_00000.idx
END
is "$(ls -d x* here_00000* 2>/dev/null)" "" "and nothing is written"

# ---- a signal ends it, and nothing is left
head -c 20000000 /dev/zero >big.txt
megatron data tokenize --input big.txt --output-prefix big --split-documents none >/dev/null 2>&1
rm big.txt
mapfile -t many < <(yes big_text_document | head -n 60)
env --default-signal=INT megatron data merge "${many[@]}" --output huge 2>err &
pid=$!
wait_until 'ls | grep -q "^huge.bin.tmp"' $pid
kill -s INT $pid
status=0
wait $pid 2>/dev/null || status=$?
is "$status" 130 "SIGINT ends a merge" || diag "$(cat err)"
is "$(ls | grep huge)" "" "and nothing is left"
done_testing

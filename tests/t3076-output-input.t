#!/bin/bash
# No command replaces a file that it reads, by whatever name the output leads to the file.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text text.txt 4
megatron data tokenize --input text.txt --output-prefix a >/dev/null
run megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 \
    --tokenizer-type ByteLevel --micro-batch-size 2 --data-path a_text_document --lr 1e-2 \
    --split 100,0,0 --eval-iters 0 --train-iters 1 --save ck --save-weights w.st
is "$status" 0 "a model" || diag "$err"

# refused FILE NAME COMMAND...: NAME is in the way of FILE, which the command reads, by links and
# other names, and the command, which writes to NAME, is refused.
refused() {
    local file=$1 name=$2 kind before=
    shift 2
    before=$(cksum <"$file")
    for kind in "symbolic link" "hard link"; do
        rm -rf "$name"
        mkdir -p "$(dirname "$name")"
        case $kind in
        symbolic*) ln -s "$PWD/$file" "$name" ;;
        hard*) ln "$file" "$name" ;;
        esac
        run "$@"
        is "$status $(wc -l <.err)" "1 1" "${*:2:2}: $name is a $kind to the input $file"
        like "$err" "would replace the input" "which is said"
        is "$(cksum <"$file")" "$before" "and the input stays"
        rm -f "$name"
    done
}

convert=(megatron checkpoint convert)
run "${convert[@]}" w.st --output ./w.st
is "$status" 1 "convert: the input itself: $err"
run "${convert[@]}" "$PWD/w.st" --output ck/../w.st --format hf-gpt2 --num-attention-heads 2
is "$status" 1 "convert: by another path: $err"
refused w.st o.st "${convert[@]}" w.st --output o.st
refused ck/iter_0000001/shard_00000.bin o.st "${convert[@]}" ck --output o.st
refused ck/latest_checkpointed_iteration.txt o.st "${convert[@]}" ck --output o.st
refused w.st hf/model.safetensors "${convert[@]}" w.st --output hf --format hf
refused w.st hf/model-00001-of-00002.safetensors "${convert[@]}" w.st --output hf --format hf
refused w.st new/latest_checkpointed_iteration.txt "${convert[@]}" w.st --output new \
    --format checkpoint
rm -rf hf
run "${convert[@]}" w.st --output hf --format hf
is "$status" 0 "a model of Hugging Face's" || diag "$err"
refused hf/model.safetensors o.st "${convert[@]}" hf --output o.st
refused hf/config.json o.st "${convert[@]}" hf --output o.st
run "${convert[@]}" w.st --output other.st
is "$status" 0 "another name" || diag "$err"
run "${convert[@]}" w.st --output other.st
is "$status" 0 "and once more" || diag "$err"

learn=(megatron data train-tokenizer text.txt --vocab-size 260)
run "${learn[@]}" --output ./text.txt
is "$status" 1 "train-tokenizer: the input itself: $err"
refused text.txt t.json "${learn[@]}" --output t.json
refused text.txt t/tokenizer.json "${learn[@]}" --output t
refused text.txt t/tokenizer_config.json "${learn[@]}" --output t
run "${learn[@]}" --output t
is "$status" 0 "a tokenizer" || diag "$err"

encode=(megatron data tokenize --input text.txt --output-prefix o)
refused text.txt o_text_document.bin "${encode[@]}"
refused text.txt o_text_document.idx "${encode[@]}"
refused t/tokenizer.json o_text_document.bin "${encode[@]}" \
    --tokenizer-type HuggingFaceTokenizer --tokenizer-model t
run "${encode[@]}"
is "$status" 0 "a dataset" || diag "$err"
for ending in bin idx; do
    refused a_text_document.$ending m.$ending megatron data merge --output m \
        a_text_document
    refused a_text_document.$ending s_train.$ending megatron data split a_text_document \
        --output s --split 50,25,25
done
train=(megatron train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16
       --micro-batch-size 2 --lr 1e-2 --split 100,0,0 --eval-iters 0 --train-iters 1
       --tokenizer-type HuggingFaceTokenizer --tokenizer-model t)
refused o_text_document.bin m.json "${train[@]}" --data-path o_text_document --metrics-file m.json
refused t/tokenizer.json o.st "${train[@]}" --data-path 0.5 o_text_document 0.5 a_text_document \
    --save-weights o.st
refused a_text_document.idx o.st "${train[@]}" --data-path 0.5 o_text_document 0.5 \
    a_text_document --save-weights o.st
echo '[{"name": "a", "shape": [4]}]' >list.json
refused list.json map.svg megatron plan buffers --params list.json --svg map.svg
done_testing

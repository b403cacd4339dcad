#!/bin/bash
# megatron checkpoint: what is told of a checkpoint, faults told apart, and conversions that
# lose nothing.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 12
megatron data tokenize --input a.txt --output-prefix a --append-eod >/dev/null
model=(--num-layers 2 --hidden-size 24 --num-attention-heads 3 --seq-length 16
       --tokenizer-type ByteLevel --micro-batch-size 2 --global-batch-size 4
       --train-data-path a_text_document --lr 1e-2)
train=(megatron train "${model[@]}")
tp=1
if ranks_available; then
    tp=2
    train=(ranks_run 2 "${train[@]}" --num-attention-heads 4 --tensor-model-parallel-size 2)
    model+=(--num-attention-heads 4)
fi
heads=$((tp == 2 ? 4 : 3))
run "${train[@]}" --train-iters 3 --save-interval 2 --save ck --save-weights w.st
is "$status" 0 "a run of $tp ranks" || diag "$err"

# ---- inspect
run megatron checkpoint inspect ck
is "$status" 0 "inspect" || diag "$err"
like "$out" $'\nlayout +world '$tp", tp $tp, pp 1, vpp 1, dp 1, cp 1, ep 1, etp $tp, $tp shards"$'\n' "layout"
like "$out" "2 layers, hidden 24, attention 24, ffn 96, vocabulary 257, positions 16, tied" "model"
like "$out" $'\nmodel.decoder.layers.1.mlp.linear_fc1.weight float32 \[96, 24\] '$tp$' 9216\n' \
    "a tensor"
run megatron checkpoint inspect ck/iter_0000002/ --json
is "$status" 0 "inspect one by its own directory, as JSON"
like "$out" '"iteration":2,' "the iteration"
like "$out" '"layout":\{"world":'$tp',"tp":'$tp',' "the layout"
like "$out" '"model":\{"layers":2,"hidden":24,' "the model"
like "$out" '\{"name":"model.embedding.word_embeddings.weight","dtype":"float32","shape":\[257,24\],"shards":'$tp',"parts":'$tp',"bytes":24672\}' "a tensor"
ok "grep -q '\"values\":{\"iteration\":2,\"consumed_samples\":8,' '$TEST_DIR/.out'" "values"

# ---- convert: bit for bit, there and back
if ((tp == 2)); then
    run ranks_run 2 megatron train "${model[@]}" --pipeline-model-parallel-size 2 --train-iters 1 \
        --save pipe --save-weights pipe-w.st
    megatron checkpoint convert pipe --output pipe.st
    ok "cmp pipe.st pipe-w.st" "a pipeline's checkpoint: the file that the run wrote" || diag "$err"
    run ranks_run 2 megatron train "${model[@]}" --use-distributed-optimizer --train-iters 1 \
        --save dp --save-weights dp-w.st
    megatron checkpoint convert dp --output dp.st
    ok "cmp dp.st dp-w.st" "one of shards: the same" || diag "$err"
else
    skip 2 "neither UCX nor MPI"
fi
run megatron checkpoint convert ck --output own.st
is "$status$err" 0 "to our names"
ok "cmp own.st w.st" "the file that the run wrote"
run megatron checkpoint convert ck --output hf.st --format hf-gpt2
is "$status$err" 0 "to Hugging Face's"
ok "[ \$(stat -c %s hf.st) -gt 60000 ]" "a file"
is "$(head -c 20000 hf.st | tr -d '\0' | grep -aoE '"transformer.(wte.weight|h.1.attn.c_attn.(weight|bias)|h.1.mlp.c_proj.weight)":\{[^}]*"shape":\[[0-9,]*\]' | sed 's/:{.*shape"//')" \
'"transformer.wte.weight":[257,24]
"transformer.h.1.attn.c_attn.weight":[24,72]
"transformer.h.1.attn.c_attn.bias":[72]
"transformer.h.1.mlp.c_proj.weight":[96,24]' "names and layouts"
is "$(grep -ac lm_head hf.st)" 0 "no head where it is tied"
run megatron checkpoint convert hf.st --output back.st --num-attention-heads "$heads"
is "$status$err" 0 "and back"
# plain FILE: its header without metadata, which a GPT-2's file lacks, and its data
plain() {
    local n
    n=$(od -An -tu8 -N8 "$1")
    tail -c +9 "$1" | head -c $((n)) | jq -c 'del(.__metadata__)'
    tail -c +$((9 + n)) "$1"
}
is "$(plain back.st | cksum)" "$(plain w.st | cksum)" "bit for bit"
run megatron checkpoint convert w.st --output hf2.st --format hf-gpt2 --num-attention-heads "$heads"
ok "cmp hf2.st hf.st" "a file of weights gives the same"
run megatron checkpoint convert hf.st --output new --format checkpoint --num-attention-heads "$heads"
is "$status$err" 0 "to a checkpoint"
run megatron checkpoint verify new
is "$status" 0 "a good one: $out"
run megatron checkpoint convert new --output again.st
is "$(plain again.st | cksum)" "$(plain w.st | cksum)" "that holds the same"

# losses ARGUMENT...: of two iterations
losses() {
    rm -f m.json
    run megatron train "${model[@]}" --train-iters 2 --hidden-dropout 0 --attention-dropout 0 \
        --metrics-file m.json "$@"
    [ "$status" = 0 ] || diag "$err"
    sed 's/, "elapsed.*//' m.json
}
want=$(losses --load-weights w.st)
is "$(wc -l <<<"$want")" 2 "a run from the weights"
is "$(losses --load-weights back.st)" "$want" "from the converted ones: the same losses"
is "$(losses --load new)" "$want" "and from the converted checkpoint"

run megatron train "${model[@]}" --untie-embeddings-and-output-weights --train-iters 1 --save-weights u.st
run megatron checkpoint convert u.st --output uhf.st --format hf-gpt2 --num-attention-heads "$heads"
is "$(grep -ac '"lm_head.weight"' uhf.st)" 1 "an output layer of its own"
run megatron checkpoint convert uhf.st --output uback.st --num-attention-heads "$heads"
is "$(plain uback.st | cksum)" "$(plain u.st | cksum)" "there and back"

# A trained GPT-2 of others, with the logits that PyTorch made of it.
weights=$MG_SHARED/data/weights
if [ -r "$weights/gpt-nano-sort-model.json" ] && command -v python3 >/dev/null; then
    cat >nano.py <<'END'
import base64, json, math, struct, sys
def write(path, tensors):
    head, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        head[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + b''.join(t[2] for t in tensors.values()))
def raw(t):
    return base64.b64decode(t['data'])
def floats(t):
    return struct.unpack('<%df' % (len(raw(t)) // 4), raw(t))
model = json.load(open(sys.argv[1] + '/gpt-nano-sort-model.json'))
made = json.load(open(sys.argv[1] + '/gpt-nano-sort-t0-partials.json'))
named = {k: ('F32', t['shape'], raw(t)) for k, t in model.items() if isinstance(t, dict) and 'data' in t}
masks = [k for k in named if k.endswith('.attn.bias')]
for k in masks:
    del named[k]
write('nano.hf', named)
conv = {}
for k, (kind, shape, data) in named.items():
    if len(shape) == 2 and ('.attn.' in k or '.mlp.' in k):
        v, (rows, cols) = struct.unpack('<%df' % (len(data) // 4), data), shape
        data = struct.pack('<%df' % len(v), *[v[r * cols + c] for c in range(cols) for r in range(rows)])
        shape = [cols, rows]
    conv[k] = (kind, shape, data)
write('conv.hf', conv)
tokens, logits = [int(x) for x in floats(made['idx'])], floats(made['lm_head'])
labels = [(7 * i + 1) % 3 for i in range(33)]
loss = sum(math.log(sum(map(math.exp, logits[3 * i:3 * i + 3]))) - logits[3 * i + labels[i]] for i in range(33)) / 33
shape = [1, 3, 11]
write('nano.batches', {'tokens': ('I32', shape, struct.pack('<33i', *tokens)),
                       'labels': ('I32', shape, struct.pack('<33i', *labels)),
                       'loss_mask': ('F32', shape, struct.pack('<33f', *[1.0] * 33))})
print('%.9g' % loss)
END
    run python3 nano.py "$weights"
    is "$status" 0 "a file of minGPT's" || diag "$err"
    want=$out
    run megatron checkpoint convert nano.hf --output nano.st --num-attention-heads 3
    is "$status$err" 0 "converted"
    run megatron train --num-layers 3 --hidden-size 48 --num-attention-heads 3 --seq-length 11 \
        --max-position-embeddings 11 --vocab-size 3 --batches nano.batches --load-weights nano.st \
        --micro-batch-size 3 --train-iters 1 --lr 0 --hidden-dropout 0 --attention-dropout 0 \
        --untie-embeddings-and-output-weights --metrics-file n.json
    got=$(sed 's/.*"lm loss": \([0-9.e+-]*\),.*/\1/' n.json)
    ok "awk 'BEGIN { d = ($got - $want) / $want; exit !(d * d < 1e-10) }'" \
        "its loss is that of PyTorch's logits: $got, $want"
    run megatron checkpoint convert conv.hf --output conv.st --num-attention-heads 3
    ok "cmp conv.st nano.st" "the same with weights as Hugging Face's Conv1D has them"
    run megatron checkpoint convert nano.st --output nano2.hf --format hf-gpt2 --num-attention-heads 3
    run megatron checkpoint convert nano2.hf --output nano2.st --num-attention-heads 3
    ok "cmp nano2.st nano.st" "there and back"
    run megatron checkpoint convert "$weights/gpt-nano-sort.safetensors" --output x.st \
        --num-attention-heads 3
    is "$status" 1 "a file without a bias is refused"
    like "$err" 'h.0.attn.c_attn.bias is not in it' "which is named"
else
    skip 7 "no weights in $MG_SHARED, or no python3"
fi

# ---- verify: each fault by its kind
one=iter_0000003
run megatron checkpoint verify ck --all
is "$status" 0 "all are good"
is "$(wc -l <<<"$out")" 2 "a line each"
# fault KIND FILE TEXT COMMAND: what verify says of a copy that the command has changed.
fault() {
    rm -rf bad
    cp -r ck bad
    (cd bad/$one && eval "$4")
    run megatron checkpoint verify bad
    is "$status" 1 "$1: $4"
    like "$out" "^$1: bad/$one/$2: .*$3" "its kind, the file and why"
    is "$(wc -l <<<"$out")" 1 "in one line"
    is "$err" "megatron: checkpoint verify: bad: 1 bad checkpoint" "and in all"
}
fault missing shard_00000.bin missing 'rm shard_00000.bin'
fault missing manifest.json 'No such file' 'rm manifest.json'
fault truncated shard_00000.bin 'bytes of' 'truncate -s -1 shard_00000.bin'
fault truncated shard_00000.bin 'bytes of' 'truncate -s 0 shard_00000.bin'
fault truncated manifest.json truncated 'truncate -s -5 manifest.json'
fault truncated manifest.json truncated 'truncate -s 0 manifest.json'
fault damaged shard_00000.bin 'tensor .*checksum' 'printf x | dd of=shard_00000.bin bs=1 seek=99 conv=notrunc 2>&-'
fault damaged shard_00000.bin 'header' 'printf x | dd of=shard_00000.bin bs=1 seek=17 conv=notrunc 2>&-'
fault damaged shard_00000.bin 'want' 'echo >>shard_00000.bin'
# 24 numbers end 32 bytes before the next part begins
gap=$(grep -o '"name":"model.decoder.layers.0.input_layernorm.bias".\{0,120\}' ck/$one/manifest.json \
    | sed 's/.*"offset":\([0-9]*\).*/\1/')
fault damaged shard_00000.bin 'not zero' "printf x | dd of=shard_00000.bin bs=1 seek=$((gap + 96)) conv=notrunc 2>&-"
fault damaged manifest.json checksum 'printf x | dd of=manifest.json bs=1 seek=300 conv=notrunc 2>&-'
fault foreign manifest.json 'not the manifest' 'echo "{\"a\":1}" >manifest.json'
fault foreign manifest.json 'of iteration 2' 'cp ../iter_0000002/* .'
fault foreign shard_00000.bin 'another save' 'cp ../iter_0000002/shard_00000.bin .'
fault foreign shard_00000.bin 'not a file of a checkpoint' "head -c \$(stat -c %s shard_00000.bin) </dev/zero >shard_00000.bin.x; mv shard_00000.bin.x shard_00000.bin"
fault foreign note 'no part' 'echo >note'
fault foreign shard_00777.bin 'no part' 'cp shard_00000.bin shard_00777.bin'
rm -rf bad
cp -r ck bad
printf x | dd of=bad/iter_0000002/shard_00000.bin bs=1 seek=99 conv=notrunc 2>/dev/null
echo >bad/$one/note
run megatron checkpoint verify bad --all --json
is "$status" 1 "faults in two, as JSON"
is "$(grep -o '"kind":"[a-z]*"' <<<"$out" | tr '\n' ' ')" '"kind":"foreign" "kind":"damaged" ' "both"
run megatron checkpoint verify bad --iteration 2
like "$out" "^damaged: bad/iter_0000002/" "one by its iteration"

# ---- what is refused
# refuse STATUS REGEX ARGUMENT...
refuse() {
    local want=$1 regex=$2
    shift 2
    run megatron checkpoint "$@"
    is "$status" "$want" "refused: $*"
    like "$err" "^megatron: checkpoint.*$regex" "and why"
    is "$(wc -l <<<"$err")" 1 "in one line"
}
refuse 2 "a part is missing"
refuse 2 "is not a part" look
refuse 2 "DIR is missing" inspect
refuse 2 "DIR is missing" verify --json
refuse 2 "one too many" verify ck ck
refuse 2 "exclude each other" verify ck --all --iteration 2
refuse 2 "unknown option" inspect ck --all
refuse 2 "INPUT is missing" convert
refuse 2 "--output is missing" convert ck
refuse 2 "is not megatron, hf, hf-gpt2 or checkpoint" convert ck --output x --format gguf
refuse 2 "num-attention-heads" convert ck --output x --num-attention-heads 0
refuse 1 "nosuch" inspect nosuch
refuse 1 "no checkpoint of iteration 7" inspect ck --iteration 7
refuse 1 "is not of iteration 7" inspect ck/iter_0000003 --iteration 7
refuse 1 "no checkpoint there" verify .
refuse 1 "no checkpoint there" verify . --all
refuse 1 "nosuch" convert nosuch --output x
refuse 1 "num-attention-heads is needed" convert hf.st --output x
refuse 1 "do not divide" convert hf.st --output x --num-attention-heads 7
refuse 1 "the checkpoint has $heads" convert ck --output x --format hf-gpt2 --num-attention-heads 6
refuse 1 "checkpoints are there already" convert hf.st --output ck --format checkpoint \
    --num-attention-heads "$heads"
refuse 1 "is a file" convert hf.st --output x --iteration 2
refuse 1 "a.txt" convert a.txt --output x
refuse 1 "--output: ck: it is a directory" convert hf.st --output ck --num-attention-heads "$heads"
refuse 1 "no/x" convert ck --output no/x
ok "[ ! -e x ]" "and nothing is written"

# ---- a limit of file sizes: an error, and no file is left
# shellcheck disable=SC2016
limited='ulimit -f 5; exec megatron "$@"'
mkdir o
run bash -c "$limited" sh checkpoint convert ck --output o/x.st
is "$status" 1 "convert: a file that becomes too large"
like "$err" "^megatron: checkpoint convert: .*o/x.st.*File too large" "said"
is "$(wc -l <<<"$err")" 1 "in one line"
is "$(ls o)" "" "and nothing is left"
run bash -c "$limited" sh train "${model[@]}" --train-iters 1 --save-weights o/x.st
is "$status" 1 "train: the same"
like "$err" "o/x.st.*File too large" "said"
is "$(ls o)" "" "and nothing is left"
done_testing

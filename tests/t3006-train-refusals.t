#!/bin/bash
# What users and files do wrong: one clear line, exit status 2 for a wrong command line and
# 1 for what fails, no hang, nothing lost - on one rank, and once on several.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
model=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
       --tokenizer-type ByteLevel --micro-batch-size 1 --train-iters 3 --lr 1e-3)
args=("${model[@]}" --data-path text_text_document --split 100,0,0 --global-batch-size 4)

# refuse STATUS REGEX TEXT COMMAND...: it says one line and does not hang.
refuse() {
    local want=$1 regex=$2 text=$3 start=$SECONDS said
    shift 3
    run "$@"
    said=$(grep -a '^megatron' <<<"$err")
    [[ " $want " == *" $status "* ]]
    is "$?" 0 "$text: status $status" || diag "$err"
    is "$(grep -ac '^megatron train: ' <<<"$err")" 1 "$text: one line" || diag "$err"
    like "$said" "^megatron train: $regex" "$said"
    ok "[ $((SECONDS - start)) -lt 120 ]" "$text: in $((SECONDS - start)) s"
}

# number of lines on standard error, launcher and all
alone() {
    is "$(wc -l <<<"$err")" 1 "and nothing else is said"
}

# safetensors FILE HEADER: with 4096 bytes of zeros.
safetensors() {
    local len=${#2}
    # shellcheck disable=SC2059
    printf "$(printf '\\x%02x\\x%02x\\0\\0\\0\\0\\0\\0' $((len % 256)) $((len / 256)))" >"$1"
    printf '%s' "$2" >>"$1"
    head -c 4096 /dev/zero >>"$1"
}

# batch SHAPE-OF-TOKENS SHAPE-OF-LABELS MASK-TYPE: header of a batch file.
batch() {
    echo "{\"tokens\":{\"dtype\":\"I32\",\"shape\":[$1],\"data_offsets\":[0,128]},\
\"labels\":{\"dtype\":\"I32\",\"shape\":[$2],\"data_offsets\":[128,256]},\
\"loss_mask\":{\"dtype\":\"$3\",\"shape\":[1,4,8],\"data_offsets\":[256,384]},\
\"rest\":{\"dtype\":\"U8\",\"shape\":[3712],\"data_offsets\":[384,4096]}}"
}

# ---- the command line
refuse 2 "unknown argument --bogus;" "unknown argument" megatron train "${args[@]}" --bogus 1
alone
refuse 2 "--num-layers; --hidden-size; " "nothing given" megatron train
refuse 2 '--lr: "fast" is not a number' "no number" megatron train "${args[@]}" --lr fast
refuse 2 "--seed wants a value" "no value" megatron train "${args[@]}" --seed
refuse 2 "--data-path and --batches exclude" "two sources" megatron train "${args[@]}" --batches x

refuse 2 "--use-flash-attn of Megatron-LM changes nothing here .*: --strict-arguments refuses" "needless" \
    megatron train "${args[@]}" --use-flash-attn --strict-arguments
refuse 2 "--optimizer muon of Megatron-LM is not available in this version: " "not available" \
    megatron train "${args[@]}" --optimizer muon
refuse 2 "2 arguments are refused: --optimizer sgd \(.*\); --fp8-format hybrid \(" "several at once" \
    megatron train "${args[@]}" --optimizer sgd --manual-gc --fp8-format hybrid

# ---- experts
refuse 2 "ep 2 needs experts, and there is no --num-experts" "expert-parallel ranks of a dense model" \
    megatron train "${args[@]}" --expert-model-parallel-size 2
refuse 2 "num-experts 3 is not a multiple of ep 2; use 2 or 4, or ep 1 or 3" "experts that ranks cannot share" \
    megatron train "${args[@]}" --num-experts 3 --expert-model-parallel-size 2
refuse 2 "moe-router-topk 9 is more than num-experts 8" "more than there are" \
    megatron train "${args[@]}" --num-experts 8 --moe-router-topk 9
refuse 2 "moe-router-topk 1 needs moe-router-pre-softmax" "the softmax of one" \
    megatron train "${args[@]}" --num-experts 8 --moe-router-topk 1
refuse 2 "moe-router-enable-expert-bias needs moe-router-score-function sigmoid" "a bias of logits" \
    megatron train "${args[@]}" --num-experts 8 --moe-router-enable-expert-bias
refuse 2 "--moe-layer-freq \"\[1,0,1\]\" is of 3 layers, the model has" "a list of layers" \
    megatron train "${args[@]}" --num-experts 8 --moe-layer-freq '[1,0,1]'
refuse 2 "mtp-num-layers 1 needs position-embedding-type rope or none" "learned positions" \
    megatron train "${args[@]}" --mtp-num-layers 1
refuse 2 "--moe-use-upcycling wants the weights of a dense model: --load DIR, " "experts of no model" \
    megatron train "${args[@]}" --num-experts 4 --moe-use-upcycling --save upcycled
refuse 2 "--megatron-tp is an option of srun, sbatch and salloc: give it to them" "the plugin's" \
    megatron train "${args[@]}" --megatron-tp 2
refuse 2 "unknown argument --hiden-size; did you mean --hidden-size\?" "mistyped" \
    megatron train "${args[@]}" --hiden-size 2

# ---- device graphs
refuse 2 "cuda-graph-impl \"cuda\": want none, local, transformer_engine or full_iteration" "no way" \
    megatron train "${args[@]}" --cuda-graph-impl cuda
refuse 2 "cuda-graph-modules moe needs experts, and there is no --num-experts" "no such layer" \
    megatron train "${args[@]}" --cuda-graph-impl local --cuda-graph-modules attn moe
refuse 2 "a graph of whole layers captures experts, which needs moe-expert-capacity-factor" "experts" \
    megatron train "${args[@]}" --num-experts 8 --external-cuda-graph

# ---- what does not fit together
refuse 2 "global-batch-size 4 is not a multiple of micro-batch-size 3 x dp 1 = 3; use 3 or 6" "batch sizes" \
    megatron train "${args[@]}" --micro-batch-size 3
refuse 2 "--lr-decay-style: unknown style \"zigzag\"" "style" megatron train "${args[@]}" --lr-decay-style zigzag
refuse 2 "--tensor-model-parallel-size 4 contradicts the job's MEGATRON_TP_SIZE=2" "contradiction" \
    env MEGATRON_TP_SIZE=2 megatron train "${args[@]}" --tensor-model-parallel-size 4
refuse 2 ".*tp 2.*pp 1.*" "one rank, tp 2" megatron train "${args[@]}" \
    --tensor-model-parallel-size 2
refuse 2 "--load-weights and --pretrained-checkpoint exclude each other: a run begins with the weights of one" \
    "two beginnings" megatron train "${args[@]}" --load-weights w.st --pretrained-checkpoint ckpt
refuse 2 "max-position-embeddings 7 is less than seq-length 8" "positions" \
    megatron train "${args[@]}" --max-position-embeddings 7
refuse 2 "the model has .* parameters" "beyond all bounds" \
    megatron train "${args[@]}" --num-layers 65536 --hidden-size 16777216 --ffn-hidden-size 9
refuse 1 "1 x .* GiB are needed" "more than there is" \
    megatron train "${args[@]}" --num-layers 1000 --hidden-size 65536
alone

# ---- files
echo before >m.json
refuse 1 "cannot open nosuch.idx: No such file" "no data" \
    megatron train "${args[@]}" --data-path nosuch --metrics-file m.json
is "$(cat m.json)" before "the metrics of an earlier run are left alone"
cp text_text_document.bin short.bin
head -c 100 text_text_document.idx >short.idx
refuse 1 ".*short.idx.*" "index cut off" megatron train "${args[@]}" --data-path short
cp text_text_document.idx torn.idx
head -c 1000 text_text_document.bin >torn.bin
refuse 1 ".*torn.*" "data cut off" megatron train "${args[@]}" --data-path torn
cp text_text_document.bin junk.bin
head -c 3000 text.txt >junk.idx
refuse 1 ".*junk.idx.*" "not an index" megatron train "${args[@]}" --data-path junk
refuse 1 "iteration 1: sample [0-3], position .: token [0-9]* is outside the vocabulary, want 0 to 40" \
    "token outside the vocabulary" megatron train "${args[@]}" --vocab-size 41
for where in --metrics-file --save-weights --save-gradients; do
    refuse 1 "$where /nosuch/f: " "$where nowhere" megatron train "${args[@]}" $where /nosuch/f
done
mkdir dir
refuse 1 "--save-weights dir: it is a directory" "weights over a directory" \
    megatron train "${args[@]}" --save-weights dir
mkfifo fifo
for where in --save-weights --save-gradients --trace-file; do
    refuse 1 "$where fifo: it is a FIFO" "$where to a FIFO" megatron train "${args[@]}" $where fifo
    refuse 1 "$where /dev/null: it is a character device" "$where to a device" \
        megatron train "${args[@]}" $where /dev/null
done
refuse 1 "--trace-file dir: it is a directory" "a trace over a directory" \
    megatron train "${args[@]}" --trace-file dir
refuse 1 "--metrics-file fifo: no process reads it" "metrics to nobody" \
    megatron train "${args[@]}" --metrics-file fifo
refuse 1 "--metrics-file dir: it is a directory" "metrics over a directory" \
    megatron train "${args[@]}" --metrics-file dir
is "$(ls -d dir-* fifo-* /dev/null-* 2>/dev/null)$(ls -A dir)" "" "and nothing is made"
ok "[ -p fifo ] && [ -c /dev/null ]" "they stay what they are"
long=$(printf '%0200d/' 1 2 3 4 5)f
refuse 1 "--save-weights 0.*/f: its directory cannot be written: No such file or directory" \
    "a path of 1000 bytes" megatron train "${args[@]}" --save-weights "$long"
refuse 1 "--save: .*text.txt" "checkpoints in a file" megatron train "${args[@]}" --save text.txt/c

# A link of another user in a directory like /tmp, to a directory of this user.
mkdir -m 1777 shared
mkdir mine
ln -s "$PWD/mine" shared/ck
if [ "$(id -u)" = 0 ] && chown -h 65534 shared/ck 2>/dev/null; then
    for where in --save --tensorboard-dir; do
        for dir in shared/ck shared/ck/new; do
            refuse 1 "$where: $dir: cannot write: another user has made the link shared/ck; only links .*" \
                "$where $dir" megatron train "${args[@]}" "$where" "$dir"
        done
    done
    is "$(ls -A mine)" "" "nothing is written there"
    chown -h 0 shared/ck
else
    skip 17 "only root can make a link of another user"
fi
run megatron train "${args[@]}" --train-iters 1 --save shared/ck
is "$status:$(cat mine/latest_checkpointed_iteration.txt)" 0:1 "a link of this user is followed" || diag "$err"
refuse 1 "nosuch: .*No such file" "no weights" megatron train "${args[@]}" --load-weights nosuch
run megatron train "${args[@]}" --train-iters 0 --save-weights w.st
is "$status" 0 "initial weights are written without a step" || diag "$err"
refuse 1 "w.st: .*" "weights of another model" \
    megatron train "${args[@]}" --load-weights w.st --hidden-size 32

safetensors hf.st '{"wte.weight":{"dtype":"F32","shape":[1024],"data_offsets":[0,4096]}}'
refuse 1 "hf.st: its tensors have Hugging Face's names of a GPT-2; convert it: megatron checkpoint convert hf.st " \
    "weights of Hugging Face" megatron train "${args[@]}" --load-weights hf.st
echo '{"a": 0}' >encoder.json
echo '#version: 0.2' >vocab.bpe
refuse 1 ".*vocab.bpe is no JSON, but encoder.json is: exchange --vocab-file, the vocabulary, and --merge-file" \
    "vocabulary and merges exchanged" megatron train "${args[@]}" \
    --tokenizer-type GPT2BPETokenizer --vocab-file vocab.bpe --merge-file encoder.json

# ---- batches
refuse 1 "text.txt: .*safetensors" "no batch file" megatron train "${model[@]}" --batches text.txt
refuse 1 "w.st: no tensor tokens" "weights as batches" megatron train "${model[@]}" --batches w.st
safetensors b.st "$(batch 1,4,8 1,4,8 F32)"
run megatron train "${model[@]}" --batches b.st --lr 0
is "$status" 0 "a good batch file" || diag "$err"
refuse 2 "--global-batch-size 8, but the batches in b.st have 4" "rows" \
    megatron train "${model[@]}" --batches b.st --global-batch-size 8
refuse 2 "--seq-length 16, but the samples have 8" "length" \
    megatron train "${model[@]}" --batches b.st --seq-length 16
safetensors flat.st "$(batch 4,8 1,4,8 F32)"
refuse 1 "flat.st: tensor tokens has 2 dimensions" "two dimensions" \
    megatron train "${model[@]}" --batches flat.st
safetensors odd.st "$(batch 1,4,8 1,8,4 F32)"
refuse 1 "odd.st: dimension 1 of tensor labels is 8" "shapes that differ" \
    megatron train "${model[@]}" --batches odd.st
safetensors type.st "$(batch 1,4,8 1,4,8 I32)"
refuse 1 "type.st: tensor loss_mask is int32, want float32" "type" \
    megatron train "${model[@]}" --batches type.st

# ---- numbers
refuse 1 "iteration [2-9][0-9]*: .* not both finite" "no number any more" \
    megatron train "${args[@]}" --lr 1e6 --train-iters 200 --metrics-file m.json \
    --save-weights nan.st
bad=$(sed -E 's/.*iteration ([0-9]+):.*/\1/' <<<"$err")
is "$(wc -l <m.json)" "$((bad - 1))" "the iterations before it are in the metrics"
ok "[ ! -e nan.st ]" "and no weights are written"

# ---- several ranks
# ---- the launcher ends the ranks that are left when the first has left
late=(env ASAN_OPTIONS=verify_asan_link_order=0
      LD_PRELOAD="$MG_BUILDDIR/tests/lib/.libs/late-sigterm.so")
refuse 2 "unknown argument --bogus;" "a wrong command line, and SIGTERM at the end" \
    "${late[@]}" megatron train "${args[@]}" --bogus
refuse 1 "cannot open nosuch.idx" "a failure, and SIGTERM at the end" \
    "${late[@]}" megatron train "${args[@]}" --data-path nosuch

if ! mpi_available; then
    skip 1 "no MPI"
    done_testing
fi
train=(megatron train "${args[@]}")
refuse 2 "unknown argument --bogus;" "4 ranks, unknown argument" mpi_run 4 "${train[@]}" --bogus
refuse 2 "num-attention-heads 2 is not a multiple of tp 4; use 4, or tp 2" "4 ranks, heads" \
    mpi_run 4 "${train[@]}" --tensor-model-parallel-size 4
refuse 2 ".*tp 3.*" "4 ranks, tp 3" \
    mpi_run 4 "${train[@]}" --num-attention-heads 3 --hidden-size 18 --tensor-model-parallel-size 3
refuse 2 "global-batch-size 4 is not a multiple of micro-batch-size 1 x dp 3 = 3; use 3 or 6" "3 ranks, batch sizes" mpi_run 3 "${train[@]}"
refuse 1 "cannot open nosuch.idx" "4 ranks, no data" mpi_run 4 "${train[@]}" --data-path nosuch
refuse 1 "iteration 1: .* outside the vocabulary" "a token that 4 ranks read" \
    mpi_run 4 "${train[@]}" --vocab-size 41 --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2
refuse 1 "iteration [2-9][0-9]*: .* not both finite" "4 ranks, no number any more" \
    mpi_run 4 "${train[@]}" --lr 1e6 --train-iters 200 --pipeline-model-parallel-size 2
refuse 1 "(rank 1: )?--metrics-file /nosuch/f" "2 ranks, metrics nowhere" \
    mpi_run 2 "${train[@]}" --metrics-file /nosuch/f
refuse 1 "--save-weights /nosuch/f" "2 ranks, weights nowhere" \
    mpi_run 2 "${train[@]}" --save-weights /nosuch/f
refuse 1 "2 x .* GiB are needed by the ranks of this node" "2 ranks, too large" \
    mpi_run 2 "${train[@]}" --num-layers 1000 --hidden-size 65536

# ---- one rank that is not like the others
refuse 1 "rank 1: it is configured differently from rank 0" "another learning rate" \
    mpi_run_each 1 "${train[@]}" : 1 "${train[@]}" --lr 2e-3
if mpi_takes_programs; then
    refuse 1 "rank 1: it is configured differently from rank 0" "two programs of mpirun" \
        mpi_run 1 "${train[@]}" : -n 1 "${train[@]}" --lr 2e-3
else
    skip 1 "this mpirun crashes when it is given several programs"
fi
refuse 1 "rank 2: it is configured differently" "two that differ" \
    mpi_run_each 2 "${train[@]}" : 2 "${train[@]}" --lr 2e-3
refuse 1 "rank 1: it is configured differently" "another environment" \
    mpi_run_each 1 "${train[@]}" : 1 env MEGATRON_TP_SIZE=2 "${train[@]}"
refuse "1 2" "rank 1: unknown argument --bogus" "an argument of rank 1" \
    mpi_run_each 1 "${train[@]}" : 1 "${train[@]}" --bogus
refuse "1 2" "unknown argument --bogus" "an argument of rank 0" \
    mpi_run_each 1 "${train[@]}" --bogus : 1 "${train[@]}"
elsewhere=(env -C dir "${train[@]}")
refuse 1 "rank 1: cannot open text_text_document.idx" "data that rank 1 does not have" \
    mpi_run_each 1 "${train[@]}" : 1 "${elsewhere[@]}"
refuse 1 "cannot open text_text_document.idx" "data that rank 0 does not have" \
    mpi_run_each 1 "${elsewhere[@]}" : 1 "${train[@]}"
batches=("${model[@]}" --batches b.st)
refuse 1 "rank 2: b.st: .*No such file" "batches that rank 2 does not have" \
    mpi_run_each 2 megatron train "${batches[@]}" : 1 env -C dir megatron train "${batches[@]}" \
    : 1 megatron train "${batches[@]}"
done_testing

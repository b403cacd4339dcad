# train.sh - runs of "megatron train" in tests.  Source it after test.sh (and mpi.sh).

WEIGHTS_DIFF=$MG_BUILDDIR/tests/lib/weights-diff
METRICS_DIFF=$MG_SRCDIR/tests/lib/metrics-diff
export OMP_NUM_THREADS=1

# A tiny model in the goldens' shape.
tiny_model=(--num-layers 2 --hidden-size 64 --num-attention-heads 4)
# What the goldens were trained with.
golden_optimizer=(--lr 1e-3 --lr-decay-style constant --weight-decay 0.01 --clip-grad 1.0
                  --hidden-dropout 0 --attention-dropout 0)

# golden_run GOLDEN: the arguments of the run in a file of the reference data, but for the size of a
# microbatch, into ${args[@]}.  Of Megatron-LM's own arguments those are left out that are not ours.
golden_run() {
    case $1 in
        */11_tiny_gpt)
            args=("${tiny_model[@]}" "${golden_optimizer[@]}" --train-iters 10
                  --padded-vocab-size 256) ;;
        */11_tiny_moe_gpt)
            args=(--num-layers 2 --hidden-size 32 --num-attention-heads 4 --ffn-hidden-size 48
                  --seq-length 16 --max-position-embeddings 16 --swiglu --disable-bias-linear
                  --num-experts 8 --moe-router-topk 2 --moe-aux-loss-coeff 0.01
                  "${golden_optimizer[@]}" --global-batch-size 4 --train-iters 10
                  --padded-vocab-size 128) ;;
        *)
            mapfile -t args < <(jq -r '.args[]' "$1.json" \
                | sed -e '/^--optimizer$/,+1d' -e '/^--micro-batch-size$/,+1d')
            args+=(--lr-decay-style constant) ;;
    esac
    args+=(--load-weights "$1.init.safetensors" --batches "$1.batches.safetensors")
}

# make_text FILE KILOBYTES: text with structure that a model can learn, always the same.
make_text() {
    awk -v n="$2" 'BEGIN {
        srand (7); bytes = 0
        split ("the a of rank tensor pipeline data model layer step norm head", w, " ")
        while (bytes < n * 1024) {
            line = ""
            for (i = 0; i < 4 + int (rand () * 9); i++) line = line w[1 + int (rand () * 12)] " "
            if (rand () < 0.3) line = line "\n"
            print line; bytes += length (line) + 1
        }
    }' >"$1"
}

# tokenized_text KILOBYTES: as the dataset text_text_document.
tokenized_text() {
    make_text text.txt "$1"
    run megatron data tokenize --input text.txt --output-prefix text --append-eod
    is "$status" 0 "text is tokenized" || diag "$err"
}

# A run on it whose loss falls by more than a third in 30 iterations: of odd sizes, so that shards
# cut rows.  For what follows another precision.
falling_run=(megatron train --num-layers 4 --hidden-size 36 --num-attention-heads 4
             --kv-channels 7 --ffn-hidden-size 52 --seq-length 12 --max-position-embeddings 13
             --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
             --micro-batch-size 2 --global-batch-size 12 --lr 5e-3 --lr-decay-style constant
             --eval-iters 0)

# train NAME COMMAND...: leaves $status, NAME.st, and NAME.json without the times.
train() {
    local name=$1
    shift
    rm -f "$name.raw" "$name.st"
    run "$@" --metrics-file "$name.raw" --save-weights "$name.st"
    [ "$status" = 0 ] || diag "$err"
    sed -e 's/, "elapsed time per[^}]*(TFLOP[^,}]*//' -e 's/, "elapsed.*/}/' "$name.raw" \
        >"$name.json"
}

# same_bits A B TEXT: of two such runs.
same_bits() {
    ok "[ -s $1.json ] && cmp $1.st $2.st && cmp $1.json $2.json" "$3"
}

# until_iteration N LOG [PID]: until a run has told of so many iterations.
until_iteration() {
    wait_until "[ \$(grep -c '\] iteration ' '$2') -ge $1 ]" "${3:-}" \
        || { diag "$2: $(tail -n 3 "$2")"; return 1; }
}

# ranks_here: processes of the runs in this directory.
ranks_here() {
    local p
    for p in $(pgrep -x megatron); do
        [ "$(readlink "/proc/$p/cwd")" != "$TEST_DIR" ] || echo "$p"
    done
}

# make_batches FILE: one batch of 4 samples of 8 tokens, for --batches; the vocabulary is 256.
make_batches() {
    local i header='{"labels":{"dtype":"I32","shape":[1,4,8],"data_offsets":[0,128]},'
    header+='"loss_mask":{"dtype":"F32","shape":[1,4,8],"data_offsets":[128,256]},'
    header+='"tokens":{"dtype":"I32","shape":[1,4,8],"data_offsets":[256,384]}}'
    # shellcheck disable=SC2059
    {
        printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
        for ((i = 1; i <= 32; i++)); do printf "\\$(printf %o $((i * i % 250)))\\0\\0\\0"; done
        for ((i = 0; i < 32; i++)); do printf '\0\0\200\77'; done
        for ((i = 0; i < 32; i++)); do printf "\\$(printf %o $((i * i % 250)))\\0\\0\\0"; done
    } >"$1"
}

# poke FILE TENSOR ELEMENT BYTES: overwrite one number of 4 bytes in a file of weights or
# batches, BYTES as printf has them.
poke() {
    local begin header
    header=$(($(od -An -tu8 -N8 "$1")))
    begin=$(tail -c +9 "$1" | head -c $header \
        | grep -o "\"$2\":{[^}]*" | sed 's/.*"data_offsets":\[\([0-9]*\),.*/\1/')
    # shellcheck disable=SC2059
    printf "$4" | dd of="$1" bs=1 seek=$((8 + header + begin + 4 * $3)) conv=notrunc 2>/dev/null
}

# same_metrics FILE REFERENCE LOSS-TOLERANCE NORM-TOLERANCE TEXT
same_metrics() {
    local said rc=0
    said=$("$METRICS_DIFF" "$1" "$2" "$3" "$4" 2>&1) || rc=$?
    is "$rc" 0 "$5: $said"
}

# same_weights FILE REFERENCE TOLERANCE TEXT [ARGUMENT...]
same_weights() {
    local said rc=0 a=$1 b=$2 tolerance=$3 text=$4
    shift 4
    said=$("$WEIGHTS_DIFF" "$a" "$b" "$tolerance" "$@" 2>&1) || rc=$?
    is "$rc" 0 "$text: ${said##*$'\n'}" || diag "$said"
}

# Arguments of a small model with experts, of which every layer but the first has 8, as DeepSeek-V3's
# has: behind its sizes, a router that chooses by sigmoids of groups and a bias, shared experts.
experts_sizes=(--num-layers 4 --hidden-size 16 --num-attention-heads 4 --ffn-hidden-size 24
               --seq-length 16 --max-position-embeddings 16 --normalization RMSNorm
               --position-embedding-type rope --untie-embeddings-and-output-weights --num-experts 8
               --moe-ffn-hidden-size 12 --moe-layer-freq "[0,1,1,1]" --init-method-std 0.2)
experts_router=(--swiglu --disable-bias-linear --moe-router-topk 3 --moe-router-score-function sigmoid
                --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.02
                --moe-router-num-groups 4 --moe-router-group-topk 2
                --moe-router-topk-scaling-factor 2.5 --moe-shared-expert-intermediate-size 16
                --moe-router-load-balancing-type seq_aux_loss --moe-aux-loss-coeff 0.01)

# same_experts FILE REFERENCE TEXT [WEIGHTS]: tokens, losses and biases of experts; of each expert,
# as WEIGHTS has them
same_experts() {
    local said rc=0
    said=$("$MG_SRCDIR/tests/lib/experts-diff" "$1" "$2" 1e-5 ${4:+"$4"} 2>&1) || rc=$?
    is "$rc" 0 "$3: ${said##*$'\n'}" || diag "$said"
}

# experts_runs: a text, and arrays with the arguments of runs with experts: base is the command, router
# what routers have, a2a and split are layouts; bound is the argument that limits a rank's rows.
experts_runs() {
    tokenized_text 40
    base=(megatron train "${experts_sizes[@]}" --tokenizer-type ByteLevel
          --data-path text_text_document --split 90,10,0 --micro-batch-size 1 --global-batch-size 8
          --train-iters 4 --lr 2e-3 --lr-decay-style constant --adam-eps 1e-6 --eval-iters 0)
    router=("${experts_router[@]}" --moe-z-loss-coeff 1e-2)
    a2a=(--moe-token-dispatcher-type alltoall)
    split=(--tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 2)
    bound=--moe-expert-rank-capacity-factor
}

# compare_layouts: the command of the array base trains each model in a layout as on one rank.  Each
# line of the standard input is LAYOUT|MODEL.  LAYOUT: the number of ranks, the sizes of ep and etp,
# arguments.  MODEL: arguments.  A third field names another layout to compare with, by its number of
# ranks and its arguments, for what depends on the tokens that a rank has.
compare_layouts() {
    local layout model reference n ep etp more n0 more0 done=''
    while IFS='|' read -r layout model reference; do
        read -r n ep etp more <<<"$layout"
        # shellcheck disable=SC2086 # words
        if [ "$model$reference" != "$done" ]; then
            read -r n0 more0 <<<"${reference:-1}"
            train one ranks_run "$n0" "${base[@]}" $model $more0 --save-gradients one.grad
            is "$status" 0 "reference $reference: $model"
            done=$model$reference
        fi
        # shellcheck disable=SC2086
        train n ranks_run "$n" "${base[@]}" $model $more --expert-model-parallel-size "$ep" \
            --expert-tensor-parallel-size "$etp" --save-gradients n.grad
        is "$status" 0 "$n ranks, ep $ep, etp $etp $more" || continue
        same_metrics n.json one.json 1e-5 1e-4 "losses and norms"
        same_experts n.json one.json "experts"
        same_weights n.grad one.grad 1e-5 "gradients of the first step"
        same_weights n.st one.st 1e-4 "weights at the end" --absolute
    done
}

# run_planned NAME N ARGUMENT...: the command of the array base trains on N ranks; what is planned is
# allocated.
run_planned() {
    local name=$1 n=$2
    shift 2
    train "$name" ranks_run "$n" "${base[@]}" "$@"
    is "$status" 0 "$name runs" || return 0
    is "$(sed -n 's/.* planned: \([0-9]*\) | allocated: \([0-9]*\) |.*/\1 \2/p' <<<"$out" \
        | awk '$1 == $2 && $1 > 0' | wc -l)" "$(grep -c '^ memory plan' <<<"$out")" \
        "$name: what is planned is allocated"
}

#!/bin/bash
# Context parallelism: a sequence split over ranks trains as on one rank, whatever way keys and
# values are exchanged, with documents, dropout and all kinds of heads; what is saved of a sequence
# is split, and the workspace is what the exchange needs; checkpoints go from one size to another.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 40
# documents are words: some end inside a chunk, some go over several ranks
documents="--eod-token-id 32 --reset-attention-mask --eod-mask-loss"
base=(megatron train --num-layers 4 --hidden-size 32 --num-attention-heads 8 --seq-length 32
      --tokenizer-type ByteLevel --data-path text_text_document --split 90,10,0
      --micro-batch-size 2 --global-batch-size 4 --lr 2e-3 --lr-decay-style constant
      --init-method-std 0.1 --adam-eps 1e-6 --eval-iters 1)
gqa="--group-query-attention --num-query-groups 4 --qk-layernorm --position-embedding-type rope"
latent="--multi-latent-attention --kv-lora-rank 10 --qk-head-dim 6 --qk-pos-emb-head-dim 4"
latent+=" --v-head-dim 5 --q-lora-rank 7 --qk-layernorm"
window="--window-size 5,0 --window-attn-skip-freq 2"
few="--group-query-attention --num-query-groups 2 --position-embedding-type rope"
vpp="--num-layers-per-virtual-pipeline-stage 1"
levels="--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes"

ranks_need
# ranks and arguments of the layout, then the model's; the one-rank run is made once a model
done=''
while IFS='|' read -r layout model; do
    read -r n cp more <<<"$layout"
    read -ra layout_args <<<"$more"
    read -ra model_args <<<"$model"
    if [ "$model" != "$done" ]; then
        run "${base[@]}" "${model_args[@]}" --train-iters 4 --eval-interval 4 \
            --metrics-file one.json --save-weights one.st --save-gradients one.grad
        is "$status" 0 "one rank: $model" || diag "$err"
        done=$model
    fi
    run ranks_run "$n" "${base[@]}" "${model_args[@]}" "${layout_args[@]}" --train-iters 4 \
        --eval-interval 4 --context-parallel-size "$cp" --metrics-file n.json --save-weights n.st \
        --save-gradients n.grad
    is "$status" 0 "cp $cp $more" || { diag "$err"; continue; }
    same_metrics n.json one.json 1e-5 1e-4 "losses and norms"
    same_weights n.grad one.grad 1e-5 "gradients of the first step"
    same_weights n.st one.st 1e-4 "weights at the end"
done <<EOF
2 2|$documents --reset-position-ids
4 4|$documents --reset-position-ids
8 8|$documents --reset-position-ids
2 2 --cp-comm-type all_gather|$documents --reset-position-ids
8 8 --cp-comm-type allgather|$documents --reset-position-ids
2 2 --cp-comm-type a2a|$documents --reset-position-ids
8 8 --cp-comm-type a2a|$documents --reset-position-ids
4 4 $levels 2 2|$documents --reset-position-ids
8 8 $levels 4 2|$documents --reset-position-ids
8 8 $levels 2 4|$documents --reset-position-ids
4 4 --cp-comm-type p2p a2a all_gather p2p|$documents --reset-position-ids
6 3 --tensor-model-parallel-size 2 --sequence-parallel|--seq-length 48 $gqa
8 2 --cp-comm-type a2a --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2|$gqa $window
8 4 --use-distributed-optimizer --overlap-grad-reduce|$gqa $window --softmax-type learnable
4 4 --cp-comm-type a2a --use-distributed-optimizer|$gqa $window --softmax-type learnable
4 2 --cp-comm-type all_gather --calculate-per-token-loss|$documents --calculate-per-token-loss
8 4 $levels 2 2 --tensor-model-parallel-size 2 --sequence-parallel|$latent $documents
4 2 --cp-comm-type all_gather --pipeline-model-parallel-size 2|$latent $documents
2 2 --cp-comm-type a2a --ddp-average-in-collective|$latent $documents
8 4 $levels 2 2 --tensor-model-parallel-size 2 --sequence-parallel|$latent --swiglu --softmax-type off-by-one
4 2 --cp-comm-type all_gather --tensor-model-parallel-size 2|$latent --swiglu --softmax-type off-by-one
8 2 --tensor-model-parallel-size 4 --sequence-parallel|$few $window --softmax-type learnable
8 2 --cp-comm-type all_gather --tensor-model-parallel-size 4|$few $window --softmax-type learnable
4 2 --cp-comm-type p2p a2a all_gather p2p --pipeline-model-parallel-size 2 $vpp|--global-batch-size 8
EOF

# ---- bfloat16 with documents: near one rank, and a distributed optimizer has the same bits
for how in "" "--cp-comm-type all_gather" "--cp-comm-type a2a" "$levels 2 2"; do
    # shellcheck disable=SC2206 # words
    args=("${base[@]}" $documents $gqa --train-iters 4 --bf16)
    # shellcheck disable=SC2206
    many=("${args[@]}" --context-parallel-size 4 $how)
    train one "${args[@]}"
    train many ranks_run 4 "${many[@]}"
    same_metrics many.json one.json 2e-3 5e-2 "bfloat16 ${how:-p2p}"
    train again ranks_run 4 "${many[@]}" --use-distributed-optimizer --overlap-grad-reduce
    same_bits again many "a distributed optimizer has the same bits"
done

# ---- storage in float8, and float16, for the layers with most tensors
for type in "--fp16 --initial-loss-scale 1024" "--bf16 --fp8-param-gather --use-distributed-optimizer"; do
    # shellcheck disable=SC2206 # words
    args=("${base[@]}" $latent --swiglu --train-iters 3 $type)
    train one "${args[@]}"
    # shellcheck disable=SC2086 # words
    train many ranks_run 8 "${args[@]}" --context-parallel-size 4 $levels 2 2 \
        --tensor-model-parallel-size 2 --sequence-parallel
    same_metrics many.json one.json 2e-3 5e-2 "$type"
done

# ---- from one size to another
# shellcheck disable=SC2206
args=("${base[@]}" $documents --lr-decay-iters 6)
train six "${args[@]}" --train-iters 6
train three ranks_run 4 "${args[@]}" --train-iters 3 --context-parallel-size 4 --save s
train two ranks_run 2 "${args[@]}" --train-iters 6 --context-parallel-size 2 --load s
is "$status" 0 "a checkpoint of cp 4 goes on with cp 2" || diag "$err"
train one "${args[@]}" --train-iters 6 --load s
is "$status" 0 "and with one rank" || diag "$err"
grep -v valid six.json | tail -n 3 >last.json
same_metrics two.json last.json 1e-5 1e-4 "cp 2 goes on as one rank would have"
same_metrics one.json last.json 1e-5 1e-4 "and so does one rank"

# ---- memory: what is saved falls as 1/cp; the ring's workspace too; none grows as the square
seq=4096
kind() { # NAME ARGUMENT...: its bytes
    local name=$1
    shift
    megatron plan memory --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length $seq \
        --tokenizer-type ByteLevel --micro-batch-size 1 --threads 1 "$@" \
        | awk -v n="$name" '$1 == n { print $2 }'
}
# about A B TEXT: within 1 part in 1000
about() {
    ok "awk -v a=$1 -v b=$2 'BEGIN { exit !(a > 0.999 * b && a < 1.001 * b) }'" "$3: $1, $2"
}
one=$(kind activations)
keys=$((seq * 2 * 256 * 4)) # of a layer, for all positions
for how in "" "--cp-comm-type all_gather" "--cp-comm-type a2a" "$levels 2 N"; do
    for cp in 2 4 8; do
        read -ra more <<<"--context-parallel-size $cp ${how/N/$((cp / 2))}"
        about $(($(kind activations "${more[@]}") * cp)) "$one" "${how:-p2p}: activations on $cp"
        most=$(kind workspace "${more[@]}")
    done
    case $how in
        *gather) ok "[ $most -gt $((2 * keys)) ]" "holds all keys, values and their gradients: $most" ;;
        *) ok "[ $most -lt $((2 * keys)) ]" "does not hold all keys and values: $most" ;;
    esac
    long=$(seq=$((2 * seq)); kind workspace "${more[@]}")
    about "$long" $((2 * most)) "${how:-p2p}: twice the sequence, twice the workspace"
done

# ---- what cannot work is refused in one line
while IFS='|' read -r args text; do
    # shellcheck disable=SC2086
    run "${base[@]}" --train-iters 1 $args
    is "${status/2/1}:$(wc -l <<<"$err")" "1:1" "$args"
    like "$err" "$text" "says why"
done <<EOF
--cp-comm-type ring|--cp-comm-type "ring": want p2p, all_gather, a2a or a2a\\+p2p
--cp-comm-type p2p a2a|--cp-comm-type has 2 words, want one, or one for each of 4 layers
--context-parallel-size 3|seq-length 32 is not a multiple of 2 x cp 3 = 6; use 30 or 36
--context-parallel-size 16 --cp-comm-type a2a|num-attention-heads 8 is not a multiple of tp 1 x cp 16
--context-parallel-size 4 --cp-comm-type a2a+p2p|a2a\\+p2p wants --hierarchical-context-parallel-sizes
--context-parallel-size 4 --hierarchical-context-parallel-sizes 2 4|2 4: their product is not .* 4
--context-parallel-size 4 --hierarchical-context-parallel-sizes 4|has 1 words, want two sizes
--context-parallel-size 4 --hierarchical-context-parallel-sizes 2 x|-sizes: .*"x"
--hybrid-context-parallel|--hybrid-context-parallel of .*: all samples have one length
EOF
done_testing

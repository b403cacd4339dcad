#!/bin/bash
# Any mix of today's layers on any layout trains as on one rank, dropout on: drawn at random, from a
# seed that is printed.  MG_SEED takes another, MG_LONG draws more and up to 16 ranks.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/layouts.sh"

ranks_need
tokenized_text 40

# shellcheck disable=SC2034 # draw_sizes reads them
tps=(1 2 2 4) pps=(1 2 2 4) dps=(1 2) cps=(1 1 2 4)
draws=4 most=4
long && draws=14 most=16
seed_draws

# draw_layers: arguments into ${layers[@]}; 8 heads, so that 2 and 4 groups suit every tp
draw_layers() {
    local norm positions activation groups
    layers=()
    pick norm "" "--normalization RMSNorm" "--apply-layernorm-1p" \
        "--normalization RMSNorm --apply-layernorm-1p"
    pick positions "" "--position-embedding-type rope" \
        "--position-embedding-type rope --rotary-percent 0.5 --rotary-interleaved" \
        "--position-embedding-type rope --use-rope-scaling --no-rope-freq 2" \
        "--position-embedding-type yarn --rotary-scaling-factor 4 --rotary-base 500" \
        "--position-embedding-type none"
    pick activation "" "--swiglu" "--geglu --exact-gelu" "--squared-relu" \
        "--quick-geglu --glu-linear-offset 1 --activation-func-clamp-value 2"
    # shellcheck disable=SC2206 # words
    layers=($norm $positions $activation)
    ! coin || { pick groups 2 4 4; layers+=(--group-query-attention --num-query-groups "$groups"); }
    ! coin || layers+=(--qk-layernorm)
    ! coin || layers+=(--disable-bias-linear)
    ! coin || layers+=(--add-qkv-bias)
    ! coin || layers+=(--untie-embeddings-and-output-weights)
    ! coin || layers+=(--window-size 5,0 --window-attn-skip-freq "[1,0]*2")
    # each word is a document
    ! coin || layers+=(--eod-token-id 32 --reset-attention-mask --reset-position-ids)
}

# draw_exchange: how $cp context-parallel ranks exchange keys, into ${exchange[@]}: with heads dealt
# out only where the 8 heads and their groups allow it
draw_exchange() {
    local kinds=(p2p all_gather) groups=8 how
    exchange=()
    ((cp > 1)) || return 0
    [[ " ${layers[*]} " =~ " --num-query-groups "([0-9]+)" " ]] && groups=${BASH_REMATCH[1]}
    ((groups % (tp * cp))) || kinds+=(a2a "p2p a2a all_gather p2p")
    ((groups % (tp * 2) || cp != 4)) \
        || kinds+=("a2a+p2p --hierarchical-context-parallel-sizes 2 2")
    pick how "${kinds[@]}"
    read -ra exchange <<<"--context-parallel-size $cp --cp-comm-type $how"
}

for ((draw = 0; draw < draws; draw++)); do
    draw_sizes "$most"
    draw_layers
    draw_optimizer
    sp=()
    ((tp == 1)) || ! coin || sp=(--sequence-parallel)
    pick again "" "--recompute-activations" \
        "--recompute-granularity selective --recompute-modules core_attn layernorm mlp" \
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2" \
        "--recompute-granularity full --recompute-method block --recompute-num-layers 1"
    read -ra sp <<<"${sp[*]} ${again:-}"
    draw_exchange
    sp+=("${exchange[@]}")
    case $((draw % 2))$again in # every other run replays graphs
        1*full*) sp+=(--cuda-graph-impl full_iteration --cuda-graph-warmup-steps 1) ;;
        1*) sp+=(--cuda-graph-impl local --cuda-graph-warmup-steps 1) ;;
    esac
    what="tp $tp pp $pp dp $dp ${sp[*]} ${optimizer[*]} ${neutral[*]}: ${layers[*]}"
    args=(--num-layers 4 --hidden-size 48 --num-attention-heads 8 --kv-channels 8
          --ffn-hidden-size 40 --seq-length 16 --tokenizer-type ByteLevel
          --data-path text_text_document --split 100,0,0 --micro-batch-size 2
          --global-batch-size $((4 * dp)) --train-iters 8 --lr 2e-3 --lr-decay-style constant
          --eval-iters 0 --seed $((200 + draw)) "${layers[@]}")
    run megatron train "${args[@]}" --metrics-file one.json --save-weights one.st \
        --save-gradients one.grad
    is "$status" 0 "one rank: ${layers[*]}" || diag "$err"
    run ranks_run "$n" megatron train "${args[@]}" --tensor-model-parallel-size "$tp" \
        --pipeline-model-parallel-size "$pp" "${sp[@]}" "${optimizer[@]}" "${neutral[@]}" \
        --metrics-file n.json --save-weights n.st --save-gradients n.grad
    is "$status" 0 "$what" || { diag "$err"; continue; }
    same_metrics n.json one.json 1e-5 1e-4 "losses and norms"
    same_weights n.grad one.grad 1e-5 "gradients of the first step" --absolute
    same_weights n.st one.st 2e-3 "weights at the end" --absolute
done
done_testing

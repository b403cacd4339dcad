#!/bin/bash
# Any mix of routers and experts on any layout of dense and expert ranks trains as on one rank, dropout
# on: drawn at random, from a seed that is printed.  MG_SEED takes another, MG_LONG draws more and up
# to 16 ranks.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/layouts.sh"

mpi_available || skip_all "no MPI"
tokenized_text 40

# shellcheck disable=SC2034 # draw_sizes reads them
tps=(1 1 2 4) pps=(1 1 2 4) dps=(1 2 4) cps=(1 1 2)
draws=6 most=8
long && draws=24 most=16
seed_draws

# draw_router: arguments into ${router[@]}: what does not depend on the tokens that a rank has.  A
# microbatch is one sample, so that its auxiliary loss is that of a sequence.
draw_router() {
    local kind score loss
    pick kind bias groups forced plain pre
    pick score sigmoid sqrtsoftplus
    pick loss aux_loss seq_aux_loss "aux_loss seq_aux_loss" none
    router=(--moe-layer-freq "[1,0,1,1]")
    case $kind in
    bias) router+=(--moe-router-topk 2 --moe-router-score-function "$score"
                   --moe-router-enable-expert-bias --moe-router-bias-update-rate 0.02) ;;
    groups) router+=(--moe-router-topk 4 --moe-router-score-function "$score"
                     --moe-router-num-groups 4 --moe-router-group-topk 2
                     --moe-router-topk-scaling-factor 1.5) ;;
    forced) router+=(--moe-router-topk 3 --moe-router-force-load-balancing) ;;
    plain) router+=(--moe-router-topk 8) ;;
    pre) router+=(--moe-router-topk 1 --moe-router-pre-softmax)
         ! coin || router+=(--moe-apply-probs-on-input) ;;
    esac
    # shellcheck disable=SC2206 # words
    router+=(--moe-router-load-balancing-type $loss)
    case $loss in
    none) ;;
    *" "*) router+=(--moe-aux-loss-coeff 0.01 0.02) ;;
    *) router+=(--moe-aux-loss-coeff 0.02) ;;
    esac
    ! coin || router+=(--moe-z-loss-coeff 1e-2)
    ! coin || router+=(--moe-input-jitter-eps 0.02)
}

# draw_experts: what experts are, and how tokens reach them, into ${experts[@]} and ${ways[@]}; their
# grid for $n ranks, $pp of them stages, into $ep and $etp
draw_experts() {
    local activation share=$((n / pp)) shared=
    ep=1 etp=1 again=
    pick activation "--swiglu" "--squared-relu" "--geglu --exact-gelu"
    # shellcheck disable=SC2206 # words
    experts=($activation --moe-ffn-hidden-size 16)
    ways=()
    ! coin || experts+=(--moe-router-dtype fp64)
    while pick ep 1 2 4 8; pick etp 1 2 4; ((share % (ep * etp))); do :; done
    if ((etp > 1)) || coin; then
        experts+=(--disable-bias-linear)
        ! coin || { shared=1; experts+=(--moe-shared-expert-intermediate-size 24); }
        [ -z "$shared" ] || ! coin || experts+=(--moe-shared-expert-gate)
        [ -n "$shared" ] || ! coin || experts+=(--moe-latent-size 20)
    fi
    if coin; then
        ways+=(--moe-token-dispatcher-type alltoall)
        [ -z "$shared" ] || ! coin || { ways+=(--moe-shared-expert-overlap); shared=; }
    fi
    ! coin || ways+=(--moe-expert-rank-capacity-factor 0.4)
    pick again "" "moe" "moe_act layernorm" "full" ${shared:+shared_experts}
    # shellcheck disable=SC2206
    case $again in
    "") ;;
    full) ways+=(--recompute-granularity full --recompute-method uniform --recompute-num-layers 2) ;;
    *) ways+=(--recompute-granularity selective --recompute-modules $again) ;;
    esac
}

for ((draw = 0; draw < draws; draw++)); do
    draw_sizes "$most"
    draw_router
    draw_experts
    draw_optimizer
    # instances divide the replicas of experts, too
    ((n / pp / ep / etp % 2 == 0)) || optimizer=("${optimizer[@]:0:1}")
    layout=(--tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp"
            --context-parallel-size "$cp" --expert-model-parallel-size "$ep"
            --expert-tensor-parallel-size "$etp")
    ((tp == 1)) || layout+=(--sequence-parallel)
    ((pp != 2)) || ! coin || layout+=(--num-virtual-stages-per-pipeline-rank 2)
    args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --ffn-hidden-size 40
          --seq-length 16 --tokenizer-type ByteLevel --data-path text_text_document
          --split 100,0,0 --micro-batch-size 1 --global-batch-size $((4 * dp)) --train-iters 4
          --lr 2e-3 --lr-decay-style constant --adam-eps 1e-6 --eval-iters 0
          --init-method-std 0.1 --num-experts 8 --seed $((300 + draw)) "${router[@]}" "${experts[@]}")
    ((draw % 2 == 0)) || [ "$again" = full ] \
        || ways+=(--cuda-graph-impl local --cuda-graph-warmup-steps 1 --cuda-graph-modules attn
                  moe_router moe_preprocess)
    what="$n ranks: ${layout[*]} ${ways[*]} ${optimizer[*]} ${neutral[*]}"
    train one megatron train "${args[@]}" --save-gradients one.grad
    is "$status" 0 "one rank: ${router[*]} ${experts[*]}" || continue
    train n mpi_run "$n" megatron train "${args[@]}" "${layout[@]}" "${ways[@]}" "${optimizer[@]}" \
        "${neutral[@]}" --save-gradients n.grad
    is "$status" 0 "$what" || continue
    same_metrics n.json one.json 1e-5 1e-4 "losses and norms"
    same_experts n.json one.json "experts"
    same_weights n.grad one.grad 1e-5 "gradients of the first step" --absolute
    same_weights n.st one.st 1e-3 "weights at the end" --absolute
done
done_testing

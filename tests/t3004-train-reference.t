#!/bin/bash
# Models of other shapes against plain loops in double precision: heads x size is not the
# hidden size, odd sizes, a padded vocabulary, masked tokens and whole masked microbatches,
# untied and tied output layers, on one rank and on several.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

reference=$MG_BUILDDIR/tests/lib/gpt-reference
[ -x "$reference" ] || skip_all "$reference is not built"

# compare TEXT COMMAND...: train with it as the reference did.
compare() {
    local text=$1
    shift
    run "$@" --metrics-file m.json --save-gradients g.st --save-weights w.st
    is "$status" 0 "$text" || { diag "$err"; return; }
    same_metrics m.json reference.json 5e-6 5e-5 "$text"
    same_weights g.st gradients.safetensors 1e-5 "$text, gradients of step 1" \
        --skip-key-bias "$heads"
    # the true gradient of queries and keys is zero where there is only one
    [ "$tokens" = 1 ] \
        || same_weights w.st weights.safetensors 2e-5 "$text, weights" --skip-key-bias "$heads"
}

# model KEY=VALUE...: run the reference, set 'train' to the same run by megatron.
model() {
    local -A o
    local pair
    run "$reference" iters=6 min-lr=1e-4 "$@"
    is "$status" 0 "reference: $*" || { diag "$err"; return 1; }
    for pair in "$@"; do
        o[${pair%%=*}]=${pair#*=}
    done
    heads=${o[heads]} tokens=${o[seq]}
    train=(megatron train --num-layers "${o[layers]}" --hidden-size "${o[hidden]}"
           --num-attention-heads "$heads" --kv-channels "${o[dim]}"
           --ffn-hidden-size "${o[ffn]}" --seq-length "${o[seq]}"
           --max-position-embeddings "${o[positions]}" --vocab-size "${o[vocab]}"
           --batches batches.safetensors --load-weights init.safetensors
           --micro-batch-size "${o[micro]}" --train-iters 6 --lr "${o[lr]}" --min-lr 1e-4
           --lr-decay-style cosine --lr-warmup-iters "${o[warmup]}"
           --weight-decay "${o[decay]}" --clip-grad "${o[clip]}" --adam-beta2 0.95
           --hidden-dropout 0 --attention-dropout 0)
    [ "${o[tied]}" = 1 ] || train+=(--untie-embeddings-and-output-weights)
    [ "${o[per-token]:-0}" = 0 ] || train+=(--calculate-per-token-loss)
}

# layouts "TP PP DP"...: the current model on several ranks.
layouts() {
    local layout tp pp dp more
    for layout in "$@"; do
        read -r tp pp dp more <<<"$layout"
        if ranks_available; then
            # shellcheck disable=SC2086
            compare "tp $tp pp $pp dp $dp${more:+ $more}" ranks_run $((tp * pp * dp)) "${train[@]}" \
                --tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp" $more
        else
            skip 4 "neither UCX nor MPI"
        fi
    done
}

seed_draws
model layers=2 hidden=18 heads=2 dim=7 ffn=26 seq=13 positions=15 vocab=101 tied=0 micro=2 \
    global=6 batches=3 lr=5e-3 warmup=2 decay=0.1 clip=0.5 beta2=0.95 seed=11
compare "untied, one rank" "${train[@]}"
layouts "2 1 1" "1 2 1" "1 1 3" "2 2 1"
! long || layouts "2 2 3"

model layers=3 hidden=15 heads=3 dim=5 ffn=21 seq=9 positions=9 vocab=37 tied=1 micro=1 \
    global=7 batches=2 lr=3e-3 warmup=0 decay=0.01 clip=0.05 beta2=0.95 seed=12
compare "tied, a microbatch without weight, one rank" "${train[@]}"
layouts "3 1 1" "1 3 1" "3 1 1 --sequence-parallel"
some 1 "1 1 7" "3 3 1"
layouts "${some[@]}"

# every token alike: microbatches and ranks have masks of different weight, some of none
model layers=2 hidden=12 heads=2 dim=6 ffn=20 seq=7 positions=7 vocab=29 tied=1 micro=1 \
    global=12 batches=2 lr=4e-3 warmup=0 decay=0.05 clip=0.3 beta2=0.95 seed=14 per-token=1
compare "per token, one rank" "${train[@]}"
layouts "2 1 1" "1 2 1" "1 1 3" "2 2 1" "2 1 2 --overlap-grad-reduce --ddp-bucket-size 500"
some 1 "1 1 12" "2 2 3" "1 2 2 --pipeline-model-parallel-layout E|t|t|L"
layouts "${some[@]}"

model layers=1 hidden=5 heads=1 dim=3 ffn=2 seq=1 positions=1 vocab=2 tied=1 micro=3 \
    global=3 batches=1 lr=1e-2 warmup=1 decay=0 clip=1e9 beta2=0.95 seed=13
compare "sequences of one token, two words" "${train[@]}"
done_testing

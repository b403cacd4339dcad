#!/bin/bash
# A checkpoint of any layout, optimizer and precision is gone on from under any other: after 10
# of 20 iterations another run takes over, whose losses are those of the run that was left
# alone: to the bit where only what must not matter differs, else to rounding.  Pairs at
# random; MG_LONG=1: more of them, MG_SEED repeats them.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/layouts.sh"

ranks_need
tokenized_text 20
# odd sizes, which tp 2 and 3 divide where they must; microbatches are of one sample, so that
# every layout has the same ones
base=(megatron train --num-layers 6 --hidden-size 20 --num-attention-heads 6 --kv-channels 3
      --ffn-hidden-size 42 --seq-length 12 --max-position-embeddings 13
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 24 --train-iters 20 --lr 2e-3
      --lr-decay-style cosine --min-lr 1e-4 --lr-warmup-iters 4)
pairs=8 most=6
! long || pairs=60 most=12
seed_draws
tps=(1 1 2 3) pps=(1 1 2 3) dps=(1 2 3 4)

# draw_layout: $n ranks, their arguments in ${layout[@]}, ${optimizer[@]} and ${neutral[@]}.
draw_layout() {
    local vpp=1
    draw_sizes "$most"
    layout=(--tensor-model-parallel-size "$tp" --pipeline-model-parallel-size "$pp")
    ((tp == 1)) || ! coin || layout+=(--sequence-parallel)
    # virtual stages want microbatches in whole groups
    ((pp == 1 || 24 / dp % pp > 0)) || ! coin || vpp=$((6 / pp))
    ((vpp == 1)) || layout+=(--num-virtual-stages-per-pipeline-rank $vpp)
    draw_optimizer
}

# Arguments of a type; weights in float8 want shards.
type_args() {
    case $1 in
    float32) args=() ;;
    bfloat16) args=(--bf16) ;;
    float16) args=(--fp16 --initial-loss-scale 4096) ;;
    float8)
        args=(--bf16 --fp8-param-gather)
        [ ${#optimizer[@]} -gt 0 ] || optimizer=(--use-distributed-optimizer)
        ;;
    esac
}

# What a checkpoint is written in, and gone on in, and how close their runs stay.
draw_types() {
    case $1 in
    3 | 10) from=bfloat16 to=bfloat16 ;;
    6) from=float16 to=float16 ;;
    8) from=float32 to=bfloat16 ;;
    9) from=float8 to=float8 ;;
    11) from=bfloat16 to=float32 ;;
    *) from=float32 to=float32 ;;
    esac
    case $from$to in
    float32float32) loss=1e-5 norm=1e-4 weights=1e-4 ;;
    bfloat16bfloat16 | float16float16) loss=1e-3 norm=5e-3 weights=0.05 ;;
    *) loss=2e-3 norm=0.02 weights=0.05 ;;
    esac
}

for ((pair = 0; pair < pairs; pair++)); do
    draw_types $((pair % 12))
    draw_layout
    type_args $from
    more=()
    ! coin || more+=(--async-save)
    what="$n: ${layout[*]} ${optimizer[*]} ${neutral[*]} ${args[*]} ${more[*]}"
    rm -rf saved
    train whole ranks_run "$n" "${base[@]}" "${layout[@]}" "${optimizer[@]}" "${neutral[@]}" \
        "${args[@]}" "${more[@]}" --save saved --save-interval 10
    is "$status" 0 "pair $pair, from ${what//--/}"
    tail -n 10 whole.json >rest.json
    rm -r saved/iter_0000020
    echo 10 >saved/latest_checkpointed_iteration.txt
    same=$((pair % 3 == 1))
    if ((same)); then
        draw_neutral
    else
        draw_layout
    fi
    type_args $to
    what="$n: ${layout[*]} ${optimizer[*]} ${neutral[*]} ${args[*]}"
    train other ranks_run "$n" "${base[@]}" "${layout[@]}" "${optimizer[@]}" "${neutral[@]}" \
        "${args[@]}" --load saved
    is "$status" 0 "pair $pair, to ${what//--/}"
    if ((same)); then
        ok "[ \$(wc -l <other.json) = 10 ] && cmp other.json rest.json && cmp other.st whole.st" \
            "the same bits"
    else
        same_metrics other.json rest.json $loss $norm "the same losses"
        same_weights other.st whole.st $weights "weights" --skip-key-bias 6
    fi
done
# ---- experts: ep and etp change with everything else
experts=(--num-experts 6 --moe-ffn-hidden-size 12 --swiglu --disable-bias-linear
         --moe-router-topk 2 --moe-router-score-function sigmoid --moe-router-enable-expert-bias
         --moe-router-bias-update-rate 0.01 --moe-router-load-balancing-type seq_aux_loss
         --moe-aux-loss-coeff 0.01 --init-method-std 0.2)
a2a="--moe-token-dispatcher-type alltoall"
split="--tensor-model-parallel-size 2 --sequence-parallel"
while IFS='|' read -r from to; do
    read -r n layout <<<"$from"
    rm -rf saved
    # shellcheck disable=SC2086 # words
    train whole ranks_run "$n" "${base[@]}" "${experts[@]}" $layout --save saved --save-interval 10
    is "$status" 0 "experts, from $n: ${layout//--/}"
    tail -n 10 whole.json >rest.json
    echo 10 >saved/latest_checkpointed_iteration.txt
    read -r n layout <<<"$to"
    # shellcheck disable=SC2086
    train other ranks_run "$n" "${base[@]}" "${experts[@]}" $layout --load saved
    is "$status" 0 "to $n: ${layout//--/}"
    same_metrics other.json rest.json 1e-5 1e-4 "the same losses"
    same_experts other.json rest.json "the same experts"
    same_weights other.st whole.st 1e-4 "weights"
done <<EOF
6 --expert-model-parallel-size 6 $a2a --use-distributed-optimizer --async-save|4 $split --expert-model-parallel-size 1 --expert-tensor-parallel-size 4
4 $split --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 $a2a|6 --pipeline-model-parallel-size 3 --expert-model-parallel-size 2 --use-distributed-optimizer
4 $split --expert-model-parallel-size 2 --expert-tensor-parallel-size 1 --pipeline-model-parallel-size 2|1
EOF
done_testing

#!/bin/bash
# Arguments of attention and of multi-token prediction in every layout: the largest logit, an odd
# number of rotated elements, scores that are rounded in float16, one repeated layer, detached heads.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 40
base=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --kv-channels 12
      --seq-length 16 --position-embedding-type rope --rotary-percent 0.75
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0 --eval-iters 0
      --micro-batch-size 1 --global-batch-size 4 --lr 2e-3 --lr-decay-style constant
      --init-method-std 0.3 --adam-eps 1e-4 --train-iters 2 --log-max-attention-logit)
interleaved="--rotary-interleaved --num-layers 4"
mtp="--mtp-num-layers 2 --mtp-use-repeated-layer --mtp-detach-heads --mtp-loss-scaling-factor 0.6
     --clip-grad 0.5"
experts="--num-experts 4 --moe-router-topk 2 --disable-bias-linear --moe-aux-loss-coeff 0.01"

# logits FILE: the largest of each iteration, on lines
logits() {
    jq -r '.max_attention_logit' "$1"
}
export -f logits

# one rank: the argument changes no bit; the event file has the tag
run "${base[@]}" --metrics-file one.json --save-weights one.st --tensorboard-dir events
is "$status" 0 "9 of 12 elements are rotated" || diag "$err"
ok "logits one.json | awk '\$1 < 0.1 || \$1 > 1000 { bad = 1 } END { exit bad || NR != 2 }'" \
    "each iteration has its largest logit"
ok "grep -aq max_attention_logit events/*" "and so has the event file"
args=("${base[@]}")
unset 'args[-1]'
run "${args[@]}" --metrics-file without.json --save-weights without.st
ok "cmp one.st without.st && ! grep -q max_attention without.json" "without it, the same bits"

# float16, whose scores are rounded in the other layer than the first by a third
run "${args[@]}" --fp16 --num-layers 3 --save-weights plain.st --train-iters 1
run "${args[@]}" --fp16 --num-layers 3 --save-weights scaled.st --train-iters 1 \
    --apply-query-key-layer-scaling
is "$status" 0 "float16 with scaling by the layer's number" || diag "$err"
ok "! cmp -s plain.st scaled.st" "rounds scores"
same_weights plain.st scaled.st 1e-2 "a little"
run "${args[@]}" --bf16 --save-weights plain.st
run "${args[@]}" --bf16 --save-weights scaled.st --apply-query-key-layer-scaling
same_weights plain.st scaled.st 1e-12 "bfloat16 has the same bits"

# a repeated layer: one in files, which come back
run "${base[@]}" $mtp --save ckpt --save-weights one.st --train-iters 2
is "$status" 0 "a repeated layer" || diag "$err"
ok "! grep -aq 'mtp.layers.1' one.st && grep -aq 'mtp.layers.0.eh_proj' one.st" "is saved once"
run "${base[@]}" --load ckpt --use-checkpoint-args --train-iters 2 --save-weights again.st
ok "cmp one.st again.st" "and loaded as such" || diag "$err"
run "${base[@]}" --load ckpt --mtp-num-layers 2 --train-iters 3
ok "[ $status != 0 ]" "not as two layers"
like "$err" "mtp-use-repeated-layer|mtp.layers.1" "which the text names"

# detached heads leave the norm by which the others are clipped alone
run "${base[@]}" $mtp --metrics-file detached.json
run "${base[@]}" --mtp-num-layers 2 --mtp-use-repeated-layer --clip-grad 0.5 \
    --mtp-loss-scaling-factor 0 --metrics-file none.json
ok "jq -e '.\"grad norm\" > 0.5' detached.json" "gradients are clipped"
same_metrics detached.json none.json 1e-6 1e-6 "all else is trained as without their losses"

# Microbatches of equally many tokens: the mean over all tokens is that of the means.  Clipping of
# detached heads and losses of routers know this.
beside=($mtp $experts --moe-z-loss-coeff 1e-2)
run "${base[@]}" "${beside[@]}" --metrics-file means.json --save-weights means.st
is "$status" 0 "means of microbatches" || diag "$err"
run "${base[@]}" "${beside[@]}" --calculate-per-token-loss --metrics-file tokens.json \
    --save-weights tokens.st
is "$status" 0 "a mean over tokens" || diag "$err"
same_metrics tokens.json means.json 1e-6 1e-5 "the same losses and norms"
same_weights tokens.st means.st 1e-5 "and weights"

ranks_available || { skip 1 "neither UCX nor MPI"; done_testing; exit; }
# ranks and arguments of the layout, then the model's; the one-rank run is made once a model
done=none
while IFS='|' read -r layout model; do
    read -r n more <<<"$layout"
    read -ra layout_args <<<"$more"
    read -ra model_args <<<"$model"
    if [ "$model" != "$done" ]; then
        run "${base[@]}" "${model_args[@]}" --metrics-file one.json --save-weights one.st \
            --save-gradients one.grad
        is "$status" 0 "one rank: $model" || diag "$err"
        done=$model
    fi
    run ranks_run "$n" "${base[@]}" "${model_args[@]}" "${layout_args[@]}" --metrics-file n.json \
        --save-weights n.st --save-gradients n.grad
    is "$status" 0 "$n ranks $more" || { diag "$err"; continue; }
    same_metrics n.json one.json 1e-5 1e-4 "losses and norms"
    ok "paste <(logits n.json) <(logits one.json) | awk '{ d = \$1 / \$2 - 1 }
        d > 1e-5 || d < -1e-5 { bad = 1 } END { exit bad || NR != 2 }'" "largest logits"
    same_weights n.grad one.grad 1e-5 "gradients of the first step"
    same_weights n.st one.st 1e-4 "weights at the end"
done <<EOF
2 --tensor-model-parallel-size 2 --sequence-parallel|$interleaved
4 --pipeline-model-parallel-size 2 --context-parallel-size 2|$interleaved
2 --context-parallel-size 2 --cp-comm-type all_gather|$interleaved
2 --context-parallel-size 2 --cp-comm-type a2a|$interleaved
4 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2|$(echo $mtp)
4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather|$(echo $mtp) --untie-embeddings-and-output-weights
2 --pipeline-model-parallel-size 2|$(echo $mtp $experts) --calculate-per-token-loss
2 --expert-model-parallel-size 2|$(echo $mtp $experts)
EOF
done_testing

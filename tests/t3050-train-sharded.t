#!/bin/bash
# The distributed optimizer against plain data parallelism: the same bits without clipping
# and almost the same with it, under all kinds of layouts; checkpoints that go from the one
# to the other and to other layouts; what it saves of memory.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
tokenized_text 40
# odd sizes: shards cut parameters inside of rows
base=(megatron train --num-layers 4 --hidden-size 36 --num-attention-heads 4 --kv-channels 7
      --ffn-hidden-size 52 --seq-length 12 --max-position-embeddings 13
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 12 --train-iters 4 --lr 2e-3
      --lr-decay-style constant --log-num-zeros-in-grad)
sharded=(--use-distributed-optimizer)

# train NAME COMMAND...: leaves NAME.st, NAME.grad, and NAME.json without the times.
train() {
    local name=$1
    shift
    run "$@" --metrics-file "$name.raw" --save-weights "$name.st" --save-gradients "$name.grad"
    [ "$status" = 0 ] || diag "$err"
    sed 's/, "elapsed.*/}/' "$name.raw" >"$name.json"
}

# same_bits A B TEXT: weights and gradients, and all metrics but the norm, whose sum has
# another order.
same_bits() {
    ok "[ -s $1.json ] && cmp $1.st $2.st && cmp $1.grad $2.grad &&
        [ \"\$(sed 's/, \"grad norm[^,]*//' $1.json)\" = \"\$(sed 's/, \"grad norm[^,]*//' $2.json)\" ]" \
        "$3"
}

# ---- layouts: tp pp vpp dp and further arguments
while read -r tp pp vpp dp more; do
    what="tp $tp pp $pp vpp $vpp dp $dp $more"
    read -ra args <<<"$more"
    many=(ranks_run $((tp * pp * dp)) "${base[@]}" --tensor-model-parallel-size "$tp"
          --pipeline-model-parallel-size "$pp" "${args[@]}")
    [ "$vpp" = 1 ] || many+=(--num-virtual-stages-per-pipeline-rank "$vpp")
    train plain "${many[@]}" --clip-grad 0
    is "$status" 0 "$what"
    train n "${many[@]}" --clip-grad 0 "${sharded[@]}"
    is "$status" 0 "sharded"
    same_bits n plain "the same bits"
    same_metrics n.json plain.json 0 1e-12 "and almost the same norm"
    train overlap "${many[@]}" --clip-grad 0 "${sharded[@]}" --ddp-bucket-size 2000 \
        --overlap-grad-reduce --overlap-param-gather
    is "$status" 0 "overlapped"
    same_bits overlap plain "the same bits"
    train plain "${many[@]}" --clip-grad 0.5
    train n "${many[@]}" --clip-grad 0.5 "${sharded[@]}"
    same_metrics n.json plain.json 1e-6 1e-6 "clipped"
    same_weights n.st plain.st 1e-6 "weights"
done <<'EOF'
1 1 1 2
1 1 1 3 --untie-embeddings-and-output-weights --calculate-per-token-loss
2 1 1 2 --sequence-parallel
1 2 2 3
2 2 2 2 --sequence-parallel
EOF

# ---- overlap: changes nothing at all
for layout in "" "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"; do
    read -ra args <<<"$layout"
    many=(ranks_run 4 "${base[@]}" "${args[@]}")
    train plain "${many[@]}"
    train n "${many[@]}" --overlap-grad-reduce --ddp-bucket-size 3000
    same_bits n plain "overlapped without shards $layout"
    ok "cmp n.json plain.json" "the norm too"
done

# ---- averages: gradients are divided by 2 or 4 in the reduction, not before: no bit differs;
# by 3 it is rounded elsewhere
average=(--ddp-average-in-collective)
for layout in "4" "4 --tensor-model-parallel-size 2 --sequence-parallel" \
    "4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"; do
    read -ra args <<<"$layout"
    many=(ranks_run "${args[0]}" "${base[@]}" "${args[@]:1}")
    train plain "${many[@]}"
    train n "${many[@]}" "${average[@]}"
    same_bits n plain "averaged: the same bits, $layout"
    ok "cmp n.json plain.json" "and metrics"
    train plain "${many[@]}" "${sharded[@]}"
    train n "${many[@]}" "${average[@]}" "${sharded[@]}" --overlap-grad-reduce --ddp-bucket-size 2000
    same_bits n plain "sharded too"
done
train plain ranks_run 4 "${base[@]}" "${sharded[@]}" --num-distributed-optimizer-instances 2
train n ranks_run 4 "${base[@]}" "${sharded[@]}" --num-distributed-optimizer-instances 2 "${average[@]}"
same_bits n plain "in instances"
train plain ranks_run 3 "${base[@]}"
train n ranks_run 3 "${base[@]}" "${average[@]}"
is "$status" 0 "three ranks"
same_metrics n.json plain.json 1e-6 1e-5 "averaged: the same to rounding"
same_weights n.st plain.st 1e-5 "weights" --skip-key-bias 4
run ranks_run 2 "${base[@]}" "${average[@]}" --calculate-per-token-loss
is "$status" 2 "averages exclude sums over tokens: $err"

# ---- zeros: words that no sample has, a position that is never used
untied=("${base[@]}" --untie-embeddings-and-output-weights)
zeros() { sed -n '1s/.*"num zeros": \([0-9]*\),.*/\1/p' "$1.json"; }
train one "${untied[@]}"
ok "[ $(zeros one) -gt 1000 ]" "one rank counts zeros: $(zeros one)"
train n ranks_run 4 "${untied[@]}" --tensor-model-parallel-size 2 --sequence-parallel "${sharded[@]}"
is "$(zeros n)" "$(zeros one)" "so do tp 2 x dp 2, sharded"
train n ranks_run 4 "${untied[@]}" --pipeline-model-parallel-size 2
is "$(zeros n)" "$(zeros one)" "and pp 2 x dp 2"
like "$out" 'num zeros: [0-9]+ . number of skipped' "the log line has them too"

# ---- instances
many=(ranks_run 4 "${base[@]}")
train plain "${many[@]}" --clip-grad 0
train n "${many[@]}" --clip-grad 0 "${sharded[@]}" --overlap-grad-reduce --ddp-num-buckets 7 \
    --ddp-pad-buckets-for-high-nccl-busbw
same_bits n plain "seven buckets, padded more"
train plain "${many[@]}"
train n "${many[@]}" "${sharded[@]}" --num-distributed-optimizer-instances 2
is "$status" 0 "two instances"
same_metrics n.json plain.json 1e-6 1e-6 "metrics"
same_weights n.st plain.st 1e-5 "weights" --skip-key-bias 4
train again "${many[@]}" "${sharded[@]}" --num-distributed-optimizer-instances 2
same_bits again n "a second run"
train four "${many[@]}" "${sharded[@]}" --num-distributed-optimizer-instances 4
is "$status" 0 "an instance for each rank"
same_metrics four.json plain.json 1e-6 1e-6 "metrics"

# ---- resume: bit for bit on the same layout
many=(ranks_run 4 "${base[@]}" --pipeline-model-parallel-size 2 "${sharded[@]}"
      --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000)
train whole "${many[@]}"
train parts "${many[@]}" --exit-interval 2 --save ckpt
train parts "${many[@]}" --load ckpt --save ckpt
ok "cmp whole.st parts.st" "resumed: the same weights, bit for bit"
is "$(cat parts.json)" "$(cat whole.json)" "and the same metrics"

# ---- from one layout to another: the state is that of parameters, not of buckets
rm -r ckpt
train first ranks_run 3 "${base[@]}" "${sharded[@]}" --exit-interval 2 --save ckpt
is "$status" 0 "saved by three ranks"
train one "${base[@]}"
is "$status" 0 "one rank, in one go"
while read -r n more; do
    read -ra args <<<"$more"
    rm -rf other other.raw
    cp -r ckpt other
    train other ranks_run "$n" "${base[@]}" "${args[@]}" --load other
    is "$status" 0 "gone on: $n $more"
    same_weights other.st one.st 1e-4 "as one rank" --skip-key-bias 4
done <<'EOF'
1
3
2 --use-distributed-optimizer
4 --use-distributed-optimizer --num-distributed-optimizer-instances 2
4 --tensor-model-parallel-size 2 --use-distributed-optimizer --sequence-parallel
4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --use-distributed-optimizer
EOF

# ---- refusals and memory
run ranks_run 3 "${base[@]}" "${sharded[@]}" --num-distributed-optimizer-instances 2
is "$status" 2 "instances must divide the ranks"
like "$err" "instances 2 does not divide the 3 data-parallel ranks" "says why"
run ranks_run 2 "${base[@]}" --ddp-num-buckets 7 --ddp-bucket-size 7
like "$err" "exclude each other" "size and number of buckets exclude each other"
run ranks_run 2 "${base[@]}" "${sharded[@]}" --overlap-param-gather
is "$status" 2 "gathering aside needs reducing aside"
like "$err" "overlap-param-gather needs .*--overlap-grad-reduce" "says why"
run ranks_run 2 "${base[@]}" --num-distributed-optimizer-instances 2
like "$err" "needs --use-distributed-optimizer" "and need the optimizer"
base+=(--num-layers 2 --hidden-size 256 --train-iters 1)
run ranks_run 2 "${base[@]}"
plain=$(sed -n 's/.*rank 0 takes \([0-9.]*\) MiB.*/\1/p' <<<"$out")
run ranks_run 2 "${base[@]}" "${sharded[@]}"
ok "awk 'BEGIN { exit !(${plain:-0} > 1 && $(sed -n 's/.*rank 0 takes \([0-9.]*\) MiB.*/\1/p' <<<"$out") / $plain < 0.77) }'" \
    "two ranks need 12 bytes a parameter, not 16"
done_testing

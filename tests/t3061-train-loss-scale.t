#!/bin/bash
# The dynamic loss scale of a run follows its rules, iteration by iteration: they are replayed
# from the iterations that the run says it has skipped. Whichever rank overflows, all skip.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
ffn=64
base=(megatron train --num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant
      --eval-iters 0 --fp16)

# "SCALE SKIPPED" of every iteration.
observed() {
    sed 's/.*"loss scale": \([^,}]*\).*"skipped": \([a-z]*\).*/\1 \2/' "$1.raw"
}

# follows NAME INITIAL WINDOW HYSTERESIS LEAST TEXT: with both kinds of change somewhere, unless
# $changes says which.
changes="down up"
follows() {
    local said
    said=$(observed "$1" | awk -v scale="$2" -v window="$3" -v hysteresis="$4" -v least="$5" '
        BEGIN { left = hysteresis }
        $1 / scale > 1.000001 || $1 / scale < 0.999999 {
            printf "iteration %d: %s, want %.0f\n", NR, $1, scale; exit }
        $2 == "true" {
            good = 0; skipped++
            if (--left <= 0) { scale = scale / 2 > least ? scale / 2 : least; down = "down" } }
        $2 == "false" && ++good == window { good = 0; left = hysteresis; scale *= 2; up = "up" }
        END { printf "%d iterations, %d skipped, %s\n", NR, skipped, down (up ? " " up : "") }')
    like "$said" "^[0-9]+ iterations, [0-9]+ skipped, $changes\$" "$6"
}

# ---- one rank: settings
while read -r initial window hysteresis least; do
    train one "${base[@]}" --train-iters 60 --initial-loss-scale "$initial" \
        --loss-scale-window "$window" --hysteresis "$hysteresis" --min-loss-scale "$least"
    is "$status:$(wc -l <one.raw)" 0:60 "first $initial, window $window, hysteresis $hysteresis"
    follows one "$initial" "$window" "$hysteresis" "$least" "its scales"
done <<'END'
4294967296 4 2 1
1048576 2 1 1
1048576 3 3 64
33554432 5 2 1024
END
train one "${base[@]}" --train-iters 60
changes="down"
follows one 4294967296 1000 2 1 "the defaults, without a growth so soon"
train one "${base[@]}" --train-iters 40 --initial-loss-scale 1099511627776 --hysteresis 4 \
    --min-loss-scale 68719476736
follows one 1099511627776 1000 4 68719476736 "not below the least"
is "$(observed one | tail -n 1)" "$(observed one | sed -n 8p)" "where it stays"
run "${base[@]}" --train-iters 60 --initial-loss-scale 1099511627776 --hysteresis 4 \
    --min-loss-scale 68719476736
is "$status" 1 "which ends the run in the end"
like "$err" "iteration 57: loss .* at the least loss scale, 6.87195e\+10, for 50 iterations," \
    "after many"
train one "${base[@]}" --train-iters 8 --loss-scale 1099511627776
is "$(observed one | awk '{ printf "%.6g %s\n", $1, $2 }' | sort -u)" "1.09951e+12 true" \
    "a constant one stays"

# ---- weights with which only one layer overflows: a unit that is off in the forward pass, of
# which the gradient is large; always the same batch, so that it does so at one scale
base=(megatron train --num-layers 4 --hidden-size 16 --num-attention-heads 2 --vocab-size 256
      --micro-batch-size 1 --lr 3e-4 --lr-decay-style constant --fp16 --batches batches.st
      --train-iters 40 --initial-loss-scale 65536 --loss-scale-window 3 --hysteresis 2)
make_batches batches.st
run "${base[@]}" --train-iters 0 --save-weights good.st
is "$status" 0 "initial weights" || diag "$err"
# poke_layer LAYER UNIT
poke_layer() {
    cp good.st poked.st
    poke poked.st "decoder.layers.$1.mlp.linear_fc1.bias" "$2" '\0\0\240\302' # -80
    for ((h = 0; h < 16; h++)); do
        poke poked.st "decoder.layers.$1.mlp.linear_fc2.weight" $((h * ffn + $2)) \
            '\0\140\152\107' # 60000
    done
}
# What is left of an iteration's metrics where it was not skipped.
taken() {
    grep '"skipped": false' "$1.raw" >"$1.json"
}

changes="down up"
ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; exit; }
while read -r world layer unit more; do
    read -ra more <<<"$more"
    poke_layer "$layer" "$unit"
    train one "${base[@]}" --load-weights poked.st
    is "$status" 0 "one layer overflows"
    follows one 65536 3 2 1 "layer $layer, unit $unit: on one rank"
    train n ranks_run "$world" "${base[@]}" --load-weights poked.st "${more[@]}"
    is "$status" 0 "$world ranks ${more[*]}"
    follows n 65536 3 2 1 "by the same rules"
    is "$(observed n)" "$(observed one)" "the same iterations"
    taken one
    taken n
    same_metrics n.json one.json 1e-3 0.02 "from the same updates"
    same_weights n.st one.st 0.02 "on every rank" --skip-key-bias 2
done <<'END'
2 0 3
2 0 3 --use-distributed-optimizer
2 0 3 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
2 2 63 --tensor-model-parallel-size 2
2 0 63 --tensor-model-parallel-size 2 --sequence-parallel
2 0 3 --pipeline-model-parallel-size 2
2 3 3 --pipeline-model-parallel-size 2
4 1 63 --tensor-model-parallel-size 2 --use-distributed-optimizer
END
done_testing

#!/bin/bash
# Validation and test loss: the same on every layout and as in training, nothing of training
# changed by it, positions that go on after a checkpoint; parts without data.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text a.txt 30
make_text b.txt 12
tr a-y b-z <b.txt >c.txt
for set in a b c; do
    megatron data tokenize --input $set.txt --output-prefix $set --append-eod >/dev/null
done
a=a_text_document b=b_text_document c=c_text_document
model=(--num-layers 4 --hidden-size 24 --num-attention-heads 4 --seq-length 12
       --tokenizer-type ByteLevel --micro-batch-size 2 --global-batch-size 8 --seed 5)
recipe=(--train-iters 6 --lr 4e-3 --lr-decay-style constant)
data=(--train-data-path $a --valid-data-path $b --test-data-path $c)

# train NAME COMMAND...: leaves NAME.raw, NAME.json without times, NAME.eval: "ITERATION PART
# LOSS PPL SAMPLES" of each evaluation
train() {
    local name=$1
    shift
    rm -f "$name.raw"
    run "$@" --metrics-file "$name.raw"
    [ "$status" = 0 ] || diag "$err"
    grep -v evaluation "$name.raw" | sed 's/, "elapsed.*/}/' >"$name.json"
    sed -n 's/{"evaluation": "\(.*\)", "iteration": \(.*\), "consumed.*"samples": \(.*\), "lm loss value": \(.*\), "lm loss PPL": \(.*\), "elap.*/\2 \1 \4 \5 \3/p' \
        "$name.raw" >"$name.eval"
}

# near A B TOLERANCE TEXT: the losses of two .eval files
near() {
    local said
    said=$(paste -d' ' "$1" "$2" | awk -v t="$3" '
        { d = $3 / $8 - 1; if (d < 0) d = -d; if (d > t || $1 != $6 || $2 != $7) bad = 1
          if (d > max) max = d; n++ }
        END { printf "%d evaluations, largest difference %.1e", n, max; exit bad || !n }')
    ok "[ $? = 0 -a $(wc -l <"$1") = $(wc -l <"$2") ]" "$4: $said"
}

# ---- what is said, and that nothing of training changes
one=(megatron train "${model[@]}" "${recipe[@]}")
evals=(--eval-interval 2 --eval-iters 3)
train plain "${one[@]}" --train-data-path $a --save-weights plain.st
is "$(cat plain.eval)" "" "no data to evaluate: nothing is said"
train one "${one[@]}" "${data[@]}" "${evals[@]}" --save-weights one.st
is "$status" 0 "with validation and test"
ok "cmp plain.json one.json && cmp plain.st one.st" "training is the same to the bit"
is "$(cut -d' ' -f1,2,5 one.eval | tr '\n' ,)" \
    "2 validation 24,4 validation 24,6 validation 24,6 validation 24,6 test 24," \
    "every second iteration, and at the end"
is "$(cut -d' ' -f3 one.eval | sort -u | wc -l)" 5 "five losses"
ok "! grep -v evaluation one.raw | grep -q PPL" "in lines of their own"
read -r _ _ loss ppl _ < <(tail -n 1 one.eval)
said=$(awk -v x="$loss" 'BEGIN { printf "lm loss value: %.5E | lm loss PPL: %.5E |", x, exp (x) }')
is "$(grep -c '^ validation loss at iteration [246] | lm loss value: ' <<<"$out")" 3 "three lines"
is "$(grep -c '^ validation loss at iteration 6 on validation set | ' <<<"$out")" 1 "one at the end"
line=$(grep '^ validation loss at iteration 6 on test set | ' <<<"$out")
like "$line" "^ validation loss at iteration 6 on test set \| lm loss value: [0-9.]{8}E[+-][0-9]{2} \| lm loss PPL: [0-9.]{8}E[+-][0-9]{2} \| $" "as Megatron-LM says it"
is "$(awk '{ printf "lm loss value: %.5E | lm loss PPL: %.5E |", $13, $18 }' <<<"$line")" "$said" \
    "the same numbers"
is "$(grep -c "^-\{$((${#line} + 1))\}$" <<<"$out")" 2 "between rules of its length"
train again "${one[@]}" "${data[@]}" "${evals[@]}" --hidden-dropout 0 --attention-dropout 0 --lr 0
train still "${one[@]}" "${data[@]}" "${evals[@]}" --lr 0
ok "cmp again.eval still.eval" "no dropout in evaluation"
ok "! cmp -s again.json still.json" "though in training"
train log "${one[@]}" "${data[@]}" --eval-interval 0 --eval-iters 2
is "$(cut -d' ' -f1,2,5 log.eval | tr '\n' ,)" "6 validation 16,6 test 16," "interval 0: only the end"
train none "${one[@]}" "${data[@]}" --eval-interval 1 --eval-iters 0
is "$(cat none.eval)" "" "no batches: nothing"
train exit "${one[@]}" "${data[@]}" "${evals[@]}" --exit-interval 4
is "$(cut -d' ' -f1,2 exit.eval | tr '\n' ,)" "2 validation,4 validation," \
    "a run that leaves early has no last evaluation"

# ---- against training: with a learning rate of 0 its losses are those of evaluation
fixed=(--hidden-dropout 0 --attention-dropout 0)
train zero "${one[@]}" --train-data-path $b "${fixed[@]}" --lr 0
want=$(grep -o '"lm loss tokens": [^,]*' zero.json | awk '{ s += $4 } END { printf "%.6f", s / NR }')
train skip megatron train "${model[@]}" --valid-data-path $b --skip-train --eval-iters 6
is "$status" 0 "--skip-train, with neither iterations nor learning rate"
is "$(awk '{ printf "%.6f", $3 }' skip.eval)" "$want" "the loss is the mean of training's"
is "$(cut -d' ' -f1,2,5 skip.eval)" "0 validation 48" "of iteration 0"
is "$(grep -c . skip.raw)$(grep -c 'iteration  ' <<<"$out")" 10 "nothing is trained"

# ---- going on
train half "${one[@]}" "${data[@]}" "${evals[@]}" --exit-interval 3 --save ck
train rest "${one[@]}" "${data[@]}" "${evals[@]}" --load ck
ok "[ -s half.eval ] && cat half.eval rest.eval | cmp - one.eval" \
    "a run that goes on evaluates as one that was whole"
train late "${one[@]}" "${data[@]}" --eval-interval 1000 --eval-iters 1 --load ck
is "$status" 0 "also with other arguments, behind the end of the data"
train skip "${one[@]}" "${data[@]}" --eval-iters 3 --load ck --skip-train --save-weights skip.st
is "$(cut -d' ' -f1,2 skip.eval | tr '\n' ,)" "3 validation,3 test," \
    "a checkpoint is evaluated, from the beginning of the data"
is "$(sed -n 1p skip.eval | cut -d' ' -f5)$(ls skip.st)" 24skip.st "its weights are written"

# ---- evaluation alone: it has parameters and nothing else, and says the same, in every precision
# alone TEXT ARGUMENT...: "${launch[@]}" starts it
alone() {
    local text=$1
    shift
    rm -rf ck
    train whole "${launch[@]}" "${one[@]}" "${data[@]}" --eval-iters 2 "$@" --save ck --save-weights w.st
    train skip "${launch[@]}" "${one[@]}" "${data[@]}" --eval-iters 2 "$@" --load ck --skip-train
    is "$status" 0 "$text: evaluated"
    is "$(grep -vc ' gradients: 0 | main gradients: 0 | main parameters: 0 | moments: 0 |' \
        <<<"$(grep '^ memory plan' <<<"$out")")" 0 \
        "with parameters alone" || diag "$out"
    ok "grep ' test ' whole.eval >want && grep ' test ' skip.eval | cmp - want" \
        "$text: as at the end of the run"
    train kept "${launch[@]}" "${one[@]}" "${data[@]}" --eval-iters 2 "$@" --load ck --skip-train \
        --save-weights kept.st
    ok "cmp kept.eval skip.eval && cmp kept.st w.st" "where weights are written they are the same"
    train skip "${launch[@]}" "${one[@]}" "${data[@]}" --eval-iters 2 "$@" --load-weights w.st --skip-train
    ok "[ -s skip.eval ] && cut -d' ' -f2- skip.eval >got && cut -d' ' -f2- kept.eval | cmp - got" \
        "and so it is from a file of weights"
}
launch=()
sharded=--use-distributed-optimizer
aware="--bf16 $sharded --use-precision-aware-optimizer"
while IFS=: read -r text args; do
    # shellcheck disable=SC2086
    alone "$text" $args
done <<END
float32:
bfloat16:--bf16
float16:--fp16
float8:--bf16 $sharded --fp8-param-gather
remainders:$aware --exp-avg-dtype bf16
float16 main parameters:$aware --main-params-dtype fp16
float8 of these:$aware --main-params-dtype fp16 --fp8-param-gather
END
train new "${one[@]}" "${data[@]}" --eval-iters 2 --bf16 $sharded --fp8-param-gather --train-iters 0
train skip "${one[@]}" "${data[@]}" --eval-iters 2 --bf16 $sharded --fp8-param-gather --skip-train
ok "[ -s new.eval ] && cmp new.eval skip.eval" "initial values in float8 are the same"

# ---- layouts
if ranks_available; then
    while read -r n args; do
        launch=(ranks_run "$n")
        # shellcheck disable=SC2086
        alone "$n ranks $args" $args
    done <<END
2 --tensor-model-parallel-size 2 --sequence-parallel --bf16
2 $sharded --overlap-grad-reduce --overlap-param-gather --bf16 --fp8-param-gather
2 $sharded
END
    while read -r n args; do
        # shellcheck disable=SC2086
        train n ranks_run "$n" "${one[@]}" "${data[@]}" "${evals[@]}" $args
        is "$status" 0 "$n ranks $args"
        near n.eval one.eval 1e-5 "against one rank"
        same_metrics n.raw one.raw 1e-5 1e-4 "training"
    done <<'END'
2 --tensor-model-parallel-size 2 --sequence-parallel
2
2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
4 --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2
4 --pipeline-model-parallel-size 4
END
    groups=(--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
            --microbatch-group-size-per-virtual-pipeline-stage 3 --global-batch-size 10)
    train ten "${one[@]}" "${data[@]}" "${evals[@]}" --global-batch-size 10
    train n ranks_run 2 "${one[@]}" "${data[@]}" "${evals[@]}" "${groups[@]}" --save-weights n.st
    train off ranks_run 2 "${one[@]}" --train-data-path $a "${groups[@]}" --save-weights off.st
    near n.eval ten.eval 1e-5 "a last group that is smaller"
    ok "cmp n.json off.json && cmp n.st off.st" "interleaved training is the same to the bit"
    train ramp ranks_run 2 "${one[@]}" "${data[@]}" "${evals[@]}" --rampup-batch-size 4 4 12
    is "$(cut -d' ' -f5 ramp.eval | sort -u)" 24 "a batch size that grows: the last one counts"
    train ramp "${one[@]}" "${data[@]}" "${evals[@]}" --rampup-batch-size 4 4 10 --train-iters 3
    is "$(cut -d' ' -f5 ramp.eval | sort -u)" 12 "not the one after it"
    run ranks_run 2 megatron train "${model[@]}" "${data[@]}" --eval-iters 1 --vocab-size 99 \
        --skip-train
    is "$status" 1 "tokens outside the vocabulary"
    is "$(grep -c '^megatron train: ' <<<"$err")" 1 "are told once"
    like "$err" "^megatron train: .*evaluation: sample [0-9]+, position [0-9]+: token" "as such"
else
    skip 13 "neither UCX nor MPI"
fi

# ---- asked to stop
# stop COMMAND...: a signal in an evaluation that would take minutes; sets 'status' and 'out'
stop() {
    local job start
    env "$@" >stop.out 2>stop.err &
    job=$!
    wait_until "grep -q '$mark' stop.out" $job
    sleep 0.3
    start=$(date +%s%N)
    kill -TERM $job
    status=0
    wait $job || status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    out=$(cat stop.out)
    [ "$status" = 75 ] || diag "$(cat stop.err)"
}
long=("${data[@]}" --eval-interval 2 --eval-iters 200000)
mark='\] iteration *2/'
stop "${one[@]}" "${long[@]}" --save late
is "$status" 75 "a signal in an evaluation"
ok "[ $took -lt $(patience 60000) ]" "is heard before its end: $took ms"
is "$(cat late/latest_checkpointed_iteration.txt)$(grep -c 'validation loss' <<<"$out")" 20 \
    "the run is saved, and nothing said of the evaluation"
mark='memory (MB)'
stop megatron train "${model[@]}" "${long[@]}" --skip-train
is "$status$(grep -c 'on test set' <<<"$out")" 750 "a run that only evaluates"

# ---- parts without data
split() {
    train s "${one[@]}" --data-path $a --eval-iters 1 "$@"
}
split --split 100,0,0
is "$status$(cat s.eval)$(grep -c '^no ' <<<"$out")" 00 "a split without validation: nothing is said"
split --split 969,30,1
is "$(cut -d' ' -f2 s.eval | tr '\n' ,)" validation, "no document for the test"
is "$(grep '^no ' <<<"$out")" \
    "no test: $a: split 969,30,1 leaves no document for test: $(grep -o 'it is.*' <<<"$out")" \
    "is said once"
split --split 1000000,1,1
is "$(grep -c '^no validation: .*leaves no document for valid\|^no test:' <<<"$out")" 2 "neither"

# One line for what is wrong
while IFS='|' read -r want args; do
    # shellcheck disable=SC2086
    run "${one[@]}" $args
    ok "[ $status = 1 -o $status = 2 ]" "refused: $args"
    like "$err" "^megatron train: $want" "says why"
    is "$(grep -ac . <<<"$err")" 1 "in one line"
done <<END
--eval-interval wants validation data|--train-data-path $a --eval-interval 5
.*leaves no document for valid|--data-path $a --split 1000000,1,1 --eval-interval 5
--eval-interval wants validation data, and --split 1,0,0 gives it none|--data-path $a --split 1,0,0 --eval-interval 5
--skip-train wants data to evaluate|--train-data-path $a --skip-train
--skip-train: there is nothing to evaluate: $a: split 1,0,0 leaves|--data-path $a --split 1,0,0 --skip-train
--skip-train excludes --save|--data-path $a --skip-train --save ck
--skip-train excludes --save and --save-gradients|--data-path $a --skip-train --save-gradients g.st
--skip-train with --eval-iters 0|--data-path $a --skip-train --eval-iters 0
--eval-iters 100000000000000. is too large|--data-path $a --eval-iters 1000000000000000 --global-batch-size 16777216
cannot open no.idx|--train-data-path $a --valid-data-path no
--eval-interval: |--data-path $a --eval-interval -1
END
done_testing

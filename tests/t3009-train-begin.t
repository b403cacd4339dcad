#!/bin/bash
# What a run begins with: a part of a checkpoint, another one than the newest, and whose
# schedule counts where that of the checkpoint is another.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
args=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 2 --global-batch-size 8 --train-iters 8 --lr 1e-3 --min-lr 1e-4
      --lr-decay-style cosine --lr-warmup-iters 2 --log-interval 1)
base=(megatron train "${args[@]}")
train whole "${base[@]}" --save ckpt --save-interval 3
is "$status" 0 "a run in one go"

# rest FILE FROM: its lines from iteration FROM on.
rest() {
    awk -v from="$2" 'match ($0, /"iteration": *[0-9]+/) {
        n = substr ($0, RSTART, RLENGTH); sub (/.*: */, "", n); if (n + 0 >= from) print }' "$1"
}
# value FILE ITERATION NAME
value() {
    rest "$1" "$2" | head -n 1 | sed -n "s/.*\"$3\": *\([^,}]*\).*/\1/p"
}
# ends TEXT LINE ARGUMENT...: a run that is refused, with one line and $want_status, or 1.
ends() {
    run "${base[@]}" "${@:3}"
    is "$status" "${want_status:-1}" "$1"
    is "$err" "megatron train: $2" "one line says why"
    is "$(grep -c ' iteration  *[0-9]*/' <<<"$out")" 0 "before any iteration"
}

# ---- not the newest
train step "${base[@]}" --load ckpt --ckpt-step 3
is "$(rest step.json 1)" "$(rest whole.json 4)" "--ckpt-step 3: all that follows is the same"
ok "cmp step.st whole.st" "to the last weight"
run "${base[@]}" --load ckpt --ckpt-step 5
is "$status" 1 "one that is not there"
like "$err" "^megatron train: .*ckpt.*5" "is named"
is "$(wc -l <<<"$err")" 1 "in one line"
ends "--exit-on-missing-checkpoint" "--load none: there is no checkpoint" \
    --load none --exit-on-missing-checkpoint
itself="is a checkpoint itself: want the directory that it is in"
ends "a checkpoint's own directory" "ckpt/iter_0000003 $itself" --load ckpt/iter_0000003
ends "and for its weights" "ckpt/iter_0000003 $itself" --pretrained-checkpoint ckpt/iter_0000003

# ---- a directory without a checkpoint: a beginning only where the run saves itself
mkdir empty
ends "a mistyped name" "--load empty: there is no checkpoint in this directory; correct the name, or, \
to start from the beginning, leave --load out" --load empty
ends "or one that is not there" "--load chekpoints: there is no such directory; correct the name, or, \
to start from the beginning, leave --load out or give it the directory of --save, new" \
    --load chekpoints --save new
ok "[ ! -e new/iter_0000008 ]" "nothing is trained"
ends "an evaluation" "--load none: there is no such directory; correct the name, or, to evaluate the \
weights that a run begins with, leave --load out" --load none --skip-train --split 90,10,0 --eval-iters 1
ends "--finetune" "--load none: there is no such directory; correct the name, or, to start from the \
beginning, leave --load out" --load none --finetune
run "${base[@]}" --load empty/../own-start --save ./own-start --train-iters 4
is "$status" 0 "the same directory by another name" || diag "$err"
is "$(grep -c '^no checkpoint in empty/../own-start: starting from the beginning$' <<<"$out")" 1 \
    "one line says that the run starts from the beginning"

# ---- a run that is done
stat -c %y:%i own-start/* >before
run "${base[@]}" --load own-start --save own-start/ --train-iters 4 --save-weights done.st
is "$status" 0 "a run that is done" || diag "$err"
is "$(grep -c '^nothing to train: the run has 4 iterations, and 4 are done$' <<<"$out")" 1 \
    "one line says so"
is "$(stat -c %y:%i own-start/*)" "$(cat before)" "nothing is saved again"
ok "[ -s done.st ]" "weights that are asked for are written"
run "${base[@]}" --load own-start --save moved --train-iters 4
is "$status:$(cat moved/latest_checkpointed_iteration.txt)" 0:4 "in another directory it is saved"
run "${base[@]}" --load ckpt
like "$out" "nothing to train: the run has 8 iterations, and 8 are done" "a run at its end says so"
run "${base[@]}" --load ckpt --exit-on-missing-checkpoint --no-load-rng
is "$status" 0 "where there is one it loads" || diag "$err"
like "$out" "going on from iteration 8 in ckpt" "it goes on"

# ---- the weights alone
run "${base[@]}" --exit-interval 3 --save-weights three.st
is "$status" 0 "weights of iteration 3" || diag "$err"
fresh=(--lr 3e-3 --lr-decay-style constant --seed 4)
train from-weights "${base[@]}" "${fresh[@]}" --load-weights three.st
# finetunes NAME COMMAND...: as a run that is given these weights.
finetunes() {
    train "$1" "${@:2}" "${args[@]}" "${fresh[@]}" --load ckpt --ckpt-step 3 --finetune
    like "$out" "beginning with the weights of iteration 3 in ckpt" "$1: it is told"
    same_bits "$1" from-weights "$1: the same bits as with --load-weights"
}
finetunes tuned megatron train
train tuned-bf16 "${base[@]}" "${fresh[@]}" --bf16 --use-distributed-optimizer --load ckpt \
    --ckpt-step 3 --finetune
train weights-bf16 "${base[@]}" "${fresh[@]}" --bf16 --use-distributed-optimizer \
    --load-weights three.st
same_bits tuned-bf16 weights-bf16 "in bfloat16, too"

start=(--pretrained-checkpoint ckpt --load own --save own)
run "${base[@]}" "${fresh[@]}" "${start[@]}" --exit-interval 5
is "$status" 0 "--pretrained-checkpoint" || diag "$err"
like "$out" "no checkpoint in own
beginning with the weights of iteration 8 in ckpt" "the first time its weights are taken"
train own "${base[@]}" "${fresh[@]}" "${start[@]}"
like "$out" "going on from iteration 5 in own" "the second time it goes on"
train own-whole "${base[@]}" "${fresh[@]}" --pretrained-checkpoint ckpt
is "$(rest own.json 1)" "$(rest own-whole.json 6)" "and is as one run"
ok "cmp own.st own-whole.st" "to the last weight"
ends "a pretrained one that is not there" "--pretrained-checkpoint nowhere: there is no checkpoint" \
    --load own2 --pretrained-checkpoint nowhere

# ---- without the optimizer's state
train bare "${base[@]}" --load ckpt --ckpt-step 3 --no-load-optim
like "$out" "going on from iteration 3 in ckpt without the optimizer's state" "--no-load-optim"
ok "[ -n '$(value bare.json 4 'learning rate')' ]" "its metrics are there"
is "$(value bare.json 1 iteration)" 4 "the iteration goes on"
is "$(value bare.json 4 'lm loss')" "$(value whole.json 4 'lm loss')" "with the weights"
is "$(value bare.json 4 'learning rate')" "$(value whole.json 1 'learning rate')" \
    "at the start of the schedule"
ok "! cmp -s bare.st whole.st" "it is another run"
run "${base[@]}" --load ckpt --ckpt-step 3 --no-load-optim --save bare --exit-interval 6
train bare2 "${base[@]}" --load bare
is "$(rest bare2.json 1)" "$(rest bare.json 7)" "which goes on itself"

# ---- whose schedule counts
another="it was made with another schedule (--override-opt-param-scheduler takes the arguments', "
another+="--use-checkpoint-opt-param-scheduler the checkpoint's)"
ends "another learning rate" \
    "checkpoint 3 in ckpt: $another: learning rate 0.002 (checkpoint: 0.001)" --load ckpt --ckpt-step 3 --lr 2e-3
ends "another length" \
    "checkpoint 3 in ckpt: $another: samples of decay 72 (checkpoint: 64)" --load ckpt --ckpt-step 3 --train-iters 9
ends "another weight decay" \
    "checkpoint 3 in ckpt: $another: weight decay at the start 0.1 (checkpoint: 0.01)" --load ckpt --ckpt-step 3 --weight-decay 0.1
for name in override-opt-param-scheduler override-opt_param-scheduler; do
    train over "${base[@]}" --load ckpt --ckpt-step 3 --lr 2e-3 --min-lr 2e-4 "--$name"
    is "$status" 0 "--$name"
    rate=$(value over.json 4 'learning rate')
    half=$(value whole.json 4 'learning rate')
    ok "awk 'BEGIN { ratio = $rate / $half; exit !(ratio > 1.999999 && ratio < 2.000001) }'" \
        "the arguments count: $rate"
done
for name in use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler; do
    train kept "${base[@]}" --load ckpt --ckpt-step 3 --lr 2e-3 --weight-decay 0.1 \
        --lr-decay-style linear --lr-warmup-iters 1 "--$name"
    is "$status" 0 "--$name"
    is "$(rest kept.json 1)" "$(rest whole.json 4)" "the checkpoint counts"
    ok "cmp kept.st whole.st" "to the last weight"
done
ends "a schedule that does not fit" "checkpoint 3 in ckpt: it was made with another schedule, \
which does not fit the arguments: learning rate: warm-up starts at 0.5, want 0 to 0.001" --load ckpt \
    --ckpt-step 3 --use-checkpoint-opt-param-scheduler --lr 1 --lr-warmup-init 0.5
run "${base[@]}" --lr-decay-style constant --exit-interval 3 --save constant
run "${base[@]}" --lr-decay-style constant --load constant --train-iters 12
is "$status" 0 "a constant one has no length" || diag "$err"
run megatron checkpoint convert three.st --format checkpoint --output converted --num-attention-heads 2
[ "$status" = 0 ] || diag "$err"
run "${base[@]}" --load converted
is "$status" 0 "a checkpoint without a schedule takes that of the run" || diag "$err"

# ---- what does not go together
for case in "--finetune" "--no-load-optim" "--ckpt-step 3" "--exit-on-missing-checkpoint"; do
    # shellcheck disable=SC2086
    want_status=2 ends "$case without --load" "${case%% *} wants --load DIR" $case
done
want_status=2 ends "both" "--override-opt-param-scheduler and --use-checkpoint-opt-param-scheduler exclude each \
other" --load ckpt --override-opt-param-scheduler --use-checkpoint-opt-param-scheduler
for name in finetune no-load-optim; do
    want_status=2 ends "the checkpoint's schedule with --$name" \
        "--use-checkpoint-opt-param-scheduler and --$name exclude each other: the arguments' \
schedule begins anew" --load ckpt "--$name" --use-checkpoint-opt_param-scheduler --lr 5e-3
done

# ---- several ranks, another layout
if ranks_available; then
    train spread ranks_run 4 "${base[@]}" --load ckpt --ckpt-step 3 --finetune "${fresh[@]}" \
        --tensor-model-parallel-size 2 --use-distributed-optimizer
    same_metrics spread.raw from-weights.raw 1e-5 1e-4 "4 ranks begin with the same weights"
    run ranks_run 2 "${base[@]}" --load ckpt --lr 2e-3
    is "$status" 1 "2 ranks refuse another schedule"
    is "$(grep -a '^megatron train' <<<"$err")" "megatron train: checkpoint 8 in ckpt: \
$another: learning rate 0.002 (checkpoint: 0.001)" "in one line"
    run ranks_run 2 "${base[@]}" --load empty
    is "$status" 1 "and a directory without a checkpoint"
    is "$(grep -ac '^megatron train: --load empty: there is no checkpoint' <<<"$err")" 1 "in one line"
    run ranks_run 2 "${base[@]}" --load ckpt/iter_0000003
    is "$status" 1 "and a checkpoint's own directory"
    is "$(grep -a '^megatron train' <<<"$err")" "megatron train: ckpt/iter_0000003 $itself" "in one line"
else
    skip 7 "neither UCX nor MPI"
fi
done_testing

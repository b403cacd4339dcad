#!/bin/bash
# megatron plan check -- ARGUMENT...: what a run would say of its arguments, by kind.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

model=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16
       --micro-batch-size 1 --global-batch-size 8 --vocab-size 256 --pipeline-model-parallel-size 2)

run megatron plan check --world-size 4 -- "${model[@]}" --use-mcore-models --wandb-project p \
    --ckpt-format torch_dist --fp8-recipe delayed --log-energy --train-iters 3 --lr 1e-3
is "$status" 0 "what changes nothing, or adds something elsewhere, is accepted" || diag "$err"
is "$out" "change nothing here:
  --use-mcore-models: there is one implementation
  --ckpt-format torch_dist: checkpoints have the format of megatron-checkpoint(1)
  --fp8-recipe: it counts with --fp8-format or --fp4-format alone
only add output, speed or saved memory elsewhere:
  --wandb-project: see --metrics-file, --tensorboard-dir and --trace-file
  --log-energy: see --metrics-file, --tensorboard-dir and --trace-file
4 ranks: dense tp 1 x cp 1 x dp 2 x pp 2, expert etp 1 x ep 1 x edp 2 x pp 2, \
order tp-cp-ep-dp-pp" \
    "by kind, and the grids"

run megatron plan check -- "${model[@]}" --optimizer muon --muon-momentum 0.9 --tp 2 --ntasks 4 \
    --hiden-size 8
is "$status" 2 "others are refused"
is "$out" "change nothing here:
  --muon-momentum: it counts with --optimizer muon alone
refused, since they would change the model or the training:
  --optimizer muon: the optimizer is AdamW
refused, since there is another argument:
  --tp: --tensor-model-parallel-size N
refused, since they are options of the launcher:
  --ntasks
refused, since nobody knows them:
  unknown --hiden-size (did you mean --hidden-size?)" "by kind"
like "$err" "^megatron: plan check: 4 arguments are refused: --optimizer muon " "in one message"
is "$(wc -l <<<"$err")" 1 "of one line"

run megatron plan check --world-size 3 -- "${model[@]}"
is "$status" 1 "a rule is broken"
like "$err" "3 tasks cannot hold" "$err"
run megatron plan check -- "${model[@]}" --num-query-groups 3 --group-query-attention \
    --tensor-model-parallel-size 8
is "$status" 1 "several rules are broken"
ok "[ $(grep -c '^megatron: ' <<<"$err") -ge 2 ]" "all of them are told" || diag "$err"
run megatron plan check -- "${model[@]}" --train-iters 3 --lr 1e-3 --lr-warmup-iters 9
is "$status" 1 "a warm-up that is longer than the run"
like "$err" "lr-warmup-iters 9 is not less than the 3 of the decay" "$err"
run megatron plan check -- --use-mcore-models
is "$status" 1 "no model"
like "$err" "^megatron: --num-layers is required" "$err"
run megatron plan check -- "${model[@]}" --lr fast
is "$status" 2 "no number"

run megatron plan check --json -- "${model[@]}" --manual-gc --optimizer sgd
is "$status" 2 "the same as JSON"
is "$(jq -c '[.ok, .arguments.needless[0].name, .arguments.refused[0].value]' <<<"$out")" \
    '[false,"manual-gc","sgd"]' "names and values"
run megatron plan check --json -- "${model[@]}" --manual-gc
is "$(jq -c '[.ok, .world_size, .broken]' <<<"$out")" '[true,2,[]]' "what is right"

# plan memory takes what training takes, and refuses what it refuses
run megatron plan memory "${model[@]}" --use-flash-attn --tp-comm-overlap --rank 0 --threads 1
is "$status" 0 "plan memory accepts them" || diag "$err"
run megatron plan memory "${model[@]}" --optimizer sgd --spec a b --use-mup --qk-clip --mtp-hsm \
    --fp8-format hybrid --freeze-all-layers --sft --attention-output-gate
is "$status" 2 "and refuses others"
for name in optimizer spec use-mup qk-clip mtp-hsm fp8-format freeze-all-layers sft \
            attention-output-gate; do
    like "$err" "--$name" "with --$name, however long the message is"
done
done_testing

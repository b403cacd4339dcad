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
# first comes what a run would say, then the other rules
seq 300 >t.txt
run megatron data tokenize --input t.txt --output-prefix t
first() {
    local want=$1 say
    shift
    run megatron plan check -- "${model[@]}" --train-iters 3 --lr 1e-3 "$@"
    is "$status" 1 "refused: $*"
    say=$(head -1 <<<"$err")
    is "$say" "megatron: $want" "what a run says of it"
    run megatron train "${model[@]}" --train-iters 3 --lr 1e-3 --data-path t_text_document "$@"
    is "$err" "megatron train: $want" "and only that"
}
first "--distribute-saved-activations wants --recompute-granularity full" \
    --distribute-saved-activations
first "seq-length 16 is not a multiple of 2 x cp 3 = 6; use 12 or 18" --context-parallel-size 3
first "--num-distributed-optimizer-instances 2 needs --use-distributed-optimizer" \
    --num-distributed-optimizer-instances 2 --pipeline-model-parallel-size 1 \
    --num-virtual-stages-per-pipeline-rank 2
first "after 5 samples: global-batch-size 9 is not a multiple of micro-batch-size 2 x dp 1 = 2; \
use 8 or 10" --pipeline-model-parallel-size 1 --micro-batch-size 2 --rampup-batch-size 8 1 9 \
    --global-batch-size 10
first "--fim-prefix-token: tokenizer ByteLevel has no token \"<fim_prefix>\", want one that it has, \
or an id from 0 to 255" --fim-data --tokenizer-type ByteLevel --pipeline-model-parallel-size 1
run megatron plan check -- "${model[@]}" --tokenizer-type ByteLevel
like "$out" "^the tokenizer of --tokenizer-type has 257 tokens, the model's vocabulary 256" \
    "a vocabulary that is too small is said"
run megatron plan check -- "${model[@]}" --recompute-method uniform --apply-wd-to-qk-layernorm
is "$status" 0 "arguments that have no effect for this model"
like "$out" "^--recompute-method has no effect without --recompute-granularity
--apply-wd-to-qk-layernorm has no effect without --qk-layernorm
2 ranks:" "are told as a run tells them"

# what has no effect is told as a run tells it
silent=(--train-iters 1 --lr 1e-3 --pipeline-model-parallel-size 1 --num-experts 4
        --cuda-graph-scope attn --cuda-graph-warmup-steps 5 --moe-ffn-hidden-size 12
        --ffn-hidden-size 24 --device-reserve-mib 5 --split 100,0,0 --full-validation)
run megatron train "${model[@]}" --data-path t_text_document "${silent[@]}"
is "$status" 0 "a run with arguments without effect" || diag "$err"
said=$(grep ' no effect ' <<<"$out")
is "$said" "--ffn-hidden-size has no effect with --moe-ffn-hidden-size and experts in all layers
--cuda-graph-scope, --cuda-graph-warmup-steps have no effect without --cuda-graph-impl
--device-reserve-mib has no effect without --device cuda
--full-validation has no effect without data for validation or test" "tells them"
run megatron plan check -- "${model[@]}" --data-path t_text_document "${silent[@]}"
is "$(grep ' no effect ' <<<"$out")" "$said" "and so does the check"

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

# parts of plan that take a model's arguments have short names for parallel sizes
short=(--tp 2 --cp 1 --pp=2 --ep 2 --etp 1)
long=(--tensor-model-parallel-size 2 --context-parallel-size 1 --pipeline-model-parallel-size 2
      --expert-model-parallel-size 2 --expert-tensor-parallel-size 1)
experts=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16 --vocab-size 256
         --micro-batch-size 1 --num-experts 4 --disable-bias-linear --sequence-parallel
         --moe-token-dispatcher-type alltoall --world-size 8)
for part in "memory --rank 0 --threads 1" buffers "moe --ranks-per-node 4" \
            "graphs --rank 0 --cuda-graph-impl local --cuda-graph-modules attn"; do
    run megatron plan $part "${experts[@]}" "${long[@]}"
    is "$status" 0 "plan $part" || diag "$err"
    want=$out
    run megatron plan $part "${experts[@]}" "${short[@]}"
    is "$status$err:$out" "0:$want" "by short names"
done
run megatron plan memory "${model[@]}" --rank 0 --threads 1 --vpp 2 --global-batch-size 8
is "$status" 0 "virtual stages, too" || diag "$err"
echo "--tp 2" >short.args
run megatron plan memory "${model[@]}" --args-file short.args
like "$status:$err" "^2:.*--tp.*--tensor-model-parallel-size N" "but not in a run's file"

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

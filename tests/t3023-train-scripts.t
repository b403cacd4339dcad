#!/bin/bash
# Scripts for Megatron-LM as they come: what is accepted trains, and the start tells what has no
# effect here.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 4
mkdir empty
completed=(--tokenizer-type ByteLevel --data-path text_text_document --split 1,0,0 --save ckpt)
sizes=(--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
       --max-position-embeddings 8 --micro-batch-size 1 --global-batch-size 2 --eval-iters 0)
common=(--distributed-backend nccl --ckpt-format torch_dist --dist-ckpt-strictness log_all
        --use-mcore-models --transformer-impl transformer_engine --no-gradient-accumulation-fusion
        --attention-softmax-in-fp32 --wandb-project p --log-energy --deterministic-mode)

# ---- a dense model
run megatron train "${sizes[@]}" "${completed[@]}" "${common[@]}" --load empty --train-iters 4 \
    --lr 1e-3 --lr-decay-iters 2 --use-checkpoint-opt_param-scheduler --rotary-base 500000 \
    --hysteresis 2 --optimizer adam --use-megatron-fsdp
is "$status" 0 "a dense model trains" || diag "$err"
lines=$(grep -v '^ \|^saving\|^saved\|rank 0 takes' <<<"$out")
is "$lines" "arguments that change nothing here: --distributed-backend nccl (ranks talk through the \
default transport, see megatron-train(1)), --ckpt-format torch_dist (checkpoints have the format of \
megatron-checkpoint(1)), --dist-ckpt-strictness, --use-mcore-models, --transformer-impl, \
--no-gradient-accumulation-fusion, --attention-softmax-in-fp32, --optimizer adam; \
that only add output, speed or saved memory elsewhere: --wandb-project, --log-energy, \
--use-megatron-fsdp (weights are whole on every data-parallel rank, so this memory is not saved; \
--use-distributed-optimizer splits the optimizer's state)
--rotary-base has no effect without rotary positions (--position-embedding-type rope)
--hysteresis has no effect without the dynamic loss scale of --fp16
no checkpoint in empty: starting from the beginning
the decay of the learning rate ends in iteration 2, before the run: it stays at 0: nothing is learnt \
any more" "and the start tells what has no effect"

# ---- it goes on behind its decay
run megatron train "${sizes[@]}" "${completed[@]}" --load ckpt --train-iters 6 --lr 2e-3 \
    --lr-decay-iters 2 --min-lr 1e-5 --override-opt_param-scheduler
is "$status" 0 "it goes on with another schedule" || diag "$err"
is "$(grep '^the decay' <<<"$out")" "the decay of the learning rate is over: it stays at 1e-05" \
    "whose decay is over"
run megatron train "${sizes[@]}" "${completed[@]}" --load ckpt --train-iters 8 --lr 2e-3 \
    --override-opt_param-scheduler
is "$(grep -c '^the decay' <<<"$out")" 0 "nothing is told of one that lasts"

# ---- experts, with a dispatcher for GPUs and lists in brackets
run megatron train "${sizes[@]}" "${completed[@]}" "${common[@]}" --load empty --save moe \
    --train-iters 1 --lr 1e-3 --num-experts 4 --moe-token-dispatcher-type flex \
    --moe-flex-dispatcher-backend hybridep --moe-grouped-gemm --offload-modules "[core_attn" \
    "attn_proj]" --fine-grained-activation-offloading --recompute-granularity selective \
    --recompute-modules "[core_attn moe_act]" --fp8-recipe blockwise
is "$status" 0 "experts train" || diag "$err"
is "$(grep -c '^--moe-token-dispatcher-type flex is taken as alltoall: ' <<<"$out")" 1 \
    "flex is alltoall"

# ---- what would train another model
run megatron train "${sizes[@]}" "${completed[@]}" --train-iters 1 --lr 1e-3 --use-rope-scaling
is "$status:$err" "2:megatron train: --use-rope-scaling wants --position-embedding-type rope" \
    "positions that are not there cannot be scaled"
run megatron train "${sizes[@]}" "${completed[@]}" --train-iters 1 --lr 1e-3 --strict-arguments \
    --manual-gc --wandb-project p
is "$status" 2 "--strict-arguments refuses what changes nothing"
like "$err" "^megatron train: 2 arguments are refused: --manual-gc \(.*\); --wandb-project \(" "$err"
done_testing

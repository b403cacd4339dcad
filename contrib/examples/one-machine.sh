#!/bin/bash
# One machine without Slurm: the ranks of a workstation, a laptop or a container.
#
#     DATA=/scratch/book_text_document ./one-machine.sh
#     RANKS=8 TP=4 DATA=... ./one-machine.sh
#
# megatron launch refuses sizes that are impossible, deals out the CPUs and ends all ranks when one
# fails.  The same line with srun instead of "megatron launch -n" runs on a cluster.
set -eu
: "${DATA:?prefix of a dataset, made by megatron data tokenize}"

exec megatron launch -n "${RANKS:-4}" --megatron-tp="${TP:-2}" megatron train \
    --num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 128 \
    --tokenizer-type ByteLevel --data-path "$DATA" \
    --micro-batch-size 4 --global-batch-size 16 \
    --train-iters "${ITERATIONS:-300}" --lr 1e-3 --lr-decay-style cosine \
    --lr-warmup-fraction 0.1 --save "${CHECKPOINTS:-checkpoints}"

#!/bin/bash
# Layers with experts: models of all kinds of routers train in layouts as on one rank.  (t3016 has one
# model in many layouts.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ranks_need
tokenized_text 40
base=(megatron train "${experts_sizes[@]}" --tokenizer-type ByteLevel
      --data-path text_text_document --split 100,0,0 --micro-batch-size 1 --global-batch-size 8
      --train-iters 3 --lr 2e-3 --lr-decay-style constant --adam-eps 1e-6 --eval-iters 0)
router="${experts_router[*]}"
a2a="--moe-token-dispatcher-type alltoall"
tp2="--tensor-model-parallel-size 2 --sequence-parallel"
cp2="--context-parallel-size 2"
pp2="--pipeline-model-parallel-size 2"
shards="--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000"
plain="--swiglu --disable-bias-linear"
few="--moe-aux-loss-coeff 0.02 --moe-expert-capacity-factor 0.8"
quantile="--moe-router-load-balancing-type quantile_balancing --moe-router-quantile-balancing-ema 0.5"
global="--moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.02"
bound="--moe-expert-rank-capacity-factor"
on_input="--swiglu --disable-bias-linear --moe-router-topk 1 --moe-router-score-function sigmoid --moe-aux-loss-coeff 0.02 --moe-apply-probs-on-input"

compare_layouts <<EOF
4 2 2 $tp2 $a2a|$router --moe-shared-expert-gate --moe-z-loss-coeff 1e-2
4 4 1 $tp2 $a2a --moe-shared-expert-overlap|$router --moe-shared-expert-gate --moe-z-loss-coeff 1e-2
4 2 2 $tp2 $a2a $bound 0.5|$router --moe-latent-size 12 --moe-input-jitter-eps 0.05
4 4 1 $cp2|$router --moe-latent-size 12 --moe-input-jitter-eps 0.05
4 2 2 $tp2 $cp2|$router --moe-router-dtype fp64 --moe-aux-loss-coeff 0
4 4 1 $tp2 $cp2 $a2a|--moe-router-topk 3 --moe-router-dtype fp64
4 2 2 $tp2 $a2a $bound 0.4|$on_input
4 4 1 $cp2 $bound 0.3|$on_input
2 2 1 $a2a|$on_input
4 4 1 $cp2 $a2a --moe-shared-expert-overlap|$on_input --moe-shared-expert-intermediate-size 24
4 1 4 $tp2 $cp2 $shards|$on_input --moe-shared-expert-intermediate-size 24
4 4 1 $tp2 $a2a $bound 0.5|$on_input --moe-latent-size 12 --recompute-granularity selective --recompute-modules moe
4 4 1 $cp2 $a2a|--disable-bias-linear --moe-router-topk 8 --moe-router-force-load-balancing --moe-aux-loss-coeff 0.02
4 1 4 $tp2|--disable-bias-linear --moe-router-topk 8 --moe-router-force-load-balancing --moe-aux-loss-coeff 0.02
4 2 2 $tp2 $a2a|--disable-bias-linear --moe-router-topk 3 --moe-router-force-biased 2
4 4 1 $cp2|--disable-bias-linear --moe-router-topk 3 --moe-router-force-biased=-2
4 2 2 $tp2 $cp2 $a2a $bound 0.4|--moe-aux-loss-coeff 0.02 --moe-z-loss-coeff 1e-2 --squared-relu --disable-bias-linear
4 4 1 $a2a $shards|--swiglu --moe-aux-loss-coeff 0.02
8 2 1 $pp2 $tp2 --use-tp-pp-dp-mapping|--swiglu --moe-aux-loss-coeff 0.02
4 2 1 $a2a $pp2|--swiglu --moe-aux-loss-coeff 0.02
4 2 2 $tp2 $a2a|$plain --micro-batch-size 2 --moe-aux-loss-coeff 0.02
4 4 1 $a2a $bound 0.5|$plain --micro-batch-size 2 $few --moe-pad-expert-input-to-capacity
2 1 2|$plain --micro-batch-size 2 $few --moe-pad-expert-input-to-capacity
4 2 2 $a2a $bound 0.3|$plain --micro-batch-size 2 $few --moe-token-drop-policy position
4 4 1 $a2a|$plain --micro-batch-size 2 --moe-router-load-balancing-type sinkhorn
4 2 1 $pp2|$plain --micro-batch-size 2 $quantile
4 2 2 $tp2 $cp2 $a2a $bound 0.5|$plain $few|4 $tp2 $cp2 --expert-tensor-parallel-size 1
4 4 1 $tp2 $cp2|$plain $quantile|4 $tp2 $cp2 --expert-tensor-parallel-size 1
4 2 2 $tp2 $cp2 $a2a|$plain --moe-router-load-balancing-type sinkhorn|4 $tp2 $cp2 --expert-tensor-parallel-size 1
4 2 2 $tp2 $cp2|$plain $global
4 2 2 $tp2 $a2a|$plain $global|4 $tp2 --expert-tensor-parallel-size 1
EOF
done_testing

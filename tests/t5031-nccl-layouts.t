#!/bin/bash
# Any layout of ranks with GPUs trains the model that one rank of the CPU trains: dense models and
# experts, sharded, overlapped and with graphs, on the double of CUDA and NCCL.
# MG_LONG=1: all layouts, each with 20 seeds; else six, of which one has three seeds.  The first seed
# of a long run trains 12 iterations.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
cuda_nccl

tokenized_text 20
base=(megatron train --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --seq-length 8 --micro-batch-size 1 --global-batch-size 4 --lr 2e-3 --lr-decay-style constant
      --adam-eps 1e-6 --eval-iters 0)
# of odd sizes, so that shards cut rows; four layers for virtual stages
dense="--num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6 --ffn-hidden-size 28
       --hidden-dropout 0.1 --attention-dropout 0.1"
dense4="$dense --num-layers 4"
modern="$dense --swiglu --normalization RMSNorm --position-embedding-type rope --qk-layernorm
        --disable-bias-linear --group-query-attention --num-query-groups 2"
modern4="$modern --num-layers 4"
experts="${experts_sizes[*]} --seq-length 8 --num-layers 2 --moe-layer-freq [0,1]"
router="$experts ${experts_router[*]}"
router4="$router --num-layers 4 --moe-layer-freq [0,1,0,1]"
plain="$experts --swiglu --disable-bias-linear --moe-router-topk 2 --moe-aux-loss-coeff 0.02"
plain4="$plain --num-layers 4 --moe-layer-freq [0,1,0,1]"

tp2="--tensor-model-parallel-size 2"
sp2="$tp2 --sequence-parallel"
cp2="--context-parallel-size 2"
pp2="--pipeline-model-parallel-size 2"
vpp2="$pp2 --num-virtual-stages-per-pipeline-rank 2"
ep2="--expert-model-parallel-size 2"
ep4="--expert-model-parallel-size 4"
etp1="--expert-tensor-parallel-size 1"
etp2="--expert-tensor-parallel-size 2"
a2a="--moe-token-dispatcher-type alltoall"
bound="--moe-expert-rank-capacity-factor"
aside="--moe-shared-expert-overlap"
shards="--use-distributed-optimizer"
overlap="$shards --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 2000"
graphs="--cuda-graph-impl local --cuda-graph-warmup-steps 1"
partial="$graphs --cuda-graph-modules attn moe_router moe_preprocess"
whole="--cuda-graph-impl full_iteration --cuda-graph-warmup-steps 1"

# The layouts: seeds in the gate, model, ranks, arguments.
mapfile -t layouts <<END
0|dense|2|$tp2
0|dense|2|$sp2
0|dense|2|$pp2
1|dense4|2|$vpp2
3|dense|2|$overlap
0|dense|2|--overlap-grad-reduce --ddp-bucket-size 2000
0|dense|2|$cp2
0|modern|2|$cp2 --cp-comm-type a2a
0|modern|2|$cp2 --cp-comm-type all_gather
0|modern|2|$sp2 $graphs
1|modern|2|$cp2 $graphs
0|dense|2|$overlap $whole
0|dense4|4|$vpp2 $tp2
0|dense4|4|--pipeline-model-parallel-size 4
0|dense|4|--tensor-model-parallel-size 4 --sequence-parallel
0|dense|4|--context-parallel-size 4 $shards
0|dense|4|$sp2 $cp2 $overlap
0|modern|4|$sp2 $pp2 $graphs
0|modern|4|$pp2 $overlap
0|modern4|4|$vpp2 $overlap $graphs
0|modern|4|$sp2 $overlap $whole
0|modern|4|--context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2
0|router|2|$ep2
0|router|2|$ep2 $a2a
1|router|2|$sp2 $etp2 $a2a
0|router|2|$ep2 $a2a $partial
0|plain|2|$ep2 $a2a $overlap
0|plain|2|$sp2 $ep2 $etp1
0|router|4|$ep2 $sp2 $etp2 $a2a $overlap
0|router|4|$ep4 $sp2 $etp1 $cp2 $a2a $bound 0.3
0|router|4|--expert-tensor-parallel-size 4 $sp2 $cp2 $a2a $bound 0.2
0|router|4|$ep2 $pp2 $a2a $overlap
0|router4|4|$vpp2 $sp2 $etp2
0|router|4|$ep4 $a2a $aside
1|plain|4|$ep2 $cp2 $a2a $partial
0|plain4|4|$ep2 $vpp2 $a2a $partial
0|dense4|8|$sp2 $cp2 $vpp2
0|dense|8|$sp2 $pp2 $overlap $graphs
0|modern|8|--tensor-model-parallel-size 4 $cp2 $shards
0|router|8|$ep4 $etp1 --tensor-model-parallel-size 4 --sequence-parallel $cp2 $overlap
0|router|8|$ep2 $etp2 $sp2 $cp2 $a2a $overlap $bound 0.5
0|router|8|$ep4 $etp1 $sp2 $pp2 $a2a $aside
0|router|8|$ep2 --expert-tensor-parallel-size 4 $sp2 $a2a $shards
0|router|8|--expert-model-parallel-size 8 $etp1 $cp2 $a2a $bound 0.25 $aside
1|plain4|8|$ep2 $etp1 $sp2 $vpp2 $a2a $overlap $partial
END

# The run of one rank, once a model and seed.
declare -A trained=()
one_rank() { # MODEL SEED ITERATIONS
    local model=$1 args
    [ -z "${trained[$1-$2]:-}" ] || return 0
    trained[$1-$2]=1
    read -ra args <<<"${!model//$'\n'/ }"
    train "$1-$2" "${base[@]}" "${args[@]}" --seed "$2" --train-iters "$3" \
        --save-gradients "$1-$2.grad"
    is "$status" 0 "$1, seed $2: one rank of the CPU"
}

# Devices work in another order with each seed.
compare() { # MODEL RANKS ARGUMENTS SEED ITERATIONS
    local model=$1 n=$2 text=$3 seed=$4 one=$1-$4 order=$4 args own
    [ "$seed" != 1 ] || order=last
    one_rank "$model" "$seed" "$5"
    read -ra args <<<"${!model//$'\n'/ }"
    read -ra own <<<"$text"
    train ranks env MG_CUDA_DEVICES="$n" MG_CUDA_ORDER="$order" megatron launch -n "$n" \
        "${base[@]}" "${args[@]}" --seed "$seed" --train-iters "$5" --device cuda "${own[@]}" \
        --save-gradients ranks.grad
    is "$status" 0 "$model, seed $seed, $n ranks: $text" || return 0
    same_metrics ranks.json "$one.json" 1e-5 1e-4 "losses and norms"
    case $model in
        dense* | modern*)
            same_weights ranks.grad "$one.grad" 1e-5 "gradients of the first step" --skip-key-bias 4
            same_weights ranks.st "$one.st" 1e-4 "weights" --skip-key-bias 4 ;;
        *)
            same_experts ranks.json "$one.json" "experts"
            same_weights ranks.grad "$one.grad" 1e-5 "gradients of the first step"
            same_weights ranks.st "$one.st" 1e-4 "weights" --absolute ;;
    esac
}

for layout in "${layouts[@]}"; do
    IFS='|' read -r seeds model n text <<<"$layout"
    ! long || seeds=20
    for ((seed = 1; seed <= seeds; seed++)); do
        iterations=2
        ! long || [ $seed != 1 ] || iterations=12
        compare "$model" "$n" "$text" $seed $iterations
    done
done
done_testing

# graphs.sh - runs with device graphs against the same runs without.  Source it after test.sh, ranks.sh
# and train.sh.  MG_LONG=1: 100 iterations instead of 12.

tokenized_text 40
iterations=12
! long || iterations=100
base=(--tokenizer-type ByteLevel --data-path text_text_document --split 90,10,0 --lr 2e-3
      --lr-decay-style constant --adam-eps 1e-6 --train-iters $iterations --global-batch-size 8)
dense=("${base[@]}" --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
       --hidden-dropout 0.1 --attention-dropout 0.1 --micro-batch-size 1 --eval-interval 3
       --eval-iters 1)
experts=("${base[@]}" "${experts_sizes[@]}" "${experts_router[@]}" --micro-batch-size 1
         --eval-iters 0)
partial=(--cuda-graph-modules attn mlp moe_router moe_preprocess)
whole=(--cuda-graph-impl full_iteration)
a2a=(--moe-token-dispatcher-type alltoall)
padded=("${a2a[@]}" --moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity)

# replays TEXT N ARGUMENT... -- GRAPH-ARGUMENT...: on N ranks, without and with; the first form of
# the run is kept for the next call if the arguments are the same
last=
replays() {
    local text=$1 n=$2 launch=()
    local -a plain=()
    shift 2
    [ "$n" = 1 ] || launch=(ranks_run "$n")
    while [ "$1" != -- ]; do plain+=("$1"); shift; done
    shift
    if [ "$last" != "$n ${plain[*]}" ]; then
        train eager "${launch[@]}" megatron train "${plain[@]}"
        is "$status" 0 "$text: eager"
        last="$n ${plain[*]}"
    fi
    train graphs "${launch[@]}" megatron train "${plain[@]}" --cuda-graph-impl local \
        --cuda-graph-warmup-steps 2 "$@"
    is "$status" 0 "$text: with graphs"
    like "$out" "graphs of rank 0.* \| graphs: [1-9][0-9]* \| nodes: [1-9]" "$text: captured"
    same_bits graphs eager "$text: the same bits"
}

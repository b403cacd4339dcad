#!/bin/bash
# megatron plan moe: traffic of experts, and what it says of nodes.  Sums are checked by hand;
# tests/unit/nn/moe_traffic.c checks them token by token.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

model=(--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --vocab-size 1000
       --num-experts 8 --moe-router-topk 2 --micro-batch-size 2 --global-batch-size 32
       --disable-bias-linear)

# field PATTERN: of the JSON in $out, which has a line for each dispatcher
field() {
    grep -oE -- "$1" .out | head -1
}
# phase DISPATCHER PHASE: its mean, largest and total within nodes, then between them
phase() {
    grep "^\"$1\"" .out | grep -oE "\"$2\":\{\"within[^}]*\},\"between[^}]*\}" | tail -1 \
        | grep -oE '[0-9]+' | paste -sd' '
}

# 16 ranks, ep 4, two nodes of 8: groups 0-3, 4-7, ... are on one node.  A rank has 256 tokens of
# 256 bytes, 64 choices for each expert, and three peers.
run megatron plan moe "${model[@]}" --expert-model-parallel-size 4 --world-size 16 \
    --ranks-per-node 8 --json
is "$status:$err" "0:" "balanced, on one node"
is "$(field '"layers":.*,"imbalance":1')" \
    '"layers":4,"num_microbatches":1,"experts":8,"topk":2,"tokens":256,"row_bytes":256,"imbalance":1' \
    "the load"
is "$(field '"rows":[^}]*}')" '"rows":{"least":512,"most":512,"bound":1024,"rounds":1}' "its rows"
is "$(field '"dispatcher":"[a-z]*"')" '"dispatcher":"allgather"' "the default dispatcher"
b=$((3 * 256 * (256 + 2 * 8)))
is "$(phase allgather forward_dispatch)" "$b $b $((16 * b)) 0 0 0" "all-gather: rows with choices"
b=$((3 * 256 * 256))
is "$(phase allgather forward_combine)" "$b $b $((16 * b)) 0 0 0" "rows come back"
is "$(phase allgather backward_combine)" "$b $b $((16 * b)) 0 0 0" "gradients of outputs"
b=$((3 * 256 * (256 + 2 * 4)))
is "$(phase allgather backward_dispatch)" "$b $b $((16 * b)) 0 0 0" "gradients of rows"
b=$((3 * (128 * 260 + 8 * 8)))
is "$(phase alltoall forward_dispatch)" "$b $b $((16 * b)) 0 0 0" "all-to-all: choices and counts"
b=$((3 * (2 * 128 * 260 + 2 * 128 * 256 + 64)))
is "$(phase alltoall together)" "$b $b $((16 * b)) 0 0 0" "all phases"
like "$out" "\"iteration\":\\{\"within_nodes\":$((4 * 16 * b)),\"between_nodes\":0\\}" "four layers"
like "$out" '"advice":\["every expert \(tp-ep\) group lies on one node of 8 tasks"\]' \
    "nothing to advise"

# Nodes of 2: each rank has one peer on its node and two elsewhere.  Every token chooses expert 0:
# 256 choices of a rank are of expert 0, 37 of each of the next four, 36 of each of the last three.
run megatron plan moe "${model[@]}" --expert-model-parallel-size 4 --world-size 16 \
    --ranks-per-node 2 --imbalance 4 --moe-token-dispatcher-type alltoall --json
is "$(field '"rows":[^}]*}')" '"rows":{"least":288,"most":1172,"bound":1024,"rounds":2}' \
    "the busiest rank needs two rounds"
is "$(field '"dispatcher":"[a-z]*"')" '"dispatcher":"alltoall"' "the dispatcher of the arguments"
is "$(phase alltoall forward_combine | cut -d' ' -f2,5)" \
    "$(((256 + 37) * 256)) $((2 * (256 + 37) * 256))" "the busiest rank sends the most"
like "$out" '"advice":\["4 of 4 expert \(tp-ep\) groups lie on several nodes of 2 tasks, the first '\
'\(ranks 0-3\) on nodes 0 and 1","nodes of 4 ranks would keep each on one node",'\
'"--expert-model-parallel-size 2 would keep each on one node, with 4 experts on a rank in place '\
'of 2"\]' "larger nodes or a smaller ep would help"

# Text
run megatron plan moe "${model[@]}" --expert-model-parallel-size 4 --world-size 16 \
    --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 \
    --expert-tensor-parallel-size 2 --bf16 --ntasks-per-node 4 --imbalance 3.5 \
    --moe-token-dispatcher-type alltoall
is "$status:$err" "0:" "text"
is "$(head -4 .out)" "16 ranks on 4 nodes of 4: dense tp 2 x cp 1 x dp 4 x pp 2, expert etp 2 x ep 4 x edp 1 x pp 2
layers with experts: 4, of 8 experts each, 2 on a rank
microbatches of an iteration: 4, of 128 tokens a rank, 128 bytes each
choices of a token: 2; of a rank for the busiest expert 112, 3.5 times the mean, for the last one 20" \
    "begins with the load"
like "$out" $'\nalltoall \\(chosen\\)\n +forward dispatch +42432 +87972 +17152 +35368\n' "phases"
like "$out" $'\nalltoall  \\(chosen\\) +21323776 +8552448\n' "the whole job"
like "$out" $'\nrows of a round: 1024 = ceil \\(2 x tokens x topk x etp\\), so 2 rounds\n' "rounds"
like "$out" $'\nthe backward pass dispatches 40 rows of the busiest rank again' "again"
like "$out" $'\n--expert-tensor-parallel-size 1 would keep each on one node\n' "etp 1 would help"

# Other orders, and a dispatcher that sends less
MEGATRON_RANK_ORDER=tp-dp-cp-ep-pp run megatron plan moe "${model[@]}" \
    --expert-model-parallel-size 4 --world-size 16 --ranks-per-node 4
like "$out" $'\nthe order tp-cp-ep-dp-pp would keep each on one node ' "another order would help"
like "$out" $'\n--moe-token-dispatcher-type alltoall would send 49% of the bytes between nodes' \
    "and the other dispatcher"

# Layers that are dense, the capacity of experts, no experts elsewhere
run megatron plan moe "${model[@]}" --moe-layer-freq '[1,0,0,0]' --pipeline-model-parallel-size 2 \
    --expert-model-parallel-size 2 --moe-expert-capacity-factor 1 --imbalance 4 \
    --world-size 4 --ranks-per-node 4 --json
is "$(field '"layers":[0-9]*,"num_microbatches":[0-9]*')" '"layers":1,"num_microbatches":8' \
    "one layer has experts"
is "$(field '"rows":[^}]*}')" '"rows":{"least":290,"most":350}' "no expert gets more than 64 choices"
b=$(phase allgather together | cut -d' ' -f3)
like "$out" "\"allgather.*\"iteration\":\\{\"within_nodes\":$((b / 2 * 8))," \
    "half of the ranks have the layer"
run megatron plan moe "${model[@]}" --moe-layer-freq '[1,1,0,1]' --pipeline-model-parallel-size 2 \
    --context-parallel-size 2 --position-embedding-type rope --mtp-num-layers 1 --bf16 \
    --moe-latent-size 24 --world-size 4 --ranks-per-node 4
like "$out" $'^4 ranks on 1 node of 4: .*\nlayers with experts: 4, of 8 .*\n'\
'microbatches of an iteration: 16, of 128 tokens a rank, 48 bytes each' \
    "a layer for multi-token prediction, context parallelism, a latent size"
run megatron plan moe "${model[@]}" --world-size 2 --ranks-per-node 1
like "$out" $'\na rank has all experts: nothing is sent$' "without ep"

# Refusals: status, the line
while IFS='|' read -r status_wanted line args; do
    # shellcheck disable=SC2086
    run megatron plan moe $args
    is "$status:$out" "$status_wanted:" "refused: moe $args"
    is "$err" "megatron: $line" "one line says why"
done <<END
2|plan moe: --world-size is missing; see megatron plan moe --help|${model[*]} --ranks-per-node 2
2|plan moe: --ranks-per-node is missing; see megatron plan moe --help|${model[*]} --world-size 2
2|plan moe: --num-layers of the model is missing; see megatron plan moe --help|--world-size 2 --ranks-per-node 2
2|plan moe: --imbalance: 0.5 is out of range, want 1 to 1.67772e+07; see megatron plan moe --help|--imbalance 0.5
2|plan moe: --ranks-per-node: 0 is out of range, want 1 to 65536; see megatron plan moe --help|--ranks-per-node 0
1|an imbalance of 5 is not possible, want 1 to 4: a token has 2 different experts of 8|${model[*]} --world-size 2 --ranks-per-node 2 --imbalance 5
1|the model has no experts: --num-experts is missing|--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --vocab-size 1000 --world-size 2 --ranks-per-node 2
1|3 tasks cannot hold tp 2 x cp 1 x pp 1 = 2; use -n 2 or -n 4|${model[*]} --tensor-model-parallel-size 2 --sequence-parallel --world-size 3 --ranks-per-node 2
END
done_testing

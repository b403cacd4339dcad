#!/bin/bash
# megatron plan graphs: numbers of graphs against layers, slots and microbatches of many shapes, what
# each scope captures, and the same numbers from real runs.
# MG_LONG=1: all shapes.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

sizes=(--hidden-size 16 --num-attention-heads 2 --seq-length 8 --vocab-size 64
       --micro-batch-size 1)
layers=(--cuda-graph-impl local)
whole=(--cuda-graph-impl full_iteration)

# value NAME [LINE]: of a rank of the JSON in $out, by default the first
value() {
    sed -n "$((${2:-1} + 1))p" .out | grep -oE "\"$1\":[0-9.]+" | head -1 | cut -d: -f2
}

# ---- shapes: pp, vpp, microbatches

# in_flight: RANK CHUNK MOST lines, the most microbatches of a chunk between their two passes, and
# so the fewest slots, from the JSON of "plan schedule"
in_flight() {
    sed 's/.*"order":\[\[//; s/\]\],"warmup.*//; s/\],\[/\n/g' .out | awk -F, '{
        delete now; delete most
        for (i = 1; i <= NF; i++) {
            c = $i < 0 ? -$i - 1 : $i - 1
            now[c] += $i < 0 ? -1 : 1
            if (now[c] > most[c]) most[c] = now[c]
        }
        for (c in most) print NR - 1, c, most[c]
    }'
}

# chunks: RANK CHUNK SLOTS lines of the JSON
chunks() {
    sed -n '2,$p' .out | awk '{
        rank = $0; sub (/.*"rank":/, "", rank); sub (/,.*/, "", rank)
        n = split ($0, part, /"slots":/)
        for (i = 2; i <= n; i++) { sub (/,.*/, "", part[i]); print rank, i - 2, part[i] }
    }' | sort
}

# Every rank of $out: what follows from its layers, slots and microbatches alone.
wrong=
formula() {
    local pp=$1 microbatches=$2
    sed -n '2,$p' .out | awk -v pp="$pp" -v m="$microbatches" -v shape="$*" '
        function get (name, line) {
            sub (".*\"" name "\":", "", line); sub (/[,}].*/, "", line); return line + 0
        }
        {
            n = split ($0, part, /\{"layers":/); graphs = layers = 0
            for (i = 2; i <= n; i++) {
                slots = part[i]; sub (/.*"slots":/, "", slots)
                graphs += 2 * (part[i] + 0) * (slots + 0); layers += part[i] + 0
            }
            if (get ("graphs", $0) != graphs || graphs < 2 * layers ||
                get ("peer_graphs", $0) != 2 * layers * (pp > 1 ? m : 1) ||
                get ("replays", $0) != 2 * layers * m ||
                get ("saved_launches", $0) != get ("replayed_nodes", $0) - get ("replays", $0) ||
                get ("nodes", $0) * 2 * layers * m != get ("replayed_nodes", $0) * graphs ||
                get ("static_input_bytes", $0) != graphs / 2 * 8 * 16 * 4 ||
                get ("graphs", $0) > get ("peer_graphs", $0))
                printf "%s: rank %d; ", shape, get ("rank", $0)
        }'
}

long && all_pp=(1 2 3 4 5 6 7 8) || all_pp=(1 2 4 8)
long && all_vpp=(1 2 3 4) || all_vpp=(1 2 4)
shapes=0 fewer= growing= unequal= unsteady=
for pp in "${all_pp[@]}"; do
    for vpp in "${all_vpp[@]}"; do
        [ "$pp" -gt 1 ] || [ "$vpp" = 1 ] || continue
        last=0 steady=
        for many in 1 2 4 8 16 32 64 128; do
            m=$many
            [ "$vpp" = 1 ] || m=$((m / pp * pp)) # whole groups
            [ "$m" -gt 0 ] || continue
            megatron plan schedule --pp "$pp" --vpp "$vpp" --num-microbatches "$m" --json >.out
            in_flight | sort >least
            stages=()
            [ "$vpp" = 1 ] || stages=(--num-virtual-stages-per-pipeline-rank "$vpp")
            run megatron plan graphs --num-layers $((pp * vpp)) "${sizes[@]}" "${layers[@]}" \
                --pipeline-model-parallel-size "$pp" "${stages[@]}" --global-batch-size "$m" --json
            [ "$status" = 0 ] || diag "$pp $vpp $m: $err"
            shapes=$((shapes + 1))
            wrong+=$(formula "$pp" "$m" "$vpp")
            fewer+=$(join -a 1 -a 2 <(sed 's/ /./' least | sort) <(chunks | sed 's/ /./' | sort) \
                | awk -v shape="$pp $vpp $m" '$3 < $2 || NF != 3 { print shape "; " }')
            [ "$vpp" != 1 ] || cmp -s least <(chunks) || unequal+="$pp $m; "
            total=$(grep -oE '"graphs":[0-9]+' .out | cut -d: -f2 | paste -sd+ | bc)
            [ "$total" -ge "$last" ] || growing+="$pp $vpp $m: $total; "
            [ "$many" -lt 64 ] || steady+="$total "
            last=$total
        done
        # shellcheck disable=SC2086
        [ "$(printf '%s\n' $steady | sort -u | wc -l)" = 1 ] || unsteady+="$pp $vpp: $steady; "
    done
done
ok "[ $shapes -ge 50 ]" "shapes are planned: $shapes"
is "$wrong" "" "2 x layers x slots graphs, and never more than Megatron-LM's"
is "$fewer" "" "a chunk has a slot for each microbatch in flight"
is "$unequal" "" "without virtual stages, no more slots than these"
is "$growing" "" "more microbatches need no fewer graphs"
is "$unsteady" "" "and no more, once they are many"

# ---- scopes
experts=(--num-layers 4 "${sizes[@]}" --global-batch-size 4 --num-experts 4 --moe-router-topk 2
         --moe-layer-freq '[0,1,1,1]' --disable-bias-linear)
scope() {
    run megatron plan graphs "${experts[@]}" "${layers[@]}" --json --cuda-graph-modules "$@"
    is "$status:$err" "0:" "scope $*"
}
scope attn
is "$(value graphs):$(value layers):$(value captured)" "8:4:$(value captured)" "attention: all layers"
attn=$(value nodes)
scope mlp
is "$(value graphs):$(value layers)" "2:1" "feed-forward: the dense layer"
is "$(value handover_bytes)" 0 "the end of the layer: nothing is handed over"
mlp=$(value nodes)
scope moe_router
is "$(value graphs):$(value layers)" "6:3" "router: the layers with experts"
router=$(value nodes) handover=$(value handover_bytes)
ok "[ $handover -gt 0 ]" "which hands over: $handover"
scope moe_router moe_preprocess
is "$(value graphs)" 6 "the router and what follows in one graph"
ok "[ $(value nodes) -gt $router ] && [ $(value handover_bytes) -gt $handover ]" "has more"
preprocess=$(value nodes)
scope attn mlp moe_router moe_preprocess
is "$(value graphs):$(value nodes)" "8:$((attn + mlp + preprocess))" "all: one graph a layer"
like "$out" '"impl":"local","modules":\["attn","mlp","moe_router","moe_preprocess"\]' "by their names"

# ---- the whole iteration: a microbatch more adds what one has
nodes=()
for m in 1 2 3 8; do
    run megatron plan graphs --num-layers 2 "${sizes[@]}" "${whole[@]}" --global-batch-size $m --json
    nodes+=("$(value nodes)")
done
is "$(value graphs):$(value peer_graphs):$(value saved_launches)" "1:1:$((nodes[3] - 1))" "one graph"
is "$((nodes[1] - nodes[0])):$(((nodes[3] - nodes[2]) / 5))" \
    "$((nodes[2] - nodes[1])):$((nodes[2] - nodes[1]))" "of all microbatches"

# ---- memory
run megatron plan graphs --num-layers 2 "${sizes[@]}" "${layers[@]}" --global-batch-size 4 --json
graphs="$(value graphs):$(value nodes):$(value host_bytes)"
run megatron plan memory --num-layers 2 "${sizes[@]}" "${layers[@]}" --global-batch-size 4 --json
is "$(value graphs):$(value graph_nodes):$(value graph_host_bytes)" "$graphs" "plan memory has them"
total=$(value total)
run megatron plan memory --num-layers 2 "${sizes[@]}" --global-batch-size 4 --json
is "$(value graphs):$(value total)" "0:$total" "and device memory is the same without"
run megatron plan memory --num-layers 2 "${sizes[@]}" "${layers[@]}" --global-batch-size 4
like "$out" $'\n  graphs: 4 of [0-9]+ nodes, in [0-9]+ bytes of host memory besides\n' "as text"

# ---- text
run megatron plan graphs --num-layers 8 "${sizes[@]}" "${layers[@]}" --global-batch-size 16 \
    --pipeline-model-parallel-size 4 --world-size 8
is "$status:$err" "0:" "text"
like "$out" $'^--cuda-graph-impl local: attn, mlp; captured after 3 iterations\n8 microbatches an iteration, pp 4\n' \
    "begins with what is captured"
like "$out" $'\nranks 0-1\n  layers x slots               2 x 4\n  graphs +16\n' "ranks that are equal"
like "$out" $'\nranks 6-7\n  layers x slots               2 x 1\n  graphs +4\n' "the last stage"
like "$out" $'\ngraphs +2 x layers +16  2 x layers x slots +16\n' "the table: graphs"
like "$out" $'\nstatic inputs +layers +4096  layers x slots +4096\n' "and memory"
like "$out" $'\ngraphs of Megatron-LM +2 x layers +16  2 x layers x microbatches +32\n' "and Megatron-LM's"
run megatron plan graphs --num-layers 8 "${sizes[@]}" "${layers[@]}" --rank 0 --cuda-graph-modules attn
like "$out" $'\ngraphs +2 x layers +16  2 x layers x slots +-\n' "without a pipeline"
run megatron plan graphs --num-layers 8 "${sizes[@]}"
is "$status:$out" "0:nothing is captured: --cuda-graph-impl local captures layers, full_iteration all \
passes of an iteration" "nothing without --cuda-graph-impl"
run megatron plan graphs --num-layers 8 "${sizes[@]}" --cuda-graph-impl none --json
is "$status:$(value graphs):$(value nodes):$(value host_bytes):$(value peer_graphs)" "0:0:0:0:0" \
    "zeros as JSON"

# ---- the picture
count() {
    grep -oF -- "$1" "$2" | wc -l
}
draw=(--num-layers 8 "${sizes[@]}" --global-batch-size 8 --pipeline-model-parallel-size 2
      --num-layers-per-virtual-pipeline-stage 2)
run megatron plan graphs "${draw[@]}" "${layers[@]}" --cuda-graph-modules attn --svg a.svg --json
is "$status:$err" "0:" "a picture"
is "$(count '<title>forward microbatch' a.svg):$(count '<title>backward microbatch' a.svg)" 32:32 \
    "has every pass"
is "$(count 'fill="#60a5fa"' a.svg):$(count 'fill="#fdba74"' a.svg)" 33:33 \
    "in two parts, and a legend"
share=$(awk -v x="$(value captured)" 'BEGIN { printf "%.1f", 100 * x }')
ok "[ $(count "$share% captured<" a.svg) -ge 16 ]" "whose sizes are the captured phases': $share%"
run megatron plan graphs "${draw[@]}" "${whole[@]}" --svg w.svg
is "$(count '100.0% captured<' w.svg):$(count 'fill="#fdba74"' w.svg)" 64:1 "an iteration"
run megatron plan graphs "${draw[@]}" --svg n.svg
is "$(count ' 0.0% captured<' n.svg):$(count 'fill="#60a5fa"' n.svg)" 64:1 "nothing"
if command -v xmllint >/dev/null; then
    ok "xmllint --noout a.svg w.svg n.svg" "well-formed"
elif command -v python3 >/dev/null; then
    ok "python3 -c 'import sys, xml.dom.minidom as m; [m.parse(f) for f in sys.argv[1:]]' \
        a.svg w.svg n.svg" "well-formed"
else
    skip 1 "no xmllint and no python3"
fi
if command -v python3 >/dev/null; then
    ok "megatron plan graphs ${draw[*]} ${layers[*]} --json | python3 -m json.tool >/dev/null" "JSON"
else
    skip 1 "no python3"
fi

# ---- what runs capture
tokenized_text 10
# captured N ARGUMENT...: a run on N ranks
captured() {
    local n=$1 launch=() i
    shift
    [ "$n" = 1 ] || launch=(ranks_run "$n")
    run "${launch[@]}" megatron train --num-layers 4 "${sizes[@]}" "$@" --global-batch-size 4 \
        --cuda-graph-warmup-steps 1 --data-path text_text_document --split 100,0,0 \
        --vocab-size 300 --train-iters 2 --lr 1e-3 --eval-iters 0
    is "$status" 0 "a run: $*" || diag "$err"
    sed -n 's/.* graphs of rank.* | graphs: //p' .out | tr -c '0-9\n.' ' ' \
        | awk '{ print $1, $2, $3, $4, $5, $6 }' >real
    run megatron plan graphs --num-layers 4 "${sizes[@]}" "$@" --global-batch-size 4 \
        --vocab-size 300 --eval-iters 0 --world-size "$n" --json
    for ((i = 1; i <= n; i++)); do
        echo "$(value graphs $i) $(value nodes $i) $(value static_input_bytes $i)" \
            "$(value intermediate_bytes $i) $(value handover_bytes $i) $(value host_bytes $i)"
    done | uniq >planned
    is "$(cat real)" "$(cat planned)" "captures what was planned"
    ok "[ -s real ]" "on each rank"
}
captured 1 "${layers[@]}"
captured 1 "${layers[@]}" --cuda-graph-modules mlp
captured 1 "${whole[@]}"
captured 1 "${whole[@]}" --calculate-per-token-loss --recompute-granularity full \
    --recompute-method uniform --recompute-num-layers 1
if ranks_available; then
    pp=(--pipeline-model-parallel-size 2)
    captured 2 "${layers[@]}" "${pp[@]}"
    captured 2 "${whole[@]}" "${pp[@]}"
    captured 2 "${layers[@]}" "${pp[@]}" --num-layers-per-virtual-pipeline-stage 1
    captured 2 "${whole[@]}" "${pp[@]}" --num-layers-per-virtual-pipeline-stage 1
    captured 2 "${whole[@]}" --tensor-model-parallel-size 2 --sequence-parallel
else
    skip 15 "neither UCX nor MPI"
fi

# ---- refusals: status, the line
while IFS='|' read -r status_wanted line args; do
    # shellcheck disable=SC2086
    run megatron plan graphs $args
    is "$status:$out" "$status_wanted:" "refused: graphs $args"
    is "$err" "megatron: $line" "one line says why"
done <<END
2|plan graphs: --num-layers of the model is missing; see megatron plan graphs --help|${layers[*]}
2|plan graphs: --world-size: 0 is out of range, want 1 to 65536; see megatron plan graphs --help|--world-size 0
2|plan graphs: --svg: the value is empty; see megatron plan graphs --help|--num-layers 2 ${sizes[*]} --svg=
1|--rank 1 is not below the 1 ranks|--num-layers 2 ${sizes[*]} --rank 1
1|num-layers 2 is not a multiple of pipeline-model-parallel-size 4; use 4|--num-layers 2 ${sizes[*]} --pipeline-model-parallel-size 4
1|cuda-graph-impl "locl": want none, local, transformer_engine or full_iteration|--num-layers 2 ${sizes[*]} --cuda-graph-impl locl
1|cuda-graph-modules moe_router needs experts, and there is no --num-experts|--num-layers 2 ${sizes[*]} ${layers[*]} --cuda-graph-modules moe_router
1|nowhere/x.svg: its directory cannot be written: No such file or directory|--num-layers 2 ${sizes[*]} ${layers[*]} --svg nowhere/x.svg
END
done_testing

#!/bin/bash
# megatron plan groups and check: what they print, refuse, and how they end.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

kinds="tp cp dp dp-cp pp tp-cp tp-pp tp-dp tp-dp-cp ep tp-ep tp-ep-pp edp embd pos-embd"

# digest ARG...: of all kinds' groups, as tests/golden/rank-groups.txt defines it; or
# "refused", if it is with status 1 and one line.
digest() {
    local kind all=${kinds/tp-ep/etp tp-ep}
    rm -f kind.*
    run megatron plan groups "$@" --kind "${all// /,}"
    if [ "$status" = 1 ] && [ "$(wc -l <<<"$err")" = 1 ] && [ -z "$out" ]; then
        echo refused
        return
    fi
    [ "$status" = 0 ] || { echo "status $status: $err"; return; }
    awk '{ kind = "kind." $1; $1 = $2 = ""; print substr ($0, 3) > kind }' .out
    for kind in $all; do
        echo "kind.$kind"
    done | xargs sha256sum | cut -d' ' -f1 | sha256sum | cut -c1-32
}

while read -r world tp cp pp ep etp vpp order want; do
    args=(--world-size "$world" --tp "$tp" --cp "$cp" --pp "$pp" --ep "$ep" --order "$order")
    [ "$etp" = - ] || args+=(--etp "$etp")
    [ "$vpp" = - ] || args+=(--vpp "$vpp")
    is "$(digest "${args[@]}")" "$want" "groups: ${args[*]}"
done < <(grep -v '^#' "$MG_SRCDIR/tests/golden/rank-groups.txt")

# JSON
run megatron plan groups --world-size 4 --tp 2 --pp 2 --json
is "$status" 0 "groups --json succeeds"
is "$out" '{"world_size":4,"groups":{"tp":[[0,1],[2,3]],"cp":[[0],[1],[2],[3]],'\
'"dp":[[0],[1],[2],[3]],"dp-cp":[[0],[1],[2],[3]],"pp":[[0,2],[1,3]],'\
'"tp-cp":[[0,1],[2,3]],"tp-pp":[[0,1,2,3]],"tp-dp":[[0,1],[2,3]],'\
'"tp-dp-cp":[[0,1],[2,3]],"ep":[[0],[1],[2],[3]],"tp-ep":[[0,1],[2,3]],'\
'"tp-ep-pp":[[0,1,2,3]],"edp":[[0],[1],[2],[3]],"embd":[[0,2],[1,3]],'\
'"pos-embd":[[0],[1]]}}' "every kind, and no other"

run megatron plan groups --world-size 16 --tp 4 --pp 2 --etp 1 --ep 4 --cp 1 --vpp 1 \
    --order tp-cp-ep-dp-pp --kind dp --kind edp,ep --json
is "$out" '{"world_size":16,"groups":{'\
'"dp":[[0,4],[1,5],[2,6],[3,7],[8,12],[9,13],[10,14],[11,15]],'\
'"ep":[[0,1,2,3],[4,5,6,7],[8,9,10,11],[12,13,14,15]],'\
'"edp":[[0,4],[1,5],[2,6],[3,7],[8,12],[9,13],[10,14],[11,15]]}}' \
    "kinds asked for, over both grids"

run megatron plan groups --world-size 8 --tp 2 --pp 4 --rank 5 --json --kind tp,pp,embd,pos-embd
is "$out" '{"world_size":8,"rank":5,"coords":{"tp":1,"cp":0,"dp":0,"pp":2,"etp":1,"ep":0,'\
'"edp":0},"groups":{"tp":[4,5],"pp":[1,3,5,7],"embd":[],"pos-embd":[]}}' \
    "one rank's groups, empty where it is no member"

run megatron plan groups --world-size 8 --tp 2 --pp 4 --rank 7 --json --kind embd,world,etp
is "$out" '{"world_size":8,"rank":7,"coords":{"tp":1,"cp":0,"dp":0,"pp":3,"etp":1,"ep":0,'\
'"edp":0},"groups":{"etp":[6,7],"embd":[1,7],"world":[0,1,2,3,4,5,6,7]}}' \
    "the last stage is in embd; etp and world on request"

# Text
run megatron plan groups --world-size 16 --tp 4 --pp 2 --etp 1 --ep 4
is "$(head -1 .out)" \
    "16 ranks: dense tp 4 x cp 1 x dp 2 x pp 2, expert etp 1 x ep 4 x edp 2 x pp 2" \
    "the table begins with both grids"
is "$(awk 'NR > 3 { print $1 }' .out | paste -sd' ')" "$kinds" "and has a line a kind"
like "$out" $'\ntp-ep-pp +2 +8  \\[0 1 2 3 8 9 10 11\\] \\[4 5 6 7 12 13 14 15\\]' \
    "with its groups"
ok "[ $(wc -L <.out) -le 80 ]" "within 80 columns"
run megatron plan groups --world-size 16 --tp 4 --pp 2 --rank 13
like "$out" $'\nrank 13: tp 1, cp 0, dp 1, pp 1, etp 1, ep 0, edp 1\n' "a rank's place"
like "$out" $'\npp +5 +2 +1  5 13\n' "its position in a group"
like "$out" $'\npos-embd +5 +1 +-  not a member$' "and where it is no member"

# Groups on nodes
run megatron plan groups --world-size 16 --tp 2 --pp 2 --etp 2 --ep 4 --ntasks-per-node 4
like "$out" $'\nkind +groups +size +split +ranks\ntp +8 +2 +0  ' "a column for groups on several nodes"
like "$out" $'\npp +8 +2 +8  \[0 8\]' "of every kind"
ok "[ $(head -20 .out | wc -L) -le 80 ]" "within 80 columns"
like "$out" $'\nevery expert-tensor-parallel \(etp\) group lies on one node of 4 tasks\n' \
    "a line on expert groups that stay on a node"
like "$out" $'\n4 of 4 expert-parallel \(ep\) groups lie on several nodes of 4 tasks, the first '\
$'\\(ranks 0 2 4 6\\) on nodes 0 and 1\n' "and on those that do not"
like "$out" $'\n2 of 2 expert \(tp-ep\) groups .* \(ranks 0-7\) on nodes 0 and 1$' "on both axes, too"
run megatron plan groups --world-size 16 --tp 2 --pp 2 --ntasks-per-node 3 --kind pp,tp
is "$(sed -n '1p;8p;9p' .out | paste -sd'|')" \
    "tp 0: 0 1 (node 0)|tp 7: 14 15 (nodes 4 and 5)|pp 0: 0 8 (nodes 0 and 2)" "nodes of a group"
run megatron plan groups --world-size 16 --tp 2 --pp 2 --etp 2 --ep 4 --ntasks-per-node 4 \
    --rank 9 --kind ep,dp,pos-embd --json
like "$out" '"ntasks_per_node":4,"rank":9,.*,"nodes":\{"dp":\[2,3\],"ep":\[2,3\],"pos-embd":\[\]\}\}$' \
    "nodes of a rank's groups in JSON"
run megatron plan groups --world-size 16 --tp 2 --pp 2 --etp 2 --ep 4 --ntasks-per-node 4 \
    --kind ep,etp,embd --json
like "$out" ',"split":\{"ep":4,"etp":0,"embd":8\}\}$' "numbers of split groups in JSON"

# Megatron-LM's names
run megatron plan groups --world-size=64 --tp=2 --cp=2 --pp=4 --ep=4 --etp=1 --vpp=3 --json
short=$out
run megatron plan groups --world-size 64 --tensor-model-parallel-size 2 \
    --context-parallel-size 2 --pipeline-model-parallel-size 4 \
    --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 \
    --num-virtual-stages-per-pipeline-rank 3 --json
is "$out" "$short" "long names mean the same as short ones"
run megatron plan groups --world-size 16 --tp 2 --pp 2 --use-tp-pp-dp-mapping --json
mapped=$out
run megatron plan groups --world-size 16 --tp 2 --pp 2 --order TP-CP-EP-PP-DP --json
is "$out" "$mapped" "and so does its switch for the other order, in any case"

# Size
run timeout 60 megatron plan groups --world-size 1048576 --tp 8 --pp 16 --rank 777777
is "$status" 0 "one rank of a million at once"
like "$out" $'\ntp +97222 +8 +1  777776 777777 .* 777783\n' "with its groups"
run timeout 120 bash -c 'megatron plan groups --world-size 16777216 --json | head -c 41'
is "$out" '{"world_size":16777216,"groups":{"tp":[[0' "a large listing starts at once"
if [ -w /dev/full ]; then
    status=0
    megatron plan groups --world-size 4 >/dev/full 2>err || status=$?
    is "$status" 1 "a full disk is a failure"
else
    skip 1 "/dev/full is not there"
fi

# Refusals of groups: status, the line
while IFS='|' read -r status_wanted line args; do
    # shellcheck disable=SC2086
    run megatron plan groups $args
    is "$status:$out" "$status_wanted:" "refused: groups $args"
    is "$err" "megatron: $line" "one line says why"
done <<'END'
1|12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8; use -n 8 or -n 16|--world-size 12 --tp 4 --pp 2
1|8 tasks cannot hold etp 2 x ep 8 x pp 1 = 16; use -n 16, or etp 1 (it defaults to tp)|--world-size 8 --tp 2 --ep 8 --json
1|vpp 2 needs pp > 1, but pp is 1; use pp 2 or more, or no vpp|--world-size 7 --tp 2 --vpp 2
1|order "tp-dp" lacks pp, but pp is 2|--world-size 8 --pp 2 --order tp-dp
1|order "tp-tp-dp" names tp 2 times, want each axis once|--world-size 8 --order tp-tp-dp
1|order "tp,dp" names an unknown axis "tp,dp", want tp, cp, ep, dp, pp joined by -|--world-size 8 --order tp,dp
2|plan groups: --world-size is missing; see megatron plan groups --help|--tp 4
2|plan groups: --rank: 8 is out of range, want 0 to 7; see megatron plan groups --help|--world-size 8 --rank 8
2|plan groups: --rank: -1 is out of range, want 0 to 16777215; see megatron plan groups --help|--world-size 8 --rank -1
2|plan groups: --tp: "4x" is not a whole number, want 1 to 16777216; see megatron plan groups --help|--tp 4x
2|plan groups: --tensor-model-parallel-size: 0 is out of range, want 1 to 16777216; see megatron plan groups --help|--tensor-model-parallel-size=0
2|plan groups: --tp needs a value, N; see megatron plan groups --help|--world-size 8 --tp
2|plan groups: --json takes no value; see megatron plan groups --help|--world-size 8 --json=1
2|plan groups: unknown option "--tpp"; did you mean --tp?; see megatron plan groups --help|--world-size 8 --tpp 4
2|plan groups: unknown option "--wor"; see megatron plan groups --help|--wor 8
2|plan groups: "8" is not an option; see megatron plan groups --help|8
2|plan groups: --kind: "foo" is not a kind of group, want tp, cp, dp, dp-cp, pp, tp-cp, tp-pp, tp-dp, tp-dp-cp, ep, etp, tp-ep, tp-ep-pp, edp, embd, pos-embd or world; see megatron plan groups --help|--world-size 8 --kind tp,foo
2|plan groups: --kind: "" is not a kind of group, want tp, cp, dp, dp-cp, pp, tp-cp, tp-pp, tp-dp, tp-dp-cp, ep, etp, tp-ep, tp-ep-pp, edp, embd, pos-embd or world; see megatron plan groups --help|--world-size 8 --kind tp,
2|plan groups: --order: "tp-cp-ep-dp-pp-tp-cp-ep-dp-pp-t..." is too long, want a permutation of tp-cp-ep-dp-pp; see megatron plan groups --help|--order tp-cp-ep-dp-pp-tp-cp-ep-dp-pp-tp-cp
END

# check
run megatron plan check --world-size 16 --tp 4 --pp 2 --etp 1 --ep 4 --vpp 2
is "$status:$err" "0:" "check passes a good geometry"
is "$out" "16 ranks: dense tp 4 x cp 1 x dp 2 x pp 2, expert etp 1 x ep 4 x edp 2 x pp 2, vpp 2, order tp-cp-ep-dp-pp" \
    "with one line"
run megatron plan check --tp 4 --pp 2
is "$status:$out" "0:dense tp 4 x cp 1 x dp ? x pp 2, expert etp 4 x ep 1 x edp ? x pp 2, order tp-cp-ep-dp-pp" \
    "and the rules that need no world without one"
experts=(--num-experts 8 --sequence-parallel --disable-bias-linear)
run megatron plan check --tp 2 --ep 4 "${experts[@]}"
is "$status:$(tail -n +2 <<<"$out")" "0:note: etp is not given and defaults to tp 2: each expert is split over 2 ranks, and etp 2 x ep 4 = 8 ranks share the experts of a layer; --etp 1 keeps each expert whole" \
    "a default that splits experts is named"
run megatron plan check --tp 2 --ep 4 --etp 1 "${experts[@]}"
is "$status:$(wc -l <<<"$out")" "0:1" "not one that was chosen"
run megatron plan check --world-size 12 --tp 8 --ep 5 --vpp 2 --order tp-ep-xx-ep
is "$status:$out" "1:" "check refuses a bad one"
is "$err" 'megatron: vpp 2 needs pp > 1, but pp is 1; use pp 2 or more, or no vpp
megatron: order "tp-ep-xx-ep" names an unknown axis "xx", want tp, cp, ep, dp, pp joined by -
megatron: order "tp-ep-xx-ep" names ep 2 times, want each axis once
megatron: 12 tasks cannot hold tp 8 x cp 1 x pp 1 = 8; use -n 40
megatron: 12 tasks cannot hold etp 8 x ep 5 x pp 1 = 40' "with a line a broken rule"
run megatron plan check --world-size 12 --tp 4 --vpp 2 --json
is "$status" 1 "check --json fails alike"
is "$out" '{"ok":false,"world_size":12,"dense":{"tp":4,"cp":1,"dp":3,"pp":1},"expert":'\
'{"etp":4,"ep":1,"edp":3,"pp":1},"broken":[{"rule":"vpp-needs-pp","text":"vpp 2 needs pp '\
'> 1, but pp is 1; use pp 2 or more, or no vpp"}]}' "with the rule's name"
is "$err" "" "and nothing on standard error"
run megatron plan check --tp 2 --json
is "$out" '{"ok":true,"dense":{"tp":2,"cp":1,"dp":null,"pp":1},"expert":{"etp":2,"ep":1,"edp":null,"pp":1},"broken":[]}' \
    "what is not known is null"
# device graphs: the words of a list in one
run megatron plan check --num-layers 4 --num-experts 8 --cuda-graph-impl local \
    --cuda-graph-modules attn,moe_router,moe_preprocess
is "$status:$err" "0:" "modules that are captured"
run megatron plan check --num-layers 4 --num-experts 8 --enable-cuda-graph
is "$status:$out:$err" "1::megatron: a graph of whole layers captures experts, which needs \
moe-expert-capacity-factor and moe-pad-expert-input-to-capacity: else only the router tells how \
many rows an expert gets; or give cuda-graph-modules attn moe_router moe_preprocess" "or cannot be"
run megatron plan check --ep 2 --num-layers 4 --num-experts 8 --cuda-graph-impl full_iteration \
    --moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity --json
like "$status:$out" '^1:.*"broken":\[\{"rule":"graphs","text":"cuda-graph-impl full_iteration captures experts, which needs moe-token-dispatcher-type alltoall: ' \
    "by the rule's name"
run megatron plan check --ep 2 --num-layers 4 --num-experts 8 --cuda-graph-impl full_iteration \
    --moe-expert-capacity-factor 1 --moe-pad-expert-input-to-capacity \
    --moe-token-dispatcher-type alltoall
is "$status:$err" "0:" "unless the host knows the numbers of rows"
run megatron plan check --rank 3
is "$status" 2 "an option of another part is none of check"

# The table of parts
run megatron plan
is "$status:$err" "2:megatron: plan: a part is missing, see megatron plan --help" "no part"
run megatron plan frobnicate
is "$status:$err" '2:megatron: plan: "frobnicate" is not a part, see megatron plan --help' \
    "an unknown part"
run megatron plan --help
like "$out" "check.*groups" "the help names the parts"

# Every option that the help shows is in the manual page, and the other way round
mapfile -t parts < <(megatron plan --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
ok "[ ${#parts[@]} -ge 8 ]" "parts: ${parts[*]}"
for part in "${parts[@]}"; do
    run megatron plan "$part" --help
    is "$status" 0 "$part --help"
    grep -o -e '--[a-z][a-z0-9-]*' .out >>help
done
sed 's/\\-/-/g' "$MG_SRCDIR/man/megatron-plan.1.in" >page
sed -n 's/^\.B[RI]* "*\(--[a-z0-9-]*\).*/\1/p' page | sort -u >man
is "$(cat man)" "$(sort -u help)" "options in the manual page are those of the help"
done_testing

#!/bin/bash
# megatron plan layers and schedule, and the pictures.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

# layers
run megatron plan layers --num-layers 8 --pp 2 --vpp 2 --json
is "$status" 0 "layers --json succeeds"
is "$out" '[{"pp_rank":0,"vp_stage":0,"offset":0,"num_layers":2},'\
'{"pp_rank":0,"vp_stage":1,"offset":4,"num_layers":2},'\
'{"pp_rank":1,"vp_stage":0,"offset":2,"num_layers":2},'\
'{"pp_rank":1,"vp_stage":1,"offset":6,"num_layers":2}]' "rank after rank, stage after stage"
run megatron plan layers --num-layers 3 --pipeline-model-parallel-size 2 \
    --account-for-embedding-in-pipeline-split
is "$out" 'pp_rank  vp_stage  offset  layers
      0         0       0       1  embedding
      1         0       1       2  loss' "as a table"
run megatron plan layers --num-layers 7 --pp 2 --account-for-loss-in-pipeline-split \
    --num-layers-per-virtual-pipeline-stage 2 --json
is "$out" '[{"pp_rank":0,"vp_stage":0,"offset":0,"num_layers":2},'\
'{"pp_rank":0,"vp_stage":1,"offset":4,"num_layers":2},'\
'{"pp_rank":1,"vp_stage":0,"offset":2,"num_layers":2},'\
'{"pp_rank":1,"vp_stage":1,"offset":6,"num_layers":1}]' "stages by their size"
run megatron plan layers --num-layers 10 --pp 3 --decoder-first-pipeline-num-layers 2 \
    --decoder-last-pipeline-num-layers 3 --json
is "$out" '[{"pp_rank":0,"vp_stage":0,"offset":0,"num_layers":2},'\
'{"pp_rank":1,"vp_stage":0,"offset":2,"num_layers":5},'\
'{"pp_rank":2,"vp_stage":0,"offset":7,"num_layers":3}]' "ends of their own size"
run megatron plan layers --num-layers 4 --pp 2 --mtp-num-layers 1 \
    --pipeline-model-parallel-layout 'Et*2|t|t|mL'
is "$out" 'pp_rank  vp_stage  offset  layers
      0         0       0       2  embedding
      0         1       3       1
      1         0       2       1
      1         1       4       0  1 for multi-token prediction  loss' "a layout"

# schedule
run megatron plan schedule --pp 2 --vpp 2 --num-microbatches 5 --microbatch-group-size 3 --json
is "$status" 0 "schedule --json succeeds"
is "$out" '{"order":[[1,1,1,2,2,2,-2,1,-2,1,-2,2,-1,2,-1,-1,-2,-2,-1,-1],'\
'[1,1,1,2,-2,2,-2,2,-2,1,-1,1,-1,2,-1,2,-2,-2,-1,-1]],"warmup":[5,3]}' "interleaved"
run megatron plan schedule --pp 2 --num-microbatches 3 --json
plain=$out
is "$out" '{"order":[[1,1,-1,1,-1,-1],[1,-1,1,-1,1,-1]],"warmup":[1,0]}' "plain 1F1B"
run megatron plan schedule --pp 2 --vpp 1 --num-microbatches 3 --microbatch-group-size 2 --json
is "$out" "$plain" "which one virtual stage is too"
run megatron plan schedule --pp 2 --vpp 2 --num-microbatches 2 --forward-only --json
is "$out" '{"order":[[1,1,2,2],[1,1,2,2]],"warmup":[4,4]}' "forward passes alone"
run megatron plan schedule --pp 2 --vpp 2 --num-microbatches 4
is "$out" 'interleaved 1F1B: pp 2 x vpp 2, 4 microbatches in groups of 2; proved free of deadlock
waiting 11.1% of the time, if a backward pass takes two forward passes

rank  warm-up  slots  passes
   0        4      5  1 1 2 2 1 -2 1 -2 2 -1 2 -1 -2 -2 -1 -1
   1        2      4  1 1 2 -2 2 -2 1 -1 1 -1 2 -2 2 -2 -1 -1' "as a table"
run megatron plan schedule --pp 16 --num-microbatches 100
ok "[ $(wc -L <.out) -le 80 ]" "within 80 columns, but for the first line"
run megatron plan schedule --pp 2 --vpp 2 --num-microbatches 5 --json
is "$status" 1 "what no run would do fails"
is "$out" '{"order":[[1,1,2,2,1,-2,1,-2,2,-1,2,-1,1,-2,2,-2,-1,-1,-2,-1],'\
'[1,1,2,-2,2,-2,1,-1,1,-1,2,-2,2,-2,1,-1,2,-1,-2,-1]],"warmup":[4,2],"ok":false}' \
    "with the order that there would be"
is "$err" "megatron: interleaved schedule: 5 microbatches in groups of 2 leave 1, want none or at least 2 (the pipeline ranks); use 4 or 6 microbatches" \
    "and a line that says why"

# Refusals: status, the line
while IFS='|' read -r status_wanted line args; do
    # shellcheck disable=SC2086
    run megatron plan $args
    is "$status:$out" "$status_wanted:" "refused: $args"
    is "$err" "megatron: $line" "one line says why"
done <<'END'
1|num-layers 10 is not a multiple of pipeline-model-parallel-size 4; use num-layers 8 or 12|layers --num-layers 10 --pp 4 --json
1|2 virtual stages need a pipeline: pipeline-model-parallel-size is 1, want 2 or more|layers --num-layers 10 --vpp 2
1|pipeline-model-parallel-layout "tE": the first item must be E, the embedding|layers --num-layers 1 --pipeline-model-parallel-layout tE
2|plan layers: --num-layers is missing; see megatron plan layers --help|layers --pp 4
2|plan layers: --vpp and --num-layers-per-virtual-pipeline-stage exclude each other; see megatron plan layers --help|layers --num-layers 8 --vpp 2 --pp 2 --num-layers-per-virtual-pipeline-stage 2
2|plan layers: --decoder-first-pipeline-num-layers: 0 is out of range, want 1 to 16777216; see megatron plan layers --help|layers --num-layers 8 --decoder-first-pipeline-num-layers 0
1|interleaved schedule: microbatch group size 3, want 4 (the pipeline ranks) to 8 (the microbatches)|schedule --pp 4 --vpp 2 --num-microbatches 8 --microbatch-group-size 3
1|interleaved schedule: 3 microbatches are fewer than the 4 pipeline ranks|schedule --pp 4 --vpp 2 --num-microbatches 3
1|interleaved schedule: pipeline of 1 ranks, 2 virtual stages on each; want at least 2 of both|schedule --vpp 2 --num-microbatches 3
2|plan schedule: --num-microbatches is missing; see megatron plan schedule --help|schedule --pp 4
2|plan schedule: --pp x --vpp x --num-microbatches is over 1048576; see megatron plan schedule --help|schedule --pp 1024 --vpp 2 --num-microbatches 1024
2|plan schedule: --num-microbatches: 0 is out of range, want 1 to 1048576; see megatron plan schedule --help|schedule --num-microbatches 0
2|plan groups: --ntasks-per-node wants --svg; see megatron plan groups --help|groups --world-size 4 --ntasks-per-node 2
1|--svg: 8192 ranks are too many for a picture, want at most 4096|groups --world-size 8192 --svg x.svg
END
ok "[ ! -e x.svg ]" "no picture is left behind"

# Pictures. count TEXT FILE: lines that have it
count() {
    grep -c -- "$1" "$2"
}
run megatron plan schedule --pp 2 --vpp 2 --num-microbatches 4 --svg s.svg --json
like "$out" '^\{"order"' "a picture comes beside the rest"
is "$(count '<title>forward microbatch' s.svg):$(count '<title>backward microbatch' s.svg)" \
    16:16 "every pass of the timeline is drawn"
is "$(count '<title>forward microbatch 3, virtual stage 1' s.svg)" 2 "and named"
run megatron plan groups --world-size 24 --tp 4 --cp 2 --pp 3 --svg g.svg --ntasks-per-node 6
is "$status" 0 "a picture of the placement"
is "$(count '<title>rank ' g.svg):$(count ', node 3<' g.svg)" 24:6 "every rank on its node"
is "$(count 'stroke="#dc2626"' g.svg)" 2 "groups on several nodes are marked"
like "$(cat g.svg)" "2 of 6 tensor-parallel groups lie on several nodes" "and counted"
for f in s.svg g.svg; do
    if command -v rsvg-convert >/dev/null; then
        ok "rsvg-convert $f -o $f.png && [ -s $f.png ]" "$f can be shown"
    elif command -v xmllint >/dev/null; then
        ok "xmllint --noout $f" "$f is well formed"
    else
        skip 1 "neither rsvg-convert nor xmllint is here"
    fi
done
run megatron plan schedule --num-microbatches 1 --svg /nonexistent/x.svg
is "$status" 1 "a picture that cannot be written is a failure"
is "$err" "megatron: /nonexistent/x.svg: cannot write: No such file or directory" "with a line"
if [ -w /dev/full ]; then
    ln -s /dev/full full.svg
    run megatron plan groups --world-size 64 --svg full.svg
    is "$status" 1 "so is a full disk"
    like "$err" "^megatron: full.svg: cannot write: " "with a line"
else
    skip 2 "/dev/full is not there"
fi
done_testing

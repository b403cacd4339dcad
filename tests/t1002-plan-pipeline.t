#!/bin/bash
# megatron plan layers, lr and schedule, and the pictures.
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

# lr
run megatron plan lr --steps 0,5,10 --steps 55,100,101 --lr 1e-3 --min-lr 1e-5 \
    --lr-warmup-iters 10 --train-iters 100 --json
is "$status" 0 "lr --json succeeds"
is "$out" '[[0,0,0.01],[5,0.0005,0.01],[10,0.001,0.01],[55,0.000505,0.01],[100,1e-05,0.01],[101,1e-05,0.01]]' \
    "linear"
linear=$out
run megatron plan lr --steps 0,5,10,55,100,101 --lr 1e-3 --min-lr 1e-5 --global-batch-size 512 \
    --lr-warmup-iters 10 --train-iters 100 --json
is "$out" "$linear" "whatever the batch size"
run megatron plan lr --steps 0,5,10,55,100,101 --lr 1e-3 --min-lr 1e-5 --train-samples 100 \
    --lr-warmup-samples 10 --json
is "$out" "$linear" "or in samples"
run megatron plan lr --steps 0,4 --lr 1e-3 --lr-decay-iters 100 --lr-warmup-fraction 0.125 --json
is "$out" '[[0,0,0.01],[4,0.00032,0.01]]' "a warm-up of 12.5 iterations"
run megatron plan lr --steps 20,80,90,100 --lr 1 --lr-decay-style WSD --lr-wsd-decay-iters 20 \
    --lr-wsd-decay-style minus_sqrt --train-iters 100 --weight-decay-incr-style cosine \
    --start-weight-decay 0 --end-weight-decay 0.1
is "$out" "\
  iterations           learning rate            weight decay
          20                       1    0.009549150281252633
          80                       1     0.09045084971874738
          90      0.2928932188134524     0.09755282581475769
         100                       0                     0.1" "WSD, and a weight decay that grows"
run megatron plan lr --steps 0,2,3,5 --lr 1 --min-lr 0 --train-iters 5 --json \
    --step-batch-size-schedule "0:10 20:40"
is "$out" '[[0,1,0.01],[2,0.8571428571428572,0.01],[3,0.5714285714285714,0.01],[5,0,0.01]]' \
    "batches of different sizes"

# loss-scale
run megatron plan loss-scale --found-inf 0*2,1,1 --found-inf 0,1*2,0*2 --initial-loss-scale 8 \
    --loss-scale-window 2
is "$status:$out" "0:\
 iteration  gradients              loss scale                 inverse  good iterations  overflows left
         0                                  8                   0.125                0               2
         1     finite                       8                   0.125                1               2
         2        inf                       8                   0.125                0               1
         3        inf                       4                    0.25                0               0
         4     finite                       4                    0.25                1               0
         5     finite                       8                   0.125                0               2" \
    "a table; the last series counts"
run megatron plan loss-scale --found-inf '1*2,0*1000' --json
is "$(grep -o '[[][^][]*[]]' <<<"$out" | sed -n '1,4p;1003p' | tr '\n' ' ')" "[4294967296,2.3283064365386963e-10,0,2] \
[4294967296,2.3283064365386963e-10,0,1] [2147483648,4.656612873077393e-10,0,0] [2147483648,4.656612873077393e-10,1,0] \
[4294967296,2.3283064365386963e-10,0,2] " "that of a run, as --json"
run megatron plan loss-scale --found-inf 1,0*3 --loss-scale 128 --json
is "$out" "[[128,0.0078125,0,0],[128,0.0078125,0,0],[128,0.0078125,0,0],[128,0.0078125,0,0],\
[128,0.0078125,0,0]]" "a constant one"
run megatron plan loss-scale --found-inf '0*2' --loss-scale-window 1 --growth-factor 1e30 \
    --initial-loss-scale 1e10 --json
is "$(sed 's/.*,\[//' <<<"$out")" '"inf",0,0,2]]' "one that has grown too far"
golden=$MG_SHARED/golden/06_grad_scaler.json
if [ -e "$golden" ]; then
    "$MG_SRCDIR/tests/lib/check-loss-scales" "$golden" >scales 2>&1
    is "$?" 0 "the reference's loss scales: $(tail -n 1 scales)" || diag "$(cat scales)"
else
    skip 1 "no reference loss scales at $golden"
fi

# Refusals: status, the line
while IFS='|' read -r status_wanted line args; do
    # shellcheck disable=SC2086
    run megatron plan $args
    is "$status:$out" "$status_wanted:" "refused: $args"
    is "$err" "megatron: $line" "one line says why"
done <<'END'
1|num-layers 10 is not a multiple of pipeline-model-parallel-size 4; use 8 or 12|layers --num-layers 10 --pp 4 --json
1|2 virtual stages need a pipeline: pipeline-model-parallel-size is 1, want 2 or more|layers --num-layers 10 --vpp 2
1|pipeline-model-parallel-layout "tE": the first item must be E, the embedding|layers --num-layers 1 --pipeline-model-parallel-layout tE
2|plan layers: --num-layers is missing; see megatron plan layers --help|layers --pp 4
2|plan layers: --vpp and --num-layers-per-virtual-pipeline-stage exclude each other; see megatron plan layers --help|layers --num-layers 8 --vpp 2 --pp 2 --num-layers-per-virtual-pipeline-stage 2
2|plan layers: --decoder-first-pipeline-num-layers: 0 is out of range, want 1 to 16777216; see megatron plan layers --help|layers --num-layers 8 --decoder-first-pipeline-num-layers 0
1|interleaved schedule: microbatch group size 3, want 4 (the pipeline ranks) to 8 (the microbatches)|schedule --pp 4 --vpp 2 --num-microbatches 8 --microbatch-group-size 3
1|interleaved schedule: 3 microbatches are fewer than the 4 pipeline ranks|schedule --pp 4 --vpp 2 --num-microbatches 3
1|interleaved schedule: pipeline of 1 ranks, 2 virtual stages on each; want at least 2 of both|schedule --vpp 2 --num-microbatches 3
1|learning rate: from 0.001 down to 0.01, want both finite, not negative and in this order|lr --steps 0 --lr 1e-3 --min-lr 1e-2 --train-iters 9
1|--lr-decay-style: unknown style "foo", want constant, linear, cosine, inverse-square-root or WSD|lr --steps 0 --lr 1 --train-iters 9 --lr-decay-style foo
1|weight decay: constant, but from 0.1 to 0.2; give one value or another style|lr --steps 0 --lr 1 --train-iters 9 --start-weight-decay 0.1 --end-weight-decay 0.2
1|--lr-decay-style WSD wants --lr-wsd-decay-iters|lr --steps 0 --lr 1 --train-iters 9 --lr-decay-style WSD
2|plan lr: --steps is missing; see megatron plan lr --help|lr --lr 1 --train-iters 9
2|plan lr: --lr is missing; see megatron plan lr --help|lr --steps 1 --train-iters 9
2|plan lr: --train-iters or --train-samples is missing; see megatron plan lr --help|lr --lr 1 --steps 1
2|plan lr: --steps: "x" is not a whole number, want 0 to 1000000000000000; see megatron plan lr --help|lr --steps 1,x --lr 1
1|loss scale: least scale 4, want above 0 and at most the initial 2|loss-scale --found-inf 0 --initial-loss-scale 2 --min-loss-scale 4
1|loss scale: growth factor 1, want above 1|loss-scale --found-inf 0 --growth-factor 1
2|plan loss-scale: --found-inf is missing; see megatron plan loss-scale --help|loss-scale
2|plan loss-scale: --found-inf: 2 is out of range, want 0 to 1; see megatron plan loss-scale --help|loss-scale --found-inf 0,2
2|plan loss-scale: --found-inf: "" is not a whole number, want 0 to 1; see megatron plan loss-scale --help|loss-scale --found-inf 0,
2|plan loss-scale: --found-inf: 0 is out of range, want 1 to 1000000000; see megatron plan loss-scale --help|loss-scale --found-inf 1*0
2|plan loss-scale: --found-inf: "00000000000000000000000000000000..." is too long for a number; see megatron plan loss-scale --help|loss-scale --found-inf 000000000000000000000000000000001
2|plan lr: --steps: "00000000000000000000000000000000..." is too long for a number; see megatron plan lr --help|lr --lr 1 --steps 000000000000000000000000000000001
2|plan schedule: --num-microbatches is missing; see megatron plan schedule --help|schedule --pp 4
2|plan schedule: --pp x --vpp x --num-microbatches is over 1048576; see megatron plan schedule --help|schedule --pp 1024 --vpp 2 --num-microbatches 1024
2|plan schedule: --num-microbatches: 0 is out of range, want 1 to 1048576; see megatron plan schedule --help|schedule --num-microbatches 0
2|plan groups: --ntasks-per-node: 0 is out of range, want 1 to 16777216; see megatron plan groups --help|groups --world-size 4 --ntasks-per-node 0
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
is "$(count '<title>rank ' g.svg):$(count ', node 3<' g.svg)" 72:18 \
    "every rank on its node, in the dense and in the expert grid"
is "$(count 'stroke="#dc2626"' g.svg)" 6 "groups on several nodes are marked in both"
like "$(cat g.svg)" "2 of 6 tensor-parallel groups lie on several nodes" "and counted"
like "$(cat g.svg)" ">2 of 6 expert-tensor-parallel \(etp\) groups lie .* \(ranks 4-7\) on nodes 0 and 1<" \
    "those of experts, too"
like "$(cat g.svg)" ">every expert-parallel \(ep\) group lies on one node of 6 tasks<" "or not"
run megatron plan groups --world-size 256 --tp 8 --pp 4 --etp 1 --ep 32 --svg e.svg \
    --ranks-per-node 8
is "$(count '<title>rank ' e.svg):$(count '>node [0-9]*<' e.svg)" 768:32 "256 ranks on 32 nodes"
is "$(count '<title>rank 255: .* ep 31, edp 1, node 31<' e.svg)" 3 "the last one"
is "$(count 'stroke="#dc2626"' e.svg)" 8 "each group of experts is marked"
run megatron plan groups --world-size 8 --tp 2 --etp 2 --ep 2 --svg n.svg
is "$(count '<title>rank ' n.svg):$(count 'node' n.svg)" 16:0 "both grids, without nodes"
for f in s.svg g.svg e.svg n.svg; do
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
is "$err" "megatron: /nonexistent/x.svg: its directory cannot be written: No such file or directory" \
    "with a line"
if [ -w /dev/full ]; then
    ln -s /dev/full full.svg
    run megatron plan groups --world-size 64 --svg full.svg
    is "$status" 1 "so is a full disk"
    is "$err" "megatron: cannot write full.svg: No space left on device" "with a line"
    ok "[ -L full.svg ] && [ -c /dev/full ]" "and the name stays what it was"
else
    skip 3 "/dev/full is not there"
fi
mkdir map.svg
for part in "groups --world-size 8" "schedule --num-microbatches 1"; do
    # shellcheck disable=SC2086
    run megatron plan $part --svg map.svg
    is "$status $err" "1 megatron: map.svg: it is a directory" "not over a directory"
    # shellcheck disable=SC2086
    is "$(megatron plan $part --json --svg /dev/stdout | grep -c '<svg ')" 1 "but to a pipe"
done
echo old >there.svg
ln there.svg same.svg
ln -s there.svg link.svg
run megatron plan groups --world-size 8 --svg link.svg
ok "[ -L link.svg ] && grep -q '<svg ' there.svg" "a link's file is written"
is "$(cat same.svg)" old "anew, under its name"
is "$(ls -A | grep -c 'svg.tmp')" 0 "nothing else is left"
done_testing

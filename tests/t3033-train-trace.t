#!/bin/bash
# Traces: their form, what they tell of, and that reductions overlap the backward pass when
# they are asked to.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

command -v python3 >/dev/null || skip_all "no python3 to read traces with"

tokenized_text 20
base=(megatron train --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0 --eval-iters 0
      --micro-batch-size 2 --global-batch-size 8 --train-iters 5 --lr 1e-3)

# What can be asked of a trace: "read FILE QUESTION" prints an answer.
cat >read.py <<'END'
import json, sys
trace = json.load(open(sys.argv[1]))
events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
meta = [e for e in trace["traceEvents"] if e["ph"] == "M"]
assert trace["otherData"]["left_out"] == 0
assert all(e["dur"] >= 0 and e["ts"] > 1e15 for e in events)
threads = {e["tid"]: e["args"]["name"] for e in meta if e["name"] == "thread_name"}
assert all(e["tid"] in threads for e in events)
for e in events:
    e["end"] = e["ts"] + e["dur"]
def some(*names, **args):
    return [e for e in events if e["name"] in names
            and all(e["args"].get(k) == v for k, v in args.items())]
def nested():
    "Events of a thread lie within each other or apart; a lane's apart."
    for tid in threads:
        open_until = []
        for e in sorted((e for e in events if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"] + 1:
                open_until.pop()
            if open_until and (tid > 0 or e["end"] > open_until[-1] + 1):
                return e
            open_until.append(e["end"])
    return "yes"
begun, enqueued = lambda e: e["ts"], lambda e: e["args"]["enqueued"]
def overlapped(when):
    "Iterations with a reduction enqueued, or begun, before the last backward pass ends."
    n = 0
    for it in some("iteration"):
        b = some("backward-compute", iteration=it["args"]["iteration"])
        first, last = min(e["ts"] for e in b), max(e["end"] for e in b)
        n += any(first < when(e) < last for e in some("all-reduce", "reduce-scatter")
                 if e["args"]["group"] in ("dp", "dp-cp"))
    return n
print(eval("(" + sys.argv[2] + ")"))
END

# ask FILE QUESTION ANSWER TEXT
ask() {
    local said
    said=$(python3 read.py "$1" "$2" 2>&1) || true
    is "$said" "$3" "$4"
}

# ---- one rank
run "${base[@]}" --trace-file alone.json
is "$status" 0 "one rank is traced" || diag "$err"
ok "[ -s alone-0.json -a ! -e alone.json ]" "to a file with its number"
ask alone-0.json 'sorted (e["args"]["iteration"] for e in some ("iteration"))' "[1, 2, 3]" \
    "three iterations"
ask alone-0.json 'sorted (e["args"]["microbatch"] for e in some ("forward-compute", iteration=2))' \
    "[0, 1, 2, 3]" "every microbatch forward"
ask alone-0.json 'len (some ("backward-compute", chunk=0))' 12 "and backward"
ask alone-0.json 'len (some ("optimizer-inner-step"))' 3 "updates"
ask alone-0.json 'nested ()' yes "intervals nest"
ask alone-0.json 'sorted (threads.values ())' "['compute', 'host']" "nothing is communicated"
run "${base[@]}" --trace-file aside.json --save aside --save-interval 1 --async-save
is "$status" 0 "one that saves while it trains" || diag "$err"
ask aside-0.json 'sorted (threads.values ())' "['checkpoint', 'compute', 'host']" "on a thread of its own"
ask aside-0.json 'len (some ("write-shard", iteration=1))' 1 "a shard is written"
ask aside-0.json 'len (some ("save-checkpoint", iteration=1)) > 0 and nested ()' yes \
    "beside what the run waits for"

# ---- ranges
run "${base[@]}" --trace-file dir.d/.. --trace-iterations 2
is "$status" 1 "a file that cannot be: $err"
run "${base[@]}" --trace-file part --trace-iterations 4-9 --save ck --exit-interval 5
ask part-0 'sorted (e["args"]["iteration"] for e in some ("iteration"))' "[4, 5]" \
    "a range that the run does not reach the end of"
run "${base[@]}" --train-iters 8 --trace-file rest.d.json --trace-iterations 2 --load ck \
    --override-opt-param-scheduler
ask rest.d-0.json 'sorted (e["args"]["iteration"] for e in some ("iteration"))' "[7]" \
    "a resumed run counts its own"
for wrong in 0 3-2 x 1- -2 2-3-4 99999999999999999999999999999999999999; do
    run "${base[@]}" --trace-file w.json "--trace-iterations=$wrong"
    is "$status" 2 "range $wrong: $err"
done
run "${base[@]}" --metrics-file plain.json
run "${base[@]}" --metrics-file traced.json --trace-file t.json
is "$(sed 's/, "elapsed.*//' traced.json)" "$(sed 's/, "elapsed.*//' plain.json)" \
    "tracing changes no number"

ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; exit; }

# ---- two ranks: reductions under the backward pass, or behind it.  A pass takes many times as
# long as a thread to wake up, on any machine.
overlap=(--use-distributed-optimizer --ddp-bucket-size 80000 --train-iters 9
         --trace-iterations 1-9 --num-layers 6 --hidden-size 128 --seq-length 64
         --micro-batch-size 2 --global-batch-size 8)
run ranks_run 2 "${base[@]}" "${overlap[@]}" --trace-file plain.json
is "$status" 0 "two ranks" || diag "$err"
run ranks_run 2 "${base[@]}" "${overlap[@]}" --overlap-grad-reduce --overlap-param-gather \
    --trace-file over.json
is "$status" 0 "overlapped" || diag "$err"
for r in 0 1; do
    ask plain-$r.json 'overlapped (enqueued)' 0 "rank $r: no reduction under the backward pass"
    ask over-$r.json 'overlapped (enqueued)' 9 "rank $r: in every iteration if asked for"
    ask over-$r.json 'overlapped (begun) > 0' True "which begins while the pass goes on"
    ask over-$r.json 'nested ()' yes "a lane does one thing at a time"
    ask over-$r.json 'sorted (set (e["pid"] for e in events))' "[$r]" "process $r"
    ask over-$r.json 'len (some ("reduce-scatter")) == len (some ("all-gather", group="dp-cp")) > 20' \
        True "what is reduced is gathered"
    ask over-$r.json 'sum (e["args"]["bytes"] for e in some ("reduce-scatter")) ==
        2 * sum (e["args"]["bytes"] for e in some ("all-gather", group="dp-cp"))' True \
        "twice the bytes go in"
    ask over-$r.json '"communication: dp" in threads.values ()' True "on a thread of their own"
done

# ---- keys and values go round while the attention to those before is computed: in each of 4
# layers one transfer forward, and three backward, the last one behind the attention
run ranks_run 2 "${base[@]}" --context-parallel-size 2 --trace-file ring.json --trace-iterations 2-2
is "$status" 0 "cp 2" || diag "$err"
for r in 0 1; do
    ask ring-$r.json 'len (some ("transfers", group="cp"))' $((4 * 4 * (1 + 3))) \
        "rank $r: transfers of every layer and microbatch"
    ask ring-$r.json '"communication: cp" in threads.values () and nested ()' yes \
        "on a stream of their own"
done

# ---- pipelines and tensors
run ranks_run 4 "${base[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --num-virtual-stages-per-pipeline-rank 2 --trace-file pp.json --trace-iterations 2-2
is "$status" 0 "pp 2 x 2 x tp 2" || diag "$err"
for r in 0 3; do
    ask pp-$r.json 'sorted ((e["args"]["chunk"], e["args"]["microbatch"])
        for e in some ("backward-compute")) == [(c, m) for c in (0, 1) for m in range (4)]' \
        True "rank $r: passes of every chunk and microbatch"
    ask pp-$r.json 'set (e["args"]["bytes"] for e in some ("send", "receive"))' \
        "{0, 8192}" "bytes of a boundary"
    ask pp-$r.json 'len (some ("all-reduce", group="tp")) > 0 and nested ()' yes "tensors"
done
run ranks_run 4 "${base[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --num-virtual-stages-per-pipeline-rank 2 --trace-file group.json --trace-iterations 2-2 \
    --no-overlap-p2p-communication
is "$status" 0 "the same, with one call between two passes" || diag "$err"
for r in 0 3; do
    ask group-$r.json '"communication: pipeline transfers" in threads.values () and nested ()' yes \
        "rank $r: transfers are on one stream"
    ask group-$r.json 'len (some ("transfers", group="pp")) > 3' True "calls of several transfers"
    calls='sum (e["args"]["bytes"] for e in some ("send", "receive", "transfers")
        if e["args"]["group"] in ("pp", "pp-backward"))'
    ask group-$r.json "$calls" "$(python3 read.py pp-$r.json "$calls")" "the same bytes"
done
if command -v jq >/dev/null; then
    jq -s '{traceEvents: map(.traceEvents) | add}' pp-*.json >all.json
    is "$(jq '[.traceEvents[].pid] | unique | length' all.json)" 4 "four files make one"
else
    skip 1 "no jq"
fi
done_testing

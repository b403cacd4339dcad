#!/bin/bash
# Communication beside kernels, on the double of CUDA and NCCL: what traces show of gradients,
# parameters, tensor and context parallelism and experts; its streams have high priority.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
cuda_nccl
command -v python3 >/dev/null || skip_all "no python3 to read traces with"

# beside.py FILE STREAM CALL PASS: in how many iterations a call on the stream is under way while a
# pass is
cat >beside.py <<'END'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
stream, call, compute = sys.argv[2:]
threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
events = [e for e in events if e["ph"] == "X"]
end = lambda e: e["ts"] + e["dur"]
calls = [e for e in events if e["name"] == call and threads[e["tid"]] == "communication: " + stream]
n = 0
for it in [e for e in events if e["name"] == "iteration"]:
    passes = [e for e in events if e["name"] == compute and threads[e["tid"]] == "compute"
              and it["ts"] <= e["ts"] <= end(it)]
    n += any(c["ts"] < end(p) and p["ts"] < end(c) for c in calls for p in passes)
print(n)
END

# traced NAME RANKS STREAMS ARGUMENT...: a run whose last 4 iterations are traced, and how many
# streams of high priority each rank makes.  Work begins as soon as it can.
traced() {
    local name=$1 n=$2 streams=$3
    shift 3
    rm -f count
    run env MG_CUDA_ORDER=first MG_CUDA_COUNT="$PWD/count" MG_CUDA_DEVICES="$n" megatron launch \
        -n "$n" megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 4 \
        --ffn-hidden-size 32 --seq-length 16 --vocab-size 64 --mock-data --eval-iters 0 --micro-batch-size 1 \
        --global-batch-size 4 --train-iters 5 --lr 1e-3 --position-embedding-type rope \
        --device cuda --trace-file "$name.json" --trace-iterations 2-5 "$@"
    is "$status" 0 "$name" || diag "$err"
    is "$(sed 's/.* //' count | sort -u)" "$streams" "$name: streams of high priority"
}
# A busy machine may be late in some iterations.
shows() { # NAME STREAM CALL PASS
    local n
    n=$(python3 beside.py "$1-0.json" "$2" "$3" "$4" 2>&1)
    ok "[ '$n' -gt 0 ]" "$1: $3 on $2 beside $4 in $n of 4 iterations" || diag "$n"
}

sharded=(--use-distributed-optimizer --ddp-bucket-size 3000)
traced plain 2 1 "${sharded[@]}"
is "$(python3 beside.py plain-0.json dp reduce-scatter backward-compute)" 0 \
    "plain: no reduction beside backward passes"
traced overlapped 2 2 "${sharded[@]}" --overlap-grad-reduce --overlap-param-gather \
    --high-priority-stream-groups dp
like "$out" "arguments that change nothing here: --high-priority-stream-groups" \
    "the argument for it changes nothing"
shows overlapped dp reduce-scatter backward-compute
shows overlapped dp all-gather forward-compute
traced split 4 2 --tensor-model-parallel-size 2 --context-parallel-size 2
shows split tp all-reduce backward-compute
shows split cp transfers forward-compute
traced experts 2 2 --num-experts 4 --moe-router-topk 2 --swiglu --disable-bias-linear \
    --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall \
    --moe-shared-expert-intermediate-size 16 --moe-shared-expert-overlap
shows experts ep all-to-all forward-compute
done_testing

#!/bin/bash
# The batch scripts of contrib/examples, each in a real job of a tiny run.  (t2008-example-requeue.t
# has requeue.sbatch.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

examples=$MG_SRCDIR/contrib/examples
for script in "$examples"/*.sbatch; do
    ok "bash -n '$script'" "${script##*/} is a shell script"
    ok "grep -q '^#SBATCH --megatron-tp=' '$script'" "and has the plugin's options"
done
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] \
    || { skip 1 "the plugin is not built"; done_testing; exit; }
mpi_available || { skip 1 "no MPI"; done_testing; exit; }

make_text text.txt 40
megatron data tokenize --input text.txt --output-prefix text --append-eod >/dev/null
# Ranks share this machine's cores; the jobs get what our shell has.
export DATA=$TEST_DIR/text_text_document ITERATIONS=3 OMP_NUM_THREADS=1
# Nodes that are not real have no address; one machine does for all.
slurm_start 4 --plugin-args "master_addr=127.0.0.1"

# batch NAME [OPTION...]: run it to its end; leaves $state, which is Slurm's, with the exit code, and
# $out, its output.
batch() {
    local name=$1 job
    shift
    export CHECKPOINTS=$TEST_DIR/$name.checkpoints
    job=$(sbatch --parsable -o "$TEST_DIR/$name.out" "$@" "$examples/$name.sbatch")
    wait_until "scontrol -o show job $job | grep -qE 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)'"
    state=$(scontrol -o show job "$job" | grep -oE '(JobState|ExitCode)=[^ ]*' | paste -sd ' ')
    out=$(cat "$name.out" 2>/dev/null)
}
completed="JobState=COMPLETED ExitCode=0:0"

batch one-node
is "$state" "$completed" "one-node.sbatch" || diag "$out"
like "$out" "8 ranks = tp 4 x pp 1 x dp 2" "with its sizes"
like "$out" "iteration +3/ +3 " "to the last iteration"
ok "[ -n \"\$(ls one-node.checkpoints)\" ]" "and a checkpoint"

batch many-nodes
is "$state" "$completed" "many-nodes.sbatch" || diag "$out"
like "$out" "8 ranks = tp 2 x pp 2 x dp 2" "with its sizes"
like "$out" "iteration +3/ +3 " "to the last iteration"
run sbatch -N3 "$examples/many-nodes.sbatch"
ok "[ $status != 0 ]" "on three nodes it is refused before it is queued"
like "$err" "6 tasks cannot hold tp 2 x cp 1 x pp 2 = 4; use -n 4 or -n 8" "with the reason"

# ---- PyTorch: a script that reads what torchrun would set, and meets the others there
if command -v python3 >/dev/null; then
    cat >pretrain.py <<'END'
import os, socket, struct, sys, time
e = os.environ
rank, world, local = int (e["RANK"]), int (e["WORLD_SIZE"]), int (e["LOCAL_RANK"])
args = dict (zip (sys.argv[1::2], sys.argv[2::2]))
tp = int (args["--tensor-model-parallel-size"])
pp = int (args["--pipeline-model-parallel-size"])
if rank == 0:  # the store that init_process_group would open
    s = socket.socket ()
    s.setsockopt (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind (("", int (e["MASTER_PORT"])))
    s.listen (world)
    peers = [s.accept ()[0] for i in range (world - 1)]
    seen = sorted ([0] + [struct.unpack ("i", p.recv (4))[0] for p in peers])
    assert seen == list (range (world)), seen
    for p in peers:
        p.send (b"x")
else:
    while True:
        try:
            s = socket.create_connection ((e["MASTER_ADDR"], int (e["MASTER_PORT"])), 10)
            break
        except OSError:
            time.sleep (0.1)
    s.send (struct.pack ("i", rank))
    assert s.recv (1) == b"x"
assert [int (e["MEGATRON_%s_SIZE" % a]) for a in ("TP", "PP", "DP")] == [tp, pp, world // tp // pp]
assert int (e["MEGATRON_TP_RANK"]) == rank % tp and int (e["LOCAL_WORLD_SIZE"]) == 4
print ("rank %d of %d local %d max connections %s"
       % (rank, world, local, e["CUDA_DEVICE_MAX_CONNECTIONS"]))
END
    SCRIPT=$TEST_DIR/pretrain.py batch pytorch --export=ALL
    is "$state" "$completed" "pytorch.sbatch" || diag "$out"
    is "$(grep -c '^rank [0-7] of 8 local [0-3] max connections 1$' <<<"$out")" 8 \
        "every rank has met the others, with what the plugin told it" || diag "$out"
else
    skip 2 "no python3"
fi
done_testing

#!/bin/bash
# A script as Megatron-LM's users have it finds what it needs in its environment: it meets
# its peers at MASTER_ADDR and forms the groups that megatron plan prints.  No PyTorch: the
# script is a stand-in that does what Megatron-LM does with these names.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

[ -f "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not part of this build"
command -v python3 >/dev/null || skip_all "python3 is not installed"
# itself, not a wrapper that takes its time
python=$(python3 -c 'import sys; print(sys.executable)')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' || skip_all "python3 is older than 3.8"
slurm_start 4 8
script=$MG_SRCDIR/tests/lib/pretrain-stand-in.py
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT

# layout TEXT TP CP PP EP ETP MAPPING SRUN-ARGUMENT...
layout() {
    local text=$1 tp=$2 cp=$3 pp=$4 ep=$5 etp=$6 order=$7 world want
    shift 7
    local -a args=(--tensor-model-parallel-size "$tp" --context-parallel-size "$cp"
        --pipeline-model-parallel-size "$pp" --expert-model-parallel-size "$ep")
    local -a sizes=(--megatron-tp="$tp" --megatron-cp="$cp" --megatron-pp="$pp" --megatron-ep="$ep")
    [ "$etp" = 0 ] || { args+=(--expert-tensor-parallel-size "$etp"); sizes+=(--megatron-etp="$etp"); }
    [ "$order" = - ] || { args+=(--use-tp-pp-dp-mapping); sizes+=(--megatron-order=tp-cp-ep-pp-dp); }
    # shellcheck disable=SC2016
    run srun -Q --mpi=none --megatron-placement=allow "${sizes[@]}" "$@" sh -c \
        'STAND_IN_NODE=$SLURMD_NODENAME; export STAND_IN_NODE; exec "$@"' sh "$python" "$script" "${args[@]}"
    world=$(sed -n 's/^{"world_size": *\([0-9]*\).*/\1/p' <<<"$out")
    want=$(megatron plan groups --world-size "${world:-1}" "${args[@]}" --json --kind \
        tp,cp,dp,dp-cp,pp,tp-cp,tp-pp,ep,tp-ep,edp)
    is "$status:${out// /}$err" "0:$want" "$text: $world ranks"
}
layout "one rank" 1 1 1 1 0 - -n1
layout "cyclic" 2 1 2 1 0 - -N2 --ntasks-per-node=4 -m cyclic
layout "uneven" 2 1 3 1 0 - -N3 -n6
layout "context" 2 2 2 1 0 - -N2 --ntasks-per-node=4 -m plane=2
layout "experts" 2 2 2 4 1 - -N4 --ntasks-per-node=4
layout "pp before dp" 2 1 2 2 1 tp-pp-dp -N2 --ntasks-per-node=4 -m cyclic

# A contradiction is seen before it runs.
run srun -n4 --megatron-tp=2 "$python" "$script" --tensor-model-parallel-size 4
like "$status:$err" "^1:srun: error: megatron: --tensor-model-parallel-size 4 contradicts the job's tp 2" \
    "another size on its line"
done_testing

#!/bin/bash
# GPUs against tasks: lines of sbatch, salloc and srun whose GPUs suffice or do not, what is
# worth a warning, the site's rules, and what only a step knows.  The GPUs are pretended.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
[ -f "$plugin" ] || skip_all "the plugin is not part of this build"
slurm_start 2 16 -g 4

# VERDICT COMMAND[,COMMAND]... [VARIABLE=VALUE]... ARGUMENT... | TEXT
#
# bad: refused with TEXT in its one line, and nothing is queued; warn: TEXT is in the one line of
# a warning; good: nothing is said.  What Slurm itself thinks of a good line does not matter.
# VERDICT/KEY=VALUE[/...]: with these keys in plugstack.conf.
cat >lines <<'EOL'
# no GPUs: as ever
good sbatch,salloc,srun -n4
good sbatch,salloc,srun -N2 --ntasks-per-node=4
good sbatch,srun -n4 --gres=none
good sbatch,srun -n4 --gpus=0
good srun -n4 --gres=license:2
good srun -n4 --exclusive
# --gpus
good sbatch,salloc,srun -n4 --gpus=4
good srun -n4 --gpus=a100:2,h100:2
bad sbatch,salloc,srun -n4 --gpus=2 | 4 tasks need 4 GPUs, but --gpus=2 gives 2; use --gpus=4 or -n 2
bad sbatch -n4 --gpus=a100:1,h100:2 | but --gpus=a100:1,h100:2 gives 3; use --gpus=4 or -n 3
bad srun -N2 --ntasks-per-node=4 --gpus=4 | 8 tasks need 8 GPUs, but --gpus=4 gives 4
bad sbatch,salloc -n4 --gpus=2 | use --gpus=4 or -n 2 (whole nodes: --exclusive; fewer GPUs: tasks_per_gpu= or gpus=off in plugstack.conf)
bad srun -n4 --gpus=2 | use --gpus=4 or -n 2 (fewer GPUs: tasks_per_gpu= or gpus=off in plugstack.conf)
good sbatch --array=0-3 -n4 --gpus=4
bad sbatch --array=0-3 -n4 --gpus=2 | 4 tasks need 4 GPUs
good srun -n4 --gpus=4 --overlap
good srun -n4 --gpus=4 --exact
bad srun -n4 --gpus=2 --exact | 4 tasks need 4 GPUs
good srun -n2 --gpus=2 : -n2 --gres=gpu:2
good srun -n2 --gpus=2 : -n2
bad srun -n4 --gpus=2 : -n2 --gpus=2 | 4 tasks need 4 GPUs
bad srun -n2 --gpus=2 : -n4 --gpus=2 | 4 tasks need 4 GPUs
warn sbatch,salloc,srun -n2 --gpus=4 | 2 tasks use 2 of the 4 GPUs of --gpus=4
good srun -n4 --gpus=1k:x
good sbatch -n4 --gpus=99999999999999999999
# --gpus-per-node
good sbatch,salloc,srun -N2 --ntasks-per-node=4 --gpus-per-node=4
bad sbatch,salloc,srun -N2 --ntasks-per-node=4 --gpus-per-node=2 | 4 tasks of a node need 4 GPUs, but --gpus-per-node=2 gives 2; use --gpus-per-node=4 or --ntasks-per-node=2
bad srun -N2 --ntasks-per-node=4 --gpus-per-node=a100:3 | --gpus-per-node=a100:3 gives 3
bad sbatch,srun -N2 -n8 --gpus-per-node=3 | 8 tasks need 8 GPUs, but --gpus-per-node=3 gives 2 nodes 6; use --gpus-per-node=4 or -n 6
bad sbatch,salloc,srun -N1 -n4 --gpus-per-node=2 | gives 1 node 2; use --gpus-per-node=4 or -n 2
good sbatch -n8 --gpus-per-node=2
good sbatch -N2-4 -n8 --gpus-per-node=2
bad sbatch -N1-2 -n8 --gpus-per-node=2 | gives 2 nodes 4
warn srun -N2 --ntasks-per-node=2 --gpus-per-node=4 | 2 tasks of a node use 2 of its 4 GPUs of --gpus-per-node=4
# --gres
good sbatch,salloc,srun -N2 --ntasks-per-node=4 --gres=gpu:4
bad srun -N2 --ntasks-per-node=4 --gres=gpu:2 | but --gres=gpu:2 gives 2; use --gpus-per-node=4 or --ntasks-per-node=2
bad srun -N2 --ntasks-per-node=2 --gres=gpu | 2 tasks of a node need 2 GPUs, but --gres=gpu gives 1
bad srun -N1 -n4 --gres=license:9,gpu:tesla:3 | but --gres=license:9,gpu:tesla:3 gives 1 node 3
good sbatch -N1 -n4 --gres=gpu:tesla:2,gpu:kepler:2
warn srun -N2 --ntasks-per-node=1 --gres=gpu:2 | 1 task of a node uses 1 of its 2 GPUs of --gres=gpu:2
# the job's --gres is less than what a partition of whole nodes gives, and steps may ask for the rest
warn sbatch,salloc -N2 --ntasks-per-node=4 --gres=gpu:2 | but --gres=gpu:2 gives 2; use --gpus-per-node=4 or --ntasks-per-node=2; an srun gets more of a whole node by options of its own
warn sbatch,salloc -N1 -n4 --gres=gpu:1 | but --gres=gpu:1 gives 1 node 1
# --exclusive does the same, unless nodes are only kept for one user
warn sbatch,salloc --exclusive -N1 --ntasks-per-node=8 --gres=gpu:1 | but --gres=gpu:1 gives 1; use
warn sbatch,salloc --exclusive -N1 --ntasks-per-node=8 --gpus-per-node=1 | but --gpus-per-node=1 gives 1; use
warn sbatch,salloc --exclusive -N1 -n4 --gpus=1 | but --gpus=1 gives 1; use
warn sbatch SBATCH_EXCLUSIVE=exclusive -N1 -n4 --gpus=1 | but --gpus=1 gives 1; use
bad sbatch,salloc --exclusive=user -N1 -n4 --gpus=1 | 4 tasks need 4 GPUs, but --gpus=1 gives 1
bad sbatch --exclusive=mcs -N1 -n4 --gpus-per-node=1 | 4 tasks need 4 GPUs, but --gpus-per-node=1 gives 1
bad sbatch --oversubscribe -N1 -n4 --gpus=1 | 4 tasks need 4 GPUs
bad srun --exclusive -N1 -n4 --gres=gpu:1 | but --gres=gpu:1 gives 1 node 1
# several numbers: Slurm joins them by rules of its own
good sbatch,salloc,srun -N1 -n4 --gpus-per-node=tesla:2 --gres=gpu:kepler:2
good sbatch,salloc,srun -N1 -n4 --gpus-per-node=1 --gres=gpu:4
good sbatch,srun -N1 -n4 --gpus=tesla:2 --gpus-per-node=kepler:2
good sbatch,srun -N1 -n4 --gres=gpu:tesla:2,gpu:kepler:2 --gpus=4
# numbers from variables
bad sbatch SBATCH_GPUS=2 -n4 | 4 tasks need 4 GPUs, but --gpus=2 gives 2
bad salloc SALLOC_GPUS_PER_NODE=2 -N1 -n4 | --gpus-per-node=2 gives 1 node 2
bad srun SLURM_GPUS=2 -n4 | 4 tasks need 4 GPUs, but --gpus=2 gives 2
bad srun SLURM_GRES=gpu:2 -N1 -n4 | --gres=gpu:2 gives 1 node 2
warn sbatch SBATCH_GRES=gpu:2 -N1 -n4 | --gres=gpu:2 gives 1 node 2
warn salloc SALLOC_GRES=gpu:2 -N1 -n4 | --gres=gpu:2 gives 1 node 2
good srun SLURM_GPUS=2 -n4 --gpus=4
good srun SLURM_GPUS_PER_NODE=1 -N1 -n4 --gres=gpu:4
good sbatch SBATCH_GPUS_PER_NODE=1 -N1 -n4 --gres=gpu:4
# --gpus-per-socket: a node may give more sockets than --sockets-per-node
good sbatch,srun -N1 -n4 --gpus-per-socket=1 --sockets-per-node=2
good sbatch,srun -N1 -n4 --gpus-per-socket=2 --sockets-per-node=2
good sbatch,srun -N1 -n4 --gpus-per-socket=1
# --gpus-per-task
warn sbatch,salloc,srun -n4 --gpus-per-task=1 | --gpus-per-task=1 hides the GPUs of other tasks, so older releases of NCCL send through the host's memory; --gpu-bind=none shows all
warn sbatch,salloc,srun -n4 --gpus-per-task=tesla:1 | --gpus-per-task=tesla:1 hides
good sbatch,salloc,srun -n4 --gpus-per-task=1 --gpu-bind=none
good srun -N2 -n2 --gpus-per-task=1
good srun -N2 --ntasks-per-node=1 --gpus-per-task=1
good srun -n1 --gpus-per-task=1
warn sbatch,salloc,srun -n2 --gpus-per-task=2 --gpu-bind=none | a task uses one of the 2 GPUs of --gpus-per-task=2
# --ntasks-per-gpu
warn srun --gpus=4 --ntasks-per-gpu=1 | --ntasks-per-gpu=1 hides the GPUs of other tasks
good srun --gpus=4 --ntasks-per-gpu=1 --gpu-bind=none
good srun --gpus=1 --ntasks-per-gpu=1
bad sbatch,salloc,srun --gpus=4 --ntasks-per-gpu=2 | --ntasks-per-gpu=2 puts 2 tasks on a GPU; at most 1 is allowed here
bad sbatch,srun -n4 --ntasks-per-gpu=4 | --ntasks-per-gpu=4 puts 4 tasks on a GPU
# --gpu-bind
good srun -n4 --gpus=4 --gpu-bind=none
good srun -N2 --ntasks-per-node=1 --gpus-per-node=1 --gpu-bind=single:1
good srun -n4 --gpu-bind=closest
warn sbatch,salloc,srun -n4 --gpus=4 --gpu-bind=single:1 | --gpu-bind=single:1 hides the GPUs of other tasks, so older releases of NCCL send through the host's memory; --gpu-bind=none shows all
warn srun -n4 --gpus=4 --gpu-bind=per_task:1 | --gpu-bind=per_task:1 hides
warn srun -n4 --gpus=4 --gpu-bind=closest | --gpu-bind=closest hides
warn srun -n4 --gpus=4 --gpu-bind=verbose,closest | --gpu-bind=verbose,closest hides
warn srun -N1 -n4 --gpus=4 --gpu-bind=map_gpu:0,1,2,3 | hides the GPUs
warn srun -N1 -n2 --gpus=2 --gpu-bind=mask_gpu:0x1,0x2 | hides the GPUs
good srun -N1 -n2 --gpus=2 --gpu-bind=mask_gpu:0x3
warn srun -N1 -n4 --gpus=4 --gpu-bind=single:2 | --gpu-bind=single:2 may put 2 tasks on a GPU, and hides the GPUs of other tasks
warn sbatch,salloc -N1 -n4 --gpus=4 --gpu-bind=single:2 | --gpu-bind=single:2 may put 2 tasks on a GPU
bad srun -N1 -n4 --gpus=4 --gpu-bind=map_gpu:0,1 | --gpu-bind=map_gpu:0,1 puts 2 tasks on a GPU
bad srun -N1 -n2 --gpus=2 --gpu-bind=mask_gpu:0x2*2 | --gpu-bind=mask_gpu:0x2*2 puts 2 tasks on a GPU
# shares and instances of GPUs
warn sbatch,srun -N1 -n2 --gres=mps:50 | mps is a share of a GPU: NCCL refuses two ranks on one GPU
warn sbatch,srun -n2 --gres=mps:50 | mps is a share of a GPU: NCCL refuses two ranks on one GPU
good srun -N2 --ntasks-per-node=1 --gres=mps:50
warn srun -N1 -n2 --gres=shard:2 | shard is a share of a GPU
warn sbatch,srun -N1 -n2 --gres=gpu:1g.10gb:2 | 1g.10gb is an instance of a GPU: instances have no P2P
warn srun -n2 --gpus=a100_3g.20gb:2 | a100_3g.20gb is an instance
bad srun -N1 -n2 --gres=gpu:1g.10gb | --gres=gpu:1g.10gb gives 1 node 1
good srun -n1 --gpus=1g.10gb:1
# the site's rule
bad/gpus=required sbatch,salloc,srun -n4 | this site wants a GPU for every task; use --gpus or --gpus-per-node
bad/gpus=required sbatch,srun -n4 --gres=none | this site wants a GPU
good/gpus=required sbatch,salloc,srun -n4 --gpus=4
good/gpus=required sbatch,salloc -n4 --exclusive
bad/gpus=required sbatch,salloc -n4 --exclusive=user | this site wants a GPU
bad/gpus=required sbatch -n4 --exclusive=mcs | this site wants a GPU
bad/gpus=required sbatch -n4 --gpus=2 | 4 tasks need 4 GPUs
good/gpus=off sbatch,srun -n4 --gpus=2
good/gpus=off srun -N1 -n4 --gpus=4 --gpu-bind=single:2
good/tasks_per_gpu=2 sbatch,srun -n4 --gpus=2
good/tasks_per_gpu=2 srun --gpus=4 --ntasks-per-gpu=2 --gpu-bind=none
bad/tasks_per_gpu=2 srun -n5 --gpus=2 --megatron-tp=1 | 5 tasks need 3 GPUs (this site allows 2 tasks a GPU), but --gpus=2 gives 2; use --gpus=3 or -n 4
bad/tasks_per_gpu=2 srun --gpus=1 --ntasks-per-gpu=3 | --ntasks-per-gpu=3 puts 3 tasks on a GPU; at most 2 are allowed here
good/tasks_per_gpu=2 srun -n2 --gres=mps:50
# NVLink domains: groups of 4
warn/nvlink_domain=2 sbatch,salloc -N1 --ntasks-per-node=4 --gpus-per-node=4 --megatron-tp=4 | 1 of 1 tensor-parallel groups leave the NVLink domains of 2 GPUs, the first (ranks 0-3)
good/nvlink_domain=4 sbatch,srun -N1 --ntasks-per-node=4 --gpus-per-node=4 --megatron-tp=4
good/nvlink_domain=2 sbatch,srun -N1 --ntasks-per-node=4 --megatron-tp=4
good/nvlink_domain=2/placement=allow sbatch -N1 --ntasks-per-node=4 --gpus-per-node=4 --megatron-tp=4
good/nvlink_domain=8 sbatch -N2 --ntasks-per-node=4 --gpus-per-node=4 --megatron-tp=8
warn/nvlink_domain=4 sbatch -N2 --ntasks-per-node=4 --gpus-per-node=4 --megatron-tp=8 | lie on several nodes
warn/nvlink_domain=4 sbatch -N4 --ntasks-per-node=2 --gpus-per-node=2 --megatron-tp=8 | leave the NVLink domains of 4 GPUs, the first (ranks 0-7)
EOL

# The options of later releases.
if srun --help | grep -q -e --tres-per-task; then
    cat >>lines <<'EOL'
warn sbatch,srun -n4 --tres-per-task=gres/gpu:1 | --tres-per-task=gres/gpu:1 hides the GPUs of other tasks
warn sbatch,srun -n4 --tres-per-task=gres/gpu=1 | --tres-per-task=gres/gpu=1 hides the GPUs of other tasks
good srun -n4 --tres-per-task=cpu=1
good srun -n4 --gpus-per-task=1 --tres-bind=gres/gpu:none
warn srun -n2 --tres-per-task=gres/gpu=2 --gpu-bind=none | a task uses one of the 2 GPUs of --tres-per-task=gres/gpu=2
EOL
fi

plugstack() {
    echo "optional $plugin master_addr=127.0.0.1 $*" >"$SLURM_DIR/plugstack.conf"
}

# judge VERDICT COMMAND TEXT ARGUMENT...
judge() {
    local verdict=$1 command=$2 text=$3 keys= said line
    local -a vars=()
    shift 3
    case $verdict in */*) keys=${verdict#*/} verdict=${verdict%%/*} ;; esac
    [ "$keys" = "$last_keys" ] || plugstack "${keys//\// }"
    last_keys=$keys
    line="$command $*${keys:+, $keys}"
    while [[ $1 == S*=* ]]; do
        vars+=("$1")
        shift
    done
    case $command in
        sbatch) run env "${vars[@]}" sbatch -H --megatron-tp=1 "$@" --wrap true ;;
        salloc) run env "${vars[@]}" salloc -I1 --megatron-tp=1 "$@" true ;;
        srun) run env "${vars[@]}" srun --test-only --megatron-tp=1 "$@" true ;;
    esac
    said=$(grep megatron: <<<"$err")
    case $verdict in
        good) is "$said" "" "good: $line" ;;
        warn)
            ok "[[ \$said == '$command: megatron: warning: '* ]]" "warned: $line" || diag "$said"
            is "$(wc -l <<<"$said"):$(grep -cF -- "$text" <<<"$said")" 1:1 "in one line: $text" \
                || diag "$said" ;;
        bad)
            ok "[ $status = 1 ] && [[ \$err == '$command: error: megatron: '* ]]" "refused: $line"
            is "$(wc -l <<<"$err"):$(grep -cF -- "$text" <<<"$err")" 1:1 "in one line: $text" \
                || diag "$err" ;;
        *) bail_out "verdict $verdict" ;;
    esac
}

last_keys=
number=0
while IFS= read -r -u 3 line; do
    [[ $line != '#'* ]] || continue
    text=
    [[ $line != *' | '* ]] || text=${line#* | }
    read -r -a words <<<"${line%% | *}"
    for command in ${words[1]//,/ }; do
        judge "${words[0]}" "$command" "$text" "${words[@]:2}"
        number=$((number + 1))
    done
done 3<lines
diag "$number lines"
scancel -u "$(id -un)" 2>/dev/null
slurm_settle

# ---- what only the step knows ----------------------------------------------------------

plugstack
# shellcheck disable=SC2016 # the tasks' shell expands
say='echo "$MEGATRON_WORLD_SIZE $CUDA_VISIBLE_DEVICES ${SLURM_SPANK_MEGATRON_STRICT-none}"'
run srun --mpi=none -n4 --gpus-per-node=2 --megatron-tp=2 sh -c "$say"
like "$status:$out" '^1:$' "more tasks than the controller gave GPUs: no program runs"
like "$err" 'error: megatron: 4 tasks on node 0 of the step have 2 GPUs; at most 1 task a GPU is allowed here' \
    "and the node says why"
slurm_settle
run srun -Q --mpi=none -n2 --gpus=2 --megatron-tp=2 sh -c "$say"
is "$status:$out:$err" "0:2 0,1 none"$'\n'"2 0,1 none:" "enough GPUs: the tasks get what Slurm set, and no mark of ours"
slurm_settle
run srun -Q --mpi=none -n2 --megatron-tp=2 sh -c "$say"
is "$status:$out:$err" "0:2  none"$'\n'"2  none:" "no GPUs: as ever"
slurm_settle
run salloc -Q -N1 -n2 --gpus=2 --megatron-tp=2 srun -Q --mpi=none -n4 --overcommit sh -c "$say"
is "$status:$(sort -u <<<"$out")" "0:4 0,1 none" "inherited options: a step of more tasks runs"
like "$err" '^[^'$'\n'']*megatron: warning: 4 tasks on node 0 of the step have 2 GPUs;[^'$'\n'']*$' "with one warning"
slurm_settle
run salloc -Q -N1 -n4 --gpus=4 --gpu-bind=none --megatron-tp=2 srun --mpi=none -n2 --megatron-tp=2 sh -c "$say"
is "$status:$err" "0:" "a step of fewer tasks than the job has GPUs: no warning"
slurm_settle
run salloc -Q -N1 -n4 --gpus=2 srun -Q --mpi=none -n4 --gres=none --megatron-tp=2 sh -c "$say"
is "$status:$(sort -u <<<"$out"):$err" "0:4  none:" "a step without the GPUs of its job"
slurm_settle
plugstack tasks_per_gpu=2
run srun -Q --mpi=none -n4 --gpus-per-node=2 --megatron-tp=2 sh -c "$say"
is "$status:$(sort -u <<<"$out"):$err" "0:4 0,1 none:" "a site that allows two tasks a GPU"
slurm_settle
plugstack gpus=required
run srun -Q --mpi=none -n2 --exclusive --megatron-tp=2 sh -c "$say"
like "$status:$out:$err" '^1::.*error: megatron: the step has no GPUs on its node 0, and this site wants one for every task' \
    "a site that wants GPUs: a step without them"
slurm_settle
run srun -Q --mpi=none -n2 sh -c "$say"
is "$status:$out:$err" "0:  none"$'\n'"  none:" "which does not concern jobs without megatron's options"
slurm_settle

# ---- steps of a job: the job's own options are among theirs ------------------------------

# step JOB STEP: an srun of four tasks, of which only the sizes of the step are typed.
step() {
    # shellcheck disable=SC2086 # options
    run salloc -Q -N1 -n4 $1 srun -Q --mpi=none -n4 --megatron-tp=1 $2 sh -c 'echo "$SLURM_GPUS_ON_NODE"'
    slurm_settle
}

plugstack
for job in '--exclusive --gres=gpu:1' '--exclusive --gpus=1' '--exclusive --gpus-per-node=1' \
    '--exclusive'; do
    step "$job" --gres=gpu:4
    is "$status:$(sort -u <<<"$out"):$err" "0:4:" "salloc $job: a step asks for the rest of the node"
done
# A partition of whole nodes does what --exclusive does, but a command does not know it.
partition=$(sinfo -h -o %R)
ok "scontrol update PartitionName=$partition OverSubscribe=EXCLUSIVE" "a partition of whole nodes"
step --gpus=1 --gres=gpu:4
is "$status:$(sort -u <<<"$out"):$err" "0:4:" "without --exclusive, a step gets the rest of the node"
run salloc -Q -N1 -n4 --gpus=1 --megatron-tp=1 true
like "$status:$err" '^1:.* \(whole nodes: --exclusive; ' "with sizes, the job's line is refused and names --exclusive"
run salloc -N1 -n4 --exclusive --gpus=1 --megatron-tp=1 srun -Q --mpi=none -n4 --gres=gpu:4 \
    sh -c 'echo "$SLURM_GPUS_ON_NODE"'
is "$status:$(sort -u <<<"$out")" 0:4 "with --exclusive, the same job runs"
like "$err" 'megatron: warning: .*--gpus=1 gives 1' "with a warning"
slurm_settle
ok "scontrol update PartitionName=$partition OverSubscribe=YES" "the partition as it was"
# up to 22.05 the job's number for a node holds, later the step's --gpus
step --gpus-per-node=4 --gpus=2
like "$status:$(sort -u <<<"$out"):$err" '^(0:4:$|1::.* (4 tasks need 4 GPUs, but --gpus=2 gives 2|4 tasks on node 0 of the step have 2 GPUs);)' \
    "the number of the job, and another one of the step"
step --gpus-per-task=1 --gpus=2
is "$status:$(sort -u <<<"$out"):$err" "0:4:" "the job's number for a task holds, not the step's --gpus"
step '--gpus-per-socket=1 --sockets-per-node=2' ''
is "$status:$(sort -u <<<"$out"):$err" "0:4:" "more sockets than --sockets-per-node give more GPUs"
step --gres=gpu:4 --gpus=2
like "$status:$out:$err" '^1::srun: error: megatron: 4 tasks need 4 GPUs, but --gpus=2 gives 2;' \
    "a step that asks for too few of its job's GPUs"
step --gpus=4 --gres=gpu:2
like "$status:$out:$err" '^1::.*error: megatron: 4 tasks on node 0 of the step have 2 GPUs;' \
    "two numbers, of which the lesser holds: the node refuses"

# The GPUs are not shared here: a variable stands for what Slurm sets where they are.
for var in CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50 SLURM_SHARDS_ON_NODE=4; do
    run env "$var" salloc -Q -N1 -n2 --gres=gpu:1 srun -Q --mpi=none -n2 --megatron-tp=1 sh -c 'echo "$SLURM_GPUS_ON_NODE"'
    is "$status:$(sort -u <<<"$out")" 0:1 "$var: shares of one GPU are not refused on the node"
    like "$err" '^[^'$'\n'']*megatron: warning: 2 tasks on node 0 of the step share 1 GPU: [^'$'\n'']*$' \
        "$var: one line warns"
    slurm_settle
done

# A program that says that it uses no GPU.
for device in '--device cpu' --device=cpu; do
    # shellcheck disable=SC2086 # words
    run srun -Q --mpi=none -N1 -n4 --gres=gpu:1 --megatron-tp=2 sh -c 'echo "$MEGATRON_WORLD_SIZE"' $device
    is "$status:$(sort -u <<<"$out"):$err" 0:4: "a program with $device needs no GPU for each task"
    slurm_settle
done
run env MEGATRON_TP=2 srun -Q --mpi=none -N1 -n4 --gres=gpu:1 sh -c 'echo "$MEGATRON_WORLD_SIZE"'
is "$status:$(sort -u <<<"$out")" 0:4 "sizes from variables: a step with fewer GPUs than tasks runs"
like "$err" '^[^'$'\n'']*megatron: warning: 4 tasks on node 0 of the step have 1 GPU;[^'$'\n'']*$' "and its node warns"
slurm_settle
run srun -Q --mpi=none -N1 -n4 --gres=gpu:1 --megatron-tp=2 true --device cuda
like "$status:$err" '^1:srun: error: megatron: 4 tasks need 4 GPUs' "with --device cuda it does"

plugstack nvlink_domain=2
cat >script <<'EOL'
#!/bin/sh
srun --mpi=none --gres=none --megatron-tp=4 true
echo "status $?"
EOL
run sbatch -Q --wait -N1 -n4 --gpus=4 -o batch.out script
is "$status:$(<batch.out)" "0:status 0" "a step without the GPUs of its job leaves no NVLink domain"
slurm_settle
run srun --mpi=none -N1 -n4 --gpus=4 --megatron-tp=4 true
like "$status:$err" '^0:srun: megatron: warning: 1 of 1 tensor-parallel groups leave the NVLink domains of 2 GPUs, the first \(ranks 0-3\)$' \
    "an NVLink domain is left: srun warns once"
done_testing

#!/bin/bash
# The number of tasks: what the plugin makes of a line of sbatch, salloc or srun before
# anything is queued, for every option and variable of Slurm from which a number of tasks
# may follow.  A number that is known must be the one that the job then has, and a number
# that only the controller knows must not be guessed.
#
# The table below holds for every release of Slurm; a line that releases treat differently
# names them.  With MG_LONG each line with a known number is also run, and its tasks are
# counted.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

[ -f "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not part of this build"
slurm_start 4 8 -g 4 --plugin-args gpus=off # GPUs against tasks: t1107
for node in 0 1; do
    scontrol update NodeName=n$node AvailableFeatures=f$node ActiveFeatures=f$node
done
printf 'n1\nn1\nn2\n' >hosts
release=$(srun -V | sed -E 's/^[^0-9]*([0-9]+\.[0-9]+).*/\1/')
like "$release" '^[2-9][0-9]\.[0-9][0-9]$' "Slurm $release"

# VERDICT [until=RELEASE|since=RELEASE] COMMAND[,COMMAND]... ARGUMENT...
#
# VERDICT N: the plugin knows that there are N tasks, and refuses a geometry that does not
# fit; ?: it cannot know and accepts; slurm: Slurm itself refuses the line, the plugin says
# nothing; crosses, whole: a tensor-parallel group of 4 crosses nodes, or is not known to.
# COMMAND: script is sbatch with the arguments in #SBATCH lines, inside is an srun in a job
# of "-N2 --ntasks-per-node=4".  Words NAME=VALUE before the command are its environment.
cat >lines <<'EOL'
# --ntasks
8 sbatch,script,salloc,srun -n8
8 sbatch,salloc,srun -N2 -n8
2 sbatch,srun -N4 -n2
20 sbatch,srun -O -N2 -n20
8 sbatch,salloc,srun -n8 --exclusive
6 sbatch,srun -w n1,n3 -n6
# --nodes alone: one task a node, or more, as the controller finds CPUs
? sbatch,salloc,srun -N2
? sbatch,srun -N2-4
? sbatch,srun -N2 --exclusive
? sbatch,srun -w n1,n3
? sbatch,script,salloc,srun -c2
# --ntasks-per-node
8 sbatch,script,salloc,srun -N2 --ntasks-per-node=4
8 sbatch,salloc,srun -N2-2 --ntasks-per-node=4
8 sbatch,salloc,srun -N2 --tasks-per-node=4
4 sbatch,salloc,srun --ntasks-per-node=4
4 sbatch,salloc,srun -N1 --ntasks-per-node=4
8 sbatch,salloc,srun --exclusive -N2 --ntasks-per-node=4
4 sbatch,salloc --exclusive --ntasks-per-node=4
4 sbatch,salloc,srun -N2 -c4 --ntasks-per-node=2
8 srun -N2 --ntasks-per-node=4 -m plane=2
8 until=22.05 sbatch,salloc -N2 --ntasks-per-node=4 -m plane=2
slurm since=23.02 sbatch,salloc -N2 --ntasks-per-node=4 -m plane=2
8 sbatch,salloc,srun -N2 -n8 --ntasks-per-node=4 -m plane=2
8 sbatch,salloc,srun -N2 --ntasks-per-node=4 --ntasks-per-core=1
2 sbatch,salloc,srun -N2 --ntasks-per-node=1 --ntasks-per-socket=1
4 sbatch,salloc,srun -N2 --ntasks-per-node=2 --hint=nomultithread
4 sbatch --array=1 -N2 --ntasks-per-node=2
slurm sbatch,salloc,srun -N2 --ntasks-per-node=0
# --ntasks-per-node with a range of nodes
? sbatch,script,salloc,srun -N2-4 --ntasks-per-node=4
? sbatch -N2-4 --ntasks-per-node=1
2 until=22.05 salloc -N2-4 --ntasks-per-node=1
? since=23.02 salloc,srun -N2-4 --ntasks-per-node=1
? sbatch -N2-4 --ntasks-per-node=2 --gpus=8
# --ntasks-per-node with --nodelist, which may name fewer or more nodes than --nodes
6 sbatch,script,salloc,srun -w n1,n3 --ntasks-per-node=3
6 sbatch,salloc,srun -w n[1-2] --ntasks-per-node=3
6 sbatch,salloc,srun -N2 -w n1,n3 --ntasks-per-node=3
9 sbatch,salloc,srun -N3 -w n1,n3 --ntasks-per-node=3
slurm until=22.05 sbatch,salloc -N1 -w n1,n3 --ntasks-per-node=3
3 since=23.02 sbatch,salloc -N1 -w n1,n3 --ntasks-per-node=3
3 srun -N1 -w n1,n3 --ntasks-per-node=3
9 until=22.05 sbatch,salloc,srun -N2-3 -w n0,n1,n2 --ntasks-per-node=3
? since=23.02 sbatch,salloc,srun -N2-3 -w n0,n1,n2 --ntasks-per-node=3
# --ntasks-per-node with --ntasks: an upper bound
8 sbatch,salloc,srun -N2 -n8 --ntasks-per-node=4
6 sbatch,srun -N2 -n6 --ntasks-per-node=4
8 sbatch,srun -n8 --ntasks-per-node=4
6 sbatch,srun -w n1,n3 -n6 --ntasks-per-node=3
? until=23.11 salloc -N2 -n6 --ntasks-per-node=4
6 since=24.05 salloc -N2 -n6 --ntasks-per-node=4
? until=23.11 salloc -n8 --ntasks-per-node=4
8 since=24.05 salloc -n8 --ntasks-per-node=4
# bounds that alone give no number
? sbatch,srun -N2 --ntasks-per-core=1
? sbatch,srun -N2 --ntasks-per-socket=1
4 sbatch,salloc,srun -n4 --ntasks-per-core=1
? sbatch -N2 --threads-per-core=1
# GPUs
? sbatch,salloc,srun --gpus=4 --ntasks-per-gpu=2
? sbatch,salloc,srun -N2 --gpus-per-node=2 --ntasks-per-gpu=2
4 sbatch,salloc,srun -n4 --ntasks-per-gpu=2
? sbatch,salloc,srun -n8 --gpus=2 --ntasks-per-gpu=2
? sbatch,salloc -n8 --gres=gpu:4 --ntasks-per-gpu=1
slurm sbatch,salloc,srun -N2 --ntasks-per-node=4 --ntasks-per-gpu=2
slurm sbatch,salloc,srun -N2 --ntasks-per-node=4 --gpus-per-node=2 --ntasks-per-gpu=2
? sbatch,salloc,srun --ntasks-per-node=4 --gpus=8
4 sbatch,salloc,srun --ntasks-per-node=4 --gpus-per-node=4
4 sbatch,salloc,srun --ntasks-per-node=4 --gres=gpu:4
8 sbatch,salloc,srun -N2 --ntasks-per-node=4 --gpus=8
8 sbatch,salloc,srun -N2 --ntasks-per-node=4 --gpus-per-task=1
? sbatch,salloc -w n1,n3 --ntasks-per-node=4 --gpus=12
# other options by which a job gets more nodes
? sbatch,salloc,srun --spread-job --ntasks-per-node=2
? sbatch -C [f0*1&f1*1] --ntasks-per-node=2
4 sbatch -N2 -C [f0*1&f1*1] --ntasks-per-node=2
# nodes named task by task
3 srun -m arbitrary -w n1,n1,n3
? sbatch -m arbitrary -w n1,n1,n3
3 SLURM_HOSTFILE=hosts srun
3 SLURM_HOSTFILE=hosts sbatch -n3
? SLURM_HOSTFILE=hosts sbatch
# the environment
6 SLURM_NTASKS=6 srun
6 SLURM_NPROCS=6 srun
6 SLURM_NTASKS_PER_NODE=3 srun -N2
6 SLURM_JOB_NUM_NODES=2 srun --ntasks-per-node=3
4 SLURM_NTASKS=6 srun -n4
? SLURM_NTASKS=6 sbatch,salloc -N2
? SLURM_NTASKS_PER_NODE=3 sbatch,salloc -N2
4 SLURM_NTASKS_PER_NODE=3 sbatch,salloc --ntasks-per-node=4
? SBATCH_GPUS=8 sbatch --ntasks-per-node=4
? SALLOC_GPUS=8 salloc --ntasks-per-node=4
8 SBATCH_GPUS=8 sbatch -N2 --ntasks-per-node=4
? SBATCH_SPREAD_JOB=1 sbatch --ntasks-per-node=2
4 SBATCH_DISTRIBUTION=cyclic sbatch -N2 --ntasks-per-node=2
# what an srun inherits from its job
8 inside
4 inside -n4
8 inside -N2
2 inside -N1 -n2
8 until=22.05 inside -N1
4 since=23.02 inside -N1
8 until=22.05 inside -N1 --ntasks-per-node=2
2 since=23.02 inside -N1 --ntasks-per-node=2
8 inside --ntasks-per-node=2
8 inside -w n1
# heterogeneous jobs: one component is not the whole
? sbatch -n1 : -n2
? sbatch,salloc -N1 --ntasks-per-node=2 : -N2 --ntasks-per-node=1
# placement
crosses sbatch,script,salloc,srun -N2 --ntasks-per-node=6
crosses sbatch,salloc,srun -w n1,n3 --ntasks-per-node=6
crosses sbatch,salloc,srun -N2 -n12 --ntasks-per-node=6
crosses sbatch,salloc,srun -N2 --ntasks-per-node=6 -m cyclic
crosses SBATCH_GPUS=4 sbatch -N2 --ntasks-per-node=6
whole sbatch,script,salloc,srun -N2 --ntasks-per-node=4
whole sbatch,salloc,srun --ntasks-per-node=8
whole sbatch,salloc,srun -w n1,n3 --ntasks-per-node=4
whole sbatch,srun -N2 -n12
whole sbatch,srun -n12 --ntasks-per-node=6
whole sbatch,salloc -N2-3 --ntasks-per-node=6
whole sbatch,srun -w n1,n3 -n12 --ntasks-per-node=6
EOL

# submit COMMAND OPTIONS ENV... -- ARGUMENT...: run the line so far that the plugin has its
# say, and starts nothing that it need not.  Leaves $status, $out and $err.
submit() {
    local command=$1 options=$2
    local -a env=()
    shift 2
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    # shellcheck disable=SC2086 # several options
    case $command in
        sbatch) run env "${env[@]}" sbatch -Q -H $options "$@" --wrap true ;;
        salloc) run env "${env[@]}" salloc -Q $options "$@" true ;;
        srun) run env "${env[@]}" srun --test-only $options "$@" true ;;
        inside)
            run salloc -Q -N2 --ntasks-per-node=4 srun --test-only $options "$@" true ;;
        script)
            printf '#!/bin/bash\n#SBATCH %s\n#SBATCH -Q -H %s\n' "$*" "$options" >job
            run env "${env[@]}" sbatch job ;;
    esac
}

# count COMMAND ENV... -- ARGUMENT...: set $out to the number of tasks that the line has.
count() {
    # shellcheck disable=SC2016 # the tasks' shell expands
    local command=$1 number='echo $SLURM_NTASKS'
    local -a env=()
    shift
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    case $command in
        sbatch|script)
            run env "${env[@]}" sbatch -Q -W -o job.out "$@" --wrap "srun -Q sh -c '$number'"
            out=$(cat job.out) ;;
        salloc) run env "${env[@]}" salloc -Q "$@" srun -Q sh -c "$number" ;;
        srun) run env "${env[@]}" srun -Q "$@" sh -c "$number" ;;
        inside)
            run salloc -Q -N2 --ntasks-per-node=4 srun -Q --overcommit "$@" sh -c "$number" ;;
    esac
    out=$(grep -x '[0-9]*' <<<"$out" | sort | uniq -c | tr -s ' ')
}

# judge VERDICT COMMAND ENV... -- ARGUMENT...
judge() {
    local verdict=$1 command=$2 name=$2 options=--megatron-tp=7919 said text="${*:2}"
    text=${text/ -- / }
    shift 2
    case $name in
        script) name=sbatch ;;
        inside) name=srun ;;
    esac
    case $verdict in
        crosses|whole) options='--megatron-tp=4 --megatron-placement=refuse' ;;
    esac
    submit "$command" "$options" "$@"
    # Slurm may have a line of its own
    said=$(grep megatron: <<<"$err")
    case $verdict in
        [1-9]*)
            is "$status:$said" "1:$name: error: megatron: $verdict task$([ "$verdict" = 1 ] || echo s) \
cannot hold tp 7919 x cp 1 x pp 1 = 7919; use -n 7919" "$verdict tasks: $text" ;;
        '?'|whole) is "$status:$said" "0:" "accepted: $text" || diag "$err" ;;
        slurm) ok "[ $status != 0 ] && [ -z '$said' ]" "refused by Slurm: $text" ;;
        crosses)
            like "$status:$said" "^1:$name: error: megatron: 1 of 3 tensor-parallel groups lie on several \
nodes, the first \(ranks 4-7\) on nodes 0 and 1 of the step; use [^"$'\n'"]*$" "crosses nodes: $text" ;;
        *) bail_out "verdict $verdict" ;;
    esac
    if long && [[ $verdict == [1-9]* ]]; then
        wait_until '[ -z "$(squeue -h -t R,CG -o %A)" ]'
        count "$command" "$@"
        is "$out" " $verdict $verdict" "and so many run: $text"
    fi
}

# The release is that of the line, if it names one.
applies() {
    case $1 in
        until=*) [[ ! $release > ${1#*=} ]] ;;
        since=*) [[ ! $release < ${1#*=} ]] ;;
        *) return 0 ;;
    esac
}

number=0
exec 3<lines
while read -r -u 3 -a words; do
    [[ ${words[0]} != '#' ]] || continue
    verdict=${words[0]}
    words=("${words[@]:1}")
    if [[ ${words[0]} == until=* || ${words[0]} == since=* ]]; then
        when=${words[0]}
        words=("${words[@]:1}")
        applies "$when" || continue
    fi
    env=()
    while [[ ${words[0]} == *=* ]]; do
        env+=("${words[0]}")
        words=("${words[@]:1}")
    done
    for command in ${words[0]//,/ }; do
        judge "$verdict" "$command" "${env[@]}" -- "${words[@]:1}"
        number=$((number + 1))
    done
done
scancel -u "$(id -un)"
ok "[ $number -ge 200 ]" "$number lines"
done_testing

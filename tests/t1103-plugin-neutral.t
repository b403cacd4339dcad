#!/bin/bash
# A job without any option or variable of the plugin is left exactly as it was: the whole
# environment of tasks, batch scripts and shells, what the commands print and how they end,
# with the plugin and without it.
#
# Some values differ from one run to the next (job ids, ports): what differs between two
# runs without the plugin is left out, by name; those names must be there all the same.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
[ -f "$plugin" ] || skip_all "the plugin is not part of this build"
slurm_start 2 8

dump=$TEST_DIR/dump
printf '#!/bin/sh\nenv -0 | sort -z > "$1.${SLURM_PROCID:-x}"\n' > "$dump"
printf '#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2\n%s\n%s\n%s\n' \
    "$dump \$1/batch" "srun -Q $dump \$1/step" "srun -Q -n1 -N1 $dump \$1/one" > job
chmod +x "$dump" job

# everything DIR: run one of each, leave their environments in DIR.
everything() {
    local dir=$TEST_DIR/$1
    mkdir "$dir"
    (
        cd "$dir" || exit
        # the words behind the program are the program's, and these variables the user's
        RANK=9 WORLD_SIZE=10 MASTER_ADDR=x CUDA_DEVICE_MAX_CONNECTIONS=4 \
            MEGATRON_WORLD_SIZE=5 MEGATRON_TP_SIZE=2 \
            srun -Q -w n0 -n2 "$dump" "$dir/srun" --megatron-tp=3 > srun.out 2>&1
        srun -Q -N2 -n4 -m cyclic --mpi=pmix "$dump" "$dir/pmix" > pmix.out 2>&1
        srun -Q -w n0 -n1 sh -c 'exit 7' > exit.out 2>&1
        echo "$?" >> exit.out
        srun -Q -w n0 -n2 sh -c '[ $SLURM_PROCID = 1 ] || exit 3; sleep 0.5; echo alive' > kill.out 2>&1
        echo "$?" >> kill.out
        sort -o kill.out kill.out # what srun says of one task may come before the other's word
        sbatch -Q -W --parsable -o batch.out "$TEST_DIR/job" "$dir" > /dev/null 2> sbatch.err
        salloc -Q -w n0 -n2 "$dump" "$dir/salloc" > salloc.out 2>&1
        salloc -Q -w n0 -n2 srun -Q "$dump" "$dir/inside" > inside.out 2>&1
        srun --usage > usage.out 2>&1
    )
}

: > "$SLURM_DIR/plugstack.conf"
everything without1
everything without2
echo "optional $plugin" > "$SLURM_DIR/plugstack.conf"
everything with
run srun -Q -w n0 -n2 --megatron-tp=2 sh -c 'echo $MEGATRON_TP_SIZE'
is "$out" $'2\n2' "the plugin is loaded"

# names FILE: the variables.  differing FILE FILE: those with other values.
names() {
    tr '\n\0' ' \n' < "$1" | sed 's/=.*//'
}
differing() {
    comm -z -3 "$1" "$2" | tr '\n\0\t' ' \n ' | sed 's/^ *//; s/=.*//' | sort -u
}
count=0
for file in without1/*.[0-9x]; do
    file=${file#*/}
    count=$((count + 1))
    sed -z "s|$TEST_DIR/without1|DIR|g" "without1/$file" > a
    sed -z "s|$TEST_DIR/without2|DIR|g" "without2/$file" > b
    sed -z "s|$TEST_DIR/with|DIR|g" "with/$file" > c
    is "$(names c)" "$(names a)" "${file%.*} task ${file##*.}: the same variables"
    { differing a b; names a | grep '^SLURM_.*_PORT$'; } > vary # ports are the same by chance
    is "$(differing a c | grep -vxFf vary)" "" \
        "${file%.*} task ${file##*.}: the same values ($(wc -l < vary) vary by themselves)"
done
is "$count" 15 "all environments were seen"
for file in without1/*.out without1/*.err; do
    file=${file#*/}
    is "$(cat "with/$file")" "$(cat "without1/$file")" "$file: the same text and status"
done
is "$(grep -c alive with/kill.out)" 1 "a failing task does not end the others"

# And once more by name.
run srun -Q -w n0 -n1 sh -c 'echo ${SLURM_MPI_TYPE:-none}'
is "$out" none "no MPI type is set"
done_testing

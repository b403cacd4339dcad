#!/bin/bash
# The environment of every task, for several layouts and distributions of tasks over nodes;
# and who must not get one: the batch script, an interactive shell, what does not fit, what
# mpirun starts.
#
# Expected values are worked out here from scratch: tasks sorted by node and local id give
# the ranks, mixed radix gives the coordinates.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

[ -f "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not part of this build"
command -v perl >/dev/null || skip_all "perl is not installed"
echo 'LaunchParameters=use_interactive_step' > extra.conf
slurm_start 4 8 --conf "$TEST_DIR/extra.conf" --plugin-args master_addr=%n

unset MEGATRON_MODULE_DIR # ours, but not the plugin's

cat > expect <<'EOF'
# perl expect TP CP EP ETP PP VPP ORDER FILE...: compare dumps of "env -0".
use strict;
use warnings;

my ($tp, $cp, $ep, $etp, $pp, $vpp, $order, @files) = @ARGV;
my @task;
for my $file (@files) {
    local $/;
    open my $f, '<', $file or die "$file: $!";
    push @task, {map { /^([^=]*)=(.*)$/s ? ($1, $2) : () } split /\0/, <$f>};
}
@task = sort { $a->{SLURM_NODEID} <=> $b->{SLURM_NODEID}
               || $a->{SLURM_LOCALID} <=> $b->{SLURM_LOCALID} } @task;
my $world = @task;
my %locals;
$locals{$_->{SLURM_NODEID}}++ for @task;
my %dense = (tp => $tp, cp => $cp, ep => 1, dp => $world / ($tp * $cp * $pp), pp => $pp);
my %expert = (tp => $etp, cp => 1, ep => $ep, dp => $world / ($etp * $ep * $pp), pp => $pp);
my %names = (TP => [\%dense, 'tp'], CP => [\%dense, 'cp'], PP => [\%dense, 'pp'],
             DP => [\%dense, 'dp'], EP => [\%expert, 'ep'], ETP => [\%expert, 'tp'],
             EDP => [\%expert, 'dp']);
for my $rank (0 .. $world - 1) {
    my $env = $task[$rank];
    my %want = (
        MEGATRON_WORLD_SIZE => $world, MEGATRON_RANK => $rank,
        WORLD_SIZE => $world, RANK => $rank,
        LOCAL_RANK => $env->{SLURM_LOCALID}, LOCAL_WORLD_SIZE => $locals{$env->{SLURM_NODEID}},
        MEGATRON_VPP_SIZE => $vpp, MEGATRON_RANK_ORDER => $order,
        MASTER_ADDR => $task[0]{SLURMD_NODENAME}, MASTER_PORT => $task[0]{MASTER_PORT},
        $tp * $cp > 1
            ? (CUDA_DEVICE_MAX_CONNECTIONS => 1, MEGATRON_CUDA_CONNECTIONS => 1) : (),
    );
    for my $name (keys %names) {
        my ($size, $axis) = @{$names{$name}};
        my $rest = $rank;
        $want{"MEGATRON_${name}_SIZE"} = $size->{$axis};
        for my $a (split /-/, $order) {
            $want{"MEGATRON_${name}_RANK"} = $rest % $size->{$a} if $a eq $axis;
            $rest = int ($rest / $size->{$a});
        }
    }
    for my $name (sort keys %want) {
        my $got = $env->{$name} // 'unset';
        print "rank $rank: $name is $got, want $want{$name}\n" if $got ne $want{$name};
    }
    for my $name (grep { /^(MEGATRON_|(LOCAL_)?(WORLD_SIZE|RANK)$|MASTER_|CUDA_DEVICE)/ } keys %$env) {
        print "rank $rank: $name is not expected\n" if !defined $want{$name};
    }
}
print "port $task[0]{MASTER_PORT}\n" if $task[0]{MASTER_PORT} !~ /^(29[5-9]|30|31[0-5])/;
EOF

# shellcheck disable=SC2016  # for the tasks' shell
dump='env -0 > "$DUMP.$SLURM_PROCID"'

# layout TEXT TP CP EP ETP PP VPP ORDER -- SRUN-ARGUMENT...
number=0
layout() {
    local text=$1 tp=$2 cp=$3 ep=$4 etp=$5 pp=$6 vpp=$7 order=$8
    local -a sizes=(--megatron-tp="$tp" --megatron-cp="$cp" --megatron-ep="$ep"
        --megatron-etp="$etp" --megatron-pp="$pp" --megatron-order="$order")
    [ "$vpp" = 1 ] || sizes+=(--megatron-vpp="$vpp")
    shift 9
    number=$((number + 1))
    export DUMP=$TEST_DIR/layout$number
    run srun -Q "${sizes[@]}" "$@"
    is "$status$err$(perl expect "$tp" "$cp" "$ep" "$etp" "$pp" "$vpp" "$order" "$DUMP".*)" \
        0 "$text ($(cat "$DUMP".* | tr '\0' '\n' | grep -c '^MEGATRON_RANK=') tasks)"
}

dflt=tp-cp-ep-dp-pp
layout "one task" 1 1 1 1 1 1 $dflt -- -n1 sh -c "$dump"
layout "block" 2 1 1 2 2 1 $dflt -- -N2 --ntasks-per-node=4 -m block sh -c "$dump"
layout "cyclic" 2 1 1 2 2 1 $dflt -- -N2 --ntasks-per-node=4 -m cyclic sh -c "$dump"
layout "plane" 4 1 1 1 2 1 $dflt -- -N2 --ntasks-per-node=4 -m plane=2 sh -c "$dump"
layout "uneven, 7 + 1" 2 2 1 1 2 1 $dflt -- -N2 -n8 sh -c "$dump"
layout "uneven, cyclic" 1 1 1 1 5 1 $dflt -- -N3 -n10 -m cyclic sh -c "$dump"
layout "more tasks than CPUs" 2 2 4 1 2 1 $dflt -- -N4 -O -n16 -m cyclic sh -c "$dump"
layout "experts" 2 2 4 1 2 3 $dflt -- -N4 --ntasks-per-node=4 sh -c "$dump"
layout "experts, pp before dp" 2 2 4 1 2 1 tp-cp-ep-pp-dp -- -N4 --ntasks-per-node=4 \
    -m cyclic sh -c "$dump"
layout "another order" 2 1 1 2 2 1 dp-pp-tp-ep-cp -- -N2 --ntasks-per-node=4 sh -c "$dump"
printf '%s\n' n2 n1 n2 n3 n1 n2 > hosts
export SLURM_HOSTFILE=$TEST_DIR/hosts
layout "arbitrary" 2 1 1 1 3 1 $dflt -- -n6 -m arbitrary sh -c "$dump"
unset SLURM_HOSTFILE
printf '0-1 sh -c '"'%s'"'\n2-3 /bin/sh -c '"'%s'"'\n' "$dump" "$dump" > multi
layout "several programs" 2 1 1 2 1 1 $dflt -- -n4 -N2 --multi-prog multi
layout "options in between" 2 1 1 2 1 1 $dflt -- -n2 --export=PATH,DUMP sh -c "$dump"

# The components of a heterogeneous step are one world, by node, whatever their order.
# shellcheck disable=SC2016
dump_het='echo $MEGATRON_WORLD_SIZE:$MEGATRON_RANK:$LOCAL_RANK:$SLURMD_NODENAME:$MASTER_ADDR:$MASTER_PORT'
run srun -Q --mpi=none --megatron-tp=3 -w n2 -n2 sh -c "$dump_het" : \
    -w n0,n1 -N2 -n4 -m cyclic sh -c "$dump_het"
is "$(cut -d: -f 1-5 <<<"$out" | sort)" "6:0:0:n0:n0
6:1:1:n0:n0
6:2:2:n0:n0
6:3:0:n1:n0
6:4:0:n2:n0
6:5:1:n2:n0" "heterogeneous"
is "$(cut -d: -f 6 <<<"$out" | sort -u | wc -l)" 1 "and one port"

# ---- what is the user's stays the user's -------------------------------------------

# shellcheck disable=SC2016
run env CUDA_DEVICE_MAX_CONNECTIONS=8 RANK=77 MASTER_ADDR=elsewhere MASTER_PORT=5 srun -Q -n2 \
    --megatron-tp=2 sh -c 'echo $CUDA_DEVICE_MAX_CONNECTIONS $RANK $MASTER_ADDR $MASTER_PORT \
        ${MEGATRON_CUDA_CONNECTIONS:-none}'
is "$(sort <<<"$out")$err" $'8 0 elsewhere 5 none\n8 1 elsewhere 5 none' \
    "CUDA_DEVICE_MAX_CONNECTIONS and MASTER_ are kept and not marked, ranks are not"
# shellcheck disable=SC2016
run env MASTER_ADDR= MASTER_PORT=5 srun -Q -w n1,n2 -n2 --megatron-tp=2 \
    --megatron-placement=allow sh -c 'echo $MASTER_ADDR $MASTER_PORT'
is "$out$err" $'n1 5\nn1 5' "an empty one is not, and each is by itself"
for addr in 127.0.0.1 n2; do
    # shellcheck disable=SC2016
    run env MASTER_ADDR=$addr srun -Q -w n1,n2 -n2 --megatron-pp=2 sh -c 'echo $MASTER_ADDR'
    is "$out" "$addr"$'\n'"$addr" "MASTER_ADDR=$addr is kept, too"
    like "$err" "^[^"$'\n'"]*megatron: warning: MASTER_ADDR was set to $addr and stays, but rank 0 is on \
node n1; unset it to get n1\$" "and told in a line, as rank 0 is not there"
done
# shellcheck disable=SC2016
run srun -Q -n2 --megatron-pp=2 sh -c 'echo ${CUDA_DEVICE_MAX_CONNECTIONS:-none}'
is "$out" $'none\nnone' "no CUDA_DEVICE_MAX_CONNECTIONS without tp and cp"

# ---- steps of one job --------------------------------------------------------------

names='^(MEGATRON_[A-Z_]*|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT)='
# the mark goes with CUDA_DEVICE_MAX_CONNECTIONS, which is handed on
printf '#!/bin/sh\nenv | grep -E "%s" | grep -v ^MEGATRON_CUDA_CONNECTIONS= | sort\n' "$names" > ours
chmod +x ours
cat > job <<EOF
#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 --megatron-tp=2
export PATH=$TEST_DIR:\$PATH
echo "batch:\$(ours)"
srun -Q sh -c 'echo task \$MEGATRON_RANK \$MASTER_PORT' | sort
srun -Q sh -c 'echo again \$MEGATRON_RANK \$MASTER_PORT' | sort
echo "hostname: \$(srun -Q -N1 -n1 hostname)"
echo "one:\$(srun -Q -N1 -n1 ours)"
srun -Q bash -c 'if [ \$RANK = 3 ]; then
    echo "in a task:\$(srun -Q --overlap -N1 -n1 ours)"
    echo "no option:\$(env -u SLURM_SPANK__SLURM_SPANK_OPTION_megatron_megatron_tp \\
        srun -Q --overlap -N2 -n2 ours)"
    srun -Q --overlap -n2 sh -c "echo inner \\\$MEGATRON_RANK \\\$MEGATRON_WORLD_SIZE" | sort
    sbatch -Q -W -o inner.out -n2 --wrap ours
    echo "batch in a task:\$(cat inner.out)"
fi'
EOF
run sbatch -W -o job.out job
is "$status" 0 "a job with several steps"
out=$(sed -E 's/(task|again) ([0-3]) [0-9]+$/\1 \2 PORT/' job.out)
is "$out" "batch:
task 0 PORT
task 1 PORT
task 2 PORT
task 3 PORT
again 0 PORT
again 1 PORT
again 2 PORT
again 3 PORT
hostname: $(hostname)
one:
in a task:
no option:
inner 0 2
inner 1 2
batch in a task:" "batch script, one task, sruns and sbatch inside a task: nothing is passed on"
is "$(sed -nE 's/^(task|again) [0-3] //p' job.out | sort -u | wc -l)" 2 "each step has its port"

if command -v script >/dev/null; then
    # salloc starts $SHELL, which not every caller has.
    # shellcheck disable=SC2016
    echo 'echo "MPI=${SLURM_MPI_TYPE:-none} RANK=${RANK:-none} STEP=$SLURM_STEP_ID"
        echo "INNER=$(srun -Q -n2 sh -c "echo \$MEGATRON_RANK" | sort | tr "\n" " ")"; exit' \
        | timeout 300 script -qec "env -u BASH_ENV SHELL=/bin/bash salloc -Q -n2 --megatron-tp=2" /dev/null > shell.out 2>&1
    # the id has a sign since 26.05
    like "$(tr -d '\r' < shell.out)" 'MPI=none RANK=none STEP=(4294967290|-6)' \
        "salloc's interactive shell gets nothing"
    like "$(tr -d '\r' < shell.out)" 'INNER=0 1 ' "an srun in it does"
else
    skip 2 "script is not installed"
fi

# ---- mpirun ------------------------------------------------------------------------

if [ -n "${MG_MPIRUN:=$(command -v mpirun)}" ] \
    && "$MG_MPIRUN" --version 2>/dev/null | grep -q 'Open MPI'; then
    # Its own sruns go through this, to see what they say. (Called by its path, mpirun
    # would look for srun beside itself.)
    mkdir bin
    printf '#!/bin/sh\necho "$*" >> %s/sruns\nexec %s "$@" 2>> %s/sruns\n' \
        "$TEST_DIR" "$(command -v srun)" "$TEST_DIR" > bin/srun
    chmod +x bin/srun
    cat > job <<EOF
#!/bin/bash
#SBATCH -N2 --ntasks-per-node=2 --megatron-tp=2
export PATH=$TEST_DIR/bin:${MG_MPIRUN%/*}:\$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
${MG_MPIRUN##*/} bash -c 'echo \$OMPI_COMM_WORLD_SIZE \$(env | grep -cE "$names")'
EOF
    run sbatch -W -o job.out job
    is "$status:$(cat job.out)" "0:4 0
4 0
4 0
4 0" "mpirun in a job with options: it runs, its processes get nothing"
    like "$(cat sruns)" 'orted|prted' "it did start its daemons with srun"
    is "$(grep -c megatron sruns)" 0 "which had no complaint"
else
    skip 3 "mpirun of Open MPI is not installed"
fi
done_testing

#!/bin/bash
# Geometries, good and bad, at sbatch, salloc and srun: refused exactly when the rules say
# so, in one line, and nothing is queued.
#
# What is right is worked out here from scratch: sizes by division, the order by laying
# out both grids rank by rank and comparing their pipelines.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

[ -f "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not part of this build"
command -v perl >/dev/null || skip_all "perl is not installed"
echo "MinJobAge=86400" >more.conf # jobs are counted when all are through
slurm_start 4 64 --conf "$PWD/more.conf"

# Lines "good|bad TASKS TP CP EP ETP PP VPP ORDER MESSAGE"; 0 or - : not given.
perl - > cases <<'EOF'
use strict;
use warnings;

# Rank by coordinates: mixed radix, first axis fastest. Key of a pipeline: all but pp.
sub pipelines {
    my ($world, $size, @order) = @_;
    my %group;
    for my $rank (0 .. $world - 1) {
        my ($rest, @key) = ($rank);
        for my $axis (@order) {
            push @key, $rest % $size->{$axis} if $axis ne 'pp';
            $rest = int ($rest / $size->{$axis});
        }
        push @{$group{"@key"}}, $rank;
    }
    return join ' ', sort map { join ',', @$_ } values %group;
}

sub good {
    my ($world, $tp, $cp, $ep, $etp, $pp, $vpp, $order) = @_;
    my $real = $etp || $tp;
    my @axes = split /-/, $order eq '-' ? 'tp-cp-ep-dp-pp' : $order;
    my %seen = map { $_ => 1 } @axes;
    return 0 if $vpp > 1 && $pp == 1;
    return 0 if $world % ($tp * $cp * $pp) || $world % ($real * $ep * $pp);
    my ($dp, $edp) = ($world / ($tp * $cp * $pp), $world / ($real * $ep * $pp));
    my %dense = (tp => $tp, cp => $cp, ep => 1, dp => $dp, pp => $pp);
    my %expert = (tp => $real, cp => 1, ep => $ep, dp => $edp, pp => $pp);
    for my $axis (qw(tp cp ep dp pp)) {
        next if $seen{$axis};
        return 0 if $dense{$axis} > 1 || $expert{$axis} > 1;
        push @axes, $axis;
    }
    return 0 if $pp > 1 && $dp != $edp && $order ne '-' && $order !~ /pp$/;
    return pipelines ($world, \%dense, @axes) eq pipelines ($world, \%expert, @axes);
}

# The line that a user must read, where it is about the dense grid alone.
sub message {
    my ($world, $tp, $cp, $ep, $etp, $pp, $vpp, $order) = @_;
    my $product = $tp * $cp * $pp;
    return '-' if $world % $product == 0 || $order ne '-' || $vpp > 1 && $pp == 1;
    my @g = ($tp, $cp, $ep, $etp, $pp, $vpp, $order);
    my ($below, $above) = ($world, $world);
    do { $below-- } until $below == 0 || good ($below, @g);
    do { $above++ } until good ($above, @g);
    return sprintf "%d %s cannot hold tp %d x cp %d x pp %d = %d; use %s-n %d", $world,
        $world == 1 ? 'task' : 'tasks', $tp, $cp, $pp, $product,
        $below ? "-n $below or " : '', $above;
}

my @fixed = (
    [12, 4, 1, 1, 0, 2, 0, '-'],    [1, 1, 1, 1, 0, 1, 0, '-'],
    [1, 2, 1, 1, 0, 1, 0, '-'],     [16, 4, 1, 1, 0, 2, 0, '-'],
    [16, 4, 1, 4, 1, 2, 0, '-'],    [16, 4, 1, 4, 0, 2, 0, '-'],
    [16, 4, 1, 2, 0, 2, 0, '-'],    [8, 2, 1, 3, 1, 1, 0, '-'],
    [12, 2, 1, 3, 1, 2, 0, '-'],    [16, 2, 2, 4, 1, 2, 0, 'tp-cp-ep-pp-dp'],
    [16, 2, 2, 2, 2, 2, 0, 'tp-cp-ep-pp-dp'], [16, 2, 2, 2, 1, 2, 0, 'tp-cp-ep-pp-dp'],
    [16, 2, 1, 1, 0, 2, 2, '-'],    [16, 2, 1, 1, 0, 1, 2, '-'],
    [16, 2, 1, 1, 0, 1, 1, '-'],    [8, 2, 1, 1, 0, 2, 0, 'tp-dp'],
    [8, 2, 1, 1, 0, 1, 0, 'tp-dp'], [8, 8, 1, 1, 0, 1, 0, 'tp'],
    [16, 8, 1, 1, 0, 1, 0, 'tp'],   [8, 2, 1, 4, 1, 1, 0, 'tp-cp-dp-pp'],
    [8, 2, 1, 4, 1, 1, 0, 'ep-dp-tp-pp'], [16, 2, 1, 4, 1, 2, 0, 'pp-tp-ep-dp'],
    [8, 1, 1, 1, 0, 8, 0, '-'],     [8, 1, 1, 1, 0, 16, 0, '-'],
    [7, 7, 1, 1, 0, 1, 0, '-'],     [7, 1, 7, 1, 0, 1, 0, '-'],
    [7, 1, 1, 7, 0, 1, 0, '-'],     [7, 7, 1, 7, 0, 1, 0, '-'],
    [7, 7, 1, 7, 1, 1, 0, '-'],     [6, 2, 3, 1, 0, 1, 0, '-'],
    [6, 2, 3, 3, 2, 1, 0, '-'],     [6, 2, 3, 2, 2, 1, 0, '-'],
);

# More of them, always the same ones.
my $state = 20241;
sub pick {
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return $_[int ($state / 65536) % @_];
}
my @orders = ('-', '-', '-', '-', '-', '-', '-', '-', 'tp-cp-ep-dp-pp', 'tp-cp-ep-pp-dp', 'pp-dp-ep-cp-tp',
              'cp-tp-dp-ep-pp', 'tp-pp-cp-ep-dp', 'dp-tp-cp-ep-pp', 'tp-cp-dp-pp');
my @all = @fixed;
my %count = (good => 0, bad => 0);
while (@all < 130) {
    my @g = (pick (2, 4, 6, 8, 8, 12, 12, 16, 16, 24), pick (1, 2, 2, 4, 3), pick (1, 1, 1, 2),
             pick (1, 1, 1, 2, 4, 3), pick (0, 0, 0, 1, 2), pick (1, 1, 2, 2, 4),
             pick (0, 0, 0, 1, 2), pick (@orders));
    my $verdict = good (@g) ? 'good' : 'bad';
    next if $verdict eq 'bad' && $count{bad} > 58;
    $count{$verdict}++;
    push @all, \@g;
}
for my $g (@all) {
    my $good = good (@$g);
    print join (' ', $good ? 'good' : 'bad', @$g, $good ? '-' : message (@$g)), "\n";
}
EOF

bad=$(grep -c '^bad ' cases)
good=$(grep -c '^good ' cases)
ok "[ $good -ge 50 ] && [ $bad -ge 50 ]" "$good good geometries and $bad bad ones"
diag "$(grep -c '^bad .*cannot hold' cases) of the bad have their whole message foretold"

# Set args and text of one case.
arguments() {
    args=("--megatron-tp=$2")
    [ "$3" = 1 ] || args+=("--megatron-cp=$3")
    [ "$4" = 1 ] || args+=("--megatron-ep=$4")
    [ "$5" = 0 ] || args+=("--megatron-etp=$5")
    [ "$6" = 1 ] || args+=("--megatron-pp=$6")
    [ "$7" = 0 ] || args+=("--megatron-vpp=$7")
    [ "$8" = - ] || args+=("--megatron-order=$8")
    text="-n $1 ${args[*]//--megatron-/}"
}

# next_job: number of a job queued now.
next_job() {
    sbatch -H -n1 --parsable --wrap true
}

# ---- bad ones ----------------------------------------------------------------------

refuse=0
first=$(next_job)
while read -r verdict n tp cp ep etp pp vpp order message; do
    [ "$verdict" = bad ] || continue
    arguments "$n" "$tp" "$cp" "$ep" "$etp" "$pp" "$vpp" "$order"
    said=
    for command in sbatch salloc srun; do
        rest=(true)
        [ $command != sbatch ] || rest=(--wrap true)
        run $command -n "$n" "${args[@]}" "${rest[@]}"
        refuse=$((refuse + 1))
        if [ "$status" != 1 ] || [ -n "$out" ] || [[ $err == *$'\n'* ]] \
            || [[ $err != "$command: error: megatron: "?* ]]; then
            said+="$command: $status, $out, $err; "
        elif [ "$message" != - ] && [ "$err" != "$command: error: megatron: $message" ]; then
            said+="$err, want $message; "
        fi
    done
    is "$said" "" "bad: $text: ${err#*megatron: }"
done < cases
is "$(next_job)" "$((first + 1))" "$refuse refusals did not use up one job number"

# ---- good ones ---------------------------------------------------------------------

while read -r verdict n tp cp ep etp pp vpp order message; do
    [ "$verdict" = good ] || continue
    arguments "$n" "$tp" "$cp" "$ep" "$etp" "$pp" "$vpp" "$order"
    said=
    run sbatch -Q -H -n "$n" "${args[@]}" --wrap true
    [ "$status:$err" = 0: ] || said+="sbatch: $status, $err; "
    # shellcheck disable=SC2016  # the tasks' shell expands
    run salloc -Q -n "$n" "${args[@]}" srun -Q sh -c 'echo $MEGATRON_WORLD_SIZE'
    [ "$status:$err:$(sort -u <<<"$out")" = "0::$n" ] || said+="salloc: $status, $err, $out; "
    is "$said" "" "good: $text"
done < cases
is "$(squeue -h -a -t all -o %F | sort -un | wc -l)" \
    "$(($(next_job) - first))" "and only these are known to the controller"
scancel -u "$(id -un)"

# ---- where the number of tasks comes from ------------------------------------------

# at ACCEPT|REFUSE COMMAND ARG...
at() {
    local want=$1
    shift
    run "$@"
    if [ "$want" = accept ]; then
        is "$status:$err" "0:" "accepted: $*"
    else
        like "$status:$out:$err" "^1::$1: error: megatron: [0-9]+ tasks cannot hold [^"$'\n'"]*$" \
            "refused: $*"
    fi
}
for command in "sbatch -Q -H --wrap true" "salloc -Q true" "srun -Q true"; do
    name=${command%% *}
    words=${command#* }
    at refuse $name --megatron-tp=4 -N2 --ntasks-per-node=3 $words
    at accept $name --megatron-tp=3 -N2 --ntasks-per-node=3 $words
    at refuse $name --megatron-tp=4 --ntasks-per-node=6 $words
    at accept $name --megatron-tp=6 --ntasks-per-node=6 $words
    at refuse $name --megatron-tp=4 -N2-2 --ntasks-per-node=3 $words
    at refuse $name --megatron-tp=4 -w n1,n3 --ntasks-per-node=3 $words
    at accept $name --megatron-tp=3 -w n1,n3 --ntasks-per-node=3 $words
done
# only the controller knows: srun finds out before a task starts
at refuse srun -Q --megatron-tp=2 -N3 true
at accept srun -Q --megatron-tp=3 -N3 true
at refuse srun -Q --megatron-tp=3 -w n0,n2 true
at refuse srun -Q --megatron-tp=3 -N1 --exclusive -c16 --ntasks-per-node=4 true
at accept sbatch -Q -H --megatron-tp=2 -N3 --wrap true
at accept sbatch -Q -H --megatron-tp=3 -N2-4 --ntasks-per-node=4 --wrap true
ok 'wait_until "[ -z \"\$(squeue -h -t R,CG -o %i)\" ]"' "no step or allocation is left over"
cat > job <<'EOF'
#!/bin/bash
#SBATCH -N3
srun -Q --megatron-tp=2 -N3 echo ran 2>&1
echo $?
srun -Q --megatron-tp=2 -N3 --export=NONE echo ran 2>&1
echo $?
steps() { squeue -h -s -o %i | grep -v batch; }
for ((i = 0; i < 600; i++)); do [ -n "$(steps)" ] || break; sleep 0.1; done
steps # the refused ones are gone while the job lives
srun -Q -N3 --megatron-tp=3 --megatron-placement=allow echo next 2>&1
EOF
run timeout 300 sbatch -W -o job.out job
is "$status:$(cat job.out)" "0:srun: error: megatron: 3 tasks cannot hold tp 2 x cp 1 x pp 1 = 2; \
use -n 2 or -n 4
1
srun: error: megatron: 3 tasks cannot hold tp 2 x cp 1 x pp 1 = 2; use -n 2 or -n 4
1
next
next
next" "inside a job neither, where the step exists before the refusal"
cat > job <<'EOF'
#!/bin/bash
#SBATCH -n12 --megatron-tp=4
#SBATCH --megatron-pp=2
true
EOF
run sbatch job
is "$status:$err" "1:sbatch: error: megatron: 12 tasks cannot hold tp 4 x cp 1 x pp 2 = 8; \
use -n 8 or -n 16" "#SBATCH lines count"

# ---- heterogeneous jobs: the sum over the components counts -------------------------

# (without PMIx, with which Slurm's own srun of such a job now and then does not end)
at accept srun -Q --mpi=none --megatron-tp=3 --megatron-placement=allow -n1 -w n0 : -n2 -w n1 true
run srun -Q --megatron-tp=2 -n2 -w n0 : -n1 -w n1 true
is "$status:$err" "1:srun: error: megatron: 3 tasks cannot hold tp 2 x cp 1 x pp 1 = 2; \
use -n 2 or -n 4" "a component that fits is not enough"
at accept sbatch -Q -H --megatron-tp=3 -n1 : -n2 --wrap true
run sbatch -Q -H --megatron-vpp=3 -n1 : -n2 --wrap true
like "$status:$err" '^1:sbatch: error: megatron: vpp 3 needs pp' \
    "what no number of tasks can hold is refused all the same"
cat > job <<'EOF'
#!/bin/bash

# two components
#SBATCH -Q -n1 --megatron-tp=3
#SBATCH hetjob
#SBATCH -n2
true
EOF
at accept sbatch -H job
sed -i 's/^# two components/exit 0/' job
at refuse sbatch -H -n2 --megatron-tp=3 job
done_testing

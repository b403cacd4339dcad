#!/bin/bash
# The placement policy: groups that cross nodes, under every distribution of tasks.
#
# What is right is worked out here from scratch: a step without the plugin tells where its
# tasks are; sorted by node they are the ranks; laying out the axes gives the groups.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
[ -f "$plugin" ] || skip_all "the plugin is not part of this build"
command -v perl >/dev/null || skip_all "perl is not installed"
slurm_start 4 8

cat > expect <<'EOP'
# perl expect ORDER TP CP PP FILE: FILE has lines "nodeid localid name"; prints nothing, or
# "KIND COUNT TOTAL (RANKS) FIRST-NODE LAST-NODE".
use strict;
use warnings;
my ($order, $tp, $cp, $pp, $file) = @ARGV;
open my $f, '<', $file or die;
my @node = map { (split)[2] } sort { my ($a0, $a1) = split ' ', $a; my ($b0, $b1) = split ' ', $b;
    $a0 <=> $b0 || $a1 <=> $b1 } <$f>;
my %size = (tp => $tp, cp => $cp, ep => 1, pp => $pp, dp => @node / ($tp * $cp * $pp));
for my $kind ('tensor-parallel', 'tp x cp') {
    my (%group, @keys);
    for my $rank (0 .. $#node) {
        my ($rest, @key) = ($rank);
        for my $axis (split /-/, $order) {
            push @key, $rest % $size{$axis}
                if $axis ne 'tp' && ($kind eq 'tensor-parallel' || $axis ne 'cp');
            $rest = int ($rest / $size{$axis});
        }
        push @keys, "@key" if !$group{"@key"};
        push @{$group{"@key"}}, $rank;
    }
    my @split = grep { my %n = map { ($node[$_] => 1) } @$_; keys %n > 1 } map { $group{$_} } @keys;
    next if !@split;
    my @r = @{$split[0]};
    my $ranks = $r[-1] - $r[0] == $#r ? "$r[0]-$r[-1]" : join ', ', @r;
    print "$kind ", scalar @split, ' ', scalar @keys, " ($ranks) $node[$r[0]] $node[$r[-1]]\n";
    last;
}
EOP

# layout TEXT ORDER TP CP PP -- SRUN-ARGUMENT...: policy refuse against what is expected, and
# (all of them with MG_LONG) policy warn.
checks=0
layout() {
    local text=$1 order=$2 tp=$3 cp=$4 pp=$5 want got
    shift 6
    local -a sizes=(--megatron-tp="$tp" --megatron-cp="$cp" --megatron-pp="$pp" --megatron-order="$order")
    slurm_settle # the same nodes each time
    # shellcheck disable=SC2016
    srun -Q --mpi=none "$@" sh -c 'echo $SLURM_NODEID $SLURM_LOCALID $SLURMD_NODENAME' > where 2>/dev/null
    want=$(perl expect "$order" "$tp" "$cp" "$pp" where)
    slurm_settle
    run srun --mpi=none "${sizes[@]}" --megatron-placement=refuse "$@" true
    got=$(sed -nE 's/^srun: error: megatron: ([0-9]+) of ([0-9]+) (.*) groups lie on several nodes, the first \(ranks (.*)\) on nodes ([^ ]*) (and|to) ([^ ]*)( of the step)?; use .*/\3 \1 \2 (\4) \5 \7/p' <<<"$err")
    if [[ $err == *" of the step;"* ]]; then
        # refused before there were nodes; the first free one is n0
        got=$(sed -E 's/ ([0-9]+) ([0-9]+)$/ n\1 n\2/' <<<"$got")
    fi
    is "$status:$got" "$([ -z "$want" ] && echo 0: || echo "1:$want")" "$text: ${want:-no group crosses}"
    [ -n "$want" ] || is "$err" "" "and nothing is said"
    checks=$((checks + 1))
    [ -n "$want" ] || return
    [ $checks -le 8 ] || long || return
    slurm_settle
    run srun --mpi=none "${sizes[@]}" "$@" true
    like "$status:$err" '^0:srun: megatron: warning: [0-9]+ of [^'$'\n'']*$' "by default: one warning"
}
dflt=tp-cp-ep-dp-pp
layout "block, 4 + 4" $dflt 4 1 2 -- -N2 --ntasks-per-node=4
layout "block, 7 + 1" $dflt 4 1 2 -- -N2 -n8
layout "block, 7 + 1, tp 2" $dflt 2 1 1 -- -N2 -n8
layout "cyclic, 4 + 4" $dflt 4 1 2 -- -N2 --ntasks-per-node=4 -m cyclic
layout "cyclic, 3 + 3 + 3 + 3" $dflt 2 1 2 -- -N4 --ntasks-per-node=3 -m cyclic
layout "cyclic, 6 + 6" $dflt 6 1 1 -- -N2 --ntasks-per-node=6 -m cyclic:block
layout "plane of 4" $dflt 4 1 1 -- -N2 --ntasks-per-node=4 -m plane=4
layout "plane of 2, tp 4" $dflt 4 1 1 -- -N2 -n8 -m plane=2
layout "plane of 3" $dflt 3 1 1 -- -N3 -n9 -m plane=3
layout "three nodes, 6 + 1 + 1" $dflt 2 1 4 -- -N3 -n8
layout "one group on three nodes" $dflt 12 1 1 -- -N3 --ntasks-per-node=4
layout "tp is whole, tp x cp is not" $dflt 2 4 1 -- -N2 --ntasks-per-node=4
layout "tp x cp is whole" $dflt 2 2 2 -- -N2 --ntasks-per-node=4
layout "dp before tp" dp-tp-cp-ep-pp 2 1 1 -- -N2 --ntasks-per-node=4
layout "pp before tp, whole" pp-tp-cp-ep-dp 2 1 2 -- -N2 --ntasks-per-node=4
layout "nodes by name" $dflt 4 1 1 -- -w n1,n3 -n8
printf '%s\n' n2 n1 n2 n3 n1 n2 > hosts
export SLURM_HOSTFILE=$TEST_DIR/hosts
layout "arbitrary, 2 + 3 + 1" $dflt 2 1 3 -- -n6 -m arbitrary
layout "arbitrary, 2 + 3 + 1, tp 3" $dflt 3 1 1 -- -n6 -m arbitrary
printf '%s\n' n2 n1 n2 n1 n3 n3 n3 n3 > hosts
layout "arbitrary, 2 + 2 + 4" $dflt 2 1 1 -- -n8 -m arbitrary
layout "arbitrary, 2 + 2 + 4, tp 4" $dflt 4 1 1 -- -n8 -m arbitrary
unset SLURM_HOSTFILE
layout "one node" $dflt 8 1 1 -- -N1 -n8
layout "tp 1 and cp 1" $dflt 1 1 4 -- -N2 -n8

# ---- what would help does help ---------------------------------------------------------

# helps MESSAGE-PART TP CP ARG...: follow the advice of the message.
helps() {
    local part=$1 tp=$2 cp=$3 advice
    shift 3
    run srun --mpi=none --megatron-tp="$tp" --megatron-cp="$cp" --megatron-placement=refuse "$@" true
    like "$err" "$part" "$*: $part"
    advice=$(sed -nE 's/.*; use ((-N [0-9]+ )?--ntasks-per-node=[0-9]+|--megatron-order=[a-z-]+).*/\1/p' <<<"$err")
    # shellcheck disable=SC2086
    run srun -Q --mpi=none --megatron-tp="$tp" --megatron-cp="$cp" --megatron-placement=refuse \
        "$@" $advice true
    is "$status:$err" "0:" "it helps"
}
helps 'use --ntasks-per-node=4$' 4 1 -N2 -n8
helps 'use -N 3 --ntasks-per-node=4$' 4 1 -N2 --ntasks-per-node=6
helps 'use -N 1 --ntasks-per-node=8, or a smaller size$' 8 1 -N2 -n8
helps 'use --ntasks-per-node=4$' 2 2 -N3 -n12
helps 'use --megatron-order=tp-cp-ep-dp-pp$' 2 1 -N2 --ntasks-per-node=4 --megatron-order=dp-tp

# ---- where the policy comes from -------------------------------------------------------

# policy WANT [ENV=VALUE...] -- ARG...: refused, warned or silent
policy() {
    local want=$1 got
    local -a env=()
    shift
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    slurm_settle
    run env "${env[@]}" srun --mpi=none -N2 -n8 --megatron-tp=4 "$@" true
    case $status:$err in
        0:) got=silent ;;
        0:"srun: megatron: warning: 1 of 2 "*) got=warned ;;
        1:"srun: error: megatron: 1 of 2 "*) got=refused ;;
        *) got="$status:$err" ;;
    esac
    is "$got" "$want" "$want: ${env[*]} $*"
}
policy warned --
policy silent -- --megatron-placement=allow
policy refused -- --megatron-placement=refuse
policy refused MEGATRON_PLACEMENT=refuse --
policy silent MEGATRON_PLACEMENT=refuse -- --megatron-placement=allow
policy silent -- -Q
echo "optional $plugin placement=refuse" > "$SLURM_DIR/plugstack.conf"
policy refused --
policy silent -- --megatron-placement=allow
echo "optional $plugin placement=allow" > "$SLURM_DIR/plugstack.conf"
policy silent --
policy warned -- --megatron-placement=warn
echo "optional $plugin min_placement=refuse" > "$SLURM_DIR/plugstack.conf"
policy refused --
policy refused MEGATRON_PLACEMENT=allow --
run srun -n8 -N2 --megatron-tp=4 --megatron-placement=warn true
is "$status:$err" "1:srun: error: megatron: --megatron-placement=warn: this site allows no less \
than refuse" "laxer than the site"
slurm_settle
run srun -n8 -N2 --megatron-placement=warn true
is "$status:$err" "0:" "a job of another kind may say what it likes"
echo "optional $plugin" > "$SLURM_DIR/plugstack.conf"
slurm_settle
run env MEGATRON_PLACEMENT=never srun -n2 true
is "$status:$err" "0:" "a bad variable does not matter to a job of another kind"
run env MEGATRON_PLACEMENT=never srun -n2 --megatron-tp=2 true
is "$status:$err" "1:srun: error: megatron: MEGATRON_PLACEMENT: \"never\" is not allow, warn or refuse" \
    "and is named to others"
# shellcheck disable=SC2016
run srun -Q -n1 --megatron-placement=refuse sh -c 'echo ${RANK:-none} ${SLURM_MPI_TYPE:-none}'
is "$out$err" "none none" "a policy by itself gives a task nothing"

# ---- before anything is queued ---------------------------------------------------------

for command in "sbatch -Q -H --wrap true" "salloc -Q true"; do
    name=${command%% *}
    rest=${command#* }
    # shellcheck disable=SC2086
    run $name -N2 --ntasks-per-node=6 --megatron-tp=4 --megatron-placement=refuse $rest
    is "$status:$err" "1:$name: error: megatron: 1 of 3 tensor-parallel groups lie on several nodes, \
the first (ranks 4-7) on nodes 0 and 1 of the step; use -N 3 --ntasks-per-node=4" \
        "$name refuses what is certain"
    # shellcheck disable=SC2086
    run $name -N2 -n12 --megatron-tp=4 --megatron-placement=refuse $rest
    is "$status:$err" "0:" "$name does not guess"
done
run sbatch -H -N2 --ntasks-per-node=6 --megatron-tp=4 --wrap true
like "$status:$err" '^0:sbatch: megatron: warning: 1 of 3 tensor-parallel groups [^'$'\n'']*$' "sbatch warns"
scancel -u "$(id -un)"
cat > job <<'EOF'
#!/bin/bash
#SBATCH -N2 --ntasks-per-node=4 --megatron-tp=4 --megatron-placement=refuse
srun -Q --mpi=none true; echo $?
srun -Q --mpi=none -n8 -m cyclic true; echo $?
srun -Q --mpi=none -n1 -N1 hostname >/dev/null; echo $?
srun -Q --mpi=none -n2 -N2 --megatron-tp=2 true; echo $?
srun -Q --mpi=none -n2 -N2 --megatron-tp=2 --megatron-placement=allow true; echo $?
EOF
run timeout 300 sbatch -W -o job.out job
is "$status:$(grep -E '^[0-9]$' job.out | tr '\n' ' ')" "0:0 0 0 1 0 " "steps of a job inherit the policy"
like "$(cat job.out)" 'error: megatron: 1 of 1 tensor-parallel groups .*nodes n0 and n1; use -N 1' \
    "and name the nodes"
is "$(grep -c '' job.out)" 6 "in one line; a refused step keeps nothing from the next"

# ---- heterogeneous steps: the tasks look for themselves ---------------------------------

run srun -Q --mpi=none --megatron-tp=4 --megatron-placement=refuse -n2 -w n0 true : -n2 -w n1 true
like "$status:$err" '^1:.*error: megatron: 1 of 1 tensor-parallel groups .* nodes n0 and n1; use -N 1' \
    "refused"
is "$(grep -c 'tensor-parallel groups' <<<"$err")" 1 "by one task"
run srun -Q --mpi=none --megatron-tp=4 -n2 -w n0 true : -n2 -w n1 true
like "$status:$err" '^0:megatron: warning: 1 of 1 tensor-parallel groups' "warned"
run srun -Q --mpi=none --megatron-tp=2 --megatron-placement=refuse -n2 -w n0 true : -n2 -w n1 true
is "$status:$err" "0:" "whole"
is "$(sinfo -h -N -t idle,comp,alloc,mix -o %N | wc -l)" 4 "no node suffers"
ok "[ $checks -ge 20 ]" "$checks layouts"
done_testing

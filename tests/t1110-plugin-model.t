#!/bin/bash
# The model's arguments on the line of the task's program: refused exactly when a rule is
# broken, in one line, before anything is queued; a warning where the program may be another.
#
# What is right is worked out here from scratch: by cutting the model into pieces.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

[ -f "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not part of this build"
command -v perl >/dev/null || skip_all "perl is not installed"
slurm_start 4 16

# A program by the name that counts, and one by another.
mkdir bin
printf '#!/bin/sh\nexit 0\n' > bin/megatron
cp bin/megatron bin/other
chmod +x bin/*
PATH=$TEST_DIR/bin:$PATH

# Lines "good|bad TASKS SIZES|ARGUMENTS".
perl - > cases <<'EOP'
use strict;
use warnings;

# Deal n things to k owners one by one: do all of them get the same?
sub even {
    my ($n, $k) = @_;
    my @own = (0) x $k;
    $own[$_ % $k]++ for 0 .. $n - 1;
    return !grep { $_ != $own[0] } @own;
}

sub good {
    my ($world, $tp, $pp, $cp, $vpp, $m) = @_;
    my $dp = 0;
    $dp++ while $dp * $tp * $pp * $cp < $world;
    return 0 if !$m->{'kv-channels'} && !even ($m->{'hidden-size'}, $m->{'num-attention-heads'});
    return 0 if !even ($m->{'num-attention-heads'}, $tp);
    my $ffn = $m->{'ffn-hidden-size'} // 4 * $m->{'hidden-size'};
    return 0 if !even ($ffn, $tp);
    if (my $groups = $m->{'num-query-groups'}) {
        return 0 if !even ($groups, $tp) && !even ($tp, $groups);
        return 0 if !even ($m->{'num-attention-heads'}, $groups);
        my $size = $m->{'kv-channels'} // $m->{'hidden-size'} / $m->{'num-attention-heads'};
        return 0 if $groups < $tp && !even (($m->{'num-attention-heads'} + 2 * $groups) * $size, $tp);
    }
    return 0 if $cp > 1 && !even ($m->{'seq-length'}, 2 * $cp);
    return 0 if exists $m->{'sequence-parallel'} && !even ($m->{'seq-length'}, $cp * $tp);
    return 0 if ($m->{'max-position-embeddings'} // 1e9) < $m->{'seq-length'};
    return 0 if !even ($m->{'padded-vocab-size'} // 0, $tp);
    my $parts = $pp * $vpp;
    if (my $n = $m->{'num-layers-per-virtual-pipeline-stage'}) {
        return 0 if !even ($m->{'num-layers'}, $pp * $n);
        $parts = $m->{'num-layers'} / $n;
        return 0 if $vpp > 1 && $parts != $pp * $vpp || $parts > $pp && $pp == 1;
    } elsif (my $first = $m->{'decoder-first-pipeline-num-layers'}) {
        my $rest = $m->{'num-layers'} - $first;
        return 0 if $rest < 0 || !even ($first, $vpp) || ($rest == 0) != ($pp == 1);
        return 0 if $pp > 1 && !even ($rest, ($pp - 1) * $vpp) || $pp == 1 && $vpp > 1;
        $parts = 0;
    }
    return 0 if $parts && !even ($m->{'num-layers'}, $parts);
    $vpp = $parts / $pp if $parts;
    my ($gbs, $mbs) = @$m{qw(global-batch-size micro-batch-size)};
    return 0 if !even ($gbs, $mbs * $dp);
    if ($vpp > 1) {
        # fill groups one after the other and look at the last
        my ($left, $group) = ($gbs / $mbs / $dp, $m->{'microbatch-group-size-per-virtual-pipeline-stage'} // $pp);
        return 0 if $group < $pp || $left < $group;
        $left -= $group while $left >= $group;
        return 0 if $left && $left < $pp;
    }
    return 1;
}

my $state = 777;
sub pick {
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return $_[int ($state / 65536) % @_];
}
my %count = (good => 0, bad => 0);
while ($count{good} < 60 || $count{bad} < 60) {
    my ($tp, $pp, $cp) = (pick (1, 2, 2, 3, 4), pick (1, 1, 2, 2, 3, 4), pick (1, 1, 1, 1, 2));
    my $vpp = $pp > 1 ? pick (1, 1, 2) : 1;
    my $world = $tp * $pp * $cp * pick (1, 1, 2);
    next if $world > 16;
    my %m = (
        'num-layers' => pick (4, 8, 12, 12, 12, 6), 'hidden-size' => pick (48, 48, 96, 64),
        'num-attention-heads' => pick (12, 12, 24, 8, 6), 'seq-length' => pick (24, 48, 48, 96, 20),
        'micro-batch-size' => pick (1, 1, 2), 'global-batch-size' => pick (24, 24, 48, 96, 8, 10),
    );
    $m{'ffn-hidden-size'} = pick (192, 96, 60, 100) if pick (0, 0, 1);
    $m{'kv-channels'} = 4 if pick (0, 0, 0, 0, 1);
    $m{'num-query-groups'} = pick (1, 2, 4, 6, 12, 5) if pick (0, 0, 0, 1);
    $m{'sequence-parallel'} = undef if pick (0, 1);
    $m{'max-position-embeddings'} = pick (48, 96, 128, 20) if pick (0, 0, 0, 1);
    $m{'padded-vocab-size'} = pick (96, 144, 257) if pick (0, 0, 0, 1);
    my $how = pick (0, 0, 0, 0, 1, 2);
    $m{'num-layers-per-virtual-pipeline-stage'} = pick (1, 2, 3) if $how == 1;
    $m{'decoder-first-pipeline-num-layers'} = pick (1, 2, 3, 4) if $how == 2;
    $m{'microbatch-group-size-per-virtual-pipeline-stage'} = pick (2, 3, 4, 6) if pick (0, 0, 0, 1);
    my $verdict = good ($world, $tp, $pp, $cp, $vpp, \%m) ? 'good' : 'bad';
    next if $count{$verdict}++ >= 60;
    my @words;
    for my $name (sort keys %m) {
        push @words, !defined $m{$name} ? "--$name" : pick (0, 1) ? "--$name=$m{$name}" : "--$name $m{$name}";
    }
    print "$verdict $world --megatron-tp=$tp --megatron-pp=$pp --megatron-cp=$cp",
        $vpp > 1 ? " --megatron-vpp=$vpp" : '', "|@words\n";
}
EOP
is "$(grep -c '^good ' cases) $(grep -c '^bad ' cases)" "60 60" "60 good models and 60 bad ones"

# ---- at srun -----------------------------------------------------------------------

next_job() {
    sbatch -H -n1 --parsable --wrap true
}
first=$(next_job)
refusals=0
while IFS='|' read -r head words; do
    read -r verdict n sizes <<<"$head"
    [ "$verdict" = bad ] || continue
    # shellcheck disable=SC2086  # words
    run srun -n "$n" $sizes megatron train $words
    refusals=$((refusals + 1))
    like "$status:$out:$err" $'^1::srun: error: megatron: [^\n]+$' "refused: -n $n $sizes $words"
done < cases
is "$(next_job)" "$((first + 1))" "$refusals refusals did not use up one job number"
# Steps take their time: a part of them, and all with MG_LONG; the jobs below have others.
limit=25
! long || limit=60
while IFS='|' read -r head words; do
    read -r verdict n sizes <<<"$head"
    [ "$verdict" = good ] && [ $((limit--)) -gt 0 ] || continue
    # shellcheck disable=SC2086
    run srun -Q --mpi=none -n "$n" $sizes megatron train $words
    is "$status:$err" "0:" "accepted: -n $n $sizes $words"
done < cases
scancel -u "$(id -un)"

# ---- inside a job: sizes are the job's ------------------------------------------------

# All cases of one geometry go into one job.
job() {
    grep -F " $1|" cases | while IFS='|' read -r head words; do
        read -r verdict _ <<<"$head"
        echo "srun -Q --mpi=none megatron train $words >/dev/null 2>&1; echo $verdict \$?"
    done
}
count=0
while read -r n sizes; do
    { echo '#!/bin/bash'; job "$n $sizes"; } > job
    lines=$(grep -c '^srun' job)
    count=$((count + lines))
    # shellcheck disable=SC2086
    if [ $((count % 2)) = 0 ]; then
        run sbatch -W -o job.out -n "$n" $sizes job
    else
        run salloc -Q -n "$n" $sizes bash job
        echo "$out" > job.out
    fi
    is "$(sort job.out | uniq -c | awk '{ print $2, $3 }' | grep -vxE 'good 0|bad 1')$(wc -l < job.out)" \
        "$lines" "a job of $n tasks, $sizes: $lines models"
done < <(cut -d'|' -f1 cases | cut -d' ' -f2- | sort | uniq -c | sort -rn | head -n 6 \
    | sed 's/^ *[0-9]* //')
ok "[ $count -ge 20 ]" "$count models in jobs"

# ---- who is meant ---------------------------------------------------------------------

heads='num-attention-heads 6 is not a multiple of tp 4; use 4 or 8, or tp 3 or 6'
# refused ARGUMENT...   warned ARGUMENT...   silent ARGUMENT...
refused() {
    run srun -n4 "$@"
    is "$status:$out:$err" "1::srun: error: megatron: $heads" "refused: $*"
}
warned() {
    slurm_settle
    run srun -n4 "$@"
    is "$status:$out:$err" "0::srun: megatron: warning: $heads" "a warning: $*"
}
silent() {
    slurm_settle
    run srun -n4 "$@"
    is "$status:$out:$err" "0::" "nothing said: $*"
}
refused --megatron-tp=4 megatron train --num-attention-heads 6
refused --megatron-tp 4 "$TEST_DIR/bin/megatron" train --num-attention-heads=6
refused --megatron-tp=4 other x.py --num-attention-heads 6 --tensor-model-parallel-size 4
refused --megatron-tp=4 other --pipeline-model-parallel-size=1 --num-attention-heads 6
refused --megatron-tp=4 other a b c --num-attention-heads=6 --expert-model-parallel-size 1
warned --megatron-tp=4 other --num-attention-heads 6
warned --megatron-tp=4 other --num-attention-heads 6 --context-parallel-size 1
silent --megatron-tp=4 -Q other --num-attention-heads 6
silent --megatron-tp=4 other --num-attention-heads 8
silent --megatron-tp=4 megatron plan check --num-attention-heads 6
silent --megatron-tp=4 megatron data --num-attention-heads 6
silent other --num-attention-heads 6 --megatron-tp=4
silent megatron --num-attention-heads 5 --tensor-model-parallel-size 4
silent --megatron-tp=4 sh -c 'true --num-attention-heads 6 --tensor-model-parallel-size 4'
echo 'megatron train --num-attention-heads 6' > script
chmod +x script
silent --megatron-tp=4 sh ./script
printf '0-3 megatron train --num-attention-heads 6\n' > multi
silent --megatron-tp=4 --multi-prog multi
run env MEGATRON_TP=4 srun -n4 megatron train --num-attention-heads 6
is "$status:$err" "1:srun: error: megatron: $heads" "sizes from a variable: refused as well"
slurm_settle
run env MEGATRON_TP=4 srun -n3 megatron train --num-attention-heads 6
like "$status:$err" '^0:srun: megatron: warning: 3 tasks cannot hold [^'$'\n'']*$' \
    "sizes that the step does not get: no rule of the model"

# ---- experts: rules and the default of etp ----------------------------------------------

experts='--num-experts 8 --sequence-parallel --disable-bias-linear'
# says TEXT ARGUMENT...: srun prints this line and starts the step.
says() {
    local text=$1
    shift
    slurm_settle
    run srun -n4 "$@"
    is "$status:$out:$err" "0::$text" "said: $*"
}
note='srun: megatron: note: etp is not given and defaults to tp 2: each expert is split over 2 ranks,'
note+=' and etp 2 x ep 2 = 4 ranks share the experts of a layer; --megatron-etp=1 keeps each expert whole'
# shellcheck disable=SC2086
{
    says "$note" --megatron-tp=2 --megatron-ep=2 megatron train $experts
    says "$note" --megatron-tp=2 --megatron-ep=2 other $experts
    silent --megatron-tp=2 --megatron-ep=2 --megatron-etp=1 megatron train $experts
    silent --megatron-tp=2 --megatron-ep=2 megatron train $experts --expert-tensor-parallel-size 2
    silent --megatron-tp=2 megatron train $experts
    silent --megatron-ep=2 megatron train $experts
    silent --megatron-tp=2 --megatron-ep=2 --megatron-etp=2 megatron train $experts
}
heads='num-experts 6 is not a multiple of ep 4; use 4 or 8, or ep 3 or 6'
refused --megatron-ep=4 megatron train --num-experts 6
heads='moe-router-topk 9 is more than num-experts 8'
refused --megatron-ep=4 megatron train --num-experts 8 --moe-router-topk 9
heads='moe-apply-probs-on-input needs moe-router-topk 1, not 2 (by default)'
refused --megatron-ep=4 megatron train --num-experts 8 --moe-apply-probs-on-input
heads='num-experts 8 with etp 2 needs --disable-bias-linear, or etp 1: biases of experts are not split'
refused --megatron-etp=2 megatron train --num-experts 8
heads='moe-shared-expert-intermediate-size 6 is not a multiple of tp 4; use 4 or 8, or tp 3 or 6'
# shellcheck disable=SC2086
refused --megatron-tp=4 megatron train $experts --moe-shared-expert-intermediate-size 6

# ---- device graphs ----------------------------------------------------------------------

graphs='--num-layers 4 --num-experts 8 --cuda-graph-impl'
heads='cuda-graph-modules moe and moe_router exclude each other: moe has the router already'
heads+=' (and 1 more)' # moe without padding
# shellcheck disable=SC2086
{
    refused --megatron-pp=2 megatron train $graphs local --cuda-graph-modules moe moe_router
    refused --megatron-pp=2 other $graphs transformer_engine --cuda-graph-modules moe moe_router \
        --pipeline-model-parallel-size 2
    warned --megatron-pp=2 other $graphs local --cuda-graph-scope=attn moe moe_router
    silent --megatron-pp=2 megatron train $graphs none --cuda-graph-modules moe moe_router
    silent --megatron-pp=2 megatron train $graphs local --cuda-graph-modules attn moe_router
    heads='cuda-graph-modules moe_preprocess needs moe_router, too'
    refused --megatron-pp=2 megatron train $graphs local --cuda-graph-modules moe_preprocess
    # Megatron-LM adds the router itself
    silent --megatron-pp=2 other $graphs local --cuda-graph-modules moe_preprocess
    heads='recompute-granularity full needs cuda-graph-impl full_iteration: a graph of a layer does'
    heads+=' not run the layer again'
    refused --megatron-pp=2 megatron train --enable-cuda-graph --recompute-granularity full
    silent --megatron-pp=2 megatron train $graphs none --recompute-granularity full
    heads='cuda-graph-impl "cuda": want none, local, transformer_engine or full_iteration'
    refused --megatron-pp=2 megatron train $graphs cuda
    heads='cuda-graph-modules mamba: only models with Mamba layers have it, and there are none here'
    refused --megatron-pp=2 megatron train $graphs local --cuda-graph-modules attn mamba
    silent --megatron-pp=2 other $graphs local --cuda-graph-modules attn mamba
}

# ---- the line against the job ---------------------------------------------------------

run srun -n4 --megatron-tp=4 megatron train --tensor-model-parallel-size 2
is "$status:$err" "1:srun: error: megatron: --tensor-model-parallel-size 2 contradicts the \
job's tp 4; give one of them, or --megatron-tp=2" "another tp"
run srun -n4 --megatron-pp=2 other train.py --tensor-model-parallel-size 2
like "$status:$err" "^1:.* contradicts the job's tp 1;" "a tp where the job has another size only"
run srun -n4 --megatron-tp=2 other --context-parallel-size 2
like "$status:$err" "^0:srun: megatron: warning: --context-parallel-size 2 contradicts" \
    "a cp alone is no sign of a model: a warning"
run srun -n4 --megatron-tp=2 --megatron-order=tp-cp-ep-dp-pp megatron train --use-tp-pp-dp-mapping
like "$status:$err" "^1:.*--use-tp-pp-dp-mapping contradicts the job's order" "another order"
run srun -n4 --megatron-pp=2 megatron train --num-layers 4 --num-attention-heads 5 \
    --hidden-size 7 --num-virtual-stages-per-pipeline-rank 3
is "$status:$err" "1:srun: error: megatron: hidden-size 7 is not a multiple of \
num-attention-heads 5; use 5 or 10, or give kv-channels (and 1 more)" "several: the first, and how many more"
slurm_settle
# Slurm shows the program of one component, whichever comes first.
run srun -n4 -N2 --mpi=none --megatron-tp=2 megatron train --num-attention-heads 5 \
    : -n4 -N2 megatron train --num-attention-heads 5
like "$status:$err" "^1:.*num-attention-heads 5 is not a multiple of tp 2" \
    "a heterogeneous step: once its size is known"
slurm_settle
run srun -N3 --megatron-tp=1 megatron train --global-batch-size 4 --micro-batch-size 1
like "$status:$err" "^1:[^"$'\n'"]*global-batch-size 4 is not a multiple of micro-batch-size 1 x dp 3 = 3" \
    "a number of tasks that only the controller knows"
slurm_settle
slurm_settle
is "$(squeue -h -o %i | wc -l)" 0 "no step or allocation is left over"

# ---- the same rules without Slurm ------------------------------------------------------

disagree=
while IFS='|' read -r head words; do
    read -r verdict n sizes <<<"$head"
    # shellcheck disable=SC2086
    run "$MG_BUILDDIR/megatron" plan check --world-size "$n" ${sizes//--megatron-/--} $words
    case $verdict:$status in good:0|bad:1) ;; *) disagree+="$verdict $n $sizes $words: $err; " ;; esac
done < cases
is "$disagree" "" "megatron plan check says the same"
run "$MG_BUILDDIR/megatron" plan check --tp 4 --num-attention-heads 6 --json
like "$out" '"broken":\[\{"rule":"heads-tp","text":"num-attention-heads 6 ' "by name in JSON"
done_testing

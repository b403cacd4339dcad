#!/bin/bash
# kill -9 of a random rank at random moments of starting, running and saving: the job ends
# at once, what is saved can always be gone on from, and in the end there are the
# bits of a run that was left alone.  Every other time a thread saves, mostly to a slow disk.
# MG_LONG=1: 100 times; MG_SEED repeats a run.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

mpi_available || skip_all "no MPI"
tokenized_text 20
seed_draws
slow=$MG_BUILDDIR/tests/lib/.libs/slow-sync.so
! ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san' || slow= # which must come first
kills=4
! long || kills=50
train=(megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8
       --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
       --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant
       --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)

# writes FILE: does a thread write a checkpoint, by the log?
writes() {
    [ "$(grep -c '^saving ' "$1" 2>/dev/null)" -gt "$(grep -c '^saved ' "$1" 2>/dev/null)" ]
}

# name_killed RANK LOG: is the killed rank named, by the ranks that live or by the launcher?  The
# first task that srun tells of is the killed one, the others are those that srun ends.
name_killed() {
    grep -aqE "^megatron train: (.* )?rank $1 on [^ ]+ died|process rank $1 with PID .*Killed" "$2" \
        || grep -am1 '^srun: error: .*: Killed$' "$2" | grep -qE ": tasks? ([0-9]+[-,])?$1([-,][0-9]+)?:"
}

# life NAME ASIDE LAUNCHER...: start, kill a rank some time later, see the job end.  A thread
# saves if ASIDE is 1, and is at it if 2, since its disk takes for ever.
life() {
    local name=$1 aside=$2 job start pids victim rank more=()
    shift 2
    [ -n "$slow" ] || aside=$((aside > 0))
    if ((aside)); then
        more=(--async-save)
        [ -z "$slow" ] || set -- "$@" env LD_PRELOAD="$slow" MG_SLOW_SYNC=$((50 + RANDOM % 150))
        ((aside < 2)) || set -- "$@" MG_SLOW_SYNC_UNTIL="$TEST_DIR/never"
    fi
    # what is done already is not done again, so every life gets a bit further
    "$@" "${train[@]}" --train-iters 100000 --save "$name" --load "$name" --save-interval 2 \
        --keep-last-n-checkpoints 2 "${more[@]}" >"$name.out" 2>"$name.err" &
    job=$!
    if [ $((RANDOM % 4)) != 0 ]; then # else while it starts
        until_iteration $((1 + RANDOM % (aside == 2 ? 2 : 5))) "$name.out" $job
        running=$((running + 1))
    fi
    sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
    wait_until '[ -n "$(ranks_here)" ]' $job
    ((aside < 2)) || wait_until "writes '$name.out'" $job
    pids=$(ranks_here)
    : "${pids:=$job}" # never came up: that shows in the end
    # shellcheck disable=SC2086
    set -- $pids
    start=$(date +%s%N)
    ! writes "$name.out" || during=$((during + 1))
    victim=${@:1 + RANDOM % $#:1}
    rank=$(tr '\0' '\n' 2>/dev/null <"/proc/$victim/environ" | sed -n 's/^PMIX_RANK=//p')
    kill -KILL "$victim" 2>/dev/null
    status=0
    wait $job || status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    [ "$took" -le "$worst" ] || worst=$took
    [ "$status" != 0 ] || diag "$name: status 0: $(tail -n 3 "$name.out")"
    if [ -n "$rank" ] && ! name_killed "$rank" "$name.err"; then
        unnamed=$((unnamed + 1))
        diag "rank $rank: $(cat "$name.err")"
    fi
    ! grep -aq "^megatron train: rank $rank on [^ ]* died" "$name.err" || reported=$((reported + 1))
    # while ranks still look for each other PMIx tells of a death in its own words, and MPI in its
    if grep -a '^megatron train: ' "$name.err" \
            | grep -avqE ' died|has one of them ended\?|: MPI: [a-z]+: MPI_ERR_'; then
        strange=$((strange + 1))
        diag "$(cat "$name.err")"
    fi
    wait_until '[ -z "$(ranks_here)" ]' || left=$((left + 1))
}

# lives NAME LAUNCHER...
lives() {
    local name=$1 n last
    shift
    worst=0 left=0 strange=0 during=0 unnamed=0 reported=0 running=0
    for ((n = 0; n < kills; n++)); do
        life "$name" $((n % 2 * (n % 4 == 1 ? 2 : 1))) "$@"
    done
    ok "[ $worst -lt $(patience 20000) ]" "$name: $kills kills, each ended the job within $worst ms"
    ok "[ $during -gt 0 -o -z '$slow' ]" "$name: $during of them while a thread wrote"
    is "$left" 0 "$name: no process was left"
    is "$strange" 0 "$name: nothing but deaths was reported"
    is "$unnamed" 0 "$name: every rank that was killed is named"
    ok "[ $reported -gt 0 -o $running = 0 ]" "$name: $reported of them by the others"
    last=$(cat "$name/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0)
    last=$((last + 2))
    # the number of iterations is the same, since the order of samples follows from it
    set -- "$@" "${train[@]}" --train-iters 100000 --exit-interval $last
    run "$@" --save "$name" --load "$name" --save-weights "$name.st"
    is "$status" 0 "$name: resumed, to iteration $last" || diag "$out$err"
    run "$@" --save-weights "$name.whole"
    is "$status" 0 "$name: in one go" || diag "$err"
    ok "cmp $name.st $name.whole" "$name: the same weights, bit for bit"
    is "$(ls -d "$name"/*.tmp-* 2>/dev/null)" "" "$name: and no leftovers of saves"
}

lives mpirun mpi_run 4
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || { skip 1 "no plugin"; done_testing; }
slurm_start 2
lives srun srun -Q -N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2
done_testing

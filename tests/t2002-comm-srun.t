#!/bin/bash
# Communicators under srun on four virtual nodes: every call, places of ranks under every
# distribution, and how jobs end.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
ends=$MG_BUILDDIR/tests/unit/job/ends.t
for program in "$ranks" "$ends"; do
    [ -x "$program" ] || skip_all "$program is not built (make check builds it)"
done
slurm_start 4
step=(srun -Q --mpi=pmix -N4 --ntasks-per-node=2)

# left: processes of the last step that do not end.
left() {
    wait_until '! pgrep -x ends.t | sed "s|.*|/proc/&/cwd|" | xargs -r readlink | grep -qxF "$TEST_DIR"'
}

# timed COMMAND...: run, and its milliseconds in $took.
timed() {
    local start
    start=$(date +%s%N)
    run "$@"
    took=$((($(date +%s%N) - start) / 1000000))
}

# ---- calls
run "${step[@]}" "$ranks"
is "$status" 0 "8 ranks on 4 nodes: every call is right" \
    || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
is "$(grep -c '^not ok' <<<"$out")" 0 "no check failed"
ok "[ $(grep -c '^ok' <<<"$out") -gt 180 ]" "all checks were made"
is "$err" "" "nothing else is printed"
run srun -Q --mpi=pmix -N1 -n3 "$ranks"
is "$status:$(grep -c '^not ok' <<<"$out"):$err" "0:0:" "3 ranks on one node"
run srun -Q --mpi=pmix -n1 "$ranks"
is "$status:$(grep -c '^not ok' <<<"$out"):$err" "0:0:" "1 rank"
cycles=1
! long || cycles=3
for ((i = 1; i <= cycles; i++)); do
    run "${step[@]}" "$ends" cycle
    is "$status:$out:$err" "0::" "a job begins and ends without a word ($i)"
done

for shape in 0 1; do
    run env SHAPE=$shape "${step[@]}" -m cyclic "$ends" groups
    is "$status:$(grep -c 'kinds of groups' <<<"$out"):$err" "0:8:" \
        "every kind of group has its members in order (shape $shape)"
done

# ---- places: ranks are node-major whatever the distribution
want=$(for r in 0 1 2 3 4 5 6 7; do
    echo "rank $r node $((r / 2)) of 4 local $((r % 2)) of 2 host n$((r / 2))"
done)
for how in block cyclic plane=2; do
    run "${step[@]}" -m "$how" "$ends" place
    is "$(sed 's/^task [0-9]* //' <<<"$out" | sort)" "$want" "$how: ranks are node-major"
    [ $how != cyclic ] || like "$out" 'task 4 rank 1 node 0' "cyclic: task 4 is rank 1"
done
# n2 n0 n0 n3 n2: the node list's order counts
printf 'n2\nn0\nn0\nn3\nn2\n' >hosts
run env SLURM_HOSTFILE=hosts srun -Q --mpi=pmix -n5 -m arbitrary "$ends" place
is "$(sed 's/.*host //; s/^/ /' <<<"$(sort -k4n <<<"$out")" | tr -d '\n')" " n0 n0 n2 n2 n3" \
    "arbitrary: ranks are node-major" || diag "$out" "$err"
run srun -Q --mpi=pmix -N3 -n8 "$ends" place
is "$(sort -k4n <<<"$out" | awk '{ print $6, $12 }' | uniq -c | awk '{ print $1 == $3 }' \
    | sort -u)" 1 "uneven nodes: every rank knows how many are on its node" || diag "$out"

# ---- what is not right at the start
run srun -Q --mpi=none -N2 -n2 "$ends" cycle
is "$status" 3 "two tasks without PMIx are refused"
like "$err" 'one of 2 tasks, but srun offers no PMIx; start them with srun --mpi=pmix' \
    "naming the option"
run srun -Q --mpi=none -n1 "$ends" cycle
is "$status:$err" "0:" "one task without PMIx is fine"
run salloc -Q -n4 srun -Q --mpi=none -n1 "$ends" cycle
is "$status:$err" "0:" "also inside a larger job"
printf '#!/bin/sh\n"%s" cycle && echo fine\n' "$ends" >job
run sbatch -Q --wait -n4 -o job.out job
is "$status:$(cat job.out)" "0:fine" "and in a batch script"
timed "${step[@]}" "$ends" fingerprint
is "$status" 3 "a rank with another configuration ends the step"
like "$err" 'rank 1: it is configured differently from rank 0' "and is named"
run srun -Q --mpi=pmix -n2 sh -c 'MEGATRON_RANK=$((1 - SLURM_PROCID)) \
    MEGATRON_WORLD_SIZE=2 exec "$1" cycle' - "$ends"
ok "[ $status != 0 ]" "a place that contradicts the plugin's is refused"
like "$err" 'task 0 is rank 0 of 2 by PMIx, but MEGATRON_RANK says 1' "naming both"

# ---- bad ends
timed "${step[@]}" -K "$ends" die
ok "[ $status != 0 ]" "a killed rank fails the step: $status"
ok "[ $took -lt $(patience 20000) ]" "at once: $took ms"
is "$(left)" "" "and no process is left"
timed "${step[@]}" "$ends" abort
is "$status" 86 "an abort gives its exit code, stuck calls or not"
ok "[ $took -lt $(patience 20000) ]" "at once: $took ms"
is "$(grep -c 'rank 7 ends the job' <<<"$err")" 1 "and its message"
is "$(left)" "" "and no process is left"
seconds=$(($(patience 3000) / 1000)) # that ranks may be apart when they start
run "${step[@]}" "$ends" deadline $seconds
is "$status" 3 "a rank that does not come ends the step"
like "$err" "rank [1-7]: all-reduce of 4096 float32 on world waited $seconds s" "naming what waited"
run "${step[@]}" "$ends" late $seconds
is "$status" 3 "also when it does not come to the end"
like "$err" "not all 8 ranks have come to the same point within $seconds s; on node n0 rank 0 has not" \
    "saying which rank, on which node"
for how in 'kill -STOP $$' 'exit 0'; do
    run srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 sh -c \
        "[ \$SLURM_PROCID != 3 ] || $how; exec \"\$1\" late $seconds" - "$ends"
    is "$status" 3 "a task that does not come to its start ends the step ($how)"
    like "$err" "not all ranks have come within $seconds s; on node n1 rank 3 has not" \
        "and is named, with its node"
done
run srun -Q --mpi=pmix -w n0,n1,n2 --ntasks-per-node=2 sh -c \
    "[ \$SLURM_NODEID != 1 ] || exit 0; exec \"\$1\" late $seconds" - "$ends"
is "$status" 3 "a node none of whose tasks comes to its start ends the step"
for node in n0 n2; do
    like "$err" "within $seconds s; on node $node all 2 have; nodes of n\[0-2\] that do not say so are missing" \
        "$node says that it is not missing"
done
is "$(grep -c 'on node' <<<"$err")" 2 "in one line, which the missing node has not" || diag "$err"

# has_come PID: the process has come to its start.
has_come() {
    find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >sockets
    grep '@megatron-.*-0$' "/proc/$1/net/unix" | grep -qwFf sockets
}

# signal_at_start SIGNAL: task 3, while the step starts, since task 2 comes later; leaves $status and
# $err.
signal_at_start() {
    local job
    rm -f go pid.*
    # shellcheck disable=SC2016
    srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 sh -c 'echo $$ >"pid.$SLURM_PROCID"
        [ "$SLURM_PROCID" != 2 ] || until [ -e go ]; do sleep 0.02; done
        exec "$1" late "$2"' - "$ends" "$seconds" >at.out 2>at.err &
    job=$!
    wait_until 'has_come $(cat pid.3)' $job
    kill -s "$1" "$(cat pid.3)"
    touch go
    status=0
    wait $job || status=$?
    err=$(cat at.err)
}

signal_at_start STOP
is "$status" 3 "a task that is stopped while the step starts ends the step"
like "$err" "within $seconds s; on node n1 rank 3 is stopped" "and is named, with its node"
signal_at_start KILL
ok "[ $status != 0 ]" "a task that is killed while the step starts ends the step"
like "$err" 'srun: error: n1: task 3: Killed' "and srun names it"
run srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 "$ends" leave-early $seconds
# Slurm's server may see the end of the connection first. It cancels the step and names the task.
ok "[ $status != 0 ]" "a task that leaves before the first exchange ends the step"
like "$err" "(; on node n1 rank 3 has ended|errhandler: n1 .* source = \\[slurm\\.pmix\\.[0-9.]+:3\\])" \
    "and is named, with its node"
run srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 "$ends" hang-early $seconds
is "$status" 3 "a task that hangs before the first exchange ends the step"
like "$err" "not all 4 ranks have come to the same point within $seconds s; on node n1 rank 3 has not" \
    "and is named, with its node"
run "${step[@]}" "$ends" mismatch
is "$status" 3 "different counts end the step"
like "$err" "all-reduce of 10[01] float32 on world: .*the ranks' counts differ" "saying so"
is "$(left)" "" "and no process is left"
ok "slurm_stop" "the cluster ends cleanly"
done_testing

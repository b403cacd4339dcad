#!/bin/bash
# The throwaway cluster that the other tests stand on: it runs jobs, several at a time do
# not meet, and nothing is left of it, whatever was killed before.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

cluster=$MG_SRCDIR/contrib/cluster/slurm-cluster

# leftovers DIR: every live process that names DIR in its command line or environment,
# has it open or works in it.  Looked for in other ways than the script under test does.
leftovers() {
    local p text
    for p in /proc/[0-9]*; do
        [ "${p#/proc/}" != "$BASHPID" ] || continue
        text=$(tr '\0' ' ' 2>/dev/null <"$p/cmdline"; tr '\0' ' ' 2>/dev/null <"$p/environ"
               readlink "$p/cwd" "$p"/fd/* 2>/dev/null)
        [[ $text == *"$1"* ]] && echo "${p#/proc/} $(head -c 100 "$p/comm")"
    done 2>/dev/null
}

# gone DIR WHAT: two checks.
gone() {
    is "$(leftovers "$1")" "" "$2: no process is left"
    ok "[ ! -e '$1' ]" "$2: no file is left"
}

# stepd_pids DIR: the slurmstepds of the cluster in DIR.
stepd_pids() {
    find /proc/[0-9]*/fd -lname "$1/*" 2>/dev/null | cut -d/ -f3 | sort -u \
        | while read -r pid; do
              [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = slurmstepd ] && echo "$pid"
          done
}

# Tasks are a program of our own, found by its path.
cp "$(command -v sleep)" "$TEST_DIR/sleeper" || bail_out "sleep cannot be copied"
sleeper_pids() {
    local p
    for p in /proc/[0-9]*; do
        [ "$(readlink "$p/exe" 2>/dev/null)" != "$TEST_DIR/sleeper" ] || echo "${p#/proc/}"
    done
}

# sleepers N: so many run.
sleepers() {
    [ "$(sleeper_pids | wc -l)" = "$1" ]
}

# ---- a plain life
slurm_start 4
first=$SLURM_DIR
run srun -N4 hostname
is "$status" 0 "srun -N4 works"
is "$(wc -l <<<"$out")" 4 "and ran on four nodes"
run srun -Q -N4 sh -c 'echo $SLURMD_NODENAME $TMPDIR'
is "$(sort <<<"$out")" "$(for i in 0 1 2 3; do echo "n$i $first/tmp-n$i"; done)" \
    "each node has its name and its TMPDIR"
printf '#!/bin/sh\nsrun -Q -n2 echo step\n' > job
run sbatch --wait -N2 -o job.out job
is "$status" 0 "sbatch --wait works"
is "$(cat job.out)" $'step\nstep' "and its step ran"

# ---- a second one beside it
second=$(mktemp -d "${TMPDIR:-/tmp}/mgslurm.XXXXXX")
at_exit "'$cluster' stop '$second'"
run "$cluster" start "$second" -N 2 -c 4 -g 2
is "$status" 0 "a second cluster starts beside the first"
(eval "$("$cluster" env "$second")" && srun -Q -N2 --gpus-per-node=2 \
    sh -c 'echo $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES') > gpus 2>&1
is "$(cat gpus)" $'0,1 0,1\n0,1 0,1' "it hands out pretended GPUs"
run srun -Q -N4 true
is "$status" 0 "the first still works"

# ---- one task of a step is killed
srun -Q -K -N4 "$TEST_DIR/sleeper" 300 >/dev/null 2>&1 &
srun_pid=$!
ok 'wait_until "sleepers 4"' "a step of four tasks runs"
kill -KILL "$(sleeper_pids | head -n 1)"
rc=0
wait $srun_pid || rc=$?
ok "[ $rc -ne 0 ]" "srun -K fails when one task is killed"
ok 'wait_until "sleepers 0"' "and the other tasks end"

# ---- stop with work running and much of it killed: a step, a daemon, the controller
srun -Q -N4 "$TEST_DIR/sleeper" 300 >/dev/null 2>&1 & disown
sbatch -N1 -o /dev/null --wrap "$TEST_DIR/sleeper 300" >/dev/null
ok 'wait_until "sleepers 5"' "a step and a batch job run"
kill -KILL "$(stepd_pids "$first" | head -n 1)"
kill -KILL "$(cat "$first/slurmd-n1.pid")"
kill -KILL "$(cat "$first/slurmctld.pid")"
ok "slurm_stop" "stop succeeds after a step, a slurmd and slurmctld were killed"
gone "$first" "first cluster"
ok "sleepers 0" "no task is left"
is "$(leftovers "$second" | grep -c slurmd)" 2 "the second cluster is still whole"
ok "'$cluster' stop '$second'" "and stops"
gone "$second" "second cluster"
ok "'$cluster' stop '$second'" "to stop it again is no failure"

# ---- start is interrupted
third=$(mktemp -d "${TMPDIR:-/tmp}/mgslurm.XXXXXX")
at_exit "'$cluster' stop '$third' 2>/dev/null"
for signal in TERM INT HUP; do
    mkdir -p "$third"
    # a drained node is never idle, so start waits
    echo 'DownNodes=n0 State=DRAIN Reason=test' > conf
    env --default-signal=INT "$cluster" start "$third" -N 1 --conf conf \
        >/dev/null 2>err.start &
    pid=$!
    wait_until "[ -s '$third/slurmd-n0.pid' ]" || diag "slurmd did not come up"
    kill -s $signal $pid
    rc=0
    wait $pid || rc=$?
    ok "[ $rc -gt 128 ]" "start ends on SIG$signal"
    gone "$third" "after SIG$signal"
done

# ---- what it refuses
run "$cluster" start "$TEST_DIR" -N 2
is "$status" 1 "a directory with something in it is refused"
like "$err" 'is not empty$' "and says so"
run "$cluster" stop "$TEST_DIR"
is "$status" 1 "a directory that is no cluster is not removed"
like "$err" 'holds no cluster of mine$' "and says so"
for n in 0 65 x -1 '' 1e1; do
    run "$cluster" start "$third" -N "$n"
    is "$status:$err" "1:slurm-cluster: -N $n: want a number from 1 to 64" "-N '$n' is refused"
done
run "$cluster" start "/tmp/$(printf 'd%.0s' {1..70})"
like "$err" 'is longer than 60 characters$' "a directory too long for sockets is refused"
run "$cluster" start "$third" --plugin "$TEST_DIR/absent.so"
like "$err" 'absent.so: cannot be read$' "a plugin that is not there is refused"
ok "[ ! -e '$third' ]" "nothing was made"

# ---- an ordinary user
if [ "$(id -u)" = 0 ] && setpriv --reuid=daemon --regid=daemon --clear-groups \
        test -r "$cluster" -a -x "$cluster" 2>/dev/null; then
    user=$(mktemp -d "${TMPDIR:-/tmp}/mgslurm.XXXXXX")
    chown daemon "$user"
    at_exit "'$cluster' stop '$user'"
    cd / || bail_out "no /"
    as_user() {
        setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=/ "$@"
    }
    run as_user "$cluster" start "$user" -N 2
    is "$status:$err" "0:" "an ordinary user starts a cluster"
    run as_user env SLURM_CONF="$user/slurm.conf" srun -Q -N2 id -un
    is "$out" $'daemon\ndaemon' "and runs a step"
    run as_user "$cluster" stop "$user"
    is "$status:$err" "0:" "and stops it"
    is "$(leftovers "$user")" "" "no process is left"
    is "$(ls -A "$user" 2>&1 | grep -v 'No such file')" "" "no file is left"
    rmdir "$user" 2>/dev/null
else
    skip 5 "only root can try another user, who must be able to read the script"
fi
done_testing

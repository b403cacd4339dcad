#!/bin/bash
# The throwaway cluster that the other tests stand on: it runs jobs, several at a time do
# not meet, nobody else can use it, and nothing is left of it, whatever was killed before.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

cluster=$MG_SRCDIR/contrib/cluster/slurm-cluster

slurm_check

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

# words: what start has said, without that it has no network namespace (t0011 has when).
words() {
    grep -v '^slurm-cluster: no network namespace ' <<<"$err"
}

system_files() {
    ls -laR /run/munge /run/slurm /var/run/slurm /var/log/munge /var/lib/munge 2>&1
}
system_files >system.before

# ---- a plain life, while somebody keeps a lock on /tmp
(flock -n 8; exec sleep 600) 8</tmp &
locker=$!
first=$(mktemp -d "${TMPDIR:-/tmp}/mgslurm.XXXXXX")
at_exit "'$cluster' stop '$first'"
run timeout 200 "$cluster" start "$first" -N 1
is "$status:$(words)" "0:" "a cluster starts while /tmp is locked"
run "$cluster" stop "$first"
is "$status:$err" "0:" "and stops"
kill $locker
gone "$first" "while /tmp is locked"
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

# ---- its commands
cp -R "$MG_SRCDIR/contrib/cluster/bin" other
run env PATH="$TEST_DIR/other:$PATH" srun -Q -n1 true
is "$status:$err" "0:" "srun works with the commands of another checkout before its own"
run env PATH="$TEST_DIR/other" SLURM_CONF=/nonexistent/slurm.conf sinfo
is "$status:$err" "127:$TEST_DIR/other/sinfo: sinfo is not installed" \
    "a command that is not there is told"
mkdir next
printf '#!/bin/sh\necho "$0 $*"\n' >next/sinfo
chmod 755 next/sinfo
run env PATH="$TEST_DIR/other:$TEST_DIR/next:$PATH" SLURM_CONF=/nonexistent/slurm.conf sinfo a "b  c"
is "$status:$out" "0:$TEST_DIR/next/sinfo a b  c" "without a cluster they are those behind them in PATH"
run "$cluster" run "$first" sh -c 'echo $SLURM_CONF; exit 3'
is "$status:$out:$err" "3:$first/slurm.conf:" "run runs any command"
run "$cluster" run "$first"
is "$status" 2 "but wants one"

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

# ---- another user, who knows the ports and lies about who he is
as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ "$@"
}

# attack CONFIGURATION [NAME=VALUE]...: nine commands at the same time; prints those that
# succeed.  Only root brings another user into the network namespace.
attack() {
    local conf=$1 i
    shift
    local -a attacker=("$cluster" run "$first" setpriv --reuid=65534 --regid=65534
        --clear-groups env HOME=/ timeout 120 env SLURM_CONF="$evil/$conf.conf" "$@")
    for i in "srun -Q -N1 touch $evil/step" "sbatch -o /dev/null --wrap 'touch $evil/batch'" \
            "srun -Q --jobid=$job --overlap touch $evil/step" "scancel $job" \
            "scancel -f -s KILL $job" "scontrol update NodeName=n3 State=DRAIN Reason=x" \
            "scontrol update JobId=$job TimeLimit=1" "scontrol reconfigure" \
            "scontrol shutdown"; do
        (eval "\"\${attacker[@]}\" $i" >/dev/null 2>&1 </dev/null && echo "$i") &
    done
    wait
}

# What an attack could change.
state() {
    scontrol -o show node | sed 's/.* \(State=[^ ]*\).*/\1/'
    squeue -h -o '%A %T %l'
    cat "$first"/*.pid
    ls "$evil"
}

if [ "$(id -u)" = 0 ] && as_nobody true 2>/dev/null; then
    evil=$(mktemp -d "${TMPDIR:-/tmp}/mgevil.XXXXXX")
    at_exit "rm -rf '$evil'"
    chmod 755 "$evil"
    printf '%s\n' 'int getuid (void) { return 0; }' 'int geteuid (void) { return 0; }' \
        'int getgid (void) { return 0; }' 'int getegid (void) { return 0; }' >getuid.c
    gcc -shared -fPIC -o "$evil/getuid.so" getuid.c || bail_out "no getuid to preload"
    cp "$first/slurm.conf" "$evil/copy.conf"
    sed -i "s,^PlugStackConfig=.*,PlugStackConfig=/dev/null," "$evil/copy.conf"
    sed 's,^\(Auth\|Cred\)Type=.*,\1Type=\L\1\E/none,; /^AuthInfo=/d' "$evil/copy.conf" \
        >"$evil/none.conf"
    sed "s,^AuthInfo=.*,AuthInfo=socket=$evil/munge.socket," "$evil/copy.conf" \
        >"$evil/munge.conf"
    chmod 644 "$evil"/*.conf
    chmod 755 "$evil/getuid.so"
    chown 65534 "$evil"
    as_nobody sh -c "umask 077; head -c 128 /dev/urandom >'$evil/key'"
    as_nobody env PATH="$PATH:/usr/sbin" munged -F -f --key-file="$evil/key" \
        --socket="$evil/munge.socket" --pid-file="$evil/pid" --log-file="$evil/log" \
        --seed-file="$evil/seed" --origin=127.0.0.1 >/dev/null 2>&1 &
    evil_munged=$!
    at_exit "kill $evil_munged 2>/dev/null"
    wait_until "as_nobody munge -S '$evil/munge.socket' -n"
    job=$(sbatch --parsable -N1 -o /dev/null --wrap "$TEST_DIR/sleeper 600")
    ok 'wait_until "sleepers 1"' "a job runs"
    state >state.before
    for conf in copy none munge; do
        attack $conf >attack.$conf &
        attack $conf LD_PRELOAD="$evil/getuid.so" >attack.$conf.root &
    done
    wait $(jobs -p | grep -vx "$evil_munged")
    is "$(cat attack.copy)" "" "another user with the configuration can do nothing"
    is "$(cat attack.none)" "" "nor with auth/none"
    is "$(cat attack.munge)" "" "nor with a munged of his own"
    is "$(cat attack.*.root)" "" "nor where he says that he is root"
    is "$(state)" "$(cat state.before)" "the attacks changed nothing"
    for file in slurm.conf munge.key munge.socket task-prolog plugstack.conf; do
        ok "test -r '$first/$file'" "there is a $file"
        ok "! as_nobody test -r '$first/$file'" "and another user cannot read it"
    done
    is "$(stat -c %a "$first" "$first/munge.key" | tr '\n' ' ')" "700 600 " "modes are tight"
    kill $evil_munged
    scancel "$job"
    wait_until "sleepers 0"
else
    skip 17 "only root can try another user"
fi

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
kill -KILL "$(cat "$first/munged.pid")"
if [ -e "$first/namespace" ]; then
    pid=$(cut -d ' ' -f 1 "$first/namespace")
    kill -KILL "$pid"
    wait_until "[ ! -e /proc/$pid/ns/net ]"
    run srun -n1 true
    is "$status:$err" "1:srun: the network namespace of the cluster in $first is lost; stop the \
cluster" "a namespace that nothing keeps is told"
else
    skip 1 "there is no namespace here"
fi
ok "slurm_stop" "stop succeeds after a step, a slurmd, slurmctld and munged were killed"
gone "$first" "first cluster"
ok "sleepers 0" "no task is left"
is "$(leftovers "$second" | grep -c slurmd)" 2 "the second cluster is still whole"
(eval "$("$cluster" env "$second")" && sbatch -N2 -o /dev/null \
    --wrap "srun -Q -N2 $TEST_DIR/sleeper 300") >/dev/null
ok 'wait_until "sleepers 2"' "a step runs on it"
kill -KILL "$(cat "$second/munged.pid")"
ok "'$cluster' stop '$second'" "and it stops when its munged was killed"
gone "$second" "second cluster"
ok "sleepers 0" "no task is left"
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
mkdir -m 777 open
run "$cluster" start "$TEST_DIR/open/dir"
is "$status:$err" "1:slurm-cluster: $TEST_DIR/open/dir: everybody can write to $TEST_DIR/open,\
 and so replace it" "a directory that others can replace is refused"
ok "[ ! -e open/dir ]" "and not made"
ok "[ ! -e '$third' ]" "nothing was made"

# ---- a port is taken between the choice and the start
mkdir fake
cat >fake/slurmctld <<END
#!/bin/sh
# the first time, somebody else is faster
if [ ! -e $TEST_DIR/taken ]; then
    perl -MIO::Socket::INET -e '
        \$s = IO::Socket::INET->new (Listen => 1, ReuseAddr => 1,
                                     LocalAddr => "127.0.0.1", LocalPort => \$ARGV[0]);
        open (F, ">", "$TEST_DIR/taken"); print F \$\$; close (F);
        while (\$c = \$s->accept ()) { close (\$c) }' \
        "\$(sed -n s/^SlurmctldPort=//p "\$SLURM_CONF")" >/dev/null 2>&1 &
    until [ -s $TEST_DIR/taken ]; do sleep 0.02; done
fi
exec $(PATH=$PATH:/usr/sbin:/sbin command -v slurmctld) "\$@"
END
chmod 755 fake/slurmctld
at_exit 'kill "$(cat "$TEST_DIR/taken")" 2>/dev/null'
run env PATH="$TEST_DIR/fake:$PATH" "$cluster" start "$third" -N 1
is "$status:$(words)" "0:" "start looks for other ports"
ok "[ -s taken ]" "when one was taken"
run "$cluster" stop "$third"
is "$status:$err" "0:" "the cluster stops"
kill "$(cat taken)" 2>/dev/null
gone "$third" "after a clash"

# ---- an ordinary user
if [ "$(id -u)" = 0 ] && setpriv --reuid=daemon --regid=daemon --clear-groups \
        test -r "$cluster" -a -x "$cluster" 2>/dev/null; then
    user=$(mktemp -d "${TMPDIR:-/tmp}/mgslurm.XXXXXX")
    chown daemon "$user"
    none=$(mktemp -d "${TMPDIR:-/tmp}/mgnone.XXXXXX")
    chmod 755 "$none"
    at_exit "rm -rf '$none'"
    at_exit "as_user '$cluster' stop '$user'"
    cd / || bail_out "no /"
    as_user() {
        setpriv --reuid=daemon --regid=daemon --clear-groups env HOME=/ "$@"
    }
    run as_user "$cluster" start "$user" -N 2
    is "$status:$(words)" "0:" "an ordinary user starts a cluster"
    run as_user "$cluster" run "$user" srun -Q -N2 id -un
    is "$out" $'daemon\ndaemon' "and runs a step"
    sed 's,^\(Auth\|Cred\)Type=.*,\1Type=\L\1\E/none,; /^AuthInfo=/d; s,^Plug.*,,' \
        "$user/slurm.conf" >"$none/slurm.conf"
    chmod 644 "$none/slurm.conf"
    enter=()
    [ ! -e "$user/namespace" ] \
        || enter=(nsenter --target "$(cut -d ' ' -f 1 "$user/namespace")" --net)
    run "${enter[@]}" setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ \
        timeout 120 env SLURM_CONF="$none/slurm.conf" srun -Q -N1 true
    ok "[ $status -ne 0 ]" "which another user cannot, even in its namespace"
    for command in stop env; do
        run "$cluster" $command "$user"
        is "$status:$out:$err" "1::slurm-cluster: $user: belongs to another user" \
            "nor does root $command it, whose owner could have put anything there"
    done
    run as_user "$cluster" stop "$user"
    is "$status:$err" "0:" "and stops it"
    is "$(leftovers "$user")" "" "no process is left"
    is "$(ls -A "$user" 2>&1 | grep -v 'No such file')" "" "no file is left"
    mkdir -p "$user"
    chown daemon "$user"
    run "$cluster" start "$user" -N 1
    is "$status:$err" "1:slurm-cluster: $user: belongs to another user" \
        "root starts none in the directory of another user"
    rmdir "$user" 2>/dev/null
else
    skip 9 "only root can try another user, who must be able to read the script"
fi

cd "$TEST_DIR" || bail_out "no directory"
is "$(system_files)" "$(cat system.before)" "nothing of an installed Slurm or munge was touched"
done_testing

#!/bin/bash
# Communicators over UCX: every call among several ranks, over shared memory and over TCP, with MPI's
# module out of reach; how jobs end; no port is open on one node.
# MG_LONG=1: all numbers of ranks, up to 64.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

mpi_available || skip_all "no mpirun, which starts the ranks here"
[ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ] || skip_all "the module for UCX was not built"
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
ends=$MG_BUILDDIR/tests/unit/job/ends.t
for program in "$ranks" "$ends"; do
    [ -x "$program" ] || skip_all "$program is not built (make check builds it)"
done
mkdir modules
ln -s "$MG_BUILDDIR/.libs"/{comm_ucx,boot_pmix}.so modules
export MEGATRON_MODULE_DIR=$PWD/modules

left() {
    wait_until '! pgrep -x ends.t | sed "s|.*|/proc/&/cwd|" | xargs -r readlink | grep -qxF "$TEST_DIR"'
}

# calls N TEXT LAUNCHER...: every call among N ranks.
calls() {
    local n=$1 text=$2
    shift 2
    run "$@" "$ranks"
    is "$status" 0 "$n ranks $text: every call is right" || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
    ok "[ $(grep -c '^ok' <<<"$out") -gt 180 ]" "$n ranks $text: all checks were made"
    is "$err" "" "$n ranks $text: nothing is printed"
}
over_tcp() {
    MEGATRON_UCX_TLS=tcp,self MEGATRON_UCX_NET_DEVICES=lo mpi_run "$@"
}
# Messages wait for room at their receivers, also when their senders have no more to do.
over_short_queues() {
    MEGATRON_UCX_POSIX_FIFO_SIZE=4 MEGATRON_UCX_SYSV_FIFO_SIZE=4 megatron launch "$@"
}

seed_draws
some 1 4 7 13
for n in 2 3 "${some[@]}"; do
    calls "$n" "over shared memory" mpi_run "$n"
done
calls 3 "over TCP" over_tcp 3
calls 8 "over short queues" over_short_queues -n 8
if long; then
    calls 64 "over shared memory" megatron launch -n 64
    calls 13 "over TCP" over_tcp 13
fi

# ---- what is open while a job waits
listening() {
    local pid
    for pid in $(pgrep -x ends.t); do
        [ "$(readlink "/proc/$pid/cwd")" = "$TEST_DIR" ] || continue
        ls -l "/proc/$pid/fd" | sed -n 's/.*socket:\[\([0-9]*\)\]/\1/p' >inodes
        cat "/proc/$pid/net/tcp" "/proc/$pid/net/tcp6" "/proc/$pid/net/udp" "/proc/$pid/net/udp6" \
            2>/dev/null | awk '$4 == "0A" || $4 == "07" { print $10, $2 }' | grep -wFf inodes
    done
}
seconds=$(($(patience 4000) / 1000)) # for the ranks to start and the ports to be looked at
mpi_run 3 "$ends" deadline $seconds >waits.out 2>waits.err &
waits=$!
wait_until '[ "$(pgrep -x ends.t | sed "s|.*|/proc/&/cwd|" | xargs -r readlink | grep -cxF "$TEST_DIR")" = 3 ]'
sleep 1
is "$(listening)" "" "no rank listens on a port of a job on one node"
wait $waits
is "$?" 3 "a rank that does not come ends the job"
like "$(cat waits.err)" "rank [1-2]: all-reduce of 4096 float32 on world waited $seconds s" "naming what waited"

# The monitor's: it waits for a rank that has stopped.
mpi_run 3 "$ends" hurt $seconds "$(kill -l STOP)" meeting 1 >waits.out 2>waits.err &
waits=$!
wait_until 'grep -q "^hurt at" waits.err'
is "$(listening | sed 's/.* \(.*\):.*/\1/' | sort -u)" 0100007F "its monitor listens on 127.0.0.1 alone"
wait $waits
like "$(cat waits.err)" "report: rank 1 on [^ ]* does not answer" "and reports"

# ---- bad ends
run mpi_run 5 "$ends" cycle
is "$status:$out:$err" "0::" "a job begins and ends without a word"
run mpi_run 5 "$ends" die
ok "[ $status != 0 ]" "a killed rank fails the job: $status"
is "$(left)" "" "and no process is left"
run mpi_run 5 "$ends" abort
is "$status" 86 "an abort gives its exit code, stuck calls or not"
run mpi_run 5 "$ends" mismatch
is "$status" 3 "different counts end the job"
like "$err" "all-reduce of 10[01] float32 on world: .*the ranks' counts differ" "saying so"
run mpi_run 5 "$ends" leave
ok "[ $status != 0 ]" "a rank can end the job because of its own failure"
like "$err" 'rank 1: rank 1 has had enough' "with its text"
is "$(left)" "" "and no process is left"

# ---- without any transport
rm modules/comm_ucx.so
run mpi_run 2 "$ends" cycle
ok "[ $status != 0 ]" "without a module for a transport"
like "$err" "MPI or UCX: install libopenmpi-dev or libucx-dev" "one is asked for"
done_testing

# hurt.sh - a rank of tests/unit/job/ends.t dies or stops at a place of the start or of the end: the job
# ends, in time, and the rank is named.  Source it after test.sh.

# hurt_rank TITLE SECONDS SIGNAL PLACE RANK LAUNCHER...: SIGNAL is KILL or STOP.  SECONDS is the timeout of
# the job.  PLACE is exchange (before the bootstrap's first, when nothing watches the ranks), agreement (all
# ranks have made the job), meeting (before they meet at the end) or end (after that).  LAUNCHER starts the
# program that follows.
hurt_rank() {
    local title="$1: $3, $4 of rank $5" seconds=$2 signal=$3 place=$4 rank=$5 at took soon=5000 stayed
    local named="megatron launch: rank $rank was ended by signal 9|mpirun noticed that process rank $rank .*exited on signal 9"
    shift 5
    if [ "$signal" = STOP ]; then
        named="report: rank $rank on [^ ]* does not answer: it is stopped, or its node is lost"
        [ "$place" != exchange ] ||
            named="rank [0-9]: .*rank $rank (is stopped|does not answer within|(of [0-9]+ )?has not come within)"
        soon=$((1000 * seconds + 5000))
        [ "$1" != mpi_run ] || soon=$((soon + 1000)) # mpirun first asks a stopped rank to end
    fi
    run "$@" "$MG_BUILDDIR/tests/unit/job/ends.t" hurt "$seconds" "$(kill -l "$signal")" "$place" "$rank"
    took=$(date +%s%3N)
    at=$(sed -n 's/^hurt at \([0-9]*\) ms$/\1/p' <<<"$err")
    took=$((took - ${at:-0}))
    # mpi_watch ends an mpirun that stays when its ranks have ended, up to 6 s after the time that it says.
    stayed=$(sed -n 's/^mpirun stayed for \([0-9]*\) s .*/\1/p' <<<"$err")
    took=$((took - ${stayed:+1000 * (stayed + 6)} + 0))
    ok "[ $status != 0 ]" "$title: the job fails: $status"
    like $'\n'"$err" $'\n'"($named|report: rank $rank on [^ ]* died)" "and names the rank" || diag "$err"
    ok "[ $took -lt $(patience $soon) ]" "and ends $took ms later"
}

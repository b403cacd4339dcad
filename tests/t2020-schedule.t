#!/bin/bash
# Pipelines of 2 to 4 ranks run their lists of steps: every activation and gradient
# arrives where and when it is needed (unit/schedule/exec.c has the passes), on the
# communicator of all ranks, on one of two ranks for each lane, and as grouped lists.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

mpi_available || skip_all "no MPI"
exec_test=$MG_BUILDDIR/tests/unit/schedule/exec.t
[ -x "$exec_test" ] || skip_all "unit/schedule/exec.t is not built"

for n in 2 3 4; do
    for comms in ranks lanes grouped; do
        run mpi_run "$n" env PP_SIZE="$n" "$exec_test" "$comms"
        is "$status" 0 "a pipeline of $n ranks, communicators of $comms" || diag "$out" "$err"
        is "$(grep -c "^ok .* - pp $n, " <<<"$out")" 26 "with all its cases"
    done
done
done_testing

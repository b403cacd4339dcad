#!/bin/bash
# Jobs under srun on four virtual nodes some of whose tasks do not come to their start: these and their
# nodes are named, and the job ends.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
ends=$MG_BUILDDIR/tests/unit/job/ends.t
[ -x "$ends" ] || skip_all "$ends is not built (make check builds it)"
slurm_start 4

seconds=$(apart_seconds 3000) # that ranks may be apart when they start
for how in 'kill -STOP $$' 'exit 0'; do
    run srun -Q --mpi=pmix -w n0,n1 --ntasks-per-node=2 sh -c \
        "[ \$SLURM_PROCID != 3 ] || $how; exec \"\$1\" late $seconds" - "$ends"
    is "$status" 3 "a task that does not come to its start ends the step ($how)"
    like "$err" "not all ranks have come within $seconds s; on node n1 rank 3 has not" \
        "and is named, with its node"
done
# They stay: Slurm's server on a node that is done is gone, and another one that happens to call it
# ends the step.
run srun -Q --mpi=pmix -w n0,n1,n2 --ntasks-per-node=2 sh -c \
    "[ \$SLURM_NODEID != 1 ] || exec sleep 600; exec \"\$1\" late $seconds" - "$ends"
is "$status" 3 "a node none of whose tasks comes to its start ends the step"
for node in n0 n2; do
    like "$err" "within $seconds s; on node $node all 2 have; nodes of n\[0-2\] that do not say so are missing" \
        "$node says that it is not missing"
done
is "$(grep -c 'on node' <<<"$err")" 2 "in one line, which the missing node has not" || diag "$err"
ok "slurm_stop" "the cluster ends cleanly"
done_testing

#!/bin/bash
# What tensor parallelism sends: one reduction forward and one backward in each half of a
# layer, and never logits.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

mpi_available || skip_all "no MPI, or the modules for it were not built"
calls=$MG_BUILDDIR/tests/unit/model/tp_calls.t
[ -x "$calls" ] || skip_all "$calls is not built (make check builds it)"
for n in 2 3 4; do
    run mpi_run "$n" "$calls"
    is "$status" 0 "tensor-parallel $n" || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
    is "$(grep -c '^ok' <<<"$out")" 40 "tensor-parallel $n: all checks were made"
done
done_testing

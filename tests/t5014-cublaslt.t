#!/bin/bash
# The double of cuBLASLt: its products, and what it refuses.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/cublaslt-check" ] || skip_all "CUDA is ${MG_CUDA:-off}"

for order in last first $((RANDOM + 1)); do
    run env MG_CUDA_ORDER="$order" "$programs/cublaslt-check"
    is "$status $(grep '^not ok' <<<"$out")" "0 " "order $order"
    ok "[ $(grep -c '^ok' <<<"$out") -ge 60 ]" "(with checks)"
done
done_testing

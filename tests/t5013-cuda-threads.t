#!/bin/bash
# The double of the CUDA runtime: calls from several threads, and a program that was linked with the
# toolkit's library.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/runtime-threads" ] || skip_all "CUDA is ${MG_CUDA:-off}"

for order in last lazy first 1 2 $((RANDOM + 3)); do
    run env MG_CUDA_ORDER="$order" "$programs/runtime-threads"
    is "$status $(grep -c '^ok' <<<"$out") $(grep '^not ok' <<<"$out")" "0 4 " "order $order"
done
run env MG_CUDA_DEVICES=1 "$programs/runtime-threads"
is "$status $(grep '^not ok' <<<"$out")" "0 " "one device"

real=$programs/runtime-query-real
[ -x "$real" ] || bail_out "no $real"
run env LD_LIBRARY_PATH="$programs/lib" MG_CUDA_DEVICES=5 "$real"
is "$status|$(sed -n 2p <<<"$out")|$err" "0|count 5 cudaSuccess|" \
    "a program that was linked with the toolkit's library runs with the double"
done_testing

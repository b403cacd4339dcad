#!/bin/bash
# Each CUDA kernel on the double against the CPU's, in several orders of threads, with the same bits.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/twins" ] || skip_all "CUDA is ${MG_CUDA:-off}"

orders=(0 $((RANDOM + 2)))
! long || orders+=(1 5)
for order in "${orders[@]}"; do
    run env MG_CUDA_THREADS="$order" "$programs/twins" bits
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "twins, threads in order $order"
    ok "[ $(grep -c '^ok' <<<"$out") -ge 50 ]" "(with checks)"
    echo "$out" >"bits.$order"
done
for order in "${orders[@]:1}"; do
    ok "[ $(wc -l <"bits.$order") -ge 50 ] && cmp bits.0 bits.$order" \
        "results have the same bits in order $order as in order 0"
done
done_testing

#!/bin/bash
# What the double of the CUDA runtime claims of the API, in four orders of operations.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/runtime-conform" ] || skip_all "CUDA is ${MG_CUDA:-off}"
grep -qw pku /proc/cpuinfo || export MG_CUDA_NO_KEYS=1

for order in last lazy first $((RANDOM + 1)); do
    run env MG_CUDA_ORDER="$order" "$programs/runtime-conform"
    is "$status $(grep '^not ok' <<<"$out")" "0 " "order $order"
    ok "[ $(grep -c '^ok' <<<"$out") -ge 115 ]" "(with checks)"
done
run env MG_CUDA_CAPABILITY=8.0 "$programs/runtime-conform"
is "$status $(grep '^not ok' <<<"$out")" "0 " "capability 8.0"

run env MG_CUDA_NO_KEYS=1 "$programs/runtime-conform"
is "$status $(grep '^not ok' <<<"$out") $(grep -c 'SKIP.*keys' <<<"$out")" "0  1" \
    "a processor without protection keys"

# The libraries can stand where the toolkit's do.
for name in cudart cublasLt; do
    library=$programs/lib/lib$name.so.13
    is "$(readelf -d "$library" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')" "lib$name.so.13" \
        "$name: the soname"
    ok "readelf -V '$library' | grep -q 'Name: lib$name.so.13'" "$name: the symbol version"
done
done_testing

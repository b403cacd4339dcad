#!/bin/bash
# Mistakes of host code that the double of the CUDA runtime must find: in each order the right form
# passes, and the mistake shows in at least one.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

program=$MG_BUILDDIR/tests/cuda/runtime-faults
[ -x "$program" ] || skip_all "CUDA is ${MG_CUDA:-off}"
ulimit -c 0
needs_keys=" host-read host-write memory-of-other "

mapfile -t names < <("$program")
ok "[ ${#names[@]} -ge 34 ]" "there are faults"
for name in "${names[@]}"; do
    if [[ $needs_keys == *" $name "* ]] && ! grep -qw pku /proc/cpuinfo; then
        skip 2 "$name: this processor has no protection keys"
        continue
    fi
    wrong=
    found=
    for order in last lazy first 7; do
        MG_CUDA_ORDER=$order "$program" "$name" good >/dev/null 2>log || wrong+=" $order"
        { MG_CUDA_ORDER=$order timeout -k 1 30 "$program" "$name" bad; } >/dev/null 2>>log \
            || found+=" $order"
    done
    is "$wrong" "" "$name: the right form passes in all orders"
    ok "[ -n '$found' ]" "$name: found in:$found"
done
done_testing

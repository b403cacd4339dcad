#!/bin/bash
# CUDA kernels on the CPU: what the double claims of device code, and each kernel against the CPU's,
# in three orders of threads.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/conform" ] || skip_all "CUDA is ${MG_CUDA:-off}"

kits=(act adamw attention attention_logits bias_dropout_add cast copy embedding expert_act
      expert_sort fill gemm_double norm reduce rope router router_balance router_loss row xent)
! long || kits+=(adamw_types expert_gemm state)
for order in 0 1 $((RANDOM + 2)); do
    for name in conform twins; do
        run env MG_CUDA_THREADS="$order" "$programs/$name"
        is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "$name, threads in order $order"
        ok "[ $(grep -c '^ok' <<<"$out") -ge 50 ]" "(with checks)"
    done
    # The unit tests of the CPU's kernels.
    for name in "${kits[@]}"; do
        [ "$order" = 1 ] || long || continue
        run env MG_CUDA_THREADS="$order" "$programs/kit-$name"
        is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "kit-$name, threads in order $order"
        ok "[ $(grep -c '^ok' <<<"$out") -ge 5 ]" "(with checks)"
    done
done

run env MG_CUDA_THREADS=0 "$programs/engine"
is "$status $(grep '^not ok' <<<"$out")" "0 " "errors of launches, several host threads"
ok "[ $(grep -c '^ok' <<<"$out") = 8 ]" "(with checks)"

# Bits do not depend on the order of threads.
for order in 0 1 5; do
    MG_CUDA_THREADS=$order "$programs/twins" bits >"bits.$order"
done
ok "[ $(wc -l <bits.0) -ge 50 ] && cmp bits.0 bits.1 && cmp bits.0 bits.5" \
    "results have the same bits in all orders"
done_testing

#!/bin/bash
# CUDA kernels on the CPU: what the double claims of device code, in three orders of threads, and the
# unit tests of the CPU's kernels.  t5004 has each kernel against the CPU's.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

programs=$MG_BUILDDIR/tests/cuda
[ -x "$programs/conform" ] || skip_all "CUDA is ${MG_CUDA:-off}"

kits=(act adamw attention attention_logits attention_types bias_dropout_add cast copy embedding
      expert_act expert_sort fill gemm_double norm reduce rope router router_balance row xent)
! long || kits+=(adamw_types expert_gemm router_loss state)
for order in 0 1 $((RANDOM + 2)); do
    run env MG_CUDA_THREADS="$order" "$programs/conform"
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "conform, threads in order $order"
    ok "[ $(grep -c '^ok' <<<"$out") -ge 50 ]" "(with checks)"
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
done_testing

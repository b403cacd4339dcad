#!/bin/bash
# Instrumented CUDA kernels against the CPU's: no race, no access out of bounds.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

program=$MG_BUILDDIR/tests/cuda/twins-watch
[ -x "$program" ] || skip_all "CUDA is ${MG_CUDA:-off}"
seed_draws

families=(act adamw copy dropout embedding expert_bias expert_gemm expert_sort gemm_double norm reduce
          rope router_loss row)
large=(attention router router_balance)
some 1 "${large[@]}"
for family in "${families[@]}" "${some[@]}"; do
    run "$program" "$family"
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "twins of $family"
    is "$err" "" "$family: no race, no access out of bounds"
    ok "[ $(grep -c '^ok' <<<"$out") -ge 5 ]" "(with checks)"
done
is "$(grep -o '{ "[a-z_]*", twins_' "$MG_SRCDIR/tests/cuda/twins.c" | sed 's/{ "//; s/".*//' | sort)" \
    "$(printf '%s\n' "${families[@]}" "${large[@]}" | sort)" "all families are known here"
done_testing

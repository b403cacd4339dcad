#!/bin/bash
# Long: the unit tests once more, under valgrind: no bad access, no use of what was never
# set, no memory lost.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ -n "${MG_LONG:-}" ] || skip_all "a long test, on with MG_LONG=1"
command -v valgrind >/dev/null || skip_all "valgrind is not installed"
nm -D "$MG_BUILDDIR/megatron" 2>/dev/null | grep -q __asan_init \
    && skip_all "this build has the sanitizers"

tests=$(cd "$MG_BUILDDIR" && find tests/unit tests/tap -name '*.t' -type f -perm -u=x | sort)
ok "[ \$(wc -w <<<'$tests') -ge 5 ]" "unit tests are found"
export OMP_NUM_THREADS=1
for name in $tests; do
    case $name in
        */kernels/gemm.t | */kernels/expert_gemm.t | */nn/tp_calls.t)
            # and it would take very long; the sanitizers see our part of it
            skip 1 "code that oneDNN writes at run time reads past its own buffers"
            continue ;;
        */base/flush.t | */kernels/flush.t)
            skip 1 "valgrind's processor has no mode that flushes denormals"
            continue ;;
        */cmd/fault.t)
            skip 1 "valgrind takes a bus error of several threads in its own way"
            continue ;;
    esac
    # What it finds goes to a file, that of children, which are other programs or leave
    # in the middle of a test, nowhere: they must keep their own exit status.
    run timeout -k 5 1800 valgrind -q --trace-children=no --child-silent-after-fork=yes \
        --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        --log-file="$TEST_DIR/found" --suppressions="$MG_SRCDIR/tests/lib/valgrind.supp" \
        "$MG_BUILDDIR/$name"
    is "$status:$(head -n 60 found)" "0:" "$name" \
        || diag "$(grep -A 5 '^not ok' <<<"$out" | head -n 20)"
done
done_testing

#!/bin/bash
# Long: the unit tests once more, under valgrind: no bad access, no use of what was never
# set, no memory lost.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ -n "${MG_LONG:-}" ] || skip_all "a long test, on with MG_LONG=1"
command -v valgrind >/dev/null || skip_all "valgrind is not installed"
nm -D "$MG_BUILDDIR/megatron" 2>/dev/null | grep -q __asan_init \
    && skip_all "this build has the sanitizers"
give_way

tests=$(cd "$MG_BUILDDIR" && find tests/unit tests/tap -name '*.t' -type f -perm -u=x | sort)
ok "[ \$(wc -w <<<'$tests') -ge 5 ]" "unit tests are found"
jobs=$(env -u OMP_NUM_THREADS nproc)
export OMP_NUM_THREADS=1

# refuse NAME: why valgrind cannot run a test.
refuse() {
    case $1 in
        */kernels/gemm.t | */kernels/expert_gemm.t | */nn/tp_calls.t)
            # and it would take very long; the sanitizers see our part of it
            echo "code that oneDNN writes at run time reads past its own buffers" ;;
        */base/flush.t | */kernels/flush.t)
            echo "valgrind's processor has no mode that flushes denormals" ;;
        */cmd/fault.t)
            echo "valgrind takes a bus error of several threads in its own way" ;;
    esac
}

# check NAME DIRECTORY: run a test there.  What valgrind finds goes to a file, what it finds in
# children, which are other programs or leave in the middle of a test, nowhere: they must keep their
# own exit status.
check() {
    mkdir -p "$2" && cd "$2" || return 1
    timeout -k 5 1800 valgrind -q --trace-children=no --child-silent-after-fork=yes \
        --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        --log-file=found --suppressions="$MG_SRCDIR/tests/lib/valgrind.supp" \
        "$MG_BUILDDIR/$1" >out 2>&1
    echo $? >status
}

# As many at a time as there are processors.
running=0
for name in $tests; do
    [ -z "$(refuse "$name")" ] || continue
    if [ $running -ge "$jobs" ]; then wait -n; else running=$((running + 1)); fi
    check "$name" "$TEST_DIR/${name//\//-}" &
done
wait
for name in $tests; do
    why=$(refuse "$name") dir=$TEST_DIR/${name//\//-}
    if [ -n "$why" ]; then
        skip 1 "$why"
        continue
    fi
    is "$(cat "$dir/status" 2>&1):$(head -n 60 "$dir/found")" "0:" "$name" \
        || diag "$(grep -A 5 '^not ok' "$dir/out" | head -n 20)"
done
done_testing

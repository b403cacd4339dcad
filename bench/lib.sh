# lib.sh - what the shell benchmarks share.  Run in the build tree; source it:
#
#     . "$srcdir/bench/lib.sh"
#     header
#     row "what" VALUE FLOOR UNIT       # the ratio is VALUE / FLOOR
#
# A private directory, $tmp, is removed at the end.

row_width=46 # of what a row says
tmp=$(mktemp -d "${TMPDIR:-/tmp}/mgbench.XXXXXX") || exit 1
undo=
# shellcheck disable=SC2317  # called by the trap
finish() {
    eval "$undo"
    rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT TERM
MEGATRON_MODULE_DIR=${MEGATRON_MODULE_DIR:-$PWD/.libs}
PATH=$PWD:$PATH
export MEGATRON_MODULE_DIR PATH LC_ALL=C

die() {
    echo "bench: $*" >&2
    exit 1
}

header() {
    printf '%-*s %12s %12s %8s\n' "$row_width" "$1" value floor ratio
}

row() {
    awk -v what="$1" -v value="$2" -v floor="$3" -v unit="$4" -v width="$row_width" 'BEGIN {
        printf "%-" width "s %9.4g %-4s %7.4g %-4s %8.2f\n", what, value, unit, floor, unit,
            (floor > 0 ? value / floor : 0) }'
}

# best COMMAND...: seconds of the fastest of ${BENCH_ROUNDS:-5}; its output goes to $tmp/out.
best() {
    local i start took least=
    for ((i = 0; i < ${BENCH_ROUNDS:-5}; i++)); do
        start=$(date +%s%N)
        "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || die "$*: $(tail -n 3 "$tmp/err")"
        took=$(($(date +%s%N) - start))
        if [ -z "$least" ] || [ "$took" -lt "$least" ]; then least=$took; fi
    done
    awk -v ns="$least" 'BEGIN { printf "%.6f", ns * 1e-9 }'
}

#!/bin/bash
# Every header stands alone; the public ones also for C99 and C++ programs.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

CC=${CC:-cc}
CXX=${CXX:-c++}
command -v "$CC" >/dev/null || skip_all "$CC is not installed"
cd "$MG_SRCDIR" || bail_out "no source directory"
public=(-I libcore/include -I "$MG_BUILDDIR/libcore/include")

# compile NAME COMMAND...: a program that only includes the header, twice.
compile() {
    local name=$1
    shift
    printf '#include "%s"\n#include "%s"\nint main (void) { return 0; }\n' \
        "$name" "$name" | "$@" -Wall -Wextra -Werror -fsyntax-only - 2>&1
}

for header in libcore/include/megatron/*.h; do
    name=${header#libcore/include/}
    is "$(compile "$name" "$CC" -xc -std=c99 -pedantic "${public[@]}")" "" "$name in C99"
    if command -v "$CXX" >/dev/null; then
        is "$(compile "$name" "$CXX" -xc++ -std=c++11 "${public[@]}")" "" "$name in C++"
    else
        skip 1 "$CXX is not installed"
    fi
done
# Headers of CUDA are for nvcc and for the double, by which t5000 compiles them.
while read -r header; do
    is "$(compile "$header" "$CC" -xc -std=gnu11 -D_GNU_SOURCE -I . "${public[@]}")" "" \
        "$header"
done < <(find libcore kernels cmd -name '*.h' ! -path 'libcore/include/*' ! -path 'kernels/cuda/*' \
    ! -name '*_private.h' | sort)
done_testing

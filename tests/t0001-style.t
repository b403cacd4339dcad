#!/bin/bash
# The rules of the house that a machine can see.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

max_function=100
max_file=1000
max_columns=100

cd "$MG_SRCDIR" || bail_out "no source directory"
folders=(cmd contrib kernels libcore man plugin tests)
mapfile -t c_files < <(find "${folders[@]}" \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' \) -type f \
    ! -name '*.pb-c.[ch]' | sort)
mapfile -t text_files < <(find "${folders[@]}" build-aux/gen-version m4/x_ac_*.m4 \
    ./*.md ./*.ac ./*.am bootstrap -type f \
    ! -path '*/corpus/*' ! -name '*.o' ! -name '*.lo' ! -name '*.bin' ! -name '*.idx' ! -path '*/.*/*' \
    | sort)
ok "[ ${#c_files[@]} -ge 10 ]" "C files are found"

# none TEXT FOUND: one check that FOUND, lines of file:line: reason, is empty
none() {
    is "$2" "" "$1"
}

long_files=$(wc -l "${c_files[@]}" | awk -v max=$max_file \
    '$2 != "total" && $1 > max { print $2 ": " $1 " lines" }')
none "no file is longer than $max_file lines" "$long_files"
long_lines=$(awk -v max=$max_columns \
    'length > max { print FILENAME ":" FNR ": " length " columns" }' "${c_files[@]}")
none "no line is longer than $max_columns columns" "$long_lines"
none "no tabs in C" "$(grep -nP '\t' "${c_files[@]}" | cut -c 1-100)"
none "no white space at the end of a line" \
    "$(grep -nIP '[ \t]+$' "${text_files[@]}" | cut -c 1-100)"
none "every file ends with a newline" "$(for f in "${c_files[@]}"; do
        [ -z "$(tail -c 1 "$f")" ] || echo "$f"
    done)"
none "every C file says at its top what it is" "$(for f in "${c_files[@]}"; do
        [[ $(head -c 3 "$f") == "/* " ]] || echo "$f"
    done)"
none "every header is guarded by its own path" "$(for f in "${c_files[@]}"; do
        [[ $f == *.h ]] || continue
        name=${f#libcore/include/}
        name=${name//[\/.-]/_}
        grep -q "^#ifndef ${name^^}\$" "$f" || echo "$f: want ${name^^}"
    done)"
none "no typedef hides a pointer, function types (_f) aside" \
    "$(grep -nE '^typedef [^(]*\*[^(]*;' "${c_files[@]}")"
none "config.h in no header" "$(grep -n '#include "config.h"' "${c_files[@]}" \
    | grep '\.h:')"

if ctags --version 2>/dev/null | grep -q 'Universal Ctags'; then
    ctags --languages=C,C++ --langmap=C:.c.h,C++:.cu.cpp --kinds-C=f --kinds-C++=f -o - -x \
        --_xformat='%{end} %n %F %N' "${c_files[@]}" \
        | awk '{ print $1 - $2 + 1, $3 ":" $2 ": " $4 }' | sort -n > "$TEST_DIR/lengths"
    total=$(wc -l < "$TEST_DIR/lengths")
    ok "[ $total -ge 20 ]" "functions are found"
    none "no function is longer than $max_function lines" \
        "$(awk -v max=$max_function '$1 > max { print $2, $3, $1 " lines" }' \
            "$TEST_DIR/lengths")"
    diag "$total functions, lines: median $(sed -n "$(((total + 1) / 2))p" \
        "$TEST_DIR/lengths" | cut -d ' ' -f 1), 95% at most $(sed -n \
        "$(((total * 95 + 99) / 100))p" "$TEST_DIR/lengths" | cut -d ' ' -f 1), most" \
        "$(tail -n 1 "$TEST_DIR/lengths")"
else
    skip 2 "universal-ctags is not installed: length of functions"
fi

if command -v shellcheck >/dev/null; then
    mapfile -t scripts < <(awk 'FNR == 1 && /^#!\/bin\/(ba)?sh/ { print FILENAME }' \
        "${text_files[@]}")
    none "shell scripts pass shellcheck" \
        "$(shellcheck -S error -f gcc "${scripts[@]}" 2>&1)"
else
    skip 1 "shellcheck is not installed"
fi
done_testing

#!/bin/bash
# The plugin's manual pages: whole, and every variable that our code reads is on the page of
# the environment.  (Entries for every row of the plugin's tables: unit/plugin/manual.)
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

pages='megatron-spank.8 megatron-environment.7'
for page in $pages; do
    file=$MG_BUILDDIR/man/$page
    ok "[ -s '$file' ]" "$page is made"
    is "$(grep -nE '@[A-Za-z_]+@|\$\{' "$file")" "" "$page: every name is filled in"
    for section in NAME DESCRIPTION "SEE ALSO"; do
        ok "grep -q '^\\.SH $section\$' '$file'" "$page: section $section"
    done
    # a line may hold the plugin's directory, which can be as long as it likes
    if command -v man >/dev/null && command -v groff >/dev/null; then
        is "$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z \
            "$file" 2>&1 >/dev/null | grep -v 'cannot adjust line')" "" "$page: no warning"
    else
        skip 1 "man or groff is not installed"
    fi
done

# Names in getenv ("NAME") and secure_getenv ("NAME"); what is read through tables is
# checked with the tables.
page=$(sed 's/\\-/-/g' "$MG_BUILDDIR/man/megatron-environment.7")
cd "$MG_SRCDIR" || bail_out "no source directory"
missing=
count=0
while read -r name; do
    count=$((count + 1))
    grep -qE "^\\.B (.*[ ,])?$name([ ,]|\$)" <<<"$page" || missing+="$name "
done < <(grep -rhoE --include='*.c' 'getenv \("[A-Z_]+"\)' libcore cmd kernels \
    | sed 's/.*"\(.*\)".*/\1/' | sort -u)
diag "$count variables"
is "$missing" "" "every variable that the library reads is on megatron-environment(7)"
done_testing

#!/bin/bash
# Nothing without its entry: every exported function, every option of a subcommand, every
# variable of the environment; and no page says what is not there.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

cd "$MG_SRCDIR" || bail_out "no source directory"
man=$MG_BUILDDIR/man

# ---- functions
nm -D --defined-only "$MG_BUILDDIR/.libs/libmegatron.so" 2>/dev/null \
    | awk '$NF ~ /^mg_/ { print $NF }' | sort >"$TEST_DIR/exported"
for page in "$man"/mg_*.3; do
    sed -n '/^\.SH NAME/{n;s/ \\-.*//;s/,//g;p;q;}' "$page" | tr ' ' '\n'
done | sort >"$TEST_DIR/pages"
# A declaration: the name stands before " (" in a line that begins at the margin.
sed -n 's/^[a-z].*[ *]\(mg_[a-z0-9_]*\) (.*/\1/p' libcore/include/megatron/*.h \
    libcore/include/megatron/version.h.in | sort >"$TEST_DIR/declared"
ok "[ $(wc -l <"$TEST_DIR/exported") -gt 50 ]" "symbols are read"
is "$(comm -3 "$TEST_DIR/exported" "$TEST_DIR/declared")" "" \
    "what is exported is declared, and the other way round"
is "$(comm -3 "$TEST_DIR/exported" "$TEST_DIR/pages")" "" "and stands in the NAME of a page"
is "$(uniq -d "$TEST_DIR/pages")" "" "of one"
unsaid=
for header in libcore/include/megatron/*.h libcore/include/megatron/version.h.in; do
    noun=${header##*/} noun=${noun%%.h*}
    if [ "$noun" = megatron ]; then
        continue
    fi
    ok "[ -s '$man/mg_$noun.3' ]" "<megatron/$noun.h> has a page"
    ok "grep -q '^\\.BR mg_$noun (3)' '$man/libmegatron.3'" "that libmegatron(3) names"
    # every declaration has a comment right above its block
    unsaid+=$(awk -v header="$noun.h" '
        /^$/ { above = 0; next }
        /^\/\*/ || /^ \*/ { above = 1; next }
        /^[a-z].* mg_[a-z0-9_]+ \(|^[a-z].*\*mg_[a-z0-9_]+ \(/ && !above {
            print header ": " $0
        }' "$header")
done
is "$unsaid" "" "every function has its words"

# ---- options of subcommands: those that --help tells, and those that have an entry
# entries PAGE: options behind .TP or .TQ, and others that the text speaks of in bold.
entries() {
    sed 's/\\-/-/g' "$man/$1" | grep -A1 -E '^\.T[PQ]' | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u
}
for command in plan data checkpoint; do
    : >"$TEST_DIR/options"
    for part in $(megatron $command --help | sed -n 's/^  \([a-z-]*\) .*/\1/p'); do
        run megatron $command "$part" --help
        is "$status" 0 "megatron $command $part --help"
        grep -oE -- '(^|[ (])--[a-z][a-z0-9-]*' <<<"$out" | tr -d ' (' >>"$TEST_DIR/options"
    done
    sort -u -o "$TEST_DIR/options" "$TEST_DIR/options"
    ok "[ $(wc -l <"$TEST_DIR/options") -gt 5 ]" "options of $command are read"
    sed 's/\\-/-/g' "$man/megatron-$command.1" | grep -oE -- '--[a-z][a-z0-9-]*' \
        | sort -u >"$TEST_DIR/mentioned"
    is "$(comm -23 "$TEST_DIR/options" "$TEST_DIR/mentioned")" "" \
        "every option of megatron $command is in its page"
    entries "megatron-$command.1" >"$TEST_DIR/entries"
    is "$(comm -13 "$TEST_DIR/options" "$TEST_DIR/entries" | grep -vx -- --help)" "" \
        "and every entry is an option"
done

for command in generate serve eval; do
    run megatron $command --help
    sed -n 's/^  \(--[a-z-]*\).*/\1/p' <<<"$out" | sort >"$TEST_DIR/options"
    ok "[ $(wc -l <"$TEST_DIR/options") -gt 5 ]" "options of $command are read"
    is "$(entries "megatron-$command.1" | grep -vx -- --help)" "$(cat "$TEST_DIR/options")" \
        "each option of megatron $command has an entry in its page, and no other"
done

# ---- variables: every constant that has the form of one.  SLURM_VERSION is a word of
# scontrol's.
page=$(sed 's/\\-/-/g' "$man/megatron-environment.7")
missing=
count=0
while read -r name; do
    count=$((count + 1))
    grep -qE "^\\.BR? (.*[ ,])?$name([ ,]|\$)" <<<"$page" || missing+="$name "
done < <(grep -rhoE --include='*.[ch]' \
    '"(MEGATRON|PMIX|OMPI|OMP|SLURMD?|MASTER|LOCAL|WORLD|CUDA)_[A-Z_]+"' \
    libcore cmd kernels plugin | tr -d '"' | grep -vE '_$|^SLURM_VERSION$' \
        | sort -u)
ok "[ $count -gt 30 ]" "variables are read: $count"
is "$missing" "" "every variable in the code is on megatron-environment(7)"
known=$(grep -rhoE --include='*.[ch]' '"[A-Z][A-Z0-9_]+"' libcore cmd kernels plugin \
    | tr -d '"' | sort -u)
unknown=
while read -r name; do
    grep -qx "$name" <<<"$known" || unknown+="$name "
done < <(grep -A1 -E '^\.T[PQ]' <<<"$page" | sed -n 's/^\.B //p' | tr -d ',\\' | tr ' ' '\n' \
    | grep -E '^[A-Z][A-Z0-9_]+$' | sort -u)
is "$unknown" "" "and every entry there is in the code"

# ---- form
if command -v mandoc >/dev/null; then
    for page in "$man"/*.[1-8]; do
        # a date would change with every build
        is "$(mandoc -Tlint -Wwarning "$page" | grep -v 'missing date')" "" \
            "${page##*/}: mandoc has nothing to say"
    done
else
    skip 1 "mandoc is not installed"
fi
if command -v man >/dev/null && command -v groff >/dev/null; then
    for page in "$man"/*.3; do
        is "$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z \
            "$page" 2>&1 >/dev/null)" "" "${page##*/} has no warning"
    done
else
    skip 1 "man or groff is not installed"
fi
done_testing

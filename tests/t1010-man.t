#!/bin/bash
# Every argument of "megatron train" has an entry in its page, and the page has no other;
# every page is free of warnings.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

page=$MG_SRCDIR/man/megatron-train.1.in
megatron train --help | sed -n 's/^  \(--[a-z0-9_-]*\).*/\1/p' | sort >table
# Entries: the line after .TP or .TQ
sed 's/\\-/-/g' "$page" | grep -A1 '^\.T[PQ]' | sed -n 's/^\.BI\{0,1\} \(--[a-z0-9_-]*\).*/\1/p' \
    | grep -v -x -- --help | sort >entries
ok "[ $(wc -l <table) -gt 40 ]" "the table of arguments is read"
is "$(comm -23 table entries)" "" "every argument has an entry"
is "$(comm -13 table entries)" "" "every entry is an argument"
is "$(uniq -d table)$(uniq -d entries)" "" "nothing twice"

# A default that --help states is the one that the page states: "(default 0.1)", "Default 0.1."
megatron train --help | sed -n 's/^  \(--[a-z0-9_-]*\).*(default \([0-9a-z][^ )]*\))$/\1 \2/p' \
    >defaults
ok "[ $(wc -l <defaults) -ge 15 ]" "defaults are read"
wrong=
while read -r argument default; do
    sed 's/\\-/-/g; s/\\f[BIRP]//g' "$page" | awk -v argument="$argument" '
        /^\.(TP|S[HS])/ { here = 0 }
        /^\.BI? / && $2 == argument { here = 1 }
        here' | grep -qE "^Default:? ${default//./\\.}[.;]" || wrong+="$argument $default, "
done <defaults
is "$wrong" "" "and are in the page"

for command in $(megatron --help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    ok "[ -f $MG_SRCDIR/man/megatron-$command.1.in ]" "megatron $command has a page"
    ok "grep -q 'megatron.-$command' $MG_SRCDIR/man/megatron.1.in" "and megatron(1) names it"
done

if command -v man >/dev/null; then
    for page in "$MG_SRCDIR"/man/*.in; do
        is "$(LC_ALL=C.UTF-8 MANWIDTH=300 man --warnings -l "$page" 2>&1 >/dev/null)" "" \
            "${page##*/} has no warning"
    done
else
    skip 1 "no man on this machine"
fi
done_testing

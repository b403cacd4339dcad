#!/bin/bash
# Chat templates against Jinja, set up as Hugging Face's transformers does: templates in the forms of
# known families, and 300 that are drawn; with MG_LONG=1 10,000.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

python3 -c 'import sys, jinja2; sys.exit (sys.version_info < (3, 10) or jinja2.__version__[:2] != "3.")' \
    2>/dev/null || skip_all "no python3 (3.10 or later) with jinja2 (3)"
export RENDER_TEMPLATES=$MG_BUILDDIR/tests/lib/render-templates
check=$MG_SRCDIR/tests/lib/check-templates
seed_draws
count=300
long && count=10000

run python3 -W ignore "$check" families
is "$status" 0 "known families" || diag "$out"
like "$out" "same 3[0-9][0-9] refused 0 " "their templates are not refused"
diag "families: $(tail -n 1 <<<"$out")"
run python3 -W ignore "$check" random "$count" "$MG_SEED"
is "$status" 0 "$count drawn templates" || diag "$out" "$err"
same=$(sed -n 's/^same \([0-9]*\) .*/\1/p' <<<"$out")
ok "[ ${same:-0} -ge $((count / 2)) ]" "half of them and more have a text"
diag "drawn: $(tail -n 1 <<<"$out")"

printf '%s' "{{ '<s>' }}{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}" > a.jinja
echo '{"messages": [{"role": "user", "content": "x"}]}' > a.json
run "$RENDER_TEMPLATES" a.jinja a.json
is "$status:$out" "0:<s>user: x" "a file"
printf '%s\n' 'a' '{% include "x" %}' > b.jinja
run "$RENDER_TEMPLATES" b.jinja a.json
is "$status:$out" 1: "a tag that is not supported"
like "$err" 'line 2: the tag "include" is not supported' "is named with its line"
done_testing

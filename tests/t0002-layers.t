#!/bin/bash
# Dependencies point down only: what each folder of the tree may include.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

# From the bottom up; a folder may include itself, its own line and the lines above it.
layers='
base
file topo kernels
text
device
tensor bootstrap
comm
job
nn
ops
model
schedule optim data checkpoint
args
train
infer
serve
api
plugin
cmd
'
# Who may use less than the layers say.
declare -A only=(
    [base]="base"
    [topo]="base topo"
    [file]="base file"
    [kernels]="base kernels"
    [plugin]="base topo plugin"
)

declare -A level
i=0
while read -r line; do
    [ -n "$line" ] || continue
    i=$((i + 1))
    for folder in $line; do
        level[$folder]=$i
    done
done <<<"$layers"

# allowed FROM TO
allowed() {
    if [ -n "${only[$1]:-}" ]; then
        [[ " ${only[$1]} " == *" $2 "* ]]
    else
        [ -n "${level[$1]:-}" ] && [ -n "${level[$2]:-}" ] \
            && [ "${level[$1]}" -ge "${level[$2]}" ]
    fi
}

cd "$MG_SRCDIR" || bail_out "no source directory"
bad=
count=0
while IFS=: read -r file text; do
    from=${file#libcore/} from=${from%%/*}
    to=${text#*\"} to=${to#libcore/} to=${to%%/*}
    count=$((count + 1))
    allowed "$from" "$to" || bad+="$file includes ${text#*\"}"$'\n'
done < <(grep -rE --include='*.[ch]' --include='*.cu' --include='*.cpp' \
    '^ *# *include *"(libcore/[a-z]+|kernels|plugin|cmd|tests)/' \
    libcore kernels plugin cmd | grep -v '^libcore/include/')
ok "[ $count -ge 2 ]" "includes are found"
is "$bad" "" "every include points down"
is "$(grep -rnE --include='*.h' '#include "' libcore/include | grep -v '"megatron/')" "" \
    "public headers include public headers only"
folders=
for folder in libcore/*/; do
    folder=${folder#libcore/} folder=${folder%/}
    [ "$folder" = include ] || [ -n "${level[$folder]:-}" ] || folders+="$folder "
done
is "$folders" "" "every folder has its place in the layers"

# The guard itself: it must see what is wrong.
ok "! allowed topo device && ! allowed plugin train && ! allowed nn train" \
    "upward is refused"
ok "! allowed args train && allowed train args" "arguments know nothing of a run"
ok "allowed train nn && allowed nn nn && allowed plugin topo" "downward is allowed"
done_testing

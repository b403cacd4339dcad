#!/bin/bash
# contrib/loss-svg: every kind of metrics file makes a picture, or one line that says why not.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/svg.sh"

draw=$MG_SRCDIR/contrib/loss-svg

# metrics FROM TO: lines of a run whose loss falls from 6 towards 2.
metrics() {
    awk -v a="$1" -v b="$2" 'BEGIN { for (i = a; i <= b; i++)
        printf "{\"iteration\": %d, \"lm loss\": %.9g, \"lm loss tokens\": 7, \"grad norm\": 1}\n",
            i, 2 + 4 * exp (-i / 50) }'
}

# points FILE N: points of the Nth curve, the third path being the smooth one.
points() {
    grep '^<path ' "$1" | sed -n "$2s/.* d=\"\([^\"]*\)\".*/\1/p" | tr ' ' '\n' | grep -c ,
}

metrics 1 200 >long
metrics 1 1 >single
metrics 1 2 >pair
(metrics 1 60; metrics 41 80) >resumed
(metrics 1 9; echo '{"iteration": 10, "lm loss": null}'; metrics 11 20; echo) >gap
printf '{"iteration":%d,"lm loss":%s}\n' 1 2.5 2 2.5 3 2.5 >flat
printf '{"iteration":%d,"lm loss":%s}\n' 100000 1e-5 100001 2.5e-06 >small
metrics 1 5 | sed 's/$/\r/' >dos
for case in long:200 single:1 pair:2 resumed:80 gap:19 flat:3 small:2 dos:5; do
    file=${case%:*}
    run "$draw" "$file"
    is "$status:$err" "0:" "$file is drawn"
    printf '%s\n' "$out" >"$file.svg"
    ok "svg_is_well_formed '$file.svg'" "$file: well formed"
    is "$(points "$file.svg" 2):$(points "$file.svg" 3)" "${case#*:}:${case#*:}" \
        "$file: a point for each loss in both curves"
    is "$(grep -ciE 'nan|inf' "$file.svg")" 0 "$file: all points are numbers"
    is "$(grep '^<path ' "$file.svg" | grep -o '[0-9.-]*,[0-9.-]*' | awk -F, '
        $1 < 63.9 || $1 > 776.1 || $2 < 71.9 || $2 > 392.1')" "" "$file: and inside the frame"
done
is "$(grep -o 'M[0-9]' gap.svg | wc -l)" 5 "a loss that is not finite is a gap" # axis, 2 x 2
valid='{"evaluation": "validation", "iteration": %d, "samples": 9, "lm loss value": %s}\n'
(metrics 1 50; printf "$valid" 50 3.5; metrics 51 100; printf "$valid" 100 9; printf "$valid" 100 8
 printf '{"evaluation": "test", "iteration": 100, "lm loss value": 99}\n'
 printf "$valid" 120 null) >valid
run "$draw" valid
printf '%s\n' "$out" >valid.svg
ok "svg_is_well_formed valid.svg" "evaluations: well formed"
is "$(points valid.svg 2):$(points valid.svg 3)" "100:100" "they are no iterations"
is "$(grep -c '^<circle .*#c4541c' valid.svg)$(grep -c '>validation<' valid.svg)" 31 \
    "validation is two dots and one in the legend, the test none"
is "$(sed -n 's/^<circle cx="\([0-9.]*\)" cy="\([0-9.]*\)".*#c4541c.*/\1 \2/p' valid.svg | awk '
    $1 < 63.9 || $1 > 776.1 || $2 < 71.9 || $2 > 392.1')" "" "inside the frame"
is "$(grep -c '#c4541c' long.svg)" 0 "a run without has none"
sets='{"evaluation": "validation-%s", "iteration": %d, "samples": 9, "lm loss value": %s}\n'
(metrics 1 50; printf "$sets" wiki 50 3.5 code 50 5; metrics 51 100
 printf "$sets" wiki 100 3 code 100 4) >sets
run "$draw" sets
printf '%s\n' "$out" >sets.svg
ok "svg_is_well_formed sets.svg" "several sets: well formed"
is "$(grep -c '^<circle .*#c4541c' sets.svg):$(grep -c '^<circle .*#2e7d32' sets.svg)" 3:3 \
    "each has dots of its colour, and one in the legend"
is "$(grep -o '>validation-[a-z]*<' sets.svg | tr -d '\n')" ">validation-wiki<>validation-code<" \
    "and its name there"

# Labels under the axis: on steps of 1, 2 or 5 times a power of ten, up to ten of them.
for case in 44:5 112:20 60:10 300:50 1000:100 7:1 20000:2000; do
    metrics 1 "${case%:*}" >steps
    step=${case#*:}
    is "$("$draw" steps | sed -n 's/.* y="412" text-anchor="middle">\([0-9]*\)<.*/\1/p' \
        | tr '\n' ' ')" "$(seq $((step > 1 ? step : 1)) $step ${case%:*} | tr '\n' ' ')" \
        "${case%:*} iterations are labelled in steps of $step"
done
like "$(cat long.svg)" '>5\.92<.*>2\.07<' "the first and the last loss are named"

run "$draw" --title 'a < b & "c"' --note 'back\slash' long
printf '%s\n' "$out" >text.svg
ok "svg_is_well_formed text.svg" "any title can be given"
like "$out" '<title>a &lt; b &amp; &quot;c&quot;</title>' "and stays what it is"
like "$out" '>back\\slash<' "and so does a note"

: >empty
echo 'no JSON at all' >foreign
for file in empty foreign; do
    run "$draw" $file
    is "$status:$err" "1:loss-svg: $file: no line has an iteration and a loss" "$file is refused"
    is "$out" "" "and nothing is drawn"
done
run "$draw" absent
is "$status:$err" "1:loss-svg: absent: cannot be read" "no file is refused"
run "$draw"
is "$status" 2 "no argument is a usage error"
ok "! svg_is_well_formed empty && ! svg_is_well_formed foreign" "the check can fail"
sed 's|</title>||' text.svg >open.svg
sed 's|&amp;|\&|' text.svg >bare.svg
ok "! svg_is_well_formed open.svg && ! svg_is_well_formed bare.svg" "on what is nearly right"
done_testing

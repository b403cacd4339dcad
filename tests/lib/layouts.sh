# layouts.sh - layouts at random, from $RANDOM: give that a seed, and print it.  Source it after
# train.sh.

# pick NAME WORD...: one of the words.
pick() {
    local -n picked=$1
    shift
    # shellcheck disable=SC2034
    picked=${*:1 + RANDOM % $#:1}
}

# coin: true every other time.
coin() {
    [ $((RANDOM % 2)) = 0 ]
}

# draw_sizes MOST: $tp, $pp, $dp and $cp of ${tps[@]}, ${pps[@]}, ${dps[@]} and ${cps[@]} (1), of 2 to
# MOST ranks, $n.
draw_sizes() {
    n=0
    while ((n < 2 || n > $1)); do
        pick tp "${tps[@]}"
        pick pp "${pps[@]}"
        pick dp "${dps[@]}"
        cp=1
        [ -z "${cps[*]:-}" ] || pick cp "${cps[@]}"
        n=$((tp * pp * dp * cp))
    done
}

# draw_optimizer: arguments into ${optimizer[@]} that may change the last bits for $dp ranks,
# and into ${neutral[@]} such that may not.
draw_optimizer() {
    optimizer=() neutral=()
    if coin; then
        optimizer+=(--use-distributed-optimizer)
        ((dp % 2)) || ! coin || optimizer+=(--num-distributed-optimizer-instances 2)
    fi
    draw_neutral
}

draw_neutral() {
    neutral=()
    coin || return 0
    neutral+=(--overlap-grad-reduce)
    ! coin || neutral+=(--ddp-bucket-size $((1000 + RANDOM % 4000))) # else there is one bucket
    [ ${#optimizer[@]} = 0 ] || ! coin || neutral+=(--overlap-param-gather)
}

#!/bin/bash
# A rank that stalls or dies is named, once, with what every other rank was waiting in: on 8
# ranks over 4 virtual nodes, whichever rank it is, also rank 0, which makes the report else.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

mpi_available || skip_all "no MPI"
tokenized_text 20
train=(megatron train --num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 8
       --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
       --micro-batch-size 1 --global-batch-size 8 --train-iters 100000 --lr 1e-3
       --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)

# pid_of RANK: of the run in this directory; the launcher's rank is the logical one here.
pid_of() {
    local p
    for p in $(pgrep -x megatron); do
        [ "$(readlink "/proc/$p/cwd")" = "$TEST_DIR" ] || continue
        ! tr '\0' '\n' <"/proc/$p/environ" | grep -Eqx "(PMIX_)?RANK=$1" || echo "$p"
    done
}

# hurt NAME SIGNAL RANK COMMAND...: leaves $said, the report, $took in ms, and $came, how many
# seconds the start took.
hurt() {
    local name=$1 signal=$2 rank=$3 job start
    shift 3
    : >"$name.out"
    came=$SECONDS
    "$@" >>"$name.out" 2>"$name.err" &
    job=$!
    until_iteration 3 "$name.out" $job || :
    came=$((SECONDS - came))
    start=$(date +%s%N)
    kill -"$signal" "$(pid_of "$rank")" || kill $job # it never came up: do not wait for its end
    status=0
    wait $job || status=$?
    took=$((($(date +%s%N) - start) / 1000000))
    said=$(sed -n '/^megatron train: /,$p' "$name.err" | grep '^megatron train: \|^  rank')
    ok "[ $status != 0 ]" "$name: the job fails: $status"
    is "$(grep '^megatron train: ' "$name.err" | grep -vc warning:)" 1 "$name: one report: ${said%%$'\n'*}" \
        || diag "$(cat "$name.err")"
}

# told RANK WHAT: the headline, and the others' lines.
told() {
    local others
    like "$said" "^megatron train: rank $1 (on [^ ]* )?$2" "rank $1 is named"
    others=$(grep '^  rank' <<<"$said")
    ok "[ -n '$others' ]" "the others are told of" || diag "$said"
    is "$(grep -vcE '^  ranks? [-0-9,]+: in [^,]*[0-9], (waiting in (all-reduce #[0-9]+|send|receive|transfers) on [a-z-]+(, for ranks? [-0-9,]+)?, [0-9.]+ s|not waiting.*|running kernels \([a-z ]+\)( after .*)?)$' \
        <<<"$others")" 0 "each with its collective and group" || diag "$said"
    like "$others" "for ranks? ([-0-9,]*[,-])?$1[,-]?|for ranks? [0-9]+-[0-9]+" "some wait for rank $1"
}

# choose_timeout: short, but longer than ranks can be apart when they start, by the last run.
choose_timeout() {
    local seconds=$((3 * (came > 1 ? came / 2 + 1 : 1)))
    timeout=(--distributed-timeout-minutes "$(awk "BEGIN { print $seconds / 60 }")")
    silent="does not answer: it is stopped, or its node is lost; rank [0-9]: .* waited $seconds s"
    soon=$((1000 * seconds + 20000))
}

launcher=(megatron launch -n 4)
[ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ] || launcher=(mpi_run 4)
hurt local-kill KILL 3 "${launcher[@]}" "${train[@]}"
told 3 died
ok "[ $took -lt $(patience 20000) ]" "in $took ms"
choose_timeout
hurt local-stop STOP 2 "${launcher[@]}" "${train[@]}" "${timeout[@]}" --no-overlap-p2p-communication
told 2 "$silent"

# A warning before the end, in lines of its own (on a busy machine also of other waits); the
# report comes after it.
hurt warn STOP 1 mpi_run 4 "${train[@]}" "${timeout[@]}" --stall-warning-minutes 0.02
like "$said" "megatron train: .*warning: rank [0-9] has waited for.*"$'\n'"megatron train: rank 1 .* does not" \
    "a warning comes first"
said="megatron train: ${said##*$'\n'megatron train: }"
told 1 "$silent"

# A launcher's server that does not answer, or that leaves after a time.
no_answer() {
    local server uri
    rm -f port
    perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new (Listen => 5, LocalAddr => "127.0.0.1")
        or exit 1; open F, ">port.new"; print F $l->sockport; close F; rename "port.new", "port";
        $SIG{ALRM} = sub { exit }; $time = shift;
        while ($c = $l->accept) { push @kept, $c; alarm $time if $time }' "$1" &
    server=$!
    at_exit "kill $server 2>/dev/null"
    wait_until '[ -e port ]' $server
    uri="x.0;tcp4://127.0.0.1:$(cat port)"
    run timeout 120 env PMIX_NAMESPACE=x PMIX_RANK=0 PMIX_SERVER_URI2="$uri" PMIX_SERVER_URI21="$uri" \
        PMIX_SERVER_URI3="$uri" PMIX_SERVER_URI4="$uri" PMIX_SERVER_URI41="$uri" \
        PMIX_SECURITY_MODE=none,native PMIX_GDS_MODULE=hash PMIX_VERSION=4.2 \
        PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC \
        "${train[@]}" --distributed-timeout-minutes 0.03
    is "$status" 1 "a launcher that does not answer is given up"
    # by MPI, which comes first, or by PMIx
    like "$err" "^megatron train: .*the launcher's server (of job x does not answer|has not answered)" \
        "with a line"
    is "$(grep -c '^megatron' <<<"$err")" 1 "and only one"
    kill $server 2>/dev/null
    wait $server 2>/dev/null
}
no_answer 0
no_answer 2 # after the timeout, while PMIx is asked once more

[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || { skip 1 "no plugin"; done_testing; }
slurm_start 4
step=(srun -Q -N4 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 "${train[@]}")
hurt kill KILL 6 "${step[@]}"
told 6 died
ok "[ $took -lt $(patience 20000) ]" "in $took ms"
choose_timeout
hurt stop STOP 5 "${step[@]}" "${timeout[@]}"
told 5 "$silent"
like "$said" "rank 5 on n2 " "with its node"
ok "[ $took -lt $(patience $soon) ]" "soon after the timeout: $took ms"
hurt stop-0 STOP 0 "${step[@]}" "${timeout[@]}"
told 0 "$silent"
hurt kill-0 KILL 0 "${step[@]}"
told 0 died
ok "[ $took -lt $(patience 20000) ]" "in $took ms"
done_testing

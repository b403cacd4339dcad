#!/bin/bash
# Bootstrap env between two hosts, which are network and host name spaces of this machine: with the
# same token, another one and none; over TCP.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

[ -e "$MG_BUILDDIR/.libs/comm_ucx.so" ] || skip_all "the module for UCX was not built"
[ "$(id -u)" = 0 ] || skip_all "only root makes network name spaces"
command -v ip >/dev/null || skip_all "there is no ip (iproute2)"
a=mgt-$$-a b=mgt-$$-b
ip netns add "$a" 2>/dev/null || skip_all "no network name space can be made here"
at_exit "ip netns del $a; ip netns del $b"
ip netns add "$b"
ip netns exec "$a" true 2>/dev/null || skip_all "no program can be run in a network name space here"
ip link add mgt0 netns "$a" type veth peer name mgt0 netns "$b" 2>/dev/null \
    || skip_all "no pair of network devices can be made here"
for host in "$a 10.213.7.1" "$b 10.213.7.2"; do
    read -r name address <<<"$host"
    ip -n "$name" addr add "$address/24" dev mgt0
    ip -n "$name" link set mgt0 up
    ip -n "$name" link set lo up
done
# a device that is not running yet is not used
wait_until 'ip -n $a -br link show mgt0 | grep -q "UP.*LOWER_UP" && ip -n $b -br link show mgt0 | grep -q "UP.*LOWER_UP"'
mkdir modules
ln -s "$MG_BUILDDIR/.libs/comm_ucx.so" modules
tokenized_text 40
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 8 --train-iters 6 --lr 1e-3 --eval-iters 0)
export MEGATRON_MODULE_DIR=$PWD/modules OMP_NUM_THREADS=1 MEGATRON_BOOTSTRAP=env MASTER_ADDR=10.213.7.1 \
    MASTER_PORT=29511 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MEGATRON_UCX_TLS=tcp,self

# rank R TOKEN ARGUMENT...: in the background, two of them on each host; output in R.out, R.err.
rank() {
    local r=$1 token=$2 host=$a
    shift 2
    [ "$r" -lt 2 ] || host=$b
    RANK=$r LOCAL_RANK=$((r % 2)) MEGATRON_BOOTSTRAP_TOKEN=$token ip netns exec "$host" \
        unshare -u sh -c 'hostname "$1"; shift; exec "$@"' sh "$host" megatron train "${args[@]}" "$@" \
        >"$r.out" 2>"$r.err" </dev/null &
    pids[r]=$!
}
# statuses of all four
together() {
    local r statuses=
    for r in 0 1 2 3; do
        rc=0
        wait "${pids[r]}" || rc=$?
        statuses+="$rc "
    done
    status=$statuses
}

run env -u MEGATRON_BOOTSTRAP megatron train "${args[@]}" --metrics-file one.json --save-weights one.st
is "$status" 0 "one rank" || diag "$err"
for r in 3 2 1 0; do
    rank $r a-secret-of-the-job-1 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
        --metrics-file two.json --save-weights two.st
done
together
is "$status" "0 0 0 0 " "two hosts train" || diag "$(head -n 3 ./*.err)"
same_metrics two.json one.json 1e-5 1e-4 "against one rank"
same_weights two.st one.st 1e-4 "weights at the end" --skip-key-bias 4

# listening HOST: the addresses at which something listens, in hexadecimal digits
listening() {
    ip netns exec "$1" cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == "0A" { sub (/:.*/, "", $2); print $2 }'
}
# The monitor between hosts: rank 0 hears of a rank of the other host that has died.
rm ./*.out # of the ranks before
for r in 0 1 2 3; do
    rank $r a-secret-of-the-job-1 --train-iters 1000000 --lr-decay-iters 10 --log-interval 1
done
wait_until 'cat ./*.out | grep -q "iteration  *3/"' "${pids[0]}"
is "$(listening "$a" | grep -c '^0*$') $(listening "$b" | grep -c '^0*$')" "1 1" \
    "rank 0 and the last rank listen on all addresses"
kill -KILL "${pids[3]}"
together 2>/dev/null
ok '[[ " $status" != *" 0 "* ]]' "a rank that dies ends all: $status"
like "$(cat 0.err)" "rank 3 on $b died" "rank 0 reports a death on the other host"

seconds=$(($(patience 6000) / 1000)) # in which all have come
minutes=$(awk "BEGIN { printf \"%.9f\", $seconds / 60 }")
for r in 0 1 2 3; do
    token=a-secret-of-the-job-1
    [ $r != 3 ] || token=another-secret-of-a-job
    rank $r $token --distributed-timeout-minutes "$minutes"
done
together
ok '[[ " $status" != *" 0 "* ]]' "another token on one rank ends all: $status"
like "$(cat 3.err)" "rank 0 has another MEGATRON_BOOTSTRAP_TOKEN" "the rank says it"
like "$(cat 0.err)" "rank 3 of 4 has not come within [0-9.]+ s; [0-9]+ connections had another \
MEGATRON_BOOTSTRAP_TOKEN, the last from 10.213.7.2" "rank 0 names where it came from"
rank 0 ""
rc=0
wait "${pids[0]}" || rc=$?
status=$rc
ok "[ $status != 0 ]" "no token beyond the loopback"
like "$(cat 0.err)" "MASTER_ADDR 10.213.7.1 is beyond this machine: want MEGATRON_BOOTSTRAP_TOKEN" "is refused"

# one host
unset MEGATRON_UCX_TLS
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2
rm ./*.out
for r in 0 1; do
    rank $r a-secret-of-the-job-1 --train-iters 1000000 --lr-decay-iters 10 --log-interval 1
done
wait_until 'cat 0.out 1.out | grep -q "iteration  *3/"' "${pids[0]}"
is "$(listening "$a" | tr '\n' ' ')" "0100007F 0100007F " "ranks of one host listen on 127.0.0.1 alone"
kill "${pids[@]:0:2}"
wait "${pids[@]:0:2}" 2>/dev/null
done_testing

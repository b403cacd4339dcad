#!/bin/bash
# megatron launch: options, rules and variables of the plugin; output of ranks; CPUs.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

show='echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MEGATRON_TP_SIZE $MEGATRON_TP_RANK $MEGATRON_PP_RANK $MEGATRON_DP_RANK $MASTER_ADDR $MEGATRON_BOOTSTRAP"'
run megatron launch -n 4 --megatron-tp=2 --megatron-pp 2 sh -c "$show"
is "$status:$err" "0:" "four ranks"
is "$(sort <<<"$out")" "0 4 0 4 2 0 0 0 127.0.0.1 env
1 4 1 4 2 1 0 0 127.0.0.1 env
2 4 2 4 2 0 1 0 127.0.0.1 env
3 4 3 4 2 1 1 0 127.0.0.1 env" "have their places"
MEGATRON_TP=2 run megatron launch -n2 sh -c 'echo $MEGATRON_TP_SIZE'
is "$out" "2
2" "sizes by variables"
MEGATRON_TP_SIZE=4 MEGATRON_WORLD_SIZE=8 run megatron launch -n2 sh -c 'echo $RANK $WORLD_SIZE; env | grep "^MEGATRON_.*[EKR]=" | grep -vE "BOOTSTRAP|MODULE"; true'
is "$(sort <<<"$out")" "0 2
1 2" "without sizes a rank gets none, nor those of another job"
run megatron launch -n 2 megatron train --num-layers 2 --hidden-size 16 --num-attention-heads 4 --seq-length 8 \
    --mock-data --tokenizer-type NullTokenizer --vocab-size 100 --micro-batch-size 1 --global-batch-size 2 \
    --train-iters 1 --lr 1e-3 --tensor-model-parallel-size 4
ok "[ $status != 0 ]" "the arguments of the program choose the sizes"
like "$err" "^megatron train: .*tp 4" "and the program refuses them"
MASTER_ADDR=far MASTER_PORT=1 SLURM_PROCID=7 run megatron launch -n 2 sh -c 'echo $MASTER_ADDR; [ $MASTER_PORT != 1 ]'
is "$status:$out" "0:127.0.0.1
127.0.0.1" "the address is the launcher's own, whatever is around it"
run megatron launch -n 3 sh -c 'echo $MASTER_PORT $MEGATRON_BOOTSTRAP_TOKEN'
is "$(sort -u <<<"$out" | grep -cE '^[0-9]+ [0-9a-f]{64}$')" 1 "all have one port and one token"
first=$out
run megatron launch -n 3 sh -c 'echo $MASTER_PORT $MEGATRON_BOOTSTRAP_TOKEN'
ok '[ "$first" != "$out" ]' "of this run alone"
for n in 8 64; do
    run megatron launch -n "$n" sh -c 'echo $RANK'
    is "$status:$(sort -n <<<"$out" | tr '\n' ' ')" "0:$(seq -s ' ' 0 $((n - 1))) " "$n ranks"
done

# ---- output
run megatron launch -n 11 --label sh -c 'printf "a\nb"; echo e >&2'
is "$status:$(sort <<<"$out")" "0:$(for i in {0..10}; do printf '%2d: a\n%2d: b\n' $i $i; done | sort)" \
    "lines with ranks"
is "$(sort <<<"$err")" "$(for i in {0..10}; do printf '%2d: e\n' $i; done | sort)" "of standard error, too"
run megatron launch -n 2 -l sh -c 'head -c 200000 /dev/zero | tr "\0" x; echo'
is "$(tr -d '\n01: ' <<<"$out" | wc -c)" 400000 "a line of any length"
run megatron launch -n 2 -l printf 'a\0b\nc\n'
is "$(tr '\0' @ <"$TEST_DIR/.out" | sort -u)" "0: a@b
0: c
1: a@b
1: c" "a zero byte"
status=0
megatron launch -n 2 -l echo >/dev/full 2>full.err || status=$?
is "$status:$(cat full.err)" "1:megatron launch: standard output cannot be written: No space left on device" \
    "output that cannot be written"
megatron launch -n 3 --label sh -c 'seq 30000; echo saved >saved.$RANK' 2>pipe.err | head -n 5 >pipe.out
is "${PIPESTATUS[0]}:$(cat pipe.err)" "1:megatron launch: standard output cannot be written: Broken pipe" \
    "a reader that ends early"
is "$(wc -l <pipe.out) $(cat saved.*)" "5 saved
saved
saved" "has its lines, and all ranks run on to their end"
run megatron launch -n 2 bash -c 'yes | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}"'
is "$status:$out" "0:141
141" "programs of ranks get SIGPIPE as before"
(trap '' PIPE && exec megatron launch -n 1 bash -c 'yes | head -n 1 >/dev/null; echo "${PIPESTATUS[0]}"') >pipe.out
is "$(cat pipe.out)" 141 "also if this command was told to ignore it"
run megatron launch -n 2 --output logs sh -c 'echo out $RANK; echo err $RANK >&2'
is "$status:$out:$err" "0::" "to files"
is "$(head logs/*)" "==> logs/0.err <==
err 0

==> logs/0.out <==
out 0

==> logs/1.err <==
err 1

==> logs/1.out <==
out 1" "one for each rank and stream"
# A link of another user in a directory like /tmp.
mkdir -m 1777 shared
mkdir mine
ln -s "$PWD/mine" shared/logs
run megatron launch -n 1 --output shared/logs echo ours
is "$status:$err:$(cat mine/0.out)" "0::ours" "a link of this user is followed"
if [ "$(id -u)" = 0 ] && chown -h 65534 shared/logs 2>/dev/null; then
    for dir in shared/logs shared/logs/new; do
        run megatron launch -n 1 --output "$dir" echo theirs
        is "$status:$out:$err" "1::megatron launch: --output: $dir: cannot write: another user has made the \
link shared/logs; only links that this user or root has made are followed there" "one of another user is not: $dir"
    done
    is "$(ls mine):$(cat mine/0.out)" "0.err
0.out:ours" "and nothing is written there"
else
    skip 3 "only root can make a link of another user"
fi
run sh -c 'echo text | megatron launch -n 2 cat'
is "$status:$out" "0:text" "rank 0 alone reads input, no other rank waits for it"

# ---- CPUs
run megatron launch -n 1 sh -c 'taskset -pc $$; echo $OMP_NUM_THREADS'
is "$(tail -n 1 <<<"$out")" "$(nproc)" "one rank has all CPUs"
if [ "$(nproc)" -ge 2 ]; then
    run megatron launch -n 2 --label sh -c 'nproc; taskset -pc $$ | sed "s/.*: //"'
    is "$(sed -n 's/.: //p' <<<"$out" | sort | uniq -d | grep -vx "$(($(nproc) / 2))")" "" "two share none"
else
    skip 1 "one CPU"
fi
OMP_NUM_THREADS=3 run megatron launch -n 2 sh -c 'echo $OMP_NUM_THREADS'
is "$out" "3
3" "a user's number of threads stays"

# ---- refusals
refused() {
    local want=$1 status_want=$2
    shift 2
    run megatron launch "$@"
    is "$status:$out" "$status_want:" "refused: $*"
    is "$(wc -l <<<"$err")" 1 "in one line"
    like "$err" "$want" "that says why"
}
refused 'the number of ranks is missing: -n N' 2 true
refused 'a program is missing' 2 -n 2
refused '-n is \"0\"|-n' 2 -n 0 true
refused '-n' 2 -n 4097 true
refused '-n' 2 -n x true
refused 'unknown option --megatron-tpp=2; did you mean --megatron-tp' 2 -n 2 --megatron-tpp=2 true
refused 'unknown option --megatron-placement=warn' 2 -n 2 --megatron-placement=warn true
refused 'exclude each other' 2 -n 2 --label --output x true
refused '--output wants a directory' 2 -n 2 --output= true
refused '3 tasks cannot hold tp 2' 1 -n 3 --megatron-tp=2 true
refused 'megatron-tp' 2 -n 2 --megatron-tp=0 true
refused 'megatron-tp|MEGATRON_TP' 2 -n 2 --megatron-tp= true
refused 'num-attention-heads' 1 -n 4 --megatron-tp=4 megatron train --num-layers 2 --hidden-size 6 --num-attention-heads 3
mkdir fifos
mkfifo fifos/0.err fifos/1.out
exec 5<>fifos/1.out # somebody reads
refused 'fifos/0.err: No such device' 1 -n 2 --output fifos true
rm fifos/0.err
refused 'fifos/1.out: there is something that is not a regular file' 1 -n 2 --output fifos true
exec 5<&-
refused 'logs/0.out/x: Not a directory' 1 -n 1 --output logs/0.out/x true
run megatron launch --help
is "$status" 0 "--help"
for option in --ntasks --megatron-tp --megatron-cp --megatron-ep --megatron-etp --megatron-pp --megatron-vpp \
    --megatron-order --label --output; do
    like "$out" "\\$option" "tells of $option"
    ok "grep -q -- '$(sed 's/-/\\\\-/g' <<<"$option")' '$MG_SRCDIR/man/megatron-launch.1.in'" "so does the page"
done
done_testing

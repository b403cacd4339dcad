#!/bin/bash
# Communicators over NCCL, on the double of CUDA and NCCL: every call among several ranks, a run, and
# what is refused.  t5031 has the layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"
cuda_nccl
ranks=$MG_BUILDDIR/tests/unit/comm/ranks.t
[ -x "$ranks" ] || skip_all "$ranks is not built (make check builds it)"

# ---- every call
for n in 2 4; do
    run env MG_TEST_DEVICE=cuda MG_CUDA_DEVICES=$n megatron launch -n $n "$ranks"
    is "$status" 0 "$n ranks: every call is right" || diag "$(grep -A 2 '^not ok' <<<"$out")" "$err"
    ok "[ $(grep -c '^ok\|: ok' <<<"$out") -gt 150 ]" "all checks were made"
    is "$err" "" "nothing is printed"
done

# ---- runs
tokenized_text 20
one=(megatron train --num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6
     --ffn-hidden-size 28 --seq-length 8 --tokenizer-type ByteLevel
     --data-path text_text_document --split 80,20,0 --micro-batch-size 2 --global-batch-size 4
     --train-iters 1 --lr 2e-3 --lr-decay-style constant --override-opt-param-scheduler
     --eval-iters 0)
run env MG_CUDA_DEVICES=2 megatron launch -n 2 "${one[@]}" --device cuda --distributed-backend nccl \
    --tensor-model-parallel-size 2
is "$status" 0 "two ranks train" || diag "$err"
ok "! grep -q 'change nothing here' <<<\"\$out\"" "--distributed-backend nccl is meant"
like "$out" "communicators of rank 0, MiB of its GPU: tp 9.0$|communicators of rank 0, MiB of its GPU: tp 9.0[^0-9]" \
    "the memory of the communicator, with its first calls of three kinds"
like "$out" "tp 9.0.* .a plan reserves 320 for each." "beside what a plan reserves"

# as_planned TEXT ARGUMENT...: two ranks make as many communicators as their plan counts
as_planned() {
    local text=$1 planned made
    shift
    planned=$(megatron plan memory "${one[@]:2}" --vocab-size 256 --world-size 2 --rank 0 --json \
        --device cuda "$@" | sed -n 's/.*"communicators":\([0-9]*\),.*/\1/p')
    run env MG_CUDA_DEVICES=2 CUDA_DEVICE_MAX_CONNECTIONS=32 megatron launch -n 2 "${one[@]}" \
        --device cuda --communicator-reserve-mib 8 "$@"
    made=$(sed -n 's/^communicators of rank 0, MiB of its GPU: \(.*\) (.*/\1/p' <<<"$out")
    is "$status $(tr ',' '\n' <<<"$made" | wc -l)" "0 ${planned:-no}" \
        "$text: as many communicators as planned: $made" || diag "$err"
}
as_planned "tp" --tensor-model-parallel-size 2
like "$out" "a plan reserves 8 for each, less than the largest takes: --communicator-reserve-mib" \
    "a reserve that is too small is told"
as_planned "a pipeline" --pipeline-model-parallel-size 2
as_planned "a pipeline with lanes" --pipeline-model-parallel-size 2 --overlap-p2p-communication

# ---- settings of NCCL
cat >nccl.yaml <<'END'
tp:
  cga_cluster_size: 2
  max_ctas: 4
dp_cp: { min_ctas: 3, net_name: socket }
END
short=("${one[@]}" --train-iters 1)
run env MG_CUDA_DEVICES=2 MG_NCCL_LOG="$PWD/nccl.log" megatron launch -n 2 "${short[@]}" \
    --device cuda --tensor-model-parallel-size 2 --nccl-communicator-config-path nccl.yaml
is "$status" 0 "a run with a file of settings" || diag "$err"
is "$(grep '^tp:' nccl.log | sort -u)" "tp: cga 2 ctas -1-4 net -" "which its group gets"
is "$(grep -v '^tp:' nccl.log | grep -v 'cga -1 ctas -1-32 net -')" "" "and no other one"
sed 's/max_ctas: 4/max_ctas: 40/' nccl.yaml >large.yaml
run env MG_CUDA_DEVICES=2 MG_CUDA_MULTIPROCESSORS=30 megatron launch -n 2 "${short[@]}" \
    --device cuda --tensor-model-parallel-size 2 --nccl-communicator-config-path large.yaml
like "$status $err" "^[1-9].*NCCL: max_ctas of tp is 40: want at most [0-9]*, since kernels and" \
    "more thread blocks than the GPU has room for are refused"
run megatron launch -n 2 "${short[@]}" --nccl-communicator-config-path nccl.yaml
like "$status $out" "^0 .*--nccl-communicator-config-path has no effect without --device cuda" \
    "on the CPU it changes nothing, as a line says"
sed -i 's/max_ctas/max_cta/' nccl.yaml
for command in "megatron plan check -- ${short[*]:2}" "megatron launch -n 2 ${short[*]}"; do
    run $command --device cuda --nccl-communicator-config-path nccl.yaml
    ok "[ $status != 0 ]" "a wrong setting: ${command:0:20}"
    like "$err$out" "--nccl-communicator-config-path: nccl.yaml:3: tp: there is no setting \"max_cta\", want cga_cluster_size, min_ctas, max_ctas, net_name or is_high_priority_stream" \
        "is refused with file, line and what is allowed"
done

# ---- --device auto
run env MG_CUDA_DEVICES=2 megatron launch -n 2 "${short[@]}" --device auto
is "$status" 0 "--device auto with a GPU for each of two ranks" || diag "$err"
like "$out" "device cuda:0: " "is the GPU, as a line says"
# in_rank_1 VARIABLE=VALUE COMMAND...: with that variable in rank 1 alone
cat >in_rank_1 <<'END'
#!/bin/bash
[ "$RANK" != 1 ] || export "$1"
shift
exec "$@"
END
chmod +x in_rank_1
for row in 'MG_CUDA_DEVICES=0|rank 1 has no GPU that it can use' \
    'MG_CUDA_DEVICES=1|ranks 0 and 1 have one GPU, 0000:01:00.0'; do
    run env MG_CUDA_DEVICES=2 megatron launch -n 2 ./in_rank_1 "${row%%|*}" "${short[@]}" \
        --device auto
    is "$status" 0 "--device auto, in rank 1 ${row%%|*}" || diag "$err"
    like "$out" "device auto is the CPU: ${row#*|}" "is the CPU on both, as a line says"
done
run env MG_CUDA_DEVICES=2 megatron launch -n 2 "${short[@]}" --device auto --distributed-backend ucx
like "$status $out" "^0 .*device auto is the CPU: the transport ucx does not move the memory of GPUs" \
    "a transport without GPUs leaves no choice"

# ---- what is refused
# refused TEXT WORDS COMMAND...: with these words, by the first line; what ranks do may follow
refused() {
    local text=$1 words=$2
    shift 2
    run env MG_CUDA_DEVICES=2 "$@"
    ok "[ $status != 0 ]" "$text"
    like "$(grep -v "^megatron launch: " <<<"$err" | head -1)" "^megatron train: .*$words" \
        "is refused in one line"
}
refused "two ranks on one GPU" \
    "device cuda: ranks 0 and 1 have one GPU, 0000:02:00.0: want one for each rank, or NCCL_HOSTID of another value for each" \
    megatron launch -n 2 "${short[@]}" --device cuda:1
run megatron launch -n 2 bash -c 'NCCL_HOSTID=$RANK exec "$@"' - "${short[@]}" --device cuda:1
is "$status" 0 "which NCCL_HOSTID permits" || diag "$err"
refused "fewer GPUs than processes on the machine" \
    "rank 2: device cuda: this is process 3 of those on this machine, and 2 GPUs are visible: want one for each process" \
    megatron launch -n 3 "${short[@]}" --device cuda --global-batch-size 6
refused "another driver" \
    "rank 1: device cuda: the driver is of CUDA 13.9 here and of 13.0 on rank 0: want one version on all nodes" \
    megatron launch -n 2 ./in_rank_1 MG_CUDA_DRIVER=13090 "${short[@]}" --device cuda
refused "another runtime" \
    "rank 1: device cuda: the runtime is of CUDA 13.1 here and of 13.0 on rank 0: want one version on all nodes" \
    megatron launch -n 2 ./in_rank_1 MG_CUDA_RUNTIME=13010 "${short[@]}" --device cuda
refused "another NCCL" \
    "rank 1: communicator [a-z-]*: libnccl is 22999 here and [0-9]* for task 0: want one version" \
    megatron launch -n 2 ./in_rank_1 MG_NCCL_VERSION=22999 "${short[@]}" --device cuda
refused "an old NCCL" "libnccl is 22005, [0-9]* or a later release of the same number is needed" \
    env MG_NCCL_VERSION=22005 megatron launch -n 2 "${short[@]}" --device cuda
printf -- '--device cuda\n--distributed-backend nccl\n' >gpu.args
run env MG_CUDA_DEVICES=2 megatron launch -n 2 "${short[@]}" --args-file gpu.args
is "$status" 0 "--device cuda and --distributed-backend nccl in a file of arguments"
ok "! grep -q 'change nothing here' <<<\"\$out\"" "are meant"
refused "a transport for host memory" \
    "device cuda: 2 ranks cannot exchange the memory of GPUs through ucx: want the transport nccl" \
    megatron launch -n 2 "${one[@]}" --device cuda --distributed-backend ucx
sed 's/libnccl[.]so[.]2/libnccl.so.9/' modules/comm_nccl.so >comm_nccl.so
mv comm_nccl.so modules
refused "no NCCL" "libnccl.so.9: cannot open shared object file" \
    megatron launch -n 2 "${one[@]}" --device cuda
run megatron launch -n 2 "${short[@]}" --device auto
like "$status $out" "^0 .*device auto is the CPU: rank 0 has no NCCL" "for --device auto it is the CPU"
rm modules/comm_nccl.so
refused "no module" "there is no .*/comm_nccl.so; GPUs talk through NCCL: install libnccl-dev and configure --with-cuda" \
    megatron launch -n 2 "${one[@]}" --device cuda
run megatron launch -n 2 "${one[@]}" --train-iters 1 --distributed-backend nccl
is "$status" 0 "without GPUs --distributed-backend nccl"
like "$out" "change nothing here: --distributed-backend nccl .ranks talk through the default transport" \
    "means the default"
done_testing

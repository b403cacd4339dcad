#!/bin/bash
# The folder for a machine with a GPU, made of the double of CUDA: its script from begin to end.
# MG_LONG=1: several ranks in all layouts.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

[ -x "$MG_BUILDDIR/tests/cuda/conform" ] || skip_all "CUDA is ${MG_CUDA:-off}"
unset MEGATRON_MODULE_DIR MG_TEST_DEVICE CUDA_HOME CUDA_PATH LD_LIBRARY_PATH
make_bundle=$MG_SRCDIR/tests/gpu/make-bundle
double=$MG_BUILDDIR/tests/cuda/lib

printf 'norm_fwd\t0.750\n' >shares
run "$make_bundle" --double --shares shares "$MG_BUILDDIR" bundle
is "$status $err" "0 " "a bundle is made"
like "$out" "^bundle: [0-9]+ MiB; needs glibc 2\.[0-9]+ and CUDA" "and described"
run "$make_bundle" "$MG_BUILDDIR" bundle
is "$status $err" "1 make-bundle: bundle is there already" "nothing is overwritten"
is "$(find bundle -name 'libc.so*' -o -name 'libcuda*' -o -name 'libcublas*' -o -name 'ld-linux*')" "" \
    "it has no library of glibc or CUDA"
run "$make_bundle" --double --limit 1 "$MG_BUILDDIR" large
is "$status" 1 "a bundle that is too large"
like "$err" "large has more than 1 MiB" "is refused"

# results PART: of $out
result() {
    sed -n "s/.*\"part\": \"$1\", \"result\": \"\\([a-z]*\\)\".*/\\1/p" <<<"$out"
}

# ---- a machine with a GPU: of two libraries in two Python packages
mkdir -p bin local packages/nvidia/{cuda_runtime,cublas,nccl}/lib
ln -s "$double/libcudart.so.13" packages/nvidia/cuda_runtime/lib
ln -s "$double/libcublasLt.so.13" packages/nvidia/cublas/lib
ranks=skip
if [ -e bundle/modules/comm_nccl.so ] && [ -e bundle/modules/comm_ucx.so ]; then
    ln -s "$double/libnccl.so.2" packages/nvidia/nccl/lib
    ranks=ok
fi
cat >bin/compute-sanitizer <<'END2'
#!/bin/sh
echo "$@" >>sanitizer
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
END2
printf '#!/bin/sh\n[ "$1" = -c ] && case $2 in *sys.path*) echo "%s" ;; *) exit 1 ;; esac\n' \
    "$PWD/packages" >bin/python3
chmod +x bin/*
# Beside other tests a job takes longer to end than on an idle machine.
export PATH=$PWD/bin:$PATH RUN_GPU_LOCAL=$PWD/local MG_CUDA_IDLE_MS=1 RUN_GPU_PATIENCE=12
# The double takes a key of the processor; where it has none, a host that touches the device lives.
grep -qw pku /proc/cpuinfo || export MG_CUDA_NO_KEYS=1

run bundle/run-gpu --tiny --limit 900 --results results
is "$status" 0 "all parts of a check are well" || diag "$out" "$err"
for part in machine conform runtime twins kernels repeat goldens ranks_2 ranks_4 ranks_each memcheck \
    racecheck; do
    want=ok
    [[ $part != ranks* ]] || want=$ranks
    is "$(result $part)" $want "$part"
    diag "$(grep "\"part\": \"$part\"" <<<"$out")"
done
like "$out" '"part": "conform", "result": "ok", "seconds": [0-9.]+, "checks": [0-9]{2,}, "failed": 0' \
    "with its seconds and checks"
like "$out" '"run": "check", "time": "[0-9TZ:-]*", "device": "[A-Z]' "the device is named"
file=$(echo results/*)
like "$file" "^results/[A-Za-z0-9-]+-[0-9]{4}-[0-9]{2}-[0-9]{2}\.jsonl\$" "a file has its name"
is "$(cat "$file")" "$out" "and the lines"
like "$(cat sanitizer)" "--tool memcheck .*--tool racecheck" "the sanitizer has both tools"

# A line for each process of CUDA, which begins with its allocations.
run env MG_CUDA_COUNT="$PWD/count" bundle/run-gpu --tiny --limit 900 --results results goldens
is "$(result goldens) $(grep -vc '^0 ' count)" "ok 1" "one run of a golden uses the GPU, the other the CPU"

run bundle/run-gpu bench --tiny --limit 900 --results results
is "$status" 0 "measurements" || diag "$out" "$err"
is "$(for part in kernels_bench step_1.2b step_1.7b step_experts torch; do result $part; done | paste -sd' ')" \
    "ok ok ok ok skip" "of kernels and steps"
like "$out" '"floor": "copy", "GB/s": .*"floor": "bf16 product", "TFLOP/s": .*"kernel": ' "floors come first"
like "$out" '"kernel": "norm_fwd", "seconds": [0-9.e-]+, .*"share": [0-9.]+, "report": 0.750' \
    "each share beside the report's"
for step in 1.2B "8 experts"; do
    for graphs in none local full_iteration; do
        like "$out" "\"step\": \"$step\", \"by\": \"megatron\", \"graphs\": \"$graphs\", \"ms\": [0-9.]+, \"TFLOP/s\": " \
            "a step of $step, graphs $graphs"
    done
done
like "$out" '"part": "torch", .*"text": "there is no PyTorch for python3"' "what is absent is named"
is "$(grep -c '"run"' "$file")" 3 "all are in the file"

# ---- several ranks
run bundle/run-gpu list
for what in check bench; do
    is "$(sed -n "/^$what:/,/^[a-z]*:\$/p" <<<"$out" | awk '{ sum += $2 } END { print sum }')" 480 \
        "the limits of $what are 8 minutes"
done
if [ $ranks = ok ]; then
    run env MG_CUDA_DEVICES=1 bundle/run-gpu --tiny --results results ranks_each
    like "$status $out" '^0 .*"ranks_each", "result": "skip", .*"text": "there is one GPU"' \
        "one GPU: ranks on one each are skipped"
    run env MG_NCCL_REFUSE=1 bundle/run-gpu --tiny --limit 900 --results results ranks_2 ranks_each
    like "$out" '"ranks_2", "result": "skip", .*"text": "NCCL: [^"]*invalid usage"' \
        "NCCL refuses ranks on one GPU: skipped with its words"
    is "$(result ranks_each)" failed "ranks on one GPU each may not be refused"
    # A layout with other losses, and ranks that find no libnccl.
    cp bundle/bin/metrics-diff .
    printf '#!/bin/sh\necho "they differ"\nexit 1\n' >bundle/bin/metrics-diff
    run bundle/run-gpu --tiny --limit 900 --results results ranks_4
    is "$status $(result ranks_4)" "1 failed" "other losses"
    like "$out" '"text": "tp-pp: they differ"' "are told"
    mv metrics-diff bundle/bin
    rm packages/nvidia/nccl/lib/libnccl.so.2
    run bundle/run-gpu --tiny --results results ranks_2
    like "$status $out" '^0 .*"ranks_2", "result": "skip", .*"text": "no libnccl.so.2 in ' "no NCCL"
    ln -s "$double/libnccl.so.2" packages/nvidia/nccl/lib
    if long; then
        for part in ranks_2 ranks_4 ranks_each; do
            run env MG_CUDA_DEVICES=8 bundle/run-gpu --limit 900 --results results $part
            is "$status $(result $part)" "0 ok" "$part, all layouts" || diag "$out" "$err"
        done
    fi
else
    skip 7 "NCCL or UCX is not built"
fi

# ---- what goes wrong
printf '#!/bin/sh\necho "not ok 1 - fill: the same \\"bits\\""\nexit 1\n' >bundle/bin/gpu-kernels
run bundle/run-gpu --limit 900 --results results repeat
is "$status $(result repeat)" "1 failed" "a part that fails"
like "$out" '"checks": 1, "failed": 1, "text": "fill: the same .\"bits.\""' "is told"
printf '#!/bin/sh\necho "ok 1 - one"\nsleep 60\n' >bundle/bin/gpu-kernels
run bundle/run-gpu --results results --limit 1 repeat
is "$status $(result repeat)" "1 timeout" "a part that does not end"
like "$out" '"text": "not done in 1 s"' "has a limit"
run bundle/run-gpu nothing
is "$status" 2 "a part that is not there"
like "$err" "check has no part nothing: machine conform" "is an error"

# skipped_all TEXT COMMAND...
skipped_all() {
    local text=$1
    shift
    run "$@"
    is "$status" 77 "$text"
    is "$(grep -c '"result": "skip"' <<<"$out") $(wc -l <<<"$out")" "12 12" "each part is skipped by name"
}
skipped_all "no driver" env MG_CUDA_DRIVER=0 bundle/run-gpu --results none
like "$out" '"part": "twins", .*"text": "no GPU: .*this machine has no NVIDIA driver"' "with the reason"
rm packages/nvidia/cublas/lib/libcublasLt.so.13
skipped_all "no library" bundle/run-gpu --results none
like "$out" '"text": "no libcublasLt.so.13 in LD_LIBRARY_PATH, CUDA_HOME' "with its name"
ok "[ ! -e none ]" "nothing is written then"
mkdir -p toolkit/lib64
ln -s "$double/libcublasLt.so.13" toolkit/lib64
run env CUDA_HOME="$PWD/toolkit" bundle/run-gpu --tiny --limit 900 --results results machine
is "$status $(result machine)" "0 ok" "a toolkit that has it"
done_testing

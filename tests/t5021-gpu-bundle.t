#!/bin/bash
# The folder for a machine with a GPU, made of the double of CUDA: its script from begin to end.
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
mkdir -p bin local packages/nvidia/{cuda_runtime,cublas}/lib
ln -s "$double/libcudart.so.13" packages/nvidia/cuda_runtime/lib
ln -s "$double/libcublasLt.so.13" packages/nvidia/cublas/lib
cat >bin/compute-sanitizer <<'END2'
#!/bin/sh
echo "$@" >>sanitizer
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
END2
printf '#!/bin/sh\n[ "$1" = -c ] && case $2 in *sys.path*) echo "%s" ;; *) exit 1 ;; esac\n' \
    "$PWD/packages" >bin/python3
chmod +x bin/*
export PATH=$PWD/bin:$PATH RUN_GPU_LOCAL=$PWD/local MG_CUDA_IDLE_MS=1
# The double takes a key of the processor; where it has none, a host that touches the device lives.
grep -qw pku /proc/cpuinfo || export MG_CUDA_NO_KEYS=1

run bundle/run-gpu --tiny --limit 900 --results results
is "$status" 0 "all parts of a check are well" || diag "$out" "$err"
for part in machine conform runtime twins kernels repeat goldens memcheck racecheck; do
    is "$(result $part)" ok "$part"
    diag "$(grep "\"part\": \"$part\"" <<<"$out")"
done
like "$out" '"part": "conform", "result": "ok", "seconds": [0-9.]+, "checks": [0-9]{2,}, "failed": 0' \
    "with its seconds and checks"
like "$out" '"run": "check", "time": "[0-9TZ:-]*", "device": "[A-Z]' "the device is named"
file=$(echo results/*)
like "$file" "^results/[A-Za-z0-9-]+-[0-9]{4}-[0-9]{2}-[0-9]{2}\.jsonl\$" "a file has its name"
is "$(cat "$file")" "$out" "and the lines"
like "$(cat sanitizer)" "--tool memcheck .*--tool racecheck" "the sanitizer has both tools"

run bundle/run-gpu bench --tiny --limit 900 --results results
is "$status" 0 "measurements" || diag "$out" "$err"
is "$(result kernels_bench) $(result step_1.2b) $(result step_1.7b) $(result torch)" "ok ok ok skip" \
    "of kernels and steps"
like "$out" '"floor": "copy", "GB/s": .*"floor": "bf16 product", "TFLOP/s": .*"kernel": ' "floors come first"
like "$out" '"kernel": "norm_fwd", "seconds": [0-9.e-]+, .*"share": [0-9.]+, "report": 0.750' \
    "each share beside the report's"
like "$out" '"step": "1.2B", "by": "megatron", "ms": [0-9.]+, "TFLOP/s": ' "a step"
like "$out" '"part": "torch", .*"text": "there is no PyTorch for python3"' "what is absent is named"
is "$(grep -c '"run"' "$file")" 2 "both are in the file"

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
    is "$(grep -c '"result": "skip"' <<<"$out") $(wc -l <<<"$out")" "9 9" "each part is skipped by name"
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

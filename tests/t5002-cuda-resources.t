#!/bin/bash
# What nvcc says of each CUDA kernel of this build, and of attention's forward pass for an architecture
# that is drawn (of both passes for all, in a long run): no stack, no spilled register, and enough
# registers for the threads that its launch bounds promise.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

logs=("$MG_BUILDDIR"/kernels/cuda/*.nvcc.log)
[ -s "${logs[0]}" ] || skip_all "CUDA is ${MG_CUDA:-off}"

# resources LOG...: a line a kernel and architecture: its registers, bytes of static shared memory,
# of stack, and of spills, and its name.
resources() {
    awk '
    /Compiling entry function/ { split ($0, part, "\047"); name = part[2]; arch = part[4] }
    /bytes stack frame/ { stack = spill = 0
        for (i = 2; i <= NF; i++) {
            if ($i == "bytes" && $(i + 1) == "stack") stack = $(i - 1)
            if ($i == "bytes" && $(i + 1) == "spill") spill += $(i - 1)
        }
    }
    /Used [0-9]+ registers/ { shared = 0
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^registers/) registers = $(i - 1)
            if ($i == "bytes" && $(i + 1) ~ /^smem/) shared = $(i - 1)
        }
        print registers, shared, stack, spill, arch, name
    }' "$@"
}

resources "${logs[@]}" >all
diag "$(wc -l <all) kernels, most registers: $(sort -n all | tail -n 1)"
ok "[ $(wc -l <all) -ge 10 ]" "kernels are found"
is "$(awk '$3 > 0' all)" "" "no kernel has a stack"
is "$(awk '$4 > 0' all)" "" "no kernel spills registers"
is "$(awk '$1 > 255' all)" "" "no kernel has more than 255 registers"
is "$(awk '$2 > 48 * 1024' all)" "" "static shared memory is at most 48 KiB"

cd "$MG_SRCDIR" || bail_out "no source directory"
is "$(grep -n '__global__' kernels/cuda/*.cu | wc -l)" \
    "$(grep -n -A 1 '__global__' kernels/cuda/*.cu | grep -c '__launch_bounds__')" \
    "every kernel has __launch_bounds__"
is "$(grep -nE 'asm|__CUDACC__|<<<' kernels/cuda/*.cu kernels/cuda/block.h)" "" \
    "PTX is in ptx.h only, and launches are calls"

# Attention, whose kernels use most registers, for the other architectures of a default build.
flags=(-std=c++17 -O3 "-I$MG_SRCDIR" "-I$MG_SRCDIR/libcore/include"
       "-I$MG_BUILDDIR/libcore/include")
MG_NVCC=${MG_NVCC:-$(command -v nvcc)}
seed_draws
some 1 attention_mma:80 attention_mma:100
! long || some+=(attention_bwd_mma:80 attention_bwd_mma:100)
for pair in "${some[@]}"; do
    log=$TEST_DIR/${pair/:/-}.log
    run "$MG_NVCC" "${flags[@]}" -gencode="arch=compute_${pair#*:},code=sm_${pair#*:}" \
        -Xptxas -v -cubin -o "$TEST_DIR/cubin" "kernels/cuda/${pair%:*}.cu"
    is "$status" 0 "$pair: is compiled" || diag "$err"
    printf '%s\n' "$err" >"$log"
    ok "[ \"\$(resources $log | grep -c sm_${pair#*:})\" -ge 12 ]" "$pair: kernels are found"
    is "$(resources "$log" | awk '$3 > 0 || $4 > 0 || $1 > 255')" "" "$pair: no stack, no spill"
done

# The guard itself.
cd "$TEST_DIR" || bail_out "no directory"
cat >log <<'END'
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90'
ptxas info    : Function properties for _Z1kPf
    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative stack size, 128 bytes smem
END
is "$(resources log)" "40 128 16 12 sm_90 _Z1kPf" "stack and spills are read"
done_testing

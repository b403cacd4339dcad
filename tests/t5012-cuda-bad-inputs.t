#!/bin/bash
# What the double of the CUDA runtime says of a machine that a program cannot use.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

program=$MG_BUILDDIR/tests/cuda/runtime-query
[ -x "$program" ] || skip_all "CUDA is ${MG_CUDA:-off}"

run env MG_CUDA_DRIVER=0 "$program"
is "$out" "driver 0 runtime 13000
count -1 cudaErrorInsufficientDriver
malloc cudaErrorInsufficientDriver" "no driver"
run env MG_CUDA_DRIVER=12040 "$program"
is "$out" "driver 12040 runtime 13000
count -1 cudaErrorInsufficientDriver
malloc cudaErrorInsufficientDriver" "a driver that is too old"
run env MG_CUDA_DEVICES=0 "$program"
is "$out" "driver 13000 runtime 13000
count 0 cudaErrorNoDevice
malloc cudaErrorNoDevice" "no device"
run env MG_CUDA_RUNTIME=13010 MG_CUDA_DRIVER=13020 MG_CUDA_DEVICES=3 MG_CUDA_CAPABILITY=7.5 \
    MG_CUDA_MEMORY_MIB=4 "$program"
is "$out" "driver 13020 runtime 13010
count 3 cudaSuccess
capability 7.5 shared 166912
memory 4194304 of 4194304
malloc cudaSuccess
memory 1048576 of 4194304
malloc cudaErrorMemoryAllocation" "another library, capability and memory"

run "$program" missing
is "$status|$err" "3|cuda double: cudaGraphCreate() is not in the double" \
    "a call that the double lacks ends the process with its name"
run env MG_CUDA_DEVICES=9 "$program"
is "$status|$err" "2|cuda double: MG_CUDA_DEVICES=9: want a number from 0 to 8" \
    "a wrong number of devices"
run env MG_CUDA_ORDER=lsat "$program"
is "$status|$err" "2|cuda double: MG_CUDA_ORDER=lsat: want a number from 0 to 1000000000" \
    "an order that is none"
run env MG_CUDA_CAPABILITY=nine "$program"
is "$status|$err" "2|cuda double: MG_CUDA_CAPABILITY=nine: want MAJOR.MINOR" \
    "a capability that is none"
done_testing

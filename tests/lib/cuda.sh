# cuda.sh - the CUDA device on the double of the runtime.  Source it after test.sh: the test is skipped
# where the double was not built.

unset MG_TEST_DEVICE
cuda_double=$MG_BUILDDIR/tests/cuda/.libs/device_cuda.so
[ -e "$cuda_double" ] || skip_all "CUDA is ${MG_CUDA:-off}"
mkdir modules
for module in "$MG_BUILDDIR/.libs"/{comm_mpi,comm_ucx,boot_pmix}.so "$cuda_double" \
    "${cuda_double%/*}/comm_nccl.so"; do
    [ ! -e "$module" ] || ln -s "$module" modules
done
export MEGATRON_MODULE_DIR=$PWD/modules MG_CUDA_IDLE_MS=1

# cuda_nccl: a test of ranks that talk through NCCL, without MPI.  It is skipped where the double of NCCL
# or the module for UCX was not built.
cuda_nccl() {
    if [ ! -e modules/comm_nccl.so ] || [ ! -e "$MG_BUILDDIR/tests/cuda/lib/libnccl.so.2" ]; then
        skip_all "NCCL is ${MG_NCCL:-off}"
    fi
    [ -e modules/comm_ucx.so ] || skip_all "the module for UCX was not built"
    rm -f modules/comm_mpi.so
}

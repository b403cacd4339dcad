#!/bin/bash
# requeue.sbatch of contrib/examples: a job that a signal stops, as Slurm sends it before the time limit,
# goes on when it is started again.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

examples=$MG_SRCDIR/contrib/examples
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not built"
mpi_available || skip_all "no MPI"

make_text text.txt 40
megatron data tokenize --input text.txt --output-prefix text --append-eod >/dev/null
# Ranks share this machine's cores; the job gets what our shell has.
export DATA=$TEST_DIR/text_text_document OMP_NUM_THREADS=1
slurm_start 4

# An endless run: what ends the second start is known when the first has ended.
export CHECKPOINTS=$TEST_DIR/requeue.checkpoints ITERATIONS=100000
: >more.args
export TRAIN_ARGUMENTS="--args-file $TEST_DIR/more.args"
job=$(sbatch --parsable -o "$TEST_DIR/requeue.out" "$examples/requeue.sbatch")
until_iteration 3 requeue.out
run scancel --signal=USR1 "$job"
wait_until "grep -q '^stopped before its end' requeue.out"
last=$(($(cat requeue.checkpoints/latest_checkpointed_iteration.txt) + 5))
echo "--exit-interval $last" >more.args
run slurm_again "$job"
wait_until "scontrol -o show job $job | grep -qE 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)'"
like "$(scontrol -o show job "$job")" "JobState=COMPLETED" \
    "requeue.sbatch goes on until nothing is left" || diag "$out$err" "$(cat requeue.out)"
is "$(grep -o '^stopped before its end, start number [0-9]*' requeue.out | tr -dc '0-9\n' \
    | tr '\n' ' ')" "0 " "in a second start"
is "$(sed -n 's/.* iteration  *\([0-9]*\)\/ *100000 .*/\1/p' requeue.out | tr '\n' ' ')" \
    "$(seq -s ' ' 1 $last) " "that takes every iteration which the first one has left"
done_testing

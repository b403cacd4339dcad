#!/bin/bash
# <megatron/train.h> used in wrong ways: each is one line, and the run goes on where the manual
# says so.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

command -v cc >/dev/null || skip_all "cc is not installed"
! ldd "$MG_BUILDDIR/.libs/libmegatron.so" | grep -q 'lib[a-z]*san' \
    || skip_all "the library is built with sanitizers"
run cc -Wall -Werror -o misuse "$MG_SRCDIR/tests/lib/library-misuse.c" \
    -I"$MG_SRCDIR/libcore/include" -I"$MG_BUILDDIR/libcore/include" \
    -L"$MG_BUILDDIR/.libs" -lmegatron
is "$status:$err" "0:" "the program is built"
export LD_LIBRARY_PATH=$MG_BUILDDIR/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OMP_NUM_THREADS=1

args=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 --vocab-size 32
      --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 3 --eval-iters 1)

# misuse CASE TEXT [ARGUMENT...]: on one rank.
misuse() {
    local name=$1 text=$2
    shift 2
    run ./misuse "$name" -1 "${args[@]}" "$@"
    is "$status:$out:$err" "0::misuse: $text" "$name"
}

# ---- the order of calls
misuse early-step 'train: mg_train_step() is called before mg_train_setup()'
misuse early-stop 'train: mg_train_stop() is called before mg_train_setup()'
misuse early-loss 'train: mg_train_loss() is called before a step was taken'
misuse setup-twice 'train: set up already'
misuse late-samples 'train: samples are set before mg_train_setup()'
misuse step-late 'train: mg_train_step() is called after the run has ended'
misuse run-late 'train: mg_train_run() is called after the run has ended'
misuse finish-twice 'train: mg_train_finish() is called after the run has ended'
misuse write-late 'train: mg_train_write_param() is called after the run has ended'
sample='iteration 1: sample 0 of the program'"'"'s:'
misuse inside "$sample train: mg_train_step() is called by the function that fills samples"
misuse fill-outside 'train: no sample to fill'

# ---- samples
misuse none '--data-path, --train-data-path, --batches or --mock-data is required'
misuse part 'train: no part "training" of the data, want train, validation or test'
misuse size "train: samples of 0 bytes, want 32; begin with MG_TRAIN_SAMPLES_INIT"
misuse no-samples 'train: 0 samples for train, want 1 or more'
misuse no-function 'train: no function that fills samples for train'
misuse twice-set 'train: the samples for train are set twice'
misuse both '--data-path and samples that the program makes exclude each other' --data-path x
misuse too-few "the program has 7 samples for training, but the run takes 12; --dataloader-type \
cyclic takes them again and again"
misuse endless '--full-validation wants a number of samples: those that the program has for valid have no end' --full-validation
misuse endless "--dataloader-type cyclic: $((2 ** 63 - 1)) samples are out of range, want 1 to 4294967295" \
    --dataloader-type cyclic
misuse too-long "$sample tokens: 9 values, want 1 to 8, the length of a sequence"
misuse shorter "$sample 5 values labels, but 8 values tokens, want as many"
misuse name "$sample a sample has no token, want tokens, labels or loss_mask"
misuse type "$sample tokens: values of type int64, want int32"
misuse twice-filled "$sample tokens is filled twice"
misuse no-labels "$sample labels are not filled"
misuse weight "$sample loss_mask: value 0 is -2, want 0 or more"
misuse vocabulary 'iteration 1: sample 0, position 2: token 37 is outside the vocabulary, want 0 to 31'
misuse gives-up "$sample the disk is gone"
misuse no-text "$sample the program cannot make it"
misuse fim '--fim-data and samples that the program makes exclude each other' --fim-data \
    --eod-token-id 1

# ---- what the run goes on after
misuse step-size "train: a result of 3 bytes, want 88; begin with MG_TRAIN_STEP_INIT"
misuse loss 'the model has no loss "lm_loss", want "lm loss" or another of the log'
misuse set 'there is no set "valid" to evaluate, want validation'
misuse no-validation 'there is no set "validation" to evaluate: no data, or --eval-iters 0'
misuse no-save 'train: mg_train_save() wants --save DIR'
misuse param 'the model has no parameter decoder.final_norm.weight'
misuse param-name 'train: no parameter number 1000, this rank has 16'
misuse values 'train: decoder.final_layernorm.weight: 64 values, want 16'
misuse null-values 'train: decoder.final_layernorm.weight: 16 values at NULL, want 16'
misuse root 'train: rank -2 cannot have a parameter, want 0 to 0'
misuse nan 'train: decoder.final_layernorm.weight: value 2 is nan, want a finite number'

# ---- ranks that do not do the same
mpi_available || { skip 1 "no MPI"; done_testing; exit; }
# differ CASE RANK TEXT [ARGUMENT...]: rank RANK of two does it.
differ() {
    local name=$1 rank=$2 text=$3
    shift 3
    run mpi_run 2 ./misuse "$name" "$rank" "${args[@]}" "$@"
    is "$status:$(grep '^misuse' <<<"$err")" "0:misuse: $text" "$name on rank $rank alone" \
        || diag "$err"
}
pp=(--pipeline-model-parallel-size 2 --num-layers 2)
differ count 1 "rank 1: the program has 7 samples for train, but 1000 on rank 0: want the same \
number on every rank"
differ other-call 1 "rank 1: mg_train_save() is called, but rank 0 calls mg_train_step()" \
    --save "$TEST_DIR/save"
differ other-argument 1 "rank 1: mg_train_get_param() has other arguments than on rank 0" "${pp[@]}"
differ root 0 "train: rank -2 cannot have a parameter, want 0 to 1"
differ too-long -1 "$sample tokens: 9 values, want 1 to 8, the length of a sequence" "${pp[@]}"
done_testing

#!/bin/bash
# A rank that ends by a signal before the first iteration is named: at the start, in the handshake,
# and while the run is set up.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

mpi_available || skip_all "no MPI"
preload=$MG_BUILDDIR/tests/lib/.libs/early-death.so
[ -f "$preload" ] || skip_all "no $preload"
tokenized_text 20
# signal, rank, when, in words
while read -r signal rank when words; do
    run mpi_run 2 env LD_PRELOAD="$preload" EARLY_DEATH_SIGNAL="$signal" EARLY_DEATH_RANK="$rank" \
        "EARLY_DEATH_$when" megatron train --num-layers 1 --hidden-size 16 \
        --num-attention-heads 2 --seq-length 16 --tokenizer-type ByteLevel \
        --data-path text_text_document --micro-batch-size 2 --lr 1e-4 --split 100,0,0 \
        --eval-iters 0 --train-iters 1
    ok "[ $status != 0 ]" "signal $signal $words ends the job"
    # at the start nobody but mpirun knows of the rank, and mpirun may say only that there is one
    unnamed='$^'
    [ "$words" != "at the start" ] || unnamed="1 process returned"
    like "$err" "rank $rank .*(exited on signal|died|has ended)|$unnamed" "the rank is named"
    ok "! grep -q \"iteration  *1/\" <<<\"\$out\"" "before the first iteration"
done <<EOF
9 1 BIND=1 at the start
11 0 BIND=3 in the handshake
9 0 FILE=text_text_document.idx in the set-up of rank 0
11 1 FILE=text_text_document.idx in the set-up
EOF
done_testing

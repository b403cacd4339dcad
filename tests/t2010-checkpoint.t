#!/bin/bash
# Checkpoints and weights of several processes: written by 4 ranks, read by 1, 3 and 4.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"

mpi_available || skip_all "no MPI"
ranks=$MG_BUILDDIR/tests/unit/checkpoint/ranks.t
[ -x "$ranks" ] || skip_all "unit/checkpoint/ranks.t is not built"

# As unit/checkpoint/model.h counts them.
whole=0 rows=1 cols=2 grid=3 stage=4

for cut in $rows $cols $grid $stage; do
    run mpi_run 4 "$ranks" save "ckpt.$cut" "$cut"
    is "$status" 0 "4 ranks save, cut $cut" || diag "$out" "$err"
    run "$ranks" load "ckpt.$cut" "$whole"
    is "$status" 0 "1 rank loads it" || diag "$out" "$err"
done
run mpi_run 3 "$ranks" load "ckpt.$grid" "$cols"
is "$status" 0 "3 ranks load boxes as columns" || diag "$out" "$err"
run mpi_run 4 "$ranks" load "ckpt.$stage" "$rows"
is "$status" 0 "4 ranks load stages as rows" || diag "$out" "$err"

run "$ranks" weights one "$whole"
run mpi_run 4 "$ranks" weights four "$grid"
is "$status" 0 "4 ranks write weights" || diag "$out" "$err"
ok "cmp one four" "the same file as from 1 rank"

# What one rank finds wrong ends all of them, with the same line.
rm "ckpt.$rows/iter_0000007/shard_00002.bin"
run mpi_run 3 "$ranks" load "ckpt.$rows" "$rows"
is "$status" 1 "a missing shard is refused"
like "$err" "rank 0: .*no complete checkpoint there" "and named"
printf 'x' | dd of="ckpt.$cols/iter_0000007/shard_00001.bin" bs=1 seek=70 conv=notrunc \
    2>"$TEST_DIR/dd"
run mpi_run 4 "$ranks" load "ckpt.$cols" "$cols"
is "$status" 1 "a damaged shard is refused"
line="rank [0-3]: checkpoint 7 not loaded: rank 1: tensor .*shard_00001.bin: checksum .* damaged"
is "$(grep -c "^$line" <<<"$err")" 4 "by everybody, in the same words" || diag "$err"
run mpi_run 4 "$ranks" weights none/weights "$rows"
is "$(grep -c '^rank [0-3]: none/weights: its directory cannot be written: No such file' <<<"$err")" 4 \
    "so is a directory that is not there" || diag "$err"
done_testing

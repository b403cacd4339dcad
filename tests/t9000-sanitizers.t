#!/bin/bash
# In a build with AddressSanitizer and UndefinedBehaviorSanitizer, whose unit tests run beside this:
# runs that save while they train, and runs of graphs.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

ldd "$MG_BUILDDIR/megatron" | grep -q 'lib[at]san' \
    || skip_all "the build has no sanitizers; make check-sanitizers makes one that has"

make_text text.txt 20
run megatron data tokenize --input text.txt --output-prefix text --append-eod
is "$status$err" 0 "text is tokenized"
for type in "" --bf16 "--cuda-graph-impl local" "--cuda-graph-impl full_iteration"; do
    # shellcheck disable=SC2086
    run megatron train --num-layers 2 --hidden-size 16 \
        --num-attention-heads 2 --seq-length 8 --tokenizer-type ByteLevel \
        --data-path text_text_document --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 \
        --train-iters 12 --save "saved${type// /}" --save-interval 2 --async-save $type
    is "$status$err" 0 "a run that saves while it trains $type" || diag "$out"
done
done_testing

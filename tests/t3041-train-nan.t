#!/bin/bash
# A NaN or an infinity is located: one line names iteration, rank, layer, phase and tensor,
# whichever rank has it, under every layout; the weights are as they were.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_text text.txt 20
run megatron data tokenize --input text.txt --output-prefix text --append-eod
is "$status" 0 "text is tokenized" || diag "$err"
ffn=64
args=(--num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 4 --train-iters 3 --lr 1e-3)
run megatron train "${args[@]}" --train-iters 0 --save-weights good.st
is "$status" 0 "initial weights" || diag "$err"
header=$(($(od -An -tu8 -N8 good.st)))

# poke FILE TENSOR ELEMENT BYTES: overwrite one float32, BYTES as printf has them.
poke() {
    local begin
    begin=$(tail -c +9 "$1" | head -c $header \
        | grep -o "\"$2\":{[^}]*" | sed 's/.*"data_offsets":\[\([0-9]*\),.*/\1/')
    # shellcheck disable=SC2059
    printf "$4" | dd of="$1" bs=1 seek=$((8 + header + begin + 4 * $3)) conv=notrunc 2>/dev/null
}
nan='\0\0\300\177' inf='\0\0\200\377' huge='\0\0\140\177' low='\0\0\240\302' # 3e38, -80
cp good.st nan.st && poke nan.st decoder.layers.2.mlp.linear_fc1.weight 5 $nan
cp good.st inf.st && poke inf.st embedding.position_embeddings.weight 0 $inf
cp good.st over.st && poke over.st decoder.layers.2.mlp.linear_fc1.weight 0 $huge
# A unit that is off in the forward pass: 0 x 3e38; but its gradient is not.
cp good.st back.st && poke back.st decoder.layers.1.mlp.linear_fc1.bias 3 $low
for ((h = 0; h < 16; h++)); do
    poke back.st decoder.layers.1.mlp.linear_fc2.weight $((h * ffn + 3)) $huge
    poke back.st decoder.final_layernorm.weight $h '\0\0\200\105' # 4096
done

# locate WEIGHTS REGEX TEXT [LAUNCHER...] -- [ARGUMENT...]
locate() {
    local weights=$1 regex=$2 text=$3
    local -a launch=()
    shift 3
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    run "${launch[@]}" megatron train "${args[@]}" --load-weights "$weights" "$@" \
        --save-weights never.st
    is "$status" 1 "$text: status 1"
    is "$(grep -c '^megatron train: ' <<<"$err")" 1 "$text: one line" || diag "$err"
    like "$(grep '^megatron train: ' <<<"$err")" "iteration 1: loss .* not both finite, .*; $regex\$" \
        "$text: $(sed -n 's/^megatron train: .*before it; //p' <<<"$err")"
    ok "[ ! -e never.st ]" "$text: nothing is written"
}

weight="weight decoder.layers.2.mlp.linear_fc1.weight is NaN before the step"
activation="layer 2: linear_fc1, forward of microbatch 1: activation fc1 is infinite"
gradient="layer 1: linear_fc2, backward of microbatch 0: gradient ffn is (infinite|NaN)"
locate nan.st "$weight" "NaN weight" --
locate inf.st "weight embedding.position_embeddings.weight is infinite before the step" "inf weight" --
locate over.st "$activation" "overflow forward" --
locate back.st "$gradient" "overflow backward" --
run megatron train "${args[@]}" --load-weights nan.st --no-check-for-nan-in-loss-and-grad
is "$status" 0 "--no-check goes on" || diag "$err"
is "$(grep -c 'number of nan iterations:   1 ' <<<"$out")" 3 "and counts"
run megatron train "${args[@]}" --load-weights nan.st --no-check-for-nan-in-loss-and-grad \
    --log-interval 3
is "$(grep -c 'number of nan iterations:   3 ' <<<"$out")" 1 "since the last line"

if mpi_available; then
    tp2=(--tensor-model-parallel-size 2) pp2=(--pipeline-model-parallel-size 2)
    vpp2=(--num-virtual-stages-per-pipeline-rank 2)
    locate nan.st "first on rank 0: $weight" "tp 2, NaN weight" mpi_run 2 -- "${tp2[@]}"
    locate over.st "first on rank 0: $activation" "tp 2, forward" mpi_run 2 -- "${tp2[@]}"
    locate back.st "first on rank 0: $gradient" "tp 2 by sequence, backward" \
        mpi_run 2 -- "${tp2[@]}" --sequence-parallel
    locate over.st "first on rank 2: $activation" "tp 2 pp 2, forward" \
        mpi_run 4 -- "${tp2[@]}" "${pp2[@]}"
    locate back.st "first on rank 0: $gradient" "pp 2, backward" mpi_run 2 -- "${pp2[@]}"
    locate over.st "first on rank 0: $activation" "pp 2 x 2, forward" \
        mpi_run 2 -- "${pp2[@]}" "${vpp2[@]}"
    locate back.st "first on rank 1: $gradient" "pp 2 x 2, backward" \
        mpi_run 2 -- "${pp2[@]}" "${vpp2[@]}"
    cp good.st tail.st && poke tail.st decoder.layers.3.mlp.linear_fc1.weight $((16 * (ffn - 1))) $huge
    locate tail.st "first on rank 1: layer 3: linear_fc1, .*" "tp 2, on the other rank" \
        mpi_run 2 -- "${tp2[@]}"
    # samples 0 and 1 are the first microbatches of the two ranks
    locate over.st "first on rank 1: ${activation/microbatch 1/microbatch 0}" "dp 2, forward" mpi_run 2 --
    locate back.st "first on rank 0: $gradient" "dp 2, sharded and overlapped, backward" \
        mpi_run 2 -- --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
        --ddp-bucket-size 500
    locate back.st "first on rank 0: $gradient" "dp 2, bfloat16 gradients, backward" \
        mpi_run 2 -- --use-distributed-optimizer --bf16 --grad-reduce-in-bf16
else
    skip 1 "no MPI"
fi
done_testing

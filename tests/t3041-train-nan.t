#!/bin/bash
# A NaN or an infinity is located: one line names iteration, rank, layer, phase and tensor,
# whichever rank has it, under every layout and in every precision; the weights are as they
# were.  In float16 an overflow of scaled gradients is none, unless it stays.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
ffn=64
args=(--num-layers 4 --hidden-size 16 --num-attention-heads 2 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 1 --global-batch-size 4 --train-iters 3 --lr 1e-3)
run megatron train "${args[@]}" --train-iters 0 --save-weights good.st
is "$status" 0 "initial weights" || diag "$err"

nan='\0\0\300\177' inf='\0\0\200\377' huge='\0\0\140\177' low='\0\0\240\302' # 3e38, -80
cp good.st nan.st && poke nan.st decoder.layers.2.mlp.linear_fc1.weight 5 $nan
cp good.st inf.st && poke inf.st embedding.position_embeddings.weight 0 $inf
cp good.st over.st && poke over.st decoder.layers.2.mlp.linear_fc1.weight 0 $huge
# overflow_backward FILE: a unit that is off in the forward pass: 0 x 3e38; but its gradient is not.
overflow_backward() {
    local h
    poke "$1" decoder.layers.1.mlp.linear_fc1.bias 3 $low
    for ((h = 0; h < 16; h++)); do
        poke "$1" decoder.layers.1.mlp.linear_fc2.weight $((h * ffn + 3)) $huge
        poke "$1" decoder.final_layernorm.weight $h '\0\0\200\105' # 4096
    done
}
cp good.st back.st && overflow_backward back.st

iteration=1
# locate WEIGHTS REGEX TEXT [LAUNCHER...] -- [ARGUMENT...]: in $iteration
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
    like "$(grep '^megatron train: ' <<<"$err")" "iteration $iteration: loss .* not both finite, .*; $regex\$" \
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
for how in "selective --recompute-modules core_attn layernorm mlp" \
        "full --recompute-method uniform --recompute-num-layers 3"; do
    # shellcheck disable=SC2086 # words
    locate over.st "$activation" "$how, overflow forward" -- --recompute-granularity $how
    # shellcheck disable=SC2086 # words
    locate back.st "$gradient" "$how, overflow backward" -- --recompute-granularity $how
done
# Gradients of heads are written by several phases, in memory that layers share.
latent=(--multi-latent-attention --kv-lora-rank 8 --qk-head-dim 4 --qk-pos-emb-head-dim 4
        --v-head-dim 8 --qk-layernorm)
run megatron train "${args[@]}" "${latent[@]}" --train-iters 0 --save-weights latent.st
overflow_backward latent.st
locate latent.st "$gradient" "overflow backward, latents" -- "${latent[@]}"
run megatron train "${args[@]}" --load-weights nan.st --no-check-for-nan-in-loss-and-grad
is "$status" 0 "--no-check goes on" || diag "$err"
is "$(grep -c 'number of nan iterations:   1 ' <<<"$out")" 3 "and counts"
run megatron train "${args[@]}" --load-weights nan.st --no-check-for-nan-in-loss-and-grad \
    --log-interval 3
is "$(grep -c 'number of nan iterations:   3 ' <<<"$out")" 1 "since the last line"


# ---- what a file of batches says
text=("${args[@]}")
data=(--num-layers 4 --hidden-size 16 --num-attention-heads 2 --vocab-size 256
      --batches batches.st --micro-batch-size 1 --train-iters 3 --lr 1e-3)
make_batches batches.st
args=("${data[@]}")
run megatron train "${args[@]}"
is "$status" 0 "a file of batches" || diag "$err"
poke batches.st loss_mask 18 $nan
for type in "" --bf16 --fp16; do
    # shellcheck disable=SC2086
    run megatron train "${args[@]}" $type
    is "$status:$err" "1:megatron train: batches.st: loss_mask[0, 2, 2] is nan, want 0 or more" \
        "a NaN in data is named there"
done
args=("${text[@]}")

# ---- 16 bits
for type in --bf16 --fp16; do
    locate nan.st "$weight" "$type, NaN weight" -- $type
done
locate over.st "$activation" "--bf16, overflow forward" -- --bf16
locate back.st "$gradient" "--bf16, overflow backward" -- --bf16
# What float16 cannot hold where float32 can: 60000 times some numbers, and their sums.
cp good.st over16.st
cp good.st back16.st && poke back16.st decoder.layers.1.mlp.linear_fc1.bias 3 $low
for ((h = 0; h < 16; h++)); do
    [ $h -ge 8 ] || poke over16.st decoder.layers.2.mlp.linear_fc1.weight $h '\0\140\152\107'
    poke back16.st decoder.layers.1.mlp.linear_fc2.weight $((h * ffn + 3)) '\0\140\152\107'
    poke back16.st decoder.final_layernorm.weight $h '\0\0\200\105' # 4096
done
run megatron train "${args[@]}" --load-weights over16.st --bf16
is "$status" 0 "bfloat16 holds what" || diag "$err"
locate over16.st "layer 2: linear_fc1, forward of microbatch 0: activation fc1 is infinite" \
    "--fp16, overflow forward" -- --fp16
half=(--fp16 --initial-loss-scale 8 --hysteresis 1)
run megatron train "${args[@]}" --load-weights back16.st "${half[@]}"
is "$status" 0 "gradients that overflow are skipped" || diag "$err"
is "$(grep -c 'number of skipped iterations:   1 .*number of nan iterations:   0 ' <<<"$out")" 3 \
    "and are no NaN"
# 8, 4, 2 did not help, and there is nothing below 1
iteration=53
last="layer 1: linear_fc2, backward of microbatch 0: gradient ffn is (infinite|NaN)"
locate back16.st "$last" "--fp16, overflow that stays" -- "${half[@]}" --train-iters 60
like "$err" "at the least loss scale, 1, for 50 iterations, are not" "which is told"
run megatron train "${args[@]}" --load-weights back16.st "${half[@]}" --train-iters 60 \
    --no-check-for-nan-in-loss-and-grad
is "$status" 0 "--no-check goes on" || diag "$err"
is "$(grep -c 'number of skipped iterations:   1 ' <<<"$out")" 60 "and skips"
run megatron train "${args[@]}" --load-weights good.st --fp16 --train-iters 9
is "$status" 0 "the usual scale of 2^32" || diag "$err"
is "$(grep -c 'number of skipped iterations:   1 ' <<<"$out"):$(grep -c 'nan iterations:   0 ' \
    <<<"$out")" 9:9 "overflows at first, and is no NaN"
iteration=1

# ---- experts
args+=(--num-experts 4 --moe-router-topk 4 --moe-layer-freq "[0,1,1,0]")
run megatron train "${args[@]}" --train-iters 0 --save-weights experts.st
is "$status" 0 "experts" || diag "$err"
expert=decoder.layers.2.mlp.experts.local_experts.3.linear_fc1.weight
cp experts.st overe.st && poke overe.st $expert 0 $huge
poke experts.st $expert 5 $nan
locate experts.st "weight ${expert//./\\.} is NaN before the step" "NaN weight of an expert" --
locate overe.st "layer 2: experts_fc1, forward of microbatch [01]: activation moe_fc1 .*is infinite.*" \
    "overflow of an expert" --
if ranks_available; then
    locate experts.st "first on rank 1: weight ${expert//./\\.} is NaN before the step" \
        "ep 2, NaN weight" ranks_run 2 -- --expert-model-parallel-size 2
    locate experts.st "first on rank 2: weight ${expert//./\\.} is NaN before the step" \
        "ep 2 etp 2, NaN weight in the first half" ranks_run 4 -- --expert-model-parallel-size 2 \
        --expert-tensor-parallel-size 2 --disable-bias-linear
fi
args=("${text[@]}")

if ranks_available; then
    tp2=(--tensor-model-parallel-size 2) pp2=(--pipeline-model-parallel-size 2)
    vpp2=(--num-virtual-stages-per-pipeline-rank 2)
    locate nan.st "first on rank 0: $weight" "tp 2, NaN weight" ranks_run 2 -- "${tp2[@]}"
    locate over.st "first on rank 0: $activation" "tp 2, forward" ranks_run 2 -- "${tp2[@]}"
    locate back.st "first on rank 0: $gradient" "tp 2 by sequence, backward" \
        ranks_run 2 -- "${tp2[@]}" --sequence-parallel
    locate over.st "first on rank 2: $activation" "tp 2 pp 2, forward" \
        ranks_run 4 -- "${tp2[@]}" "${pp2[@]}"
    locate back.st "first on rank 0: $gradient" "pp 2, backward" ranks_run 2 -- "${pp2[@]}"
    locate over.st "first on rank 0: $activation" "pp 2 x 2, forward" \
        ranks_run 2 -- "${pp2[@]}" "${vpp2[@]}"
    locate back.st "first on rank 1: $gradient" "pp 2 x 2, backward" \
        ranks_run 2 -- "${pp2[@]}" "${vpp2[@]}"
    cp good.st tail.st && poke tail.st decoder.layers.3.mlp.linear_fc1.weight $((16 * (ffn - 1))) $huge
    locate tail.st "first on rank 1: layer 3: linear_fc1, .*" "tp 2, on the other rank" \
        ranks_run 2 -- "${tp2[@]}"
    # samples 0 and 1 are the first microbatches of the two ranks
    locate over.st "first on rank 1: ${activation/microbatch 1/microbatch 0}" "dp 2, forward" ranks_run 2 --
    for how in p2p all_gather a2a; do
        locate over.st "first on rank [01]: $activation" "cp 2, $how, forward" ranks_run 2 -- \
            --context-parallel-size 2 --cp-comm-type $how
        locate back.st "first on rank [01]: $gradient" "cp 2, $how, backward" ranks_run 2 -- \
            --context-parallel-size 2 --cp-comm-type $how
    done
    locate back.st "first on rank 0: $gradient" "dp 2, sharded and overlapped, backward" \
        ranks_run 2 -- --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather \
        --ddp-bucket-size 500
    locate back.st "first on rank 0: $gradient" "dp 2, bfloat16 gradients, backward" \
        ranks_run 2 -- --use-distributed-optimizer --bf16 --grad-reduce-in-bf16
    while read -r world rank more; do
        read -ra more <<<"$more"
        locate over.st "first on rank $rank: ${activation/microbatch 1/microbatch [01]}" \
            "--bf16 ${more[*]}, forward" ranks_run "$world" -- --bf16 "${more[@]}"
        locate nan.st "first on rank .: $weight" "--fp16 ${more[*]}, weight" \
            ranks_run "$world" -- --fp16 "${more[@]}"
        iteration=53
        locate back16.st "first on rank .: $last" "--fp16 ${more[*]}, backward" \
            ranks_run "$world" -- "${half[@]}" "${more[@]}" --train-iters 60
        iteration=1
    done <<'END'
2 0 --tensor-model-parallel-size 2 --sequence-parallel
2 1 --pipeline-model-parallel-size 2
2 1 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
END
else
    skip 1 "neither UCX nor MPI"
fi
done_testing

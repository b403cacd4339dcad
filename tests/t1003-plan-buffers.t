#!/bin/bash
# megatron plan buffers: the reference's layouts, layouts at random against ones that are
# made element by element, a model's own parameters, the picture, and refusals.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/svg.sh"

if ! perl -MJSON::PP -MDigest::SHA -e 1 2>/dev/null; then
    skip 2 "no JSON::PP for perl"
else
    golden=$MG_SHARED/golden/04_ddp_buffers.json
    if [ -r "$golden" ]; then
        ok "'$MG_SRCDIR/tests/lib/check-buffers' golden '$golden'" "as the reference"
    else
        skip 1 "no $golden"
    fi
    ok "'$MG_SRCDIR/tests/lib/check-buffers' random 60" "as laid out element by element"
fi

# ---- a list
cat >list.json <<'EOF'
[{"name": "a", "shape": [100]}, {"name": "b", "shape": [5, 10], "dtype": "fp8"},
 {"name": "c", "shape": [], "expert": true}]
EOF
run megatron plan buffers --params list.json --dp 4 --edp 2 --use-distributed-optimizer
is "$status" 0 "a list of three kinds"
is "$out" 'pipeline rank 0, dp 4, edp 2: 3 parameters in 3 buffers, one bucket each

buffer 0: dense, bfloat16 parameters, float32 gradients times 0.25
  128 elements, 100 without padding at the ends of buckets, over 4 ranks
  bucket 0: [0, 128), 128 elements, 28 of padding, 32 for each rank
        0  [0, 100)  a
               rank 0: [0, 32) in bucket [0, 32) local [0, 32) parameter [0, 32)
               rank 1: [32, 64) in bucket [32, 64) local [0, 32) parameter [32, 64)
               rank 2: [64, 96) in bucket [64, 96) local [0, 32) parameter [64, 96)
               rank 3: [96, 100) in bucket [96, 100) local [0, 4) parameter [96, 100)

buffer 1: dense, uint8 parameters, float32 gradients times 0.25
  128 elements, 50 without padding at the ends of buckets, over 4 ranks
  bucket 0: [0, 128), 128 elements, 78 of padding, 32 for each rank
        1  [0, 50)  b
               rank 0: [0, 32) in bucket [0, 32) local [0, 32) parameter [0, 32)
               rank 1: [32, 50) in bucket [32, 50) local [0, 18) parameter [32, 50)

buffer 2: expert, bfloat16 parameters, float32 gradients times 0.25
  128 elements, 1 without padding at the ends of buckets, over 2 ranks
  bucket 0: [0, 128), 128 elements, 127 of padding, 64 for each rank
        2  [0, 1)  c
               rank 0: [0, 1) in bucket [0, 1) local [0, 1) parameter [0, 1)

groups of buckets, as buffer.bucket: 1.0 0.0, 2.0' "as text, fp8 buckets take the others in"
run megatron plan buffers --params list.json --dp 4 --use-distributed-optimizer \
    --num-distributed-optimizer-instances 2 --json
like "$out" '"dp_world":2,.*"ranges_per_rank":\[1,1\]' "shards are those of an instance"
like "$out" '"gradient_scaling_factor":0.25,' "but gradients are averaged over all"
run megatron plan buffers --params list.json --dp 4 --edp 2 --ddp-average-in-collective --json
like "$out" '"gradient_scaling_factor":1,.*"gradient_scaling_factor":0.5,' "averaged in the sum"
echo '[]' >empty.json
run megatron plan buffers --params empty.json --json
like "$out" '"buffers":\[\],"bucket_groups":\[\]' "no parameters, no buffers"

# ---- a model
model=(--num-layers 4 --hidden-size 48 --num-attention-heads 4 --seq-length 16 --vocab-size 100
       --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
run megatron plan buffers "${model[@]}" --world-size 12 --use-distributed-optimizer --json
is "$status" 0 "a model"
like "$out" '"dp":3,.*"bucket_indices":\[\[0,[0-9]*\],\[[0-9]*,([0-9]*)\]\]' \
    "two buckets: the tied embedding is alone"
run megatron plan buffers "${model[@]}" --dp 3 --pp-rank 1 --bf16 --fp8-param-gather \
    --use-distributed-optimizer
like "$out" 'buffer 1: dense, uint8 parameters, float32 gradients[^
]*
  27648 elements, 27648 without' "the matrices of two layers as uint8: 12 x 48^2 / 2 each"
is "$(grep -c weight <(sed -n '/^buffer 1/,$p' <<<"$out"))" 8 "four in each layer"
like "$out" 'buffer.bucket: 1.0 0.0 0.1$' "which the other buckets join"
run megatron plan buffers "${model[@]}" --dp 3 --pp-rank 1 --bf16
like "$out" 'dense, bfloat16 parameters' "bfloat16 on request"
like "$out" ', float32 gradients' "its gradients are float32"
for types in "--bf16 --grad-reduce-in-bf16:bfloat16:bfloat16" "--fp16:float16:float16" \
    "--fp16 --accumulate-allreduce-grads-in-fp32:float16:float32" \
    "--accumulate-allreduce-grads-in-fp32:float32:float32" \
    "--bf16 --use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype bf16:bfloat16:bfloat16"; do
    IFS=: read -r args model_type grad_type <<<"$types"
    # shellcheck disable=SC2086
    like "$(megatron plan buffers "${model[@]}" --dp 3 $args)" \
        "dense, $model_type parameters, $grad_type gradients" "types as megatron train has: $args"
done
run megatron plan buffers "${model[@]}" --dp 3 --pp-rank 1 --bf16
like "$out" $'\n *26  \[0, 6144\)  embedding.word_embeddings.weight' "the last stage has its copy"
run megatron plan buffers "${model[@]}" --num-virtual-stages-per-pipeline-rank 2 --dp 3 \
    --overlap-grad-reduce --ddp-bucket-size 5000 --use-distributed-optimizer
is "$(grep -c '^buffer' <<<"$out")" 2 "a buffer for each virtual stage"
is "$(sed -n '/^buffer 1/,$p' <<<"$out" | grep -c '  bucket')" 1 "with one bucket in the second"
run megatron plan buffers "${model[@]}" --num-virtual-stages-per-pipeline-rank 2 --dp 3 \
    --overlap-grad-reduce --ddp-num-buckets 1 --json
numel=$(grep -o '"numel":[0-9]*' <<<"$out" | grep -o '[0-9]*$')
like "$out" "\"resolved_bucket_size\":$((${numel/$'\n'/+}))," \
    "parts of all weights of the rank, whatever their virtual stage"
run megatron plan buffers "${model[@]}" --pipeline-model-parallel-size 1 --num-layers 1 --dp 3 \
    --use-distributed-optimizer
is "$(grep -c '  bucket' <<<"$out")" 1 "an embedding that no other stage has is not alone"

# ---- the picture
run megatron plan buffers "${model[@]}" --dp 3 --use-distributed-optimizer --svg map.svg
is "$status" 0 "draws"
{ echo '<?xml version="1.0"?>'; cat map.svg; } >declared.svg # the check wants the line
ok "svg_is_well_formed declared.svg" "a well formed picture"
like "$(cat map.svg)" 'rank 2 owns .*bucket 1' "that names owners"

# ---- refusals
# refused STATUS REGEX ARGUMENT...
refused() {
    local want=$1 regex=$2
    shift 2
    run megatron plan buffers "$@"
    is "$status" "$want" "$* is refused"
    like "$err" "^megatron: .*($regex)" "and the line says why"
    is "$(wc -l <<<"$err")" 1 "in one line"
}
refused 2 "neither --params nor --num-layers"
refused 2 "unknown argument --layers" --layers 2
refused 1 "none.json: No such file" --params none.json
refused 1 "\.: Is a directory" --params .
refused 1 "line 2: not JSON: " --params <(printf '[\nmore')
refused 1 "not JSON: " --params /dev/zero
# refused_list REGEX JSON
refused_list() {
    echo "$2" >bad.json
    refused 1 "bad.json: $1" --params bad.json
}
refused_list "it is not a list of parameters" '{}'
refused_list "parameter 0: it is not an object" '[1]'
refused_list "parameter 0: it has no name" '[{"shape":[1]}]'
refused_list "parameter 0: it has no name" '[{"name":"","shape":[1]}]'
refused_list "parameter 1: q: size 1 of its shape is -2, below 0" \
    '[{"name":"p","shape":[1]},{"name":"q","shape":[3,-2]}]'
refused_list "parameter 0: p: size 0 of its shape is not a whole number" '[{"name":"p","shape":[1.5]}]'
refused_list "parameter 0: p: its shape is missing" '[{"name":"p"}]'
refused_list "parameter 0: p: its shape is not a list" '[{"name":"p","shape":"1"}]'
refused_list "parameter 0: p: its shape has more elements than 9223372036854775807" \
    '[{"name":"p","shape":[4294967296,4294967296]}]'
refused_list "parameter 0: p: its dtype \"int4\" is none of" '[{"name":"p","shape":[1],"dtype":"int4"}]'
refused_list "parameter 0: p: its dtype is not a text" '[{"name":"p","shape":[1],"dtype":4}]'
refused_list "parameter 0: p: its expert is neither" '[{"name":"p","shape":[1],"expert":"yes"}]'
refused_list "parameter 0: p: \"experts\" is none of" '[{"name":"p","shape":[1],"experts":true}]'
refused_list "parameter 1: p: parameter 0 has this name" \
    '[{"name":"p","shape":[1]},{"name":"p","shape":[2]}]'
refused_list "line 1: not JSON: duplicate object key" '[{"name":"p","name":"q","shape":[1]}]'
echo '[{"name":"p","shape":[4000000000000000000]}]' >big.json
refused 1 "with parameter 0, of 4000000000000000000 elements, buffers have more than" --params big.json
echo '[{"name":"p","shape":[9000000000000000000]},{"name":"q","shape":[9000000000000000000]}]' >big.json
refused 1 "more elements than 9223372036854775807" --params big.json
refused 1 "instances 3 does not divide the 4 " --params list.json --dp 4 --use-distributed-optimizer \
    --num-distributed-optimizer-instances 3
refused 2 "needs --use-dist" --params list.json --num-distributed-optimizer-instances 2
refused 2 "fp8-param-gather wants --bf16 and --use-dist" "${model[@]}" --fp8-param-gather --bf16
refused 2 "fp8-param-gather wants a model" --params list.json --fp8-param-gather --bf16 \
    --use-distributed-optimizer
refused 2 "exclude" --params list.json --ddp-bucket-size 4 --ddp-num-buckets 2
refused 2 "--lr. does not go with --params" --params list.json --lr 1
refused 2 "--dp.*0" --params list.json --dp 0
refused 2 "grad-reduce-in-bf16 wants --bf16" "${model[@]}" --grad-reduce-in-bf16
refused 1 "pp-rank 2" "${model[@]}" --pp-rank 2
refused 1 "--dp 2, but .* 3" "${model[@]}" --dp 2 --world-size 12
refused 1 "tasks|world|multiple" "${model[@]}" --world-size 13
done_testing

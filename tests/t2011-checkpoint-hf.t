#!/bin/bash
# Models of Hugging Face's transformers: converted, trained from, and written back, byte for byte.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

golden=$MG_SHARED/golden/14_hf
[ -r "$golden/llama/config.json" ] || skip_all "no reference data in $MG_SHARED"
for tool in jq python3; do
    command -v $tool >/dev/null || skip_all "no $tool"
done

header() {
    tail -c +9 "$1" | head -c $(($(od -An -tu8 -N8 "$1")))
}

# bytes FILE FROM TO: of the data
bytes() {
    tail -c +$((9 + $(od -An -tu8 -N8 "$1") + $2)) "$1" | head -c $(($3 - $2))
}

cat >read-tensors <<'END'
"""read-tensors list FILE...: a line for each tensor of the files, with its checksum
read-tensors pieces FILE: the ranges of the data that standard input has, FROM TO a line"""
import hashlib, json, struct, sys

def read (path):
    whole = open (path, "rb").read ()
    size = struct.unpack ("<Q", whole[:8])[0]
    return json.loads (whole[8:8 + size]), memoryview (whole)[8 + size:]

if sys.argv[1] == "list":
    for path in sys.argv[2:]:
        header, data = read (path)
        for name, t in header.items ():
            if name != "__metadata__":
                begin, end = t["data_offsets"]
                print (name, t["dtype"] + json.dumps (t["shape"], separators = (",", ":")),
                       hashlib.sha256 (data[begin:end]).hexdigest ())
else:
    data = read (sys.argv[2])[1]
    for line in sys.stdin:
        begin, end = map (int, line.split ())
        sys.stdout.buffer.write (data[begin:end])
END
tensors() {
    python3 "$TEST_DIR/read-tensors" list "$@" | sort
}

# remake IN OUT FILTER: the tensors that a jq filter makes of those of a file.  Each has a list 'from'
# of ranges of the old data.
remake() {
    local list header
    list=$(header "$1" | jq -c "del (.__metadata__) | map_values (.from = [.data_offsets]) | $3"'
        | reduce to_entries[] as $t ([0, {}]; .[0] as $at
            | (.[0] + ([$t.value.from[] | .[1] - .[0]] | add)) as $next
            | [$next, .[1] + {($t.key): ($t.value | .data_offsets = [$at, $next])}]) | .[1]')
    header=$(jq -c 'map_values (del (.from))' <<<"$list")
    while [ $((${#header} % 8)) != 0 ]; do header+=" "; done
    # shellcheck disable=SC2059
    {
        printf "\\$(printf %o $((${#header} % 256)))\\$(printf %o $((${#header} / 256 % 256)))"
        printf "\\$(printf %o $((${#header} / 65536)))\\0\\0\\0\\0\\0%s" "$header"
        jq -r '.[].from[] | "\(.[0]) \(.[1])"' <<<"$list" | python3 "$TEST_DIR/read-tensors" pieces "$1"
    } >"$2"
}

# make_io_batches IN OUT: a batch whose loss is that of the token ids' own successors
make_io_batches() {
    local from to type i ids header
    read -r type from to < <(header "$1" | jq -r '.input_ids
        | "\(.dtype) \(.data_offsets[0]) \(.data_offsets[1])"')
    i=$((${type#I} / 8))
    mapfile -t ids < <(bytes "$1" "$from" "$to" | od -An -v -w$i -t d$i | tr -d ' ')
    header='{"tokens":{"dtype":"I32","shape":[1,2,16],"data_offsets":[0,128]},'
    header+='"labels":{"dtype":"I32","shape":[1,2,16],"data_offsets":[128,256]},'
    header+='"loss_mask":{"dtype":"F32","shape":[1,2,16],"data_offsets":[256,384]}}'
    # shellcheck disable=SC2059
    {
        printf "\\$(printf %o ${#header})\\0\\0\\0\\0\\0\\0\\0%s" "$header"
        for i in "${ids[@]}"; do printf "\\$(printf %o "$i")\\0\\0\\0"; done
        for ((i = 1; i <= 32; i++)); do printf "\\$(printf %o "${ids[i % 32]}")\\0\\0\\0"; done
        for ((i = 1; i <= 32; i++)); do
            if ((i % 16 == 0)); then printf '\0\0\0\0'; else printf '\0\0\200\77'; fi
        done
    } >"$2"
}

# loss ARGUMENT...: of the first step
loss() {
    rm -f m.json
    run "$@" --micro-batch-size 1 --train-iters 1 --lr 1e-3 --metrics-file m.json
    [ "$status" = 0 ] && jq '."lm loss"' m.json || diag "$err"
}

near() {
    ok "awk -v a='$1' -v b='$2' 'BEGIN { d = a - b; exit !(a > 0 && d * d <= 25e-12 * b * b) }'" \
        "$3: $1, $2"
}

for name in gpt2 llama llama3 qwen2 qwen3 mistral mistral_window mixtral qwen3_moe deepseek_v3; do
    from=$golden/$name
    case $name in
    mixtral | qwen3_moe | deepseek_v3) experts=(--sequence-parallel) ;;
    *) experts=() ;;
    esac
    run megatron checkpoint convert "$from" --output "$name.st"
    is "$status$err" 0 "$name is converted"
    jq -r '.megatron.tensors // empty | to_entries[] | "\(.key) F32\(.value[0] | tostring) \(.value[1])"' \
        "$from/about.json" | sort >want
    if [ -s want ]; then
        is "$(tensors "$name.st")" "$(cat want)" "$name: Megatron-LM's tensors"
    fi

    # config.json of transformers 4 says the same
    mkdir v4
    cp "$from"/model* v4
    cp "$from/config_v4.json" v4/config.json
    megatron checkpoint convert v4 --output v4.st
    is "$(tensors v4.st)" "$(tensors "$name.st")" "$name: by the older config.json"
    is "$(header v4.st | jq -cS '.__metadata__ | del(."hf-config")')" \
        "$(header "$name.st" | jq -cS '.__metadata__ | del(."hf-config")')" "$name: the same model"
    rm -r v4

    tensors "$from"/model*.safetensors >theirs
    run megatron checkpoint convert "$name.st" --format hf --output "$name.hf"
    is "$status$err" 0 "$name: and back"
    is "$(tensors "$name.hf/model.safetensors")" "$(cat theirs)" "$name: byte for byte"
    is "$(jq -c .model_type "$name.hf/config.json")" "$(jq -c .model_type "$from/config.json")" \
        "$name: the same kind"
    is "$(jq -c '[.bos_token_id, .eos_token_id]' "$name.hf/config.json")" \
        "$(jq -c '[.bos_token_id, .eos_token_id]' "$from/config.json")" "$name: its tokens"
    run megatron checkpoint convert "$from" --format hf --output "$name.parts" --max-shard-size 20KB
    is "$status$err" 0 "$name: at once, in parts"
    ok "[ \$(ls $name.parts/model-000??-of-000??.safetensors | wc -l) -gt 3 ]" "$name: several"
    is "$(tensors "$name.parts"/model-*.safetensors)" "$(cat theirs)" "$name: byte for byte"
    run megatron checkpoint convert "$name.parts" --output parts.st
    ok "cmp <(tensors parts.st) <(tensors $name.st)" "$name: read by its index"

    make_io_batches "$from/io.safetensors" io.st
    want=$(jq .loss_f64 "$from/about.json")
    near "$(loss megatron train --load-weights "$name.st" --use-checkpoint-args --batches io.st \
        --save-weights trained.st --save ck)" "$want" "$name: the loss of a step"
    near "$(loss megatron train --load-weights "$from" --use-checkpoint-args --batches io.st)" "$want" \
        "$name: from the directory itself"
    for trained in trained.st ck; do
        run megatron checkpoint convert "$trained" --format hf --output t.hf
        is "$status$err" 0 "$name: $trained back"
        is "$(jq -c '[.model_type, .bos_token_id]' t.hf/config.json)" \
            "$(jq -c '[.model_type, .bos_token_id]' "$from/config.json")" "$name: kind and tokens"
        run megatron checkpoint convert t.hf --output t.st
        is "$(tensors t.st)" "$(tensors trained.st)" "$name: with the trained weights"
        rm -r t.hf
    done
    near "$(loss megatron train --load ck --finetune --use-checkpoint-args --batches io.st)" \
        "$(loss megatron train --load-weights trained.st --use-checkpoint-args --batches io.st)" \
        "$name: a checkpoint says which model it is of"
    run megatron checkpoint inspect ck
    like "$out" "[23] layers, hidden 32, .*vocabulary 96, " "$name: its checkpoint's model"
    rm -r ck
    if ranks_available; then
        near "$(loss ranks_run 2 megatron train --load-weights "$from" --use-checkpoint-args --batches io.st \
            --tensor-model-parallel-size 2 "${experts[@]}")" "$want" "$name: two ranks"
    else
        skip 1 "neither UCX nor MPI"
    fi
    [ "${#experts[@]}" -gt 0 ] || continue
    if ranks_available; then
        near "$(loss ranks_run 2 megatron train --load-weights "$name.st" --use-checkpoint-args \
            --batches io.st --global-batch-size 2 --expert-model-parallel-size 2 \
            --save-weights halves.st)" "$want" "$name: experts on two ranks"
        run megatron checkpoint convert halves.st --format hf --output t.hf
        is "$status$err" 0 "$name: their weights back"
        is "$(tensors t.hf/model.safetensors | cut -d' ' -f1,2)" "$(cut -d' ' -f1,2 theirs)" \
            "$name: all of them"
        rm -r t.hf
    else
        skip 3 "neither UCX nor MPI"
    fi
    # the arguments that Megatron-LM has for the model, but those of a run
    jq -r '.megatron.args | . as $a | range (length) | select ($a[.] | startswith ("--"))
        | [$a[.][2:], ($a[. + 1] // "--" | if startswith ("--") then "true" else . end)]
        | select (.[0] | test ("^(seq-length|moe-router-(dtype|load.*)|moe-token.*)$") | not)
        | join ("=")' "$from/about.json" | sort >want
    header "$name.st" | jq -r '.__metadata__ | to_entries[] | "\(.key)=\(.value)"' | sort >have
    is "$(comm -23 want have)" "" "$name: Megatron-LM's arguments"
done

# ---- the expert bias stays float32
run megatron checkpoint convert "$golden/deepseek_v3" --format hf --output half.hf --dtype bf16
is "$status$err" 0 "a DeepSeek in bf16"
is "$(tensors half.hf/model.safetensors | grep ' F32')" \
    "$(tensors "$golden/deepseek_v3/model.safetensors" | grep e_score_correction_bias)" \
    "but for its expert bias"
run megatron checkpoint convert half.hf --output half.st
run megatron checkpoint convert half.st --format hf --output half.2.hf
is "$(tensors half.2.hf/model.safetensors)" "$(tensors half.hf/model.safetensors)" "types stay"

# ---- a model with experts that was not Hugging Face's
# fresh ARGUMENT...: a model of two layers, as a directory x
fresh() {
    rm -rf x x.st
    megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --swiglu \
        --normalization RMSNorm --position-embedding-type rope --disable-bias-linear \
        --untie-embeddings-and-output-weights --vocab-size 96 --batches io.st --micro-batch-size 1 \
        --train-iters 1 --lr 1 --num-experts 4 --moe-ffn-hidden-size 24 --save-weights x.st "$@" \
        >x.out 2>&1 || cat x.out
    run megatron checkpoint convert x.st --format hf --output x
}
fresh --moe-aux-loss-coeff 0.02
is "$status$err" 0 "a Mixtral"
is "$(jq -c '[.model_type, .num_local_experts, .intermediate_size, .router_aux_loss_coef]' x/config.json)" \
    '["mixtral",4,24,0.02]' "its config.json"
fresh --qk-layernorm --moe-layer-freq 2 --ffn-hidden-size 40 --moe-router-pre-softmax
is "$status$err" 0 "a Qwen3-MoE"
is "$(jq -c '[.model_type, .num_experts, .moe_intermediate_size, .intermediate_size, .mlp_only_layers,
        .norm_topk_prob]' x/config.json)" '["qwen3_moe",4,24,40,[1],false]' "its config.json"
while IFS='|' read -r arguments text; do
    # shellcheck disable=SC2086
    fresh $arguments
    is "$status" 1 "$arguments"
    like "$err" "$text" "refused: $text"
done <<'END'
--moe-router-pre-softmax|--moe-router-pre-softmax of the model has no place in config.json of mixtral
--moe-layer-freq [0,1]|--moe-layer-freq of the model has no place in config.json of mixtral
--moe-router-score-function sigmoid|--moe-router-score-function of the model has no place
--moe-shared-expert-intermediate-size 8|--moe-shared-expert-intermediate-size of the model has no
--moe-router-topk-scaling-factor 2|--moe-router-topk-scaling-factor of the model has no place
END

# ---- experts in one tensor, as transformers 5 writes them with save_original_format=False
# fuse LAYER: a filter that makes one tensor of those of a layer's experts
fuse() {
    # shellcheck disable=SC2016
    echo '"model.layers.'"$1"'.mlp." as $b | . as $all
        | [range (100) | select ($all[$b + "experts.\(.).down_proj.weight"])] as $e
        | . + { ($b + "experts.gate_up_proj"): { dtype: "F32",
                    shape: ($all[$b + "experts.0.gate_proj.weight"].shape
                            | [($e | length), 2 * .[0], .[1]]),
                    from: [$e[] | $all[$b + "experts.\(.).gate_proj.weight",
                                       $b + "experts.\(.).up_proj.weight"].from[]] },
                ($b + "experts.down_proj"): { dtype: "F32",
                    shape: ([($e | length)] + $all[$b + "experts.0.down_proj.weight"].shape),
                    from: [$e[] | $all[$b + "experts.\(.).down_proj.weight"].from[]] } }
        | del (.[$e[] | $b + "experts.\(.).gate_proj.weight", $b + "experts.\(.).up_proj.weight",
                        $b + "experts.\(.).down_proj.weight"])'
}
mixtral='with_entries (.key |= (sub ("block_sparse_moe"; "mlp") | sub ("w1"; "gate_proj")
    | sub ("w3"; "up_proj") | sub ("w2"; "down_proj")))'
both="$(fuse 0) | $(fuse 1)"
# fused NAME FILTER: a model whose experts are fused is the one whose experts are not
fused() {
    rm -rf fused
    mkdir fused
    cp "$golden/$1/config.json" fused
    remake "$golden/$1/model.safetensors" fused/model.safetensors "$2"
    run megatron checkpoint convert fused --output f.st
    is "$status$err" 0 "$1, experts in one tensor"
    is "$(tensors f.st)" "$(tensors "$1.st")" "the same model"
}
fused mixtral "$mixtral | $both"
jq '.num_local_experts = 5' "$golden/mixtral/config.json" >fused/config.json
run megatron checkpoint convert fused --output f.st
is "$status" 1 "fewer experts than config.json says"
like "$err" 'gate_up_proj has shape \[4, 48, 32\], want \[5, 48, 32\]' "named"
fused qwen3_moe "$(fuse 1) | $(fuse 2)"
run megatron checkpoint convert f.st --format hf --output f.hf
is "$(tensors f.hf/model.safetensors)" "$(tensors "$golden/qwen3_moe/model.safetensors")" \
    "written as tensors of each expert"
fused deepseek_v3 "$(fuse 1)"
remake "$golden/qwen3_moe/model.safetensors" fused/model.safetensors \
    "$(fuse 1) | $(fuse 2)"' | ."model.layers.1.mlp.experts.down_proj".shape |= [.[0], .[2], .[1]]'
cp "$golden/qwen3_moe/config.json" fused
run megatron checkpoint convert fused --output f.st
is "$status" 1 "another order of dimensions"
like "$err" "tensor model.layers.1.mlp.experts.down_proj has shape" "refused"

# ---- DeepSeek's layers for multi-token prediction
fresh --moe-layer-freq "[0,1]" --ffn-hidden-size 40 --multi-latent-attention --q-lora-rank 12 \
    --kv-lora-rank 8 --qk-head-dim 8 --qk-pos-emb-head-dim 4 --v-head-dim 8 --qk-layernorm \
    --moe-router-score-function sigmoid --moe-router-enable-expert-bias --norm-epsilon 1e-6 \
    --moe-shared-expert-intermediate-size 24 --mtp-num-layers 2 --hidden-dropout 0 \
    --attention-dropout 0
is "$status$err" 0 "a DeepSeek-V3 with two layers"
is "$(jq -c '[.model_type, .num_hidden_layers, .num_nextn_predict_layers]' x/config.json)" \
    '["deepseek_v3",2,2]' "its config.json"
is "$(header x/model.safetensors | jq -r 'keys[] | select (test ("layers.3")) | .[15:]' \
        | grep -v -e experts -e self_attn | sort | tr '\n' ' ')" \
    "eh_proj.weight embed_tokens.weight enorm.weight hnorm.weight input_layernorm.weight \
mlp.gate.e_score_correction_bias mlp.gate.weight post_attention_layernorm.weight \
shared_head.head.weight shared_head.norm.weight " "names of the second"
is "$(tensors x/model.safetensors | grep -e embed_tokens -e head.head -e lm_head | cut -d' ' -f3 \
    | sort | uniq -c | awk '{ print $1 }' | tr '\n' ' ')" "3 3 " "with copies of embedding and output"
run megatron checkpoint convert x --output y.st
is "$status$err" 0 "and back"
is "$(tensors y.st)" "$(tensors x.st)" "byte for byte"
near "$(loss megatron train --load-weights x --use-checkpoint-args --batches io.st)" \
    "$(loss megatron train --load-weights x.st --use-checkpoint-args --batches io.st)" "trained from"
is "$(jq 'has ("mtp_2 loss")' m.json)" true "with both losses"
cp x/model.safetensors whole
remake whole x/model.safetensors 'del (.[keys[] | select (test ("layers.[23].(embed|shared_head.head)"))])'
run megatron checkpoint convert x --output y.st
is "$status$err $(tensors y.st | sha256sum)" "0 $(tensors x.st | sha256sum)" "without the copies"
remake whole x/model.safetensors 'del (.[keys[] | select (test ("layers.[23]"))])'
run megatron checkpoint convert x --output y.st
is "$status$err" 0 "without these layers, as transformers writes it"
is "$(tensors y.st)" "$(tensors x.st | grep -v ^mtp)" "the rest"
near "$(loss megatron train --load-weights x --use-checkpoint-args --batches io.st)" \
    "$(loss megatron train --load-weights y.st --use-checkpoint-args --batches io.st)" "trained from"
is "$(jq 'has ("mtp_1 loss")' m.json)" false "without them"
remake whole x/model.safetensors \
    '."model.layers.3.embed_tokens.weight".from = ."lm_head.weight".from'
run megatron checkpoint convert x --output y.st
is "$status" 1 "another embedding"
like "$err" "model.layers.3.embed_tokens.weight is not a copy of model.embed_tokens.weight" "refused"
remake whole x/model.safetensors 'del (."model.layers.3.hnorm.weight")'
run megatron checkpoint convert x --output y.st
is "$status" 1 "half a layer"
like "$err" "tensor model.layers.3.hnorm.weight is not in it" "refused"
remake whole x/model.safetensors "$(fuse 1) | $(fuse 2) | $(fuse 3)"
run megatron checkpoint convert x --output y.st
is "$status$err $(tensors y.st | sha256sum)" "0 $(tensors x.st | sha256sum)" "experts in one tensor"
rm -rf x x.st whole fused f.hf

# ---- DeepSeek's attention: the reference's layers without its experts
dense='del (.[keys[] | select (startswith ("model.layers.1.mlp"))])
    | . + with_entries (select (.key | startswith ("model.layers.0.mlp"))
                        | .key |= sub ("layers.0"; "layers.1"))'
from=$golden/deepseek_v3
mkdir dense
remake "$from/model.safetensors" dense/model.safetensors "$dense"
for form in config.json config_v4.json; do
    jq '.first_k_dense_replace = 2' "$from/$form" >dense/config.json
    run megatron checkpoint convert dense --output "dense-$form.st"
    is "$status$err" 0 "a dense DeepSeek by its $form"
    tensors "dense-$form.st" >have
    jq -r '.megatron.tensors | to_entries[] | "\(.key) F32\(.value[0] | tostring) \(.value[1])"' \
        "$from/about.json" | grep -v 'layers.1.mlp' | sort >want
    is "$(grep -v 'layers.1.mlp' have)" "$(cat want)" "Megatron-LM's tensors"
    is "$(grep 'layers.1.mlp' have)" "$(grep 'layers.0.mlp' want | sed 's/layers.0/layers.1/')" \
        "and those of the other half"
done
is "$(header dense-config.json.st | jq -cS '.__metadata__ | del (."hf-config")')" \
    "$(header dense-config_v4.json.st | jq -cS '.__metadata__ | del (."hf-config")')" "the same model"
run megatron checkpoint convert dense-config.json.st --format hf --output dense.hf
is "$status$err" 0 "and back"
is "$(tensors dense.hf/model.safetensors)" "$(tensors dense/model.safetensors)" "byte for byte"
is "$(jq -cS 'del (.rope_theta, .rope_scaling, .torch_dtype)' dense.hf/config.json)" \
    "$(jq -cS '.first_k_dense_replace = 2 | del (.rope_parameters, .dtype)' "$from/config.json")" \
    "config.json, but for the form"
make_io_batches "$from/io.safetensors" io.st
want=$(loss megatron train --load-weights dense --use-checkpoint-args --batches io.st \
    --save-weights trained.st)
near "$(loss megatron train --load-weights dense-config.json.st --use-checkpoint-args --batches io.st \
    --multi-latent-attention --q-lora-rank 24)" "$want" "trained from either"
if ranks_available; then
    near "$(loss ranks_run 2 megatron train --load-weights dense --use-checkpoint-args --batches io.st \
        --tensor-model-parallel-size 2)" "$want" "two ranks"
else
    skip 1 "neither UCX nor MPI"
fi
run megatron checkpoint convert trained.st --format hf --output t.hf
is "$status$err" 0 "trained weights back"
run megatron checkpoint convert t.hf --output t.st
is "$(tensors t.st)" "$(tensors trained.st)" "byte for byte"
rm -r t.hf

# ---- types: rounded if that is asked for, and config.json says so
# floats FILE NAME: the values of a float32 tensor
floats() {
    local from to
    read -r from to < <(header "$1" | jq -r --arg n "$2" '.[$n].data_offsets | "\(.[0]) \(.[1])"')
    bytes "$1" "$from" "$to" | od -An -v -w4 -tu4
}
# halves FILE NAME: the bits of a tensor of a 16-bit type
halves() {
    local from to
    read -r from to < <(header "$1" | jq -r --arg n "$2" '.[$n].data_offsets | "\(.[0]) \(.[1])"')
    bytes "$1" "$from" "$to" | od -An -v -w2 -tu2 | tr -d ' '
}
for type in fp32:F32:float32 bf16:BF16:bfloat16 fp16:F16:float16; do
    IFS=: read -r short there long <<<"$type"
    run megatron checkpoint convert "$golden/llama" --format hf --output "$short.hf" --dtype "$short"
    is "$status$err" 0 "to $short"
    is "$(header "$short.hf/model.safetensors" | jq -r 'del (.__metadata__) | [.[].dtype] | unique[]')" \
        "$there" "all tensors"
    is "$(jq -r .torch_dtype "$short.hf/config.json")" "$long" "config.json says it"
    run megatron checkpoint convert "$golden/llama" --output "$short.st" --dtype "$short"
    is "$status$err" 0 "to $short, by our names"
    run megatron checkpoint convert "$short.st" --format hf --output "$short.2.hf"
    is "$(tensors "$short.2.hf/model.safetensors")" "$(tensors "$short.hf/model.safetensors")" \
        "the same on either way"
    is "$(jq -r .torch_dtype "$short.2.hf/config.json")" "$long" "config.json says it again"
    run megatron checkpoint convert "$short.st" --format hf --output "$short.3.hf" --dtype fp32
    run megatron checkpoint convert "$short.3.hf" --output "$short.4.st" --dtype "$short"
    is "$(tensors "$short.4.st")" "$(tensors "$short.st")" "nothing is lost by way of float32"
    loss megatron train --load-weights "$short.hf" --use-checkpoint-args --batches io.st >"$short.loss"
done
is "$(tensors fp32.hf/model.safetensors)" "$(tensors "$golden"/llama/model-*)" "fp32 is as it was"
is "$(halves bf16.hf/model.safetensors lm_head.weight)" \
    "$(floats fp32.hf/model.safetensors lm_head.weight \
        | awk '{ q = int ($1 / 65536); r = $1 % 65536; print q + (r > 32768 || r == 32768 && q % 2) }')" \
    "bf16 is rounded to nearest"
ok "awk '{ if (NR == 1) a = \$1; else exit !(\$1 != a && (\$1 - a) ^ 2 < 1e-4) }' fp32.loss bf16.loss" \
    "a bfloat16 model trains: $(cat fp32.loss bf16.loss)"
run megatron checkpoint convert gpt2.st --format hf-gpt2 --output half.st --dtype fp16
is "$status$(header half.st | jq -r '[.[].dtype] | unique[]')" "0F16" "hf-gpt2 too"
run megatron checkpoint convert "$golden/llama" --format checkpoint --output c32 --dtype fp32
is "$status" 0 "a checkpoint has fp32"
run megatron checkpoint convert c32 --output c16.st --dtype bf16
is "$(tensors c16.st)" "$(tensors bf16.st)" "out of a checkpoint"
# a number that float16 does not have: 65536
cp -r fp32.hf big.hf
chmod -R u+w big.hf
from=$(header big.hf/model.safetensors | jq '.["model.norm.weight"].data_offsets[0]')
printf '\0\0\200\107' | dd of=big.hf/model.safetensors bs=1 conv=notrunc status=none \
    seek=$((8 + $(od -An -tu8 -N8 big.hf/model.safetensors) + from + 12))
run megatron checkpoint convert big.hf --output big.st --dtype fp16
is "$status" 1 "65536 as fp16 is refused"
like "$err" "tensor decoder.final_layernorm.weight: element 3 is too large for float16" "by name"
ok "[ ! -e big.st ]" "nothing is written"
run megatron checkpoint convert big.hf --format hf --output big.out --dtype fp16
like "$err" "tensor model.norm.weight: element 3 is too large for float16" "by the other name"
ok "[ ! -e big.out/config.json ]" "no config.json is written"
run megatron checkpoint convert big.hf --output big.st --dtype bf16
is "$status$err" 0 "bf16 has it"
run megatron checkpoint convert llama.st --output x.st --dtype fp8
is "$status" 2 "another type"
like "$err" '--dtype: "fp8" is not fp32, bf16 or fp16' "is refused"
run megatron checkpoint convert llama.st --format checkpoint --output x --dtype bf16
is "$status" 2 "a checkpoint in bf16"
like "$err" "--dtype: a checkpoint has float32 alone" "is refused"

# ---- a GPT-2 by its old format goes the new way, and back
megatron checkpoint convert gpt2.st --format hf-gpt2 --output gpt2.safetensors
is "$(tensors gpt2.safetensors)" "$(tensors "$golden/gpt2/model.safetensors")" "hf-gpt2"
run megatron checkpoint convert gpt2.safetensors --format hf --output old.hf --num-attention-heads 4
is "$status$err" 0 "a file alone becomes a directory"
is "$(tensors old.hf/model.safetensors)" "$(tensors "$golden/gpt2/model.safetensors")" "byte for byte"
run megatron checkpoint convert "$golden/llama" --format hf-gpt2 --output x
like "$err" "a model with other positions than learned ones is no GPT-2" "a Llama is no GPT-2"

# ---- refusals
# refuse TEXT ARGUMENT...
refuse() {
    local text=$1
    shift
    run "$@"
    [ "$status" -ne 0 ] || diag "not refused: $*"
    like "$err" "$text" "refused: $text"
    is "$(wc -l <<<"$err")" 1 "in one line"
}
train=(megatron train --load-weights llama.st --use-checkpoint-args --batches io.st --train-iters 1
       --lr 1 --micro-batch-size 1)
refuse "--hidden-size contradicts llama.st" "${train[@]}" --hidden-size 64
refuse "--swiglu contradicts llama.st|--squared-relu and --swiglu|--swiglu and --squared-relu" \
    "${train[@]}" --squared-relu
refuse "--qk-layernorm contradicts llama.st" "${train[@]}" --qk-layernorm
refuse "--rotary-base contradicts llama.st" "${train[@]}" --rotary-base 5e5
refuse "--window-size contradicts llama.st" "${train[@]}" --window-size 7,0
refuse "--num-query-groups contradicts llama.st" "${train[@]}" --num-query-groups 4
run "${train[@]}" --hidden-size 32 --num-query-groups 2 --hidden-dropout 0.1 \
    --max-position-embeddings 128 --use-rotary-position-embeddings
is "$status" 0 "what agrees may be said too" || diag "$err"
refuse "--use-checkpoint-args wants --load-weights or --load" megatron train --use-checkpoint-args
refuse "io.st does not say of which model it is" megatron train --use-checkpoint-args --load-weights io.st
refuse "config.json is there already" megatron checkpoint convert llama.st --format hf --output llama.hf
refuse "--apply-layernorm-1p of the model has no place in config.json of llama" \
    bash -c 'megatron train --load-weights llama.st --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --ffn-hidden-size 56 --group-query-attention --num-query-groups 2 --swiglu --normalization RMSNorm \
        --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights \
        --apply-layernorm-1p --vocab-size 96 --batches io.st --micro-batch-size 1 --train-iters 1 --lr 1 \
        --save-weights 1p.st >/dev/null && megatron checkpoint convert 1p.st --format hf --output x'

# change NAME EXPRESSION: a copy of the model whose config.json is changed by jq
change() {
    rm -rf changed
    cp -r "$golden/$1" changed
    chmod -R u+w changed
    jq "$2" "$golden/$1/config.json" >changed/config.json
}
while IFS='|' read -r name expression text; do
    change "$name" "${expression//^/|}"
    refuse "$text" megatron checkpoint convert changed --output x
done <<'END'
llama|.model_type = "bloom"|model_type is "bloom": want gpt2, llama
llama|.architectures = ["LlamaForSequenceClassification"]|architectures is .*want LlamaForCausalLM
llama|.attention_bias = true|attention_bias is true
llama|.hidden_act = "relu"|hidden_act is "relu"
llama|.rope_parameters.rope_type = "dynamic"|rope_parameters: rope_type is "dynamic": its frequencies
llama|.rope_parameters.partial_rotary_factor = 0.5|partial_rotary_factor is 0.5
llama|.rope_parameters.long_factor = [2]|rope_parameters: long_factor is not known
llama|.quantization_config = {"bits": 4}|quantization_config
llama|.num_hidden_layers = 3|tensor model.layers.2.* is not in it
llama|.num_hidden_layers = 1|tensor model.layers.1.* is none of a Llama's
llama|.tie_word_embeddings = true|lm_head.weight is not the word embedding
llama|.hidden_size = 40|tensor .* has shape \[96, 32\], want \[96, 40\]
llama|del(.hidden_size)|hidden_size is not there
llama|.num_key_value_heads = 3|num_key_value_heads is 3
qwen3|.layer_types = ["full_attention"]|layer_types
qwen3|.layer_types[0] = "chunked_attention"|layer_types is .*want full_attention or sliding
mixtral|.num_local_experts = 5|gate.weight has shape \[4, 32\], want \[5, 32\]
mixtral|.num_local_experts = 100000|2 layers of 100000 experts, but 41 tensors
mixtral|.router_jitter_noise = 0.1|router_jitter_noise is 0.1
mixtral|.model_type = "qwen3_moe" ^ .architectures = null|tensor .* is not in it
qwen3_moe|.mlp_only_layers = []|tensor model.layers.0.mlp.gate.weight is not in it
qwen3_moe|.moe_intermediate_size = 24|experts.0.gate_proj.weight has shape \[16, 32\], want \[24, 32\]
qwen3_moe|.num_experts_per_tok = 9|num_experts_per_tok is 9: there are fewer
deepseek_v3|.num_hidden_layers = 1|tensor model.layers.1.* is none of a DeepSeek's
deepseek_v3|.n_shared_experts = 2|shared_experts.gate_proj.weight has shape
deepseek_v3|.topk_group = 1|topk_group is 1: want half of num_experts_per_tok
deepseek_v3|.norm_topk_prob = false|norm_topk_prob is false
gpt2|.scale_attn_by_inverse_layer_idx = true|scale_attn_by_inverse_layer_idx is true
gpt2|.activation_function = "relu"|activation_function is "relu"
END
ok "[ ! -e x ]" "and nothing is written"
change llama .
jq '.weight_map["lm_head.weight"] = "../model.safetensors"' "$golden/llama/model.safetensors.index.json" \
    >changed/model.safetensors.index.json
refuse "index.json: weight_map: .* is no name of a file beside it" \
    megatron checkpoint convert changed --output x
jq '.weight_map["model.embed_tokens.weight"] = "model-00002-of-00005.safetensors"' \
    "$golden/llama/model.safetensors.index.json" >changed/model.safetensors.index.json
run megatron checkpoint convert changed --output x.st
is "$status$err" 0 "a tensor in another file than the index says, as transformers reads it"
rm -f x.st
jq '.weight_map.more = "model-00001-of-00005.safetensors"' \
    "$golden/llama/model.safetensors.index.json" >changed/model.safetensors.index.json
refuse "tensor more is not in model-00001-" megatron checkpoint convert changed --output x
rm changed/model-00003*
refuse "model-00003-of-00005.safetensors: cannot open" megatron checkpoint convert changed --output x

# ---- tensors of types that no model has: none is lost, none is called missing
# retype NAME FILTER: a copy of the model whose tensors are changed by a filter of remake
retype() {
    rm -rf changed
    mkdir changed
    cp "$golden/$1/config.json" changed
    remake "$golden/$1/model.safetensors" changed/model.safetensors "$2"
}
# shellcheck disable=SC2016
byte='.[keys[0]].from as $f ^ {dtype: "I8", shape: [4], from: [[$f[0][0], $f[0][0] + 4]]} as $byte'
while IFS='|' read -r name filter text; do
    retype "$name" "${filter//^/|}"
    for format in megatron hf checkpoint; do
        refuse "$text" megatron checkpoint convert changed --format $format --output x
    done
    ok "[ ! -e x ]" "and nothing is written"
done <<END
qwen2|$byte ^ . + {more: \$byte}|tensor more is none of a Llama's
qwen2|$byte ^ . + {"more.bool": (\$byte ^ .dtype = "BOOL")}|tensor more.bool is none of a Llama's
qwen2|$byte ^ . + {more: (\$byte ^ .dtype = "Q4_K")}|tensor more is none of a Llama's
qwen2|$byte ^ . + {more: (\$byte ^ .shape = [4,1,1,1,1,1,1,1,1])}|tensor more is none of a Llama's
qwen2|$byte ^ . + {"": (\$byte ^ .dtype = "F32" ^ .shape = [1])}|tensor  is none of a Llama's
qwen2|."model.layers.1.mlp.up_proj.weight".dtype = "U32"|mlp.up_proj.weight has data type U32, want F32
qwen2|."model.embed_tokens.weight".dtype = "U32"|tensor model.embed_tokens.weight has data type U32
qwen2|."model.norm.weight".shape += [1,1,1,1,1,1,1,1]|model.norm.weight has more than 8 dimensions
gpt2|."transformer.wte.weight".dtype = "U32"|tensor transformer.wte.weight has data type U32
END
retype qwen2 '."model.embed_tokens.weight".dtype = "I32"'
for format in megatron hf; do
    refuse "tensor model.embed_tokens.weight has data type int32, want a floating-point type" \
        megatron checkpoint convert changed --format $format --output x
done
ok "[ ! -e x ]" "and nothing is written"
retype gpt2 '."transformer.h.1.ln_1.weight".dtype = "U32"'
refuse "not a GPT-2: tensor transformer.h.1.ln_1.weight has data type U32" \
    megatron checkpoint convert changed/model.safetensors --num-attention-heads 4 --output x

# ---- but GPT-2's masks are passed over, in one file and in several
# shellcheck disable=SC2016
mask="${byte/I8/BOOL}"' ^ . + {"transformer.h.0.attn.bias": ($byte | .shape = [1,1,2,2])}'
mask=${mask//^/|}
retype gpt2 "$mask"
run megatron checkpoint convert changed --output x.st
is "$status$err" 0 "a GPT-2 with a mask"
ok "cmp <(tensors x.st) <(tensors gpt2.st)" "the same model"
rm -r changed
cp -r gpt2.parts changed
part=$(cd changed && echo model-00001-of-*.safetensors)
remake "gpt2.parts/$part" "changed/$part" "$mask"
run megatron checkpoint convert changed --output x.st
is "$status$err" 0 "in parts, not in the index"
ok "cmp <(tensors x.st) <(tensors gpt2.st)" "the same model"
jq --arg part "$part" '.weight_map["transformer.h.0.attn.bias"] = $part' \
    gpt2.parts/model.safetensors.index.json >changed/model.safetensors.index.json
run megatron checkpoint convert changed --output x.st
is "$status$err" 0 "in parts, in the index"
ok "cmp <(tensors x.st) <(tensors gpt2.st)" "the same model"
remake "gpt2.parts/$part" "changed/$part" "${mask/.h.0.attn.bias/.more}"
cp gpt2.parts/model.safetensors.index.json changed
refuse "tensor transformer.more is none of a GPT-2's" megatron checkpoint convert changed --output x

# ---- a directory of checkpoints is no model of Hugging Face's
"${train[@]}" --save run >/dev/null
refuse "run: checkpoints are there already" \
    megatron checkpoint convert run --format hf --output run
is "$(ls run)" $'iter_0000001\nlatest_checkpointed_iteration.txt' "and nothing is written"
cp "$golden/llama"/{config.json,model*} run
refuse "run: both config.json and checkpoint iter_0000001 are there" \
    megatron checkpoint convert run --output x
refuse "run: both config.json and checkpoint iter_0000001 are there" \
    megatron train --load-weights run --use-checkpoint-args --batches io.st --train-iters 1 --lr 1 \
    --micro-batch-size 1
refuse "run: both config.json and checkpoint iter_0000001 are there" \
    megatron train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --vocab-size 96 \
    --batches io.st --train-iters 1 --lr 1 --micro-batch-size 1 --load-weights run
rm run/config.json
run megatron checkpoint convert run --output x.st
is "$status$err" 0 "without config.json it is a directory of checkpoints"

# ---- half of a model of Hugging Face's
mkdir half
cp "$golden/qwen2/model.safetensors" half
refuse "half: model.safetensors is there, but not the config.json" \
    megatron checkpoint convert half --output x
refuse "half/model.safetensors: .* names of a model with a config.json, give the directory" \
    megatron checkpoint convert half/model.safetensors --output x
ok "[ ! -e x ]" "and nothing is written"
done_testing

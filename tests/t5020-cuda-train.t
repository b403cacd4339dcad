#!/bin/bash
# The CUDA device on the double: kernels of its table against their tests, and runs with the losses
# and weights of the CPU's.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/cuda.sh"

# ---- unit tests with operands in the device's memory
units=(kernels/{copy,embedding,reduce})
! long || units+=(kernels/{gemm,act,adamw,attention,attention_types,bias_dropout_add,cast,fill,norm}
                  kernels/{rope,state,xent,router,router_loss,router_balance,router_many}
                  kernels/{row,expert_sort,expert_gemm,expert_act,gemm_double})
for unit in "${units[@]}"; do
    run env MG_TEST_DEVICE=cuda "$MG_BUILDDIR/tests/unit/$unit.t"
    is "$status $(grep '^not ok\|^Bail' <<<"$out")" "0 " "$unit on the device"
done

# ---- runs
tokenized_text 20
sizes=(--num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6
       --ffn-hidden-size 28 --seq-length 8)
one=(megatron train "${sizes[@]}" --tokenizer-type ByteLevel --data-path text_text_document
     --split 80,20,0 --micro-batch-size 2 --global-batch-size 4 --train-iters 3 --lr 2e-3
     --lr-decay-style constant --override-opt-param-scheduler --eval-iters 0)
modern=(--swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
        --untie-embeddings-and-output-weights --group-query-attention --num-query-groups 2
        --qk-layernorm)

# alike NAME LOSS NORM WEIGHTS TEXT ARGUMENT...: on the CPU and on the device
alike() {
    local name=$1 loss=$2 norm=$3 weights=$4 text=$5
    shift 5
    train "$name" "${one[@]}" "$@"
    is "$status" 0 "$text"
    train "$name.cuda" "${one[@]}" --device cuda "$@"
    is "$status" 0 "on the device" || diag "$err"
    same_metrics "$name.cuda.json" "$name.json" "$loss" "$norm" "losses and norms"
    same_weights "$name.cuda.st" "$name.st" "$weights" "weights" --skip-key-bias 4
}

alike gpt 1e-5 1e-4 1e-4 "GPT, with dropout and an evaluation" --attention-dropout 0.1 \
    --hidden-dropout 0.1 --eval-iters 1 --eval-interval 2
alike llama 1e-5 1e-4 1e-4 "rotary, gated, grouped, RMSNorm" "${modern[@]}"
alike bf16 5e-3 5e-2 2e-2 "bfloat16, a distributed optimizer" --bf16 --use-distributed-optimizer
half=(--fp16 --initial-loss-scale 4096 "${modern[@]}")
alike fp16 5e-3 5e-2 2e-2 "float16, attention on tensor cores" "${half[@]}" --kv-channels 8
export MG_CUDA_CAPABILITY=8.9
alike less 5e-3 5e-2 2e-2 "heads that need more shared memory than a GPU has" "${half[@]}" \
    --num-layers 1 --kv-channels 200
unset MG_CUDA_CAPABILITY
experts=("${modern[@]}" --num-experts 4 --moe-router-topk 2)
alike moe 1e-5 1e-4 1e-4 "experts: losses of balance and of z, shared experts" "${experts[@]}" \
    --moe-aux-loss-coeff 1e-2 --moe-z-loss-coeff 1e-3 --moe-shared-expert-intermediate-size 12
alike dropped 5e-3 5e-2 2e-2 "experts of a capacity, groups, sigmoid, a bias that balances" \
    "${experts[@]}" --bf16 --num-experts 8 --moe-router-load-balancing-type none \
    --moe-router-score-function sigmoid --moe-router-num-groups 4 --moe-router-group-topk 2 \
    --moe-router-enable-expert-bias --moe-expert-capacity-factor 1
if long; then
    alike padded 5e-3 5e-2 2e-2 "experts that are padded" "${experts[@]}" --fp16 \
        --initial-loss-scale 4096 --moe-expert-capacity-factor 1 \
        --moe-pad-expert-input-to-capacity --moe-router-load-balancing-type seq_aux_loss \
        --moe-aux-loss-coeff 1e-2
    alike sinkhorn 1e-5 1e-4 1e-4 "Sinkhorn's routing" "${modern[@]}" --num-experts 4 \
        --moe-router-topk 1 --moe-router-load-balancing-type sinkhorn
    alike quantile 1e-5 1e-4 1e-4 "quantile balancing" "${experts[@]}" \
        --moe-router-load-balancing-type quantile_balancing
    alike jitter 1e-5 1e-4 1e-4 "a router in float64, with jitter" "${experts[@]}" \
        --moe-router-dtype fp64 --moe-input-jitter-eps 0.1 \
        --moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 1e-2
    alike biased 1e-5 1e-4 1e-4 "experts with biases" --num-experts 4 \
        --moe-router-topk 2 --moe-layer-freq 2
    alike window 1e-5 1e-4 1e-4 "windows, squared ReLU, recomputation" --window-size 3,0 \
        --squared-relu --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
    alike mtp 1e-5 1e-4 1e-4 "multi-token prediction" "${modern[@]}" --mtp-num-layers 1
    alike latent 1e-5 1e-4 1e-4 "latent attention" --multi-latent-attention --kv-lora-rank 8 \
        --q-lora-rank 12 --qk-head-dim 6 --qk-pos-emb-head-dim 4 --v-head-dim 5 \
        --position-embedding-type rope --normalization RMSNorm
    alike small 5e-2 2e-1 5e-2 "optimizer states of 8 and 16 bits" --bf16 \
        --use-precision-aware-optimizer --use-distributed-optimizer --exp-avg-dtype fp8 \
        --exp-avg-sq-dtype fp16
fi

# ---- a run goes on on the other device
run "${one[@]}" --save half --save-interval 2 --train-iters 2 --device cuda
is "$status" 0 "two iterations on the device, a checkpoint"
train on "${one[@]}" --load half
is "$status" 0 "the third one on the CPU"
train whole "${one[@]}"
same_weights on.st whole.st 1e-4 "the weights of a run on the CPU" --skip-key-bias 4
run "${one[@]}" --save half2 --save-interval 2 --train-iters 2
train back "${one[@]}" --load half2 --device cuda:1
same_weights back.st whole.st 1e-4 "and from there to the second device" --skip-key-bias 4

# ---- the order in which the device works changes no bit
train first env MG_CUDA_ORDER=first "${one[@]}" "${modern[@]}" --device cuda
for order in lazy $((RANDOM + 1)); do
    train "order.$order" env MG_CUDA_ORDER=$order MG_CUDA_THREADS=$order "${one[@]}" \
        "${modern[@]}" --device cuda
    same_bits "order.$order" first "the same bits in the order $order"
done

# ---- which device
run "${one[@]}" --device auto
is "$status" 0 "--device auto"
like "$out" "device cuda:0: .*GiB; its context, the libraries and other programs hold [0-9.]* GiB \(a plan reserves 1.00\); capability 9.0, driver for CUDA 13.0, libcudart 13.0" \
    "is the GPU, which a line describes"
run env MG_CUDA_DRIVER=0 "${one[@]}" --device auto
like "$status $out" "^0 .*device auto is the CPU: device cuda: this machine has no NVIDIA driver" \
    "and without a driver"
run env MG_CUDA_CAPABILITY=7.5 "${one[@]}" --device auto
like "$status $out" "^0 .*device auto is the CPU: device cuda:0: its compute capability is 7.5" \
    "and on an old GPU"

# connections WANT VALUE MARK TEXT: what CUDA finds in CUDA_DEVICE_MAX_CONNECTIONS
connections() {
    run env MG_CUDA_CONNECTIONS="$1" CUDA_DEVICE_MAX_CONNECTIONS="$2" \
        MEGATRON_CUDA_CONNECTIONS="$3" "${one[@]}" --train-iters 1 --device cuda
    is "$status" 0 "$4" || diag "$err"
}
connections 32 1 1 "the plugin's CUDA_DEVICE_MAX_CONNECTIONS is replaced"
connections 8 8 1 "a user's is not"
connections 1 1 "" "nor a user's 1"
run env MG_CUDA_CONNECTIONS=5 "${one[@]}" --train-iters 1 --device cuda
is "$status" 2 "the double looks"

run megatron doctor --json
for i in 0 1; do
    like "$out" "\"device\", *\"verdict\": *\"ok\", *\"text\": *\"cuda:$i: " "the doctor sees cuda:$i"
done
run env MG_CUDA_CAPABILITY=7.5 megatron doctor --json
like "$out" '"device", *"verdict": *"fail", *"text": *"device cuda:1: its compute capability is 7.5' \
    "and what is wrong with it"
run env MG_CUDA_DRIVER=12040 megatron doctor --json
like "$out" '"gpu", *"verdict": *"(ok|warn)", *"text": *"jobs here compute on the CPU: device cuda: the driver is for CUDA 12.4' \
    "or with the driver"

# ---- what cannot be
# refused TEXT WORDS COMMAND...
refused() {
    local text=$1 words=$2
    shift 2
    run "$@"
    is "$status" 1 "$text"
    is "$err" "megatron train: $words" "in one line"
}
refused "a number that is not there" "device cuda: there is no number 2, want 0 to 1" \
    "${one[@]}" --device cuda:2
refused "no driver" "device cuda: this machine has no NVIDIA driver" \
    env MG_CUDA_DRIVER=0 "${one[@]}" --device cuda
refused "an old driver" "device cuda: the driver is for CUDA 12.4, 13.0 is needed" \
    env MG_CUDA_DRIVER=12040 "${one[@]}" --device cuda
refused "no GPU" "device cuda: no GPU is visible, CUDA_VISIBLE_DEVICES is 7" \
    env MG_CUDA_DEVICES=0 CUDA_VISIBLE_DEVICES=7 "${one[@]}" --device cuda
refused "an old GPU" "device cuda:0: its compute capability is 7.5, 8.0 is needed" \
    env MG_CUDA_CAPABILITY=7.5 "${one[@]}" --device cuda
refused "another library" "device cuda: libcudart is of CUDA 12.8, 13.0 or a later release of the \
same number is needed" env MG_CUDA_RUNTIME=12080 "${one[@]}" --device cuda
run env MG_CUDA_MEMORY_MIB=16 MG_CUDA_HELD_MIB=32 "${one[@]}" --device cuda
is "$status" 1 "too little memory"
like "$err" "GiB are needed of the device .*it has 0.02 GiB \(0.03 GiB are held by .*--no-check-memory" \
    "is refused by the plan, with what others hold"
# A launch that fails, in a forward and in a backward pass.
for launch in 40 60; do
    run env MG_CUDA_FAIL_LAUNCH=$launch "${one[@]}" --device cuda
    like "$status $err" "^1 megatron train: pipeline rank 0, step [0-9], (fwd|bwd) microbatch 0: layer [01]: \
[a-z_0-9]+: (forward|backward): cuda kernel [a-z_0-9]+: cudaErrorLaunchOutOfResources$" \
        "launch $launch fails: operation, layer and phase are named"
done

# ---- what needs no device does not load the module
loads() {
    LD_DEBUG=files "$@" >said 2>&1 || cat said
    grep -c 'init: .*device_cuda' said
}
is "$(loads "${one[@]}" --device cuda)" 1 "a run loads the module"
is "$(loads megatron plan memory "${sizes[@]}" --vocab-size 256 --device cuda)" 0 "a plan does not"
is "$(loads megatron data tokenize --input text.txt --output-prefix again)" 0 "data does not"
is "$(loads megatron checkpoint inspect half)" 0 "checkpoint does not"
rm modules/device_cuda.so
refused "no module" "there is no $MEGATRON_MODULE_DIR/device_cuda.so; install the package \
megatron-modules-cuda, or build with --with-cuda" \
    "${one[@]}" --device cuda

run "${one[@]}" --device auto
is "$status" 0 "without the module, --device auto"
like "$out" "device auto is the CPU: there is no $MEGATRON_MODULE_DIR/device_cuda.so" "is the CPU"

# ---- a plan needs neither the module nor a GPU
run megatron plan memory "${sizes[@]}" --vocab-size 256 --device cuda
is "$status" 0 "a plan for the device"
like "$out" "of the device: [0-9]*, and 1073741824 in reserve" "with a reserve"
run megatron plan memory "${sizes[@]}" --vocab-size 256 --device cuda --device-reserve-mib 3 --json
like "$out" '"reserve":3145728,' "of --device-reserve-mib"
run megatron plan memory "${sizes[@]}" --vocab-size 256 --device cuda --world-size 2 --rank 0 \
    --tensor-model-parallel-size 2 --communicator-reserve-mib 5 --cuda-graph-impl local
like "$out" "communicators: ([0-9]+), and [0-9]+ of the device in reserve for them" \
    "communicators have a reserve of their own"
is "$(sed -n 's/^  communicators: \([0-9]*\), and \([0-9]*\) of.*/\2 \1/p' <<<"$out" \
    | awk '{ print $1 / $2 }')" 5242880 "of --communicator-reserve-mib for each"
is "$(sed -n 's/^  graphs: [0-9]* of \([0-9]*\) nodes.*/\1/p; s/^  and \([0-9]*\) of the device in reserve for graphs$/\1/p' \
    <<<"$out" | tr '\n' ' ' | awk '{ print $2 / $1 }')" 10240 "and nodes of graphs, too"
run megatron plan memory "${sizes[@]}" --vocab-size 256 --device cuda --communicator-reserve-mib=-1
is "$status" 2 "such a reserve below 0"
like "$err" "communicator-reserve-mib" "is refused by its name"
run megatron plan memory "${sizes[@]}" --vocab-size 256
is "$(grep -c reserve <<<"$out")" 0 "a plan for the CPU has none"
run megatron plan memory "${sizes[@]}" --vocab-size 256 --device auto
is "$status" 1 "a plan for --device auto"
like "$err" "a plan is for a device with a name: want cuda or cpu" "is refused"
run megatron plan memory "${sizes[@]}" --vocab-size 256 --device cuda --device-reserve-mib=-1
is "$status" 2 "a reserve below 0"
like "$err" "device-reserve-mib" "is refused by its name"
done_testing

# ranks.sh - several ranks on GPUs against one rank of the CPU: parts of run-gpu, which sources this
#
# "megatron launch" starts the ranks.  They talk through NCCL, and about where they are through UCX.

ranks_model=(--num-layers 2 --hidden-size 20 --num-attention-heads 4 --kv-channels 6
             --ffn-hidden-size 28 --seq-length 8 --micro-batch-size 1 --global-batch-size 8
             --adam-eps 1e-6 --train-iters 3)
ranks_dense=(--hidden-dropout 0.1 --attention-dropout 0.1)
ranks_experts=(--swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope
               --num-experts 4 --moe-router-topk 2 --moe-aux-loss-coeff 0.02
               --moe-token-dispatcher-type alltoall)
tp2="--tensor-model-parallel-size 2 --sequence-parallel"
pp2="--pipeline-model-parallel-size 2"
ep2="--expert-model-parallel-size 2"
shards="--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"

# The layouts.  Axes that one does not name are data parallelism.
declare -A layouts=(
    [tp]=$tp2
    [pp]=$pp2
    [dp]="$shards --ddp-bucket-size 2000"
    [cp]="--context-parallel-size 2"
    [ep]="$ep2 $shards"
    [tp-pp]="$tp2 $pp2 $shards"
    [ep-tp]="$ep2 $tp2 --expert-tensor-parallel-size 1"
)

# A rank tells its process, and poses as a machine of its own where ranks share a GPU: NCCL refuses
# two ranks of one machine on one GPU.
# shellcheck disable=SC2016
rank_of='echo $$ >"$0.$RANK"; [ -z "$SHARED_GPU" ] || export NCCL_HOSTID=run-gpu-$RANK; exec "$@"'

# ranks_use COUNT shared|each: this part's runs have so many ranks, on one GPU or on one GPU each.
# Ends the part as skipped if something is absent that the ranks need.
ranks_use() {
    local module
    for module in comm_nccl comm_ucx; do
        [ -e "$here/modules/$module.so" ] || skipped "this build has no $module.so for several ranks"
    done
    [ -n "$nccl" ] || skipped "no libnccl.so.2 in LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda or Python's packages"
    command -v perl >/dev/null || skipped "there is no perl"
    launch=(megatron launch -n "$1" sh -c "$rank_of" "$tmp/pid") device=(--device cuda)
    export SHARED_GPU='' NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    [ "$2" = shared ] || return 0
    device=(--device cuda:0)
    export SHARED_GPU=1 NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
}

# in_ranks NAME ARGUMENT...: a run of the ranks.  Ranks that wait for each other in vain end after 15 seconds,
# or RUN_GPU_PATIENCE times as many, and report what they wait in.
in_ranks() {
    local name=$1 minutes
    shift
    minutes=$(awk -v times="${RUN_GPU_PATIENCE:-1}" 'BEGIN { print times / 4 }')
    train "$name" "${launch[@]}" megatron train "${ranks_model[@]}" "${device[@]}" \
        --distributed-timeout-minutes "$minutes" "$@"
}

# model_of LAYOUT: the arguments of its model in $model
model_of() {
    case $1 in
        ep*) model=("${ranks_experts[@]}") ;;
        *) model=("${ranks_dense[@]}") ;;
    esac
}

# layout NAME: the run of a layout, if it is not there, compared with a run of one rank
layout() {
    local name=$1 one=one-dense model weights=(--skip-key-bias 4)
    [[ $name != ep* ]] || one=one-experts weights=(--absolute)
    model_of "$name"
    [ -e "$tmp/$one.st" ] \
        || train $one megatron train "${ranks_model[@]}" "${model[@]}" --device cpu || return 1
    # shellcheck disable=SC2086
    [ -e "$tmp/$name.st" ] || in_ranks "$name" "${model[@]}" ${layouts[$name]} || return 1
    compare "$name" $one 1e-5 1e-4 1e-4 "${weights[@]}" || return 1
    echo "ok - $name: losses, norms and weights of one rank"
}

# same_bits TEXT NAME OTHER: of two runs
same_bits() {
    if cmp -s "$tmp/$2.st" "$tmp/$3.st" && cmp -s "$tmp/$2.json" "$tmp/$3.json"; then
        echo "ok - $1: the same bits"
    else
        echo "not ok - $1: other bits"
        return 1
    fi
}

# ranks_start LAYOUT: its run.  Ends the part as skipped, with the words of NCCL, if NCCL refuses ranks on
# one GPU.
ranks_start() {
    local model
    model_of "$1"
    # shellcheck disable=SC2086
    in_ranks "$1" "${model[@]}" ${layouts[$1]} >"$tmp/start" && return 0
    grep -o 'NCCL: .*' "$tmp/start" | head -n 1 >"$tmp/words"
    [ ! -s "$tmp/words" ] || skipped "$(cat "$tmp/words")"
    cat "$tmp/start"
    return 1
}

# Graphs change no bit of the layout tp, which ran before.
graphs() {
    # shellcheck disable=SC2086
    in_ranks graphs "${ranks_dense[@]}" $tp2 --cuda-graph-impl local --cuda-graph-warmup-steps 1 \
        || return 1
    same_bits "tp with graphs" graphs tp
}

# Under --deterministic-mode buckets and overlap change no bit.
ordered() {
    in_ranks ordered "${ranks_dense[@]}" --deterministic-mode \
        && in_ranks buckets "${ranks_dense[@]}" --deterministic-mode --overlap-grad-reduce \
            --ddp-bucket-size 700 || return 1
    same_bits "--deterministic-mode, buckets of 700" buckets ordered
}

# Rank 1 is killed in a run that would not end.  The job ends within 5 seconds, or RUN_GPU_PATIENCE times
# as many, and the report names the rank.
killed() {
    local most=$((5000 * ${RUN_GPU_PATIENCE:-1})) job began took status=0
    rm -f "$tmp/killed.st"
    # shellcheck disable=SC2086
    runs "${launch[@]}" megatron train "${ranks_model[@]}" "${ranks_dense[@]}" $tp2 \
        "${device[@]}" --train-iters 1000000 >"$tmp/killed" 2>&1 &
    job=$!
    until grep -q '\] iteration  *3/' "$tmp/killed"; do
        kill -0 $job 2>/dev/null || {
            echo "not ok - a rank to kill: $(tail -n 1 "$tmp/killed")"
            return 1
        }
        sleep 0.05
    done
    began=$(date +%s%3N)
    kill -KILL "$(cat "$tmp/pid.1")"
    wait $job || status=$?
    took=$(($(date +%s%3N) - began))
    if [ $status != 0 ] && [ $took -lt $most ] && grep -q '^megatron train: rank 1 on .* died' "$tmp/killed"; then
        echo "ok - rank 1 is killed: the job ends within $took ms, and names it"
    else
        echo "not ok - rank 1 is killed: status $status after $took ms: $(tail -n 1 "$tmp/killed")"
        return 1
    fi
}

# every CHECK...: all of them, whatever fails: names of layouts and functions
every() {
    local check rc=0
    for check in "$@"; do
        if [ -n "${layouts[$check]:-}" ]; then
            layout "$check" || rc=1
        else
            $check || rc=1
        fi
    done
    return $rc
}

part_ranks_2() {
    ranks_use 2 shared
    ranks_start tp || return 1
    tiny tp graphs -- tp graphs pp dp cp ep ordered killed
    every "${words[@]}"
}

part_ranks_4() {
    ranks_use 4 shared
    ranks_start tp-pp || return 1
    tiny tp-pp -- tp-pp ep-tp dp
    every "${words[@]}"
}

# As many ranks as GPUs, but 8 at most.
part_ranks_each() {
    local n=8
    while [ $n -gt "$devices" ]; do
        n=$((n / 2))
    done
    [ $n -gt 1 ] || skipped "there is one GPU"
    ranks_use $n each
    tiny cp ep killed -- tp graphs pp dp cp ep ordered killed
    [ $n = 2 ] || words+=(tp-pp ep-tp)
    every "${words[@]}"
}

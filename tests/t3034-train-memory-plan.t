#!/bin/bash
# What "megatron plan memory" says is what a run allocates, rank by rank and kind by kind, to
# the byte; bytes a parameter; a run that does not fit.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

tokenized_text 20
# sizes that need padding: of the vocabulary, of buckets, of slots
model=(--num-layers 4 --hidden-size 36 --num-attention-heads 4 --kv-channels 7
       --ffn-hidden-size 52 --seq-length 12 --max-position-embeddings 13
       --tokenizer-type ByteLevel --micro-batch-size 2 --global-batch-size 24)
rest=(--data-path text_text_document --split 90,10,0 --lr 1e-3 --train-iters 1)

# Both as lines "RANK KIND: BYTES ...", and "planned: N".
planned() {
    megatron plan memory "$@" | tee plan.txt | awk '
        function flush(  r) {
            if (line != "")
                for (r = first; r <= last; r++) print r line " | planned: " total " |"
        }
        /^rank/ { flush(); split ($2, ends, "-"); first = ends[1]
                  last = ends[2] == "" ? first : ends[2]; line = ""; next }
        /^  total/ { total = $2; next }
        /^    pool/ || /^  bytes per parameter/ || /^  recomputation/ || /^  rows of experts/ || / a rank$/ { next }
        { bytes = $NF; $NF = ""; sub (/^ +/, ""); sub (/ +$/, ""); line = line " | " $0 ": " bytes }
        END { flush() }'
}
said() {
    sed -n 's/^ memory plan (bytes) of rank \([0-9-]*\) | \(.*\) | allocated: .*/\1 | \2 |/p' \
        <<<"$1" | awk '{ split ($1, ends, "-"); if (ends[2] == "") ends[2] = ends[1]
            $1 = ""; for (r = ends[1]; r <= ends[2]; r++) print r $0 }'
}

threads=1
# equal WORLD TEXT ARGUMENT...: with $threads threads
equal() {
    local world=$1 text=$2 launch=()
    shift 2
    [ "$world" = 1 ] || launch=(ranks_run "$world")
    export OMP_NUM_THREADS=$threads
    run "${launch[@]}" megatron train "${model[@]}" "${rest[@]}" "$@"
    is "$status" 0 "$text runs" || diag "$err"
    said "$out" >said
    planned "${model[@]}" --world-size "$world" --threads "$threads" "$@" >planned
    is "$(wc -l <planned)" "$world" "$text: every rank is planned"
    is "$(cat said)" "$(cat planned)" "$text: what is planned is what is said"
    is "$(sed -n 's/.* planned: \([0-9]*\) | allocated: \([0-9]*\) |/\1 \2/p' <<<"$out" \
        | awk '$1 != $2 || !$1')" "" "$text: and allocated"
    is "$(sed -n 's/^ bytes per parameter of rank[^:]*: \(.*\) | parameters: \([0-9]*\) | padding: \([0-9]*\) |$/\1, for \2 parameters and \3/p' <<<"$out")" \
        "$(sed -n 's/^  bytes per parameter: \(.*\) elements of padding$/\1/p' plan.txt)" \
        "$text: bytes a parameter"
}

seed_draws
mapfile -t singles <<'END'

--bf16 --grad-reduce-in-bf16
--fp16
--use-distributed-optimizer --bf16
--use-distributed-optimizer --bf16 --fp8-param-gather
--async-save --save aside --bf16
--use-distributed-optimizer --bf16 --use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype fp8 --async-save --save aside
--skip-train
--bf16 --skip-train
--bf16 --use-distributed-optimizer --fp8-param-gather --skip-train
--bf16 --use-distributed-optimizer --fp8-param-gather --skip-train --save-weights w.st
--num-experts 4 --moe-router-load-balancing-type sinkhorn --bf16
--num-experts 4 --disable-bias-linear --moe-aux-loss-coeff 0.1 0.1 0.1 --moe-router-load-balancing-type aux_loss seq_aux_loss global_aux_loss --moe-z-loss-coeff 0.1 --moe-router-dtype fp64 --moe-input-jitter-eps 0.1 --moe-shared-expert-intermediate-size 6
--bf16 --recompute-granularity selective --recompute-modules core_attn layernorm mlp
--bf16 --recompute-granularity full --recompute-method uniform --recompute-num-layers 3
--bf16 --recompute-granularity full --recompute-method block --recompute-num-layers 1
--mtp-num-layers 2 --position-embedding-type none --bf16
END
some 8 "${singles[@]}"
for args in "${some[@]}"; do
    read -ra words <<<"$args"
    equal 1 "one rank $args" "${words[@]}"
done

# ---- scratch of kernels grows with threads
equal 1 "one thread" --bf16
scratch=$(sed -n 's/.*kernel scratch: \([0-9]*\) .*/\1/p' planned)
for threads in 2 3; do
    equal 1 "$threads threads" --bf16
    more=$(sed -n 's/.*kernel scratch: \([0-9]*\) .*/\1/p' planned)
    ok "[ ${scratch:-0} -gt 0 -a ${more:-0} -gt ${scratch:-0} ]" \
        "$more bytes of scratch, more than $scratch"
    scratch=$more
done
equal 1 "$threads threads, float32"
threads=1
is "$(OMP_NUM_THREADS=3 planned "${model[@]}")" "$(cat planned)" "threads as the environment says"
# 2 sequences of 12 tokens on a rank, each with 2 experts, half of which the rank has: 48 rows
experts=(--num-experts 4 --expert-model-parallel-size 2 --moe-token-dispatcher-type alltoall)
is "$(megatron plan memory "${model[@]}" "${experts[@]}" | grep 'rows of experts')" \
    "  rows of experts: 96 a round, 2 x those of balanced loads" "room for twice the mean"
is "$(megatron plan memory "${model[@]}" "${experts[@]}" --moe-expert-rank-capacity-factor 1.25 \
      --json | grep -o '"expert_rows":[0-9]*,"balanced_expert_rows":[0-9]*' | uniq)" \
    '"expert_rows":60,"balanced_expert_rows":48' "another bound"
is "$(megatron plan memory "${model[@]}" "${experts[@]}" --world-size 2 | md5sum)" \
    "$(megatron plan memory "${model[@]}" "${experts[@]}" | md5sum)" \
    "without a world, as many ranks as both grids need"
run megatron plan memory "${model[@]}" "${experts[@]}" --seq-length 16777216 \
    --max-position-embeddings 16777216 --micro-batch-size 127 --global-batch-size 254
is "$status:$out" "1:" "more rows than kernels can number"
like "$err" "take 8\\.5[0-9]*e\\+09 rows, want at most 2147483647" "named"
is "$(megatron plan memory "${model[@]}" --threads 5 | head -n 1)" "5 threads a rank" \
    "or as the command does"
export OMP_NUM_THREADS=1

# ---- bytes a parameter: Megatron-LM's table, without padding
large=(--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 64
       --padded-vocab-size 1024 --micro-batch-size 1)
# each FIGURE ARGUMENT...: and (parameters + padding) times the figure is all of the state
each() {
    local want=$1
    shift
    megatron plan memory "${large[@]}" "$@" --rank 0 >each
    is "$(sed -n 's/^  bytes per parameter: \(.*)\), for .*/\1/p' each)" "$want" "$want: $*"
    ok "awk '/^  (parameters|gradients|main gradients|main parameters|moments) / { state += \$NF }
        /^  bytes per/ { n = \$(NF - 6) + \$(NF - 3); figure = \$4 }
        END { exit !(n > 0 && state == n * figure) }' each" "exactly"
}
each "16.000 (8 + 8/d, d = 1)"
copy=$(megatron plan memory "${large[@]}" --async-save --bf16 | awk '
    $1 == "checkpoint" { c = $2 } $1 == "moments" { m = $2 } END { print c / m }')
is "$copy" 1.5 "the copy for checkpoints holds main parameters and moments"
is "$(megatron plan memory "${large[@]}" --async-save --bf16 --skip-train --rank 0 \
    | awk '$1 == "checkpoint" { print $2 }')" 0 "evaluation saves no checkpoint: it has no copy"
each "18.000 (6 + 12/d, d = 1)" --bf16
each "4.000 (4 + 0/d, d = 1)" --skip-train
each "2.000 (2 + 0/d, d = 8)" --world-size 8 --use-distributed-optimizer --bf16 --skip-train
each "2.500 (2 + 4/d, d = 8)" --world-size 8 --use-distributed-optimizer --bf16 --skip-train \
    --save-weights w.st
each "20.000 (4 + 16/d, d = 1)" --bf16 --grad-reduce-in-bf16
each "20.000 (4 + 16/d, d = 1)" --fp16 --world-size 4
each "18.000 (6 + 12/d, d = 1)" --fp16 --accumulate-allreduce-grads-in-fp32
each "9.000 (8 + 8/d, d = 8)" --world-size 8 --use-distributed-optimizer
each "6.000 (4 + 16/d, d = 8)" --world-size 8 --use-distributed-optimizer --bf16 \
    --grad-reduce-in-bf16
each "7.500 (6 + 12/d, d = 8)" --world-size 8 --use-distributed-optimizer --bf16
each "9.000 (6 + 12/d, d = 4)" --world-size 8 --use-distributed-optimizer --bf16 \
    --num-distributed-optimizer-instances 2
each "9.000 (6 + 12/d, d = 4)" --world-size 8 --use-distributed-optimizer --bf16 \
    --tensor-model-parallel-size 2
# of 25.78 million elements 8 layers of 12 x 512^2 a byte less
like "$(megatron plan memory "${large[@]}" --world-size 8 --use-distributed-optimizer --bf16 \
    --fp8-param-gather --rank 0)" "bytes per parameter: 6\.52[0-9] \(5\.02[0-9] \+ 12/d, d = 8\)," \
    "float8 over 8"
aware=(--bf16 --use-distributed-optimizer --use-precision-aware-optimizer)
each "16.000 (6 + 10/d, d = 1)" "${aware[@]}"
each "7.250 (6 + 10/d, d = 8)" "${aware[@]}" --world-size 8
each "6.750 (6 + 6/d, d = 8)" "${aware[@]}" --world-size 8 --exp-avg-dtype bf16 \
    --exp-avg-sq-dtype bf16
each "10.000 (6 + 4/d, d = 1)" "${aware[@]}" --exp-avg-dtype fp8 --exp-avg-sq-dtype fp8
each "15.000 (6 + 9/d, d = 1)" "${aware[@]}" --exp-avg-dtype fp8 --no-store-param-remainders
each "11.000 (4 + 7/d, d = 1)" "${aware[@]}" --main-grads-dtype bf16 --exp-avg-dtype fp8
each "14.000 (6 + 8/d, d = 1)" "${aware[@]}" --main-params-dtype fp16 --exp-avg-sq-dtype fp16

# ---- JSON, and mistakes
if command -v jq >/dev/null; then
    megatron plan memory "${large[@]}" --world-size 8 --pipeline-model-parallel-size 4 \
        --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 16 --json >plan.json
    is "$(jq '[.ranks[].rank] == [range(8)]' plan.json)" true "all ranks"
    is "$(jq '[.ranks[] | .total == .parameters + .gradients + .main_gradients + .main_parameters
        + .moments + .activations + .caches + .workspace + .kernel_scratch + .checkpoint + .communication
        + .staging] | all' \
        plan.json)" true "totals"
    is "$(jq '[.ranks[] | .bytes_per_parameter == .bytes_whole + .bytes_shared / .shards
        and .bytes_per_parameter * (.num_parameters + .padding)
        == .parameters + .gradients + .main_gradients + .main_parameters + .moments] | all' plan.json)" \
        true "bytes a parameter"
    is "$(jq '[.ranks[] | .activations == ([.pools[].bytes] | add)] | all' plan.json)" true "pools"
else
    skip 4 "no jq"
fi
# refuse STATUS TEXT COMMAND...
refuse() {
    local want=$1 text=$2
    shift 2
    run "$@"
    is "$status" "$want" "$text: $err"
    is "$(wc -l <<<"$err")" 1 "in one line"
}
refuse 2 "no model" megatron plan memory --num-layers 2
refuse 2 "no argument" megatron plan memory "${large[@]}" --nonsense
refuse 2 "both types" megatron plan memory "${large[@]}" --bf16 --fp16
refuse 2 "no threads" megatron plan memory "${large[@]}" --threads 0
refuse 2 "moments in vain" megatron plan memory "${large[@]}" --bf16 --exp-avg-dtype bf16
refuse 1 "a rank that is not there" megatron plan memory "${large[@]}" --rank 1
refuse 1 "a world that cannot be" megatron plan memory "${large[@]}" --world-size 3 \
    --tensor-model-parallel-size 2
refuse 1 "instances that do not divide" megatron plan memory "${large[@]}" --world-size 4 \
    --use-distributed-optimizer --num-distributed-optimizer-instances 3

# ---- a device that is not there: its kernels' scratch is planned, and nothing of it is loaded
run env MG_TEST_DEVICE=absent megatron plan memory "${large[@]}"
like "$status $out" "0 .*kernel scratch  *3145728" "the scratch of a device that is not there"
run env MG_TEST_DEVICE=absent megatron train "${large[@]}" "${rest[@]}"
like "$status $err" "1 .*there is no .*device_absent.so" "which a run has to load"

# ---- a run that does not fit
huge=(--num-layers 1000 --hidden-size 65536 --num-attention-heads 4 --seq-length 12
      --tokenizer-type ByteLevel --micro-batch-size 2)
run megatron train "${huge[@]}" "${rest[@]}"
is "$status" 1 "more than there is"
like "$err" "1 x [0-9.]+ GiB are needed .* it has [0-9.]+ GiB, [0-9.]+ GiB less; more tensor" \
    "is refused with what is missing"
ok "ulimit -v 8000000; megatron train ${huge[*]} ${rest[*]} --no-check-memory 2>&1 | grep -q 'no memory for'" \
    "or tried, if asked for"


# ---- data that is given tells whether there is an evaluation, which may need more slots
pp=(--pipeline-model-parallel-size 4)
total() {
    planned "${model[@]}" "${pp[@]}" "$@" | awk '{ n += $(NF - 1) } END { print n }'
}
is "$(total --data-path text_text_document --split 100,0,0 --eval-interval 0)" \
    "$(total --eval-iters 0)" "data without a validation part"
is "$(total --data-path text_text_document --split 90,10,0)" "$(total)" "data with one"
is "$(total --data-path gone)" "$(total)" "data whose files are not here: with one"
is "$(total --data-path gone --split 100,0,0)" "$(total --eval-iters 0)" \
    "unless the split has none"
run megatron plan memory "${model[@]}" --data-path gone --split nine
is "$status" 1 "a split that is none"
like "$err" '^megatron: split "nine", want up to 3 weights' "is told"
ok "[ $(total) -gt $(total --eval-iters 0) ]" "which takes more"

ranks_available || { diag "neither UCX nor MPI: one rank only"; done_testing; exit; }

# ---- layouts: ranks, and arguments
mapfile -t layouts <<'END'
2 --pipeline-model-parallel-size 2 --eval-iters 0
2 --tensor-model-parallel-size 2 --sequence-parallel --bf16 --async-save --save aside
2 --context-parallel-size 2 --bf16
4 --context-parallel-size 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 --bf16 --seq-length 16 --max-position-embeddings 16
2 --context-parallel-size 2 --cp-comm-type p2p all_gather a2a p2p --reset-attention-mask --eod-token-id 32
4 --context-parallel-size 2 --cp-comm-type a2a --tensor-model-parallel-size 2 --sequence-parallel --recompute-activations
3 --async-save --save aside
3 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 3000
4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --bf16
4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication
4 --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --bf16
4 --tensor-model-parallel-size 2 --use-distributed-optimizer --bf16 --fp8-param-gather --overlap-grad-reduce --ddp-bucket-size 2000
4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --bf16 --fp8-param-gather
4 --use-distributed-optimizer --num-distributed-optimizer-instances 2 --eval-iters 0 --async-save --save aside
4 --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --bf16 --grad-reduce-in-bf16
3 --bf16 --use-distributed-optimizer --use-precision-aware-optimizer --exp-avg-dtype fp8 --exp-avg-sq-dtype fp16
2 --bf16 --use-distributed-optimizer --use-precision-aware-optimizer --fp8-param-gather --main-params-dtype fp16
4 --tensor-model-parallel-size 2 --sequence-parallel --bf16 --use-distributed-optimizer --use-precision-aware-optimizer --main-grads-dtype bf16
4 --tensor-model-parallel-size 2 --use-distributed-optimizer --bf16 --fp8-param-gather --skip-train
4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --skip-train
4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 --distribute-saved-activations
4 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --tensor-model-parallel-size 2 --sequence-parallel --recompute-activations
4 --pipeline-model-parallel-size 4 --fp16 --use-distributed-optimizer --untie-embeddings-and-output-weights
2 --num-experts 4 --expert-model-parallel-size 2 --moe-layer-freq [0,1,1,0] --bf16 --async-save --save aside
4 --num-experts 4 --disable-bias-linear --expert-model-parallel-size 2 --expert-tensor-parallel-size 2 --moe-token-dispatcher-type alltoall --moe-expert-rank-capacity-factor 0.5 --use-distributed-optimizer --bf16 --fp8-param-gather
4 --num-experts 4 --disable-bias-linear --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --tensor-model-parallel-size 2 --sequence-parallel --context-parallel-size 2 --moe-shared-expert-intermediate-size 6 --moe-shared-expert-gate --recompute-granularity selective --recompute-modules moe shared_experts
4 --num-experts 4 --moe-latent-size 10 --pipeline-model-parallel-size 2 --expert-model-parallel-size 2 --moe-expert-capacity-factor 1.5 --moe-pad-expert-input-to-capacity --moe-token-dispatcher-type alltoall
4 --num-experts 4 --expert-model-parallel-size 2 --moe-aux-loss-coeff 0.1 --moe-input-jitter-eps 0.1 --moe-router-dtype fp64 --disable-bias-linear --skip-train
2 --num-experts 4 --expert-model-parallel-size 2 --moe-router-topk 1 --moe-router-pre-softmax --moe-apply-probs-on-input --moe-router-dtype fp64 --moe-token-dispatcher-type alltoall
END
some 8 "${layouts[@]}"
for layout in "${some[@]}"; do
    read -r world args <<<"$layout"
    read -ra words <<<"$args"
    equal "$world" "$world ranks $args" "${words[@]}"
done
done_testing

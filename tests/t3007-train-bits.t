#!/bin/bash
# What must not change a bit: a second run, the number of threads, the size of gradient
# buckets, the order of ranks; and what must change it.  Then layouts at random.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/train.sh"
. "$MG_SRCDIR/tests/lib/layouts.sh"

tokenized_text 40
args=(--num-layers 4 --hidden-size 40 --num-attention-heads 4 --kv-channels 7
      --ffn-hidden-size 52 --seq-length 24 --max-position-embeddings 31
      --tokenizer-type ByteLevel --data-path text_text_document --split 100,0,0
      --micro-batch-size 2 --global-batch-size 16 --train-iters 6 --lr 2e-3)

# differs A B TEXT
differs() {
    ok "[ -s $1.json ] && [ -s $2.json ] && ! cmp -s $1.st $2.st && ! cmp -s $1.json $2.json" "$3"
}

# ---- one rank
one=(megatron train "${args[@]}")
train one "${one[@]}"
is "$status" 0 "one rank"
is "$(wc -l <one.json)" 6 "six iterations"
train again "${one[@]}"
same_bits again one "a second run"
# oneDNN divides a product of float32 by the number of threads, on some processors also a small one
train threads env OMP_NUM_THREADS=2 "${one[@]}"
same_metrics threads.json one.json 1e-5 1e-4 "two threads"
train half "${one[@]}" --bf16
train threads env OMP_NUM_THREADS=2 "${one[@]}" --bf16
same_bits threads half "two threads, bfloat16"
for size in 1 999 100000000; do
    train bucket "${one[@]}" --overlap-grad-reduce --ddp-bucket-size $size
    same_bits bucket one "buckets of $size elements"
done
train other "${one[@]}" --seed 99
differs other one "another seed"
train other "${one[@]}" --attention-dropout 0
differs other one "no dropout of attention"
train other "${one[@]}" --hidden-dropout 0
differs other one "no dropout of hidden states"
train log "${one[@]}" --log-interval 4 --exit-interval 5
is "$(grep -c 'iteration .*/' <<<"$out")" 2 "a log line after the first and every four iterations"
is "$(cat log.json)" "$(head -5 one.json)" "and metrics of five, up to the exit"

# ---- several ranks
mpi_available || { skip 1 "no MPI"; done_testing; }
for layout in "1 1 2" "2 1 2" "1 2 2" "2 2 1"; do
    read -r tp pp dp <<<"$layout"
    many=(mpi_run $((tp * pp * dp)) "${one[@]}" --tensor-model-parallel-size "$tp"
          --pipeline-model-parallel-size "$pp")
    train n "${many[@]}"
    is "$status" 0 "tp $tp pp $pp dp $dp"
    same_metrics n.json one.json 1e-5 1e-4 "against one rank"
    same_weights n.st one.st 1e-4 "weights" --skip-key-bias 4
    train again "${many[@]}"
    same_bits again n "a second run"
    train bucket "${many[@]}" --overlap-grad-reduce --ddp-bucket-size 3000
    same_bits bucket n "buckets of 3000 elements"
done
for layout in "2 2 2" "1 2 3"; do
    read -r tp pp dp <<<"$layout"
    many=(mpi_run $((tp * pp * dp)) "${one[@]}" --tensor-model-parallel-size "$tp"
          --pipeline-model-parallel-size "$pp" --global-batch-size 12)
    train n "${many[@]}"
    is "$status" 0 "tp $tp pp $pp dp $dp"
    train order "${many[@]}" --use-tp-pp-dp-mapping
    same_bits order n "the order of ranks"
done

# ---- at random; the long run takes more, up to 16 ranks, primes among them
seed_draws
tps=(1 1 2 3 5 7) pps=(1 1 2 3 5) dps=(1 1 2 3 5 7 11 13)
rounds=2 most=6 turn=0
! long || rounds=12 most=16
while ((rounds > 0)); do
    draw_sizes $most
    m=$((1 + RANDOM % 4)) mbs=$((1 + RANDOM % 3))
    layers=$((pp * (1 + RANDOM % 2))) head=$((3 + RANDOM % 6)) more=()
    rounds=$((rounds - 1)) virtual=()
    ! coin || more+=(--untie-embeddings-and-output-weights)
    if ((pp > 1 && turn++ % 3 < 2)); then # two of three interleaved, in groups that may be uneven
        vpp=$((2 + RANDOM % 2)) group=$((pp + RANDOM % 3))
        layers=$((layers * vpp)) m=$((group * m + (RANDOM % 2) * pp))
        virtual=(--num-virtual-stages-per-pipeline-rank $vpp
                 --microbatch-group-size-per-virtual-pipeline-stage $group)
    fi
    # odd sizes that tp divides; the sequence too, for when it is split
    shape=(--num-layers $layers --hidden-size $((tp * head + 1)) --num-attention-heads $((2 * tp))
           --kv-channels $head --ffn-hidden-size $((tp * 11)) --seq-length $((tp * 5))
           --max-position-embeddings $((tp * 5 + 2)) --micro-batch-size $mbs
           --global-batch-size $((mbs * m * dp)) --seed $RANDOM "${more[@]}")
    train small "${one[@]}" "${shape[@]}"
    ! coin || more+=(--sequence-parallel)
    train n mpi_run $n "${one[@]}" "${shape[@]}" --tensor-model-parallel-size $tp \
        --pipeline-model-parallel-size $pp "${virtual[@]}" "${more[@]}"
    is "$status" 0 "tp $tp pp $pp dp $dp, $m microbatches of $mbs, head size $head, ${virtual[*]} ${more[*]}"
    same_metrics n.json small.json 1e-5 1e-4 "against one rank"
    same_weights n.st small.st 1e-4 "weights" --skip-key-bias $((2 * tp))
done
done_testing

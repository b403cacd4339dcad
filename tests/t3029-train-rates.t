#!/bin/bash
# Learning rates and weight decay of some parameters alone, initial values of embeddings, the norm of
# all parameters: what they do, and the same under every layout.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/ranks.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

make_batches b.st
base=(megatron train "${tiny_model[@]}" --vocab-size 256 --batches b.st --train-iters 4
      --lr 1e-3 --min-lr 1e-4 --lr-warmup-iters 1 --hidden-dropout 0 --attention-dropout 0
      --normalization RMSNorm --qk-layernorm --weight-decay 0.5 --log-params-norm)
more=(--decoupled-lr 4e-3 --decoupled-min-lr 2e-3 --apply-wd-to-qk-layernorm
      --embedding-init-method-std 0.3)

# values NAME WHAT: of all iterations.
values() {
    grep -o "\"$2\": [^,}]*" "$1.json" | sed 's/.*: //' | paste -sd' '
}

# near A B TOLERANCE TEXT: two lists of numbers.
near() {
    ok "awk -v a='$1' -v b='$2' -v t=$3 'BEGIN { n = split (a, x, \" \"); m = split (b, y, \" \")
        if (n != m || n == 0) exit 1
        for (i = 1; i <= n; i++) { d = x[i] - y[i]; if (d < 0) d = -d
            if (d > t * (y[i] < 0 ? -y[i] : y[i])) exit 1 } }'" "$4: $1"
}

# ---- one rank
train one "${base[@]}" "${more[@]}"
log=$out
is "$(values one "learning rate used")" "0 0.001 0.0007 0.0004" "rates that updates used"
is "$(values one "learning rate")" "0.001 0.0007 0.0004 0.0001" "those of the next iterations"
near "$(values one "decoupled learning rate used")" "0 0.004 0.003333333 0.002666667" 1e-6 \
    "decoupled rates"
near "$(values one "decoupled learning rate")" "0.004 0.003333333 0.002666667 0.002" 1e-6 \
    "those of the next iterations"
near "$(grep -o 'learning rate: [^ ]*' <<<"$log" | sed 's/.*: //' | paste -sd' ')" \
    "$(values one "learning rate")" 1e-6 "the line has the same"
near "$(grep -o 'params norm: [^ ]*' <<<"$log" | sed 's/.*: //' | paste -sd' ')" \
    "$(values one "params norm")" 1e-4 "and the norm of the parameters"

# The initial values are those without the argument, times 15 for embeddings.
for name in plain more; do
    args=()
    [ $name = plain ] || args=(--embedding-init-method-std 0.3)
    train $name "${base[@]}" "${args[@]}" --train-iters 1 --lr 0 --min-lr 0 --lr-warmup-iters 0
done
if command -v python3 >/dev/null; then
    cat >norm.py <<'END'
import json, struct
data = open("plain.st", "rb").read()
n = struct.unpack("<Q", data[:8])[0]
total = 0
for name, t in json.loads(data[8:8 + n]).items():
    if name != "__metadata__":
        a, b = t["data_offsets"]
        x = struct.unpack("<%df" % ((b - a) // 4), data[8 + n + a:8 + n + b])
        total += sum(v * v for v in x) * (225 if "embeddings" in name else 1)
print(total ** 0.5)
END
    near "$(values more "params norm")" "$(python3 norm.py)" 1e-6 \
        "embeddings alone begin with other values, and every parameter counts once"
else
    skip 1 "no python3"
fi

# ---- layouts
ranks_available || { skip 6 "neither UCX nor MPI"; done_testing; }
while read -r n args; do
    read -ra args <<<"$args"
    train many ranks_run "$n" "${base[@]}" "${more[@]}" "${args[@]}"
    near "$(values many "params norm")" "$(values one "params norm")" 1e-5 \
        "$n ranks, ${args[*]}: the same norm of the parameters"
    same_weights many.st one.st 1e-4 "and weights" --skip-key-bias 4
done <<'END'
4 --tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2
4 --tensor-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
4 --pipeline-model-parallel-size 2 --use-distributed-optimizer
END
done_testing

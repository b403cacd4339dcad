#!/bin/bash
# Many ranks start, step and stop, on however few cores: nothing that grows with the ranks
# gets out of hand.  32, or 256 with MG_LONG=1.  On one virtual node, whose ranks meet in shared memory: over sockets,
# between virtual nodes, Open MPI's own start takes many minutes on two cores.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"
. "$MG_SRCDIR/tests/lib/train.sh"

mpi_available || skip_all "no MPI"
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not built"
ranks=32 gigabytes=2
! long || ranks=256 gigabytes=12
[ "$(awk '$1 == "MemAvailable:" { print ($2 >= '$gigabytes' * 1024 * 1024) }' /proc/meminfo)" = 1 ] \
    || skip_all "less than $gigabytes GiB of memory"
[ "$(df -k --output=avail /dev/shm | tail -n 1)" -ge $((ranks * 16 * 1024)) ] \
    || skip_all "less than $((ranks * 16)) MiB in /dev/shm"
make_text text.txt 20
megatron data tokenize --input text.txt --output-prefix text --append-eod >/dev/null
args=(--num-layers 4 --hidden-size 16 --num-attention-heads 4 --seq-length 8
      --tokenizer-type ByteLevel --data-path text_text_document --split 1
      --micro-batch-size 1 --global-batch-size 64 --train-iters 3 --lr 1e-3)
run megatron train "${args[@]}" --metrics-file one.json
is "$status" 0 "one rank" || diag "$err"

slurm_start 1 $ranks
# The largest memory of a rank, in KB, goes to a file of its own.
cat >rank <<'END'
#!/bin/bash
"$@" &
pid=$!
while kill -s 0 $pid 2>/dev/null; do
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' /proc/$pid/status 2>/dev/null \
        >>memory.$SLURM_PROCID
    sleep 2
done
wait $pid
END
chmod +x rank
start=$SECONDS
run timeout 1200 srun -Q -n$ranks --mpi=pmix true
is "$status" 0 "a bare step of $ranks tasks" || diag "$err"
bare=$((SECONDS - start))
start=$SECONDS
run timeout 3000 srun -Q -n$ranks --megatron-tp=4 --megatron-pp=4 \
    megatron train "${args[@]}" --metrics-file many.json
is "$status" 0 "$ranks ranks start, step and stop" || diag "$err"
diag "$((SECONDS - start)) s, a bare step $bare s"
like "$out" "$ranks ranks = tp 4 x pp 4 x dp $((ranks / 16))" "as they should"
is "$(grep -c '\] iteration ' <<<"$out")" 3 "three iterations are printed once"
is "$(sed '/^$/d' <<<"$err")" "" "nothing is complained of"
same_metrics many.json one.json 1e-5 1e-4 "they train as one rank does"
run timeout 3000 srun -Q -n$ranks --megatron-tp=4 ./rank megatron train "${args[@]}" \
    --num-layers 4 --train-iters 1
is "$status" 0 "once more, with an eye on memory" || diag "$err"
most=$(cat memory.* | sort -n | tail -n 1)
ok "[ ${most:-0} -gt 1000 ] && [ $most -lt 100000 ]" "a rank takes $most KB at most"
is "$(pgrep -x megatron | while read -r p; do
        [ "$(readlink "/proc/$p/cwd")" != "$TEST_DIR" ] || echo "$p"
    done)" "" "no process is left"
done_testing

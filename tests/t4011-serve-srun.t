#!/bin/bash
# One srun line serves: the plugin's sizes reach the job, rank 0 listens, and scancel's SIGTERM lets
# running requests end.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/mpi.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

hf=$MG_SHARED/golden/14_hf
[ -d "$hf" ] || skip_all "no reference data in $MG_SHARED"
command -v python3 >/dev/null || skip_all "no python3"
mpi_available || skip_all "no MPI"
[ -e "$MG_BUILDDIR/plugin/.libs/megatron.so" ] || skip_all "the plugin is not built"
megatron serve --load . --no-api-key 2>&1 | grep -q "this build lacks" \
    && skip_all "this build has no libmicrohttpd"
slurm_start 2

run megatron generate --load "$hf/llama" --prompt-tokens 1,2,3,4,5 --num-tokens-to-generate 9 \
    --temperature 0 --ignore-eos --json
want=$(jq -c .tokens <<<"$out")
srun -Q -N2 --ntasks-per-node=2 --megatron-tp=2 --megatron-pp=2 megatron serve --load "$hf/llama" \
    --no-api-key --port 0 --max-logprobs 1 >served 2>errors &
server=$!
at_exit "kill $server 2>/dev/null"
wait_until "grep -q ' is served at ' served" "$server" || diag "$(cat errors)"
like "$(cat errors)" "4 ranks = tp 2 x pp 2 x dp 1" "the plugin's sizes reach the job"
cat >ask.py <<'END'
import json, sys, urllib.request
body = {'prompt': [1, 2, 3, 4, 5], 'max_tokens': 9, 'temperature': 0, 'ignore_eos': True, 'logprobs': 1}
with urllib.request.urlopen(sys.argv[1] + '/v1/completions', json.dumps(body).encode()) as answer:
    tokens = json.load(answer)['choices'][0]['logprobs']['tokens']
print(json.dumps([int(t.split(':')[1]) for t in tokens], separators=(',', ':')))
END
run "$MG_SRCDIR/contrib/cluster/slurm-cluster" run "$SLURM_DIR" \
    python3 ask.py "$(sed -n 's/.* is served at //p' served)"
is "$status:$out" "0:$want" "the tokens of one rank" || diag "$err"
scancel --signal=TERM "$(squeue -h -o %A)"
status=0
wait "$server" || status=$?
is "$status" 0 "scancel --signal=TERM ends the server, with status 0" || diag "$(cat errors)"
done_testing

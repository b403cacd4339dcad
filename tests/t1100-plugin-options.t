#!/bin/bash
# The plugin's options: where they are known, where their values come from, which values
# cannot be, and what the plugin makes of plugstack.conf's arguments.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
[ -f "$plugin" ] || skip_all "the plugin is not part of this build"
slurm_start 2 16

options='tp cp ep etp pp vpp order placement'

# plugstack ARG...: load the plugin with these arguments from now on.
plugstack() {
    echo "optional $plugin $*" > "$SLURM_DIR/plugstack.conf"
}

# refused TEXT MESSAGE: the last run ended with this one line and nothing else.
refused() {
    is "$status:$out:$err" "1::$2" "$1"
}

# ---- help --------------------------------------------------------------------------

for command in srun sbatch salloc; do
    run env COLUMNS=300 $command --help
    for name in $options; do
        like "$out" $'\n'" +--megatron-$name=(N|AXES|POLICY)[[:space:]]+\[megatron\] [a-z]" \
            "$command --help tells --megatron-$name"
    done
done

# ---- where a value comes from ------------------------------------------------------

# size [ENV=VALUE...] -- [ARG...]: run one task, print what it got.
size() {
    local -a env=()
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    # shellcheck disable=SC2016  # the task's shell expands
    run env "${env[@]}" srun -Q -n8 "$@" sh -c 'test $SLURM_PROCID = 5 && echo \
        $MEGATRON_TP_SIZE $MEGATRON_CP_SIZE $MEGATRON_EP_SIZE $MEGATRON_ETP_SIZE \
        $MEGATRON_PP_SIZE $MEGATRON_VPP_SIZE $MEGATRON_RANK_ORDER; :'
}

size -- --megatron-tp=2 --megatron-cp=1 --megatron-ep=4 --megatron-etp=1 --megatron-pp=2 \
    --megatron-vpp=3 --megatron-order=tp-ep-cp-dp-pp
is "$out$err" "2 1 4 1 2 3 tp-ep-cp-dp-pp" "every option reaches the task"
size MEGATRON_TP=2 MEGATRON_CP=1 MEGATRON_EP=4 MEGATRON_ETP=1 MEGATRON_PP=2 \
    MEGATRON_VPP=3 MEGATRON_ORDER=tp-ep-cp-dp-pp --
is "$out$err" "2 1 4 1 2 3 tp-ep-cp-dp-pp" "so does every variable"
size MEGATRON_TP=2 MEGATRON_PP=2 -- --megatron-tp=4
is "$out$err" "4 1 1 4 2 1 tp-cp-ep-dp-pp" "the line wins over the variable, one by one"
size -- --megatron-tp=2 --megatron-tp=4
is "$out$err" "4 1 1 4 1 1 tp-cp-ep-dp-pp" "the last one on the line wins"
size MEGATRON_TP=2 -- --export=PATH
is "$out$err" "2 1 1 2 1 1 tp-cp-ep-dp-pp" "a default does not depend on --export"
size MEGATRON_TP= MEGATRON_PP=2 --
is "$out$err" "1 1 1 1 2 1 tp-cp-ep-dp-pp" "an empty variable is none"
size MEGATRON_TP=zzz -- --megatron-tp=2
is "$out$err" "2 1 1 2 1 1 tp-cp-ep-dp-pp" "nobody minds a bad variable that is replaced"
size -- --megatron-t 2 --megatron-o tp-pp-cp-dp-ep
is "$out$err" "2 1 1 2 1 1 tp-pp-cp-dp-ep" "unique beginnings will do"
size -- --megatron=2
ok "[ $status != 0 ] && [ -z '$out' ]" "others will not"
size -- --megatron-order=tp-dp --megatron-tp=2
is "$out$err" "2 1 1 2 1 1 tp-dp-pp-ep-cp" "a short order is made whole"

cat > job <<'EOF'
#!/bin/bash
#SBATCH -Q -n8 --megatron-tp=2 --megatron-pp=2
show='test $SLURM_PROCID = 5 && echo $MEGATRON_TP_SIZE $MEGATRON_CP_SIZE $MEGATRON_PP_SIZE; :'
@SRUN@ -Q /bin/sh -c "$show"
@SRUN@ -Q --megatron-tp=4 /bin/sh -c "$show"
MEGATRON_TP=4 MEGATRON_CP=2 @SRUN@ -Q /bin/sh -c "$show"
@SRUN@ -Q --export=PATH /bin/sh -c "$show"
EOF
# --export=NONE gives the script a login shell's PATH, where another srun may be first
sed -i "s|@SRUN@|$(command -v srun)|" job
run sbatch -W -o job.out job
is "$status:$(cat job.out)" $'0:2 1 2\n4 1 2\n2 2 2\n2 1 2' \
    "sruns in a job inherit its options: less than the line, more than variables"
run sbatch -W -o job.out --export=NONE job
is "$status:$(cat job.out)" $'0:2 1 2\n4 1 2\n2 2 2\n2 1 2' "also with --export=NONE"
run sbatch -W -o job.out --megatron-tp=4 job
is "$(head -n 1 job.out)" "4 1 2" "sbatch's line wins over the script's"
run env MEGATRON_CP=2 salloc -Q -n8 --megatron-tp=2 srun -Q sh -c \
    'test $SLURM_PROCID = 5 && echo $MEGATRON_TP_SIZE $MEGATRON_CP_SIZE; :'
is "$status:$out$err" "0:2 2" "salloc: option and variable"

# ---- values that cannot be ---------------------------------------------------------

whole='is not a whole number, want 1 to 16777216'
range='is out of range, want 1 to 16777216'
for command in srun sbatch salloc; do
    rest=(true)
    [ $command != sbatch ] || rest=(--wrap true)
    for name in tp cp ep etp pp vpp; do
        run $command -n8 "--megatron-$name=2x" "${rest[@]}"
        refused "$command: a word for --megatron-$name" \
            "$command: error: megatron: --megatron-$name: \"2x\" $whole"
        run $command -n8 "--megatron-$name=0" "${rest[@]}"
        refused "$command: 0 for --megatron-$name" \
            "$command: error: megatron: --megatron-$name: 0 $range"
    done
    for value in -1 16777217 4294967297 18446744073709551617; do
        run $command -n8 "--megatron-tp=$value" "${rest[@]}"
        refused "$command: --megatron-tp=$value" \
            "$command: error: megatron: --megatron-tp: $value $range"
    done
    for value in '' ' 2' 2.0 0x2 1e1 "2;id" '%s%n'; do
        run $command -n8 "--megatron-tp=$value" "${rest[@]}"
        refused "$command: --megatron-tp='$value'" \
            "$command: error: megatron: --megatron-tp: \"$value\" $whole"
    done
    run $command -n8 --megatron-tp=$'2\n3\e[1m' "${rest[@]}"
    refused "$command: control characters" \
        "$command: error: megatron: --megatron-tp: \"2?3?[1m\" $whole"
    run $command -n8 "--megatron-order=tp-xp-dp" "${rest[@]}"
    refused "$command: an unknown axis" "$command: error: megatron: --megatron-order: \
order \"tp-xp-dp\" names an unknown axis \"xp\", want tp, cp, ep, dp, pp joined by -"
    run $command -n8 "--megatron-order=tp-dp-tp" "${rest[@]}"
    refused "$command: an axis named twice" "$command: error: megatron: --megatron-order: \
order \"tp-dp-tp\" names tp 2 times, want each axis once"
    run $command -n8 "--megatron-order=$(printf 'tp-%.0s' {1..500})" "${rest[@]}"
    like "$status:$out:$err" "^1::$command: error: megatron: --megatron-order: [^"$'\n'"]*too long" \
        "$command: a very long order"
    run env MEGATRON_PP=two $command -n8 "${rest[@]}"
    refused "$command: a bad variable is called by its name" \
        "$command: error: megatron: MEGATRON_PP: \"two\" $whole"
done

# ---- defaults for srun -------------------------------------------------------------

# mpi [ENV=VALUE...] -- [ARG...]
mpi() {
    local -a env=()
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    # shellcheck disable=SC2016
    run env "${env[@]}" srun -Q -n1 "$@" sh -c 'echo ${SLURM_MPI_TYPE:-none}${PMIX_RANK:+ it is}'
}
mpi -- --megatron-tp=1
is "$out$err" "pmix it is" "an option makes it --mpi=pmix"
mpi MEGATRON_TP=1 --
is "$out$err" "pmix it is" "so does a variable"
mpi --
is "$out$err" "none" "nothing does not"
mpi -- --mpi=none --megatron-tp=1
is "$out$err" "none" "--mpi=none before the option wins"
mpi -- --megatron-tp=1 --mpi=none
is "$out$err" "none" "and behind it"
mpi SLURM_MPI_TYPE=none -- --megatron-tp=1
is "$out$err" "none" "and SLURM_MPI_TYPE"

# One task fails at once; whether the other lives for LIVES seconds to tell.
# kill [ENV=VALUE...] -- LIVES [ARG...]
killed() {
    local -a env=()
    local lives
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    lives=$1
    shift
    run env "${env[@]}" srun -Q -n2 --mpi=none "$@" sh -c \
        "[ \$SLURM_PROCID = 1 ] || exit 3; sleep $lives && echo alive"
}
killed -- 600 --megatron-tp=1
is "$out" "" "an option makes it --kill-on-bad-exit"
killed -- 1 --megatron-tp=1 -K0
is "$out" "alive" "-K0 wins"
killed SLURM_KILL_BAD_EXIT=0 -- 1 --megatron-tp=1
is "$out" "alive" "so does SLURM_KILL_BAD_EXIT=0"
killed -- 1
is "$out" "alive" "nothing does nothing"

# ---- sizes that do not fit a step --------------------------------------------------

cannot='3 tasks cannot hold tp 2 x cp 1 x pp 1 = 2; use -n 2 or -n 4'
# shellcheck disable=SC2016
show='echo ${MEGATRON_RANK:-none}${RANK:-}'
run srun -n3 --megatron-tp=2 sh -c "$show"
refused "typed on srun's line: refused" "srun: error: megatron: $cannot"
slurm_settle
run env MEGATRON_TP=2 srun -n3 sh -c "$show"
is "$status:$out" $'0:none\nnone\nnone' "from a variable: the step runs without"
is "$err" "srun: megatron: warning: $cannot (sizes come from MEGATRON_* variables; this \
step runs without them)" "and one line says so"
run env MEGATRON_TP=2 srun -Q -n3 sh -c "$show"
is "$status:$err" "0:" "unless srun is quiet"
run env MEGATRON_TP=2 srun -n3 --megatron-pp=1 sh -c "$show"
refused "one typed option makes all of them strict" "srun: error: megatron: $cannot"
run env MEGATRON_VPP=2 srun -n2 sh -c "$show"
is "$status:$out" $'0:none\nnone' "a rule without the number of tasks is no different"
for command in "sbatch --wrap true" "salloc true"; do
    run env MEGATRON_TP=2 ${command%% *} -n3 ${command#* }
    refused "${command%% *}: a variable is as strict" \
        "${command%% *}: error: megatron: $cannot"
done
cat > job <<'EOF'
#!/bin/bash
#SBATCH -n4 --megatron-tp=2
srun -n3 sh -c 'echo ${MEGATRON_RANK:-none}' 2>&1
srun -n3 --megatron-pp=1 true 2>&1
echo $?
EOF
run sbatch -W -o job.out job
is "$status:$(cat job.out)" "0:srun: megatron: warning: $cannot (sizes come from the job's \
options; this step runs without them)
none
none
none
srun: error: megatron: $cannot
1" "inherited: a warning; with one typed on srun's line: refused"

# ---- options that went round srun --------------------------------------------------

run env _SLURM_SPANK_OPTION_megatron_megatron_tp=$'bad\nvalue' srun -Q -n4 -N2 echo ran
is "$status:$out" "1:" "a bad value that srun has not seen runs nothing"
is "$(grep -c 'error: megatron: --megatron-tp: "bad?value" is not' <<<"$err")" 1 \
    "one task says why"
is "$(sinfo -h -N -t idle,comp,alloc,mix -o %N | wc -l)" 2 "no node suffers"

# ---- plugstack.conf ----------------------------------------------------------------

plugstack mpi=none kill_on_bad_exit=no
mpi -- --megatron-tp=1
is "$out$err" "none" "mpi=none: srun is left alone"
killed -- 1 --megatron-tp=1
is "$out" "alive" "kill_on_bad_exit=no: too"
plugstack master_port_base=2000 master_addr=%n-ib.example.org
run srun -Q -n4 -N2 --megatron-tp=2 sh -c 'echo $MASTER_ADDR $MASTER_PORT'
like "$out$err" '^n0-ib\.example\.org [234][0-9]{3}(.n0-ib\.example\.org [234][0-9]{3}){3}$' \
    "master_addr and master_port_base"
is "$(sort -u <<<"$out" | wc -l)" 1 "the same on every task"
run env MASTER_ADDR=n0 srun -Q -n4 -N2 --megatron-tp=2 sh -c 'echo $MASTER_ADDR'
is "$(sort -u <<<"$out")$err" n0 "another name of the first node stays, without a warning"
plugstack nonsense=1 mpi=maybe master_port_base=80
run srun -Q -n2 --megatron-tp=2 sh -c 'echo $MEGATRON_TP_SIZE'
is "$status:$out" $'0:2\n2' "arguments that mean nothing stop nothing"
is "$err" 'srun: error: megatron: plugstack.conf: "nonsense" is not a key of this plugin; mpi: "maybe" is not pmix or none; master_port_base: 80 is out of range, want 1024 to 63488' \
    "but are reported by name, in one line"
run srun -Q -n2 true
is "$status:$err" "0:" "not to who does not use the plugin"
run sbatch -H -Q -n2 --megatron-tp=2 --wrap true
is "$status:$(grep -c plugstack.conf: <<<"$err")" 0:1 "sbatch says it once"
scancel -u "$(id -un)"
run srun -Q --mpi=none -n1 -N1 --megatron-tp=2 true : -n1 -N1 true
is "$status:$(grep -c plugstack.conf: <<<"$err")" 0:1 "a heterogeneous srun, too"
is "$(cat "$SLURM_DIR"/slurmd-n*.log | grep -c 'megatron: plugstack.conf')" 0 "nor does a step"

# ---- a site's policy -----------------------------------------------------------------

plugstack default_tp=4 default_pp=2 default_order=tp-cp-ep-pp-dp
size --
is "$out$err" "" "defaults of the site give nothing to a job that asks for nothing"
size -- --megatron-cp=1
is "$out$err" "4 1 1 4 2 1 tp-cp-ep-pp-dp" "one size asked for: the others are the site's"
size MEGATRON_PP=1 -- --megatron-tp=2
is "$out$err" "2 1 1 2 1 1 tp-cp-ep-pp-dp" "the line and a variable are stronger"
cat > job <<'EOF'
#!/bin/bash
#SBATCH -Q -n8 --megatron-cp=1
srun -Q sh -c 'test $SLURM_PROCID = 5 && echo $MEGATRON_TP_SIZE $MEGATRON_PP_SIZE; :'
EOF
run sbatch -W -o job.out job
is "$status:$(cat job.out)" "0:4 2" "the same in a job"
run srun -n6 --megatron-cp=1 true
is "$status:$err" "1:srun: error: megatron: 6 tasks cannot hold tp 4 x cp 1 x pp 2 = 8; use -n 8 \
(tp 4 is this site's default) (pp 2 is this site's default) (order tp-cp-ep-pp-dp is this \
site's default)" "sizes that the user has not chosen are named"

plugstack max_tp=4 max_etp=2 max_vpp=1
for command in "srun -n8 true" "sbatch -n8 --wrap true" "salloc -n8 true"; do
    name=${command%% *}
    rest=${command#* }
    # shellcheck disable=SC2086
    run $name --megatron-tp=8 $rest
    refused "$name: above a limit" "$name: error: megatron: tp 8 is above this site's limit of 4"
done
run srun -n8 --megatron-tp=4 --megatron-ep=2 true
refused "etp follows tp, and has its limit" "srun: error: megatron: etp 4 is above this site's limit of 2"
run srun -Q -n8 --megatron-tp=4 true
is "$status:$err" "0:" "but not in a job without expert parallelism"
run srun -Q -n8 --megatron-tp=4 --megatron-etp=2 true
is "$status:$err" "0:" "at the limits"
run srun -Q -n8 true
is "$status:$err" "0:" "limits are nothing to other jobs"
slurm_settle
run env MEGATRON_TP=8 srun -n8 sh -c "$show"
is "$status:$err:$(sort -u <<<"$out")" "0:srun: megatron: warning: tp 8 is above this site's limit of 4 \
(sizes come from MEGATRON_* variables; this step runs without them):none" "from a variable: a warning"

# ---- with bad words in it, slurmd says so when it starts -------------------------------

slurm_stop
slurm_start 1 2 --plugin-args "default_tp=0 nonsense"
like "$(cat "$SLURM_DIR/slurmd-n0.log")" 'error: megatron: plugstack.conf: default_tp: 0 is out of range, want 1 to 16777216; "nonsense" is not a key of this plugin, want key=value' \
    "slurmd's log names them"
is "$(grep -c plugstack.conf: "$SLURM_DIR/slurmd-n0.log")" 1 "once"
done_testing

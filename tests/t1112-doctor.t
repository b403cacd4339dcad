#!/bin/bash
# megatron doctor: without Slurm, with a Slurm that has this or that wrong with it, and in
# a real one, from outside and from inside a job.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"
. "$MG_SRCDIR/tests/lib/slurm.sh"

megatron=$MG_BUILDDIR/megatron
unset SLURM_CONF SLURM_JOB_ID

# verdict CHECK: of the last run, the first of that name.
verdict() {
    awk -v name="$1" '$2 == name && !seen++ { print $1 }' <<<"$out"
}

# ---- no Slurm ------------------------------------------------------------------------

mkdir empty
run env PATH="$TEST_DIR/empty" "$megatron" doctor
is "$status:$err" "1:" "without Slurm: something is wrong, and nothing breaks"
like "$out" $'fail  slurm        Slurm is not installed here: srun: No such file or directory\n +-> megatron train and plan work without' \
    "it says so, and what to do"
is "$(verdict cpus)" ok "the machine is looked at all the same"
is "$(verdict device)" ok "so is the device"
like "$out" "(gpu +jobs here compute on the CPU: |device +cuda:0: )" "and what there is of GPUs"
run env PATH="$TEST_DIR/empty" LD_LIBRARY_PATH="$MG_BUILDDIR/.libs" "$megatron" doctor
like "$out" "ok    library      libmegatron.so.0 is version $("$megatron" --version | sed -n 's/^megatron //p')" \
    "the library, where the linker finds it"
mkdir -p prefix/bin prefix/lib local
cp "$megatron" prefix/bin/
cp "$MG_BUILDDIR/.libs/libmegatron.so.0" prefix/lib/
ln -s "$TEST_DIR/prefix/bin/megatron" local/
run env PATH="$TEST_DIR/empty" local/megatron doctor
like "$out" "ok    library      libmegatron.so.0 is version [^,]*, in $TEST_DIR/prefix/lib, where .*"$'\n'" +-> link programs with -L$TEST_DIR/prefix/lib " \
    "the library beside the program that a link leads to, and how programs get it"
printf 'const char *mg_version (void) { return "0.0.1"; }\n' > old.c
if ${CC:-cc} -shared -fPIC -o libmegatron.so.0 old.c 2>/dev/null; then
    run env PATH="$TEST_DIR/empty" LD_LIBRARY_PATH="$TEST_DIR" "$megatron" doctor
    like "$out" 'warn  library      libmegatron.so.0 is version 0\.0\.1, megatron is ' "an old one is found out"
else
    skip 1 "there is no compiler"
fi
run env PATH="$TEST_DIR/empty" "$megatron" doctor --nodes n1
is "$status:$(verdict nodes)" "1:warn" "nodes are not"
run env PATH="$TEST_DIR/empty" "$megatron" doctor --json
like "$out" '^\{"ok":false,"version":"[0-9.a-z-]+","slurm_headers":"[^"]+","places":\[\{"where":"[^"]+","checks":\[\{"check":"slurm","verdict":"fail",' \
    "as JSON"
is "$(wc -l <<<"$out")" 1 "in one line"

# ---- GPUs, links, adapters, NCCL, as the system tells of them ------------------------------

# gpu_node NAME DRIVER GPUS NVLINK RATE: a root with a driver, GPUs and an adapter, and an nvidia-smi
# whose GPUs are joined by NVLINK.
gpu_node() {
    local root=$TEST_DIR/$1 i k
    mkdir -p "$root/bin" "$root/sys/class/infiniband/mlx5_"{0,1}/ports/1
    mkdir -p "$root/proc/driver/nvidia/gpus"
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\nGCC version: 12\n' "$2" \
        >"$root/proc/driver/nvidia/version"
    {
        echo '#!/bin/sh'
        echo "$(command -v cat) <<EOF"
        for ((i = 0; i < $3; i++)); do printf '\tGPU%d' $i; done
        printf '\tNIC0\tCPU Affinity\n'
        for ((i = 0; i < $3; i++)); do
            mkdir -p "$root/proc/driver/nvidia/gpus/0000:0$i:00.0"
            printf 'Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 16\n' \
                >"$root/proc/driver/nvidia/gpus/0000:0$i:00.0/information"
            printf 'GPU%d' $i
            for ((k = 0; k < $3; k++)); do
                if [ $k = $i ]; then printf '\t X '; else printf '\t%s' "$4"; fi
            done
            printf '\tNODE\t0-31\n'
        done
        printf 'NIC0\tNODE\tNODE\t X \n\nLegend:\n  NV#  = NVLink\n'
        echo EOF
    } >"$root/bin/nvidia-smi"
    chmod +x "$root/bin/nvidia-smi"
    echo '4: ACTIVE' >"$root/sys/class/infiniband/mlx5_0/ports/1/state"
    echo "$5" >"$root/sys/class/infiniband/mlx5_0/ports/1/rate"
    echo '1: DOWN' >"$root/sys/class/infiniband/mlx5_1/ports/1/state"
    echo '10 Gb/sec (4X SDR)' >"$root/sys/class/infiniband/mlx5_1/ports/1/rate"
}
gpu_node rack1 570.86.15 4 NV18 '400 Gb/sec (4X NDR)'
gpu_node rack2 535.161.08 3 SYS '200 Gb/sec (4X HDR)'
run env MG_TEST_ROOT="$TEST_DIR/rack1" PATH="$TEST_DIR/rack1/bin" "$megatron" doctor
like "$out" 'ok    driver       NVIDIA driver 570\.86\.15'$'\n' "the driver"
like "$out" 'ok    gpus         4 x NVIDIA H100 80GB HBM3'$'\n' "its GPUs"
like "$out" 'ok    links        NVLink joins 6 of 6 pairs of GPUs'$'\n' "their links"
like "$out" 'ok    nics         mlx5_0 400 Gb/sec \(4X NDR\), mlx5_1 DOWN'$'\n' "adapters, one of them down"
run env MG_TEST_ROOT="$TEST_DIR/rack2" PATH="$TEST_DIR/rack2/bin" "$megatron" doctor
like "$out" 'NVLink joins 0 of 3 pairs of GPUs' "GPUs without NVLink"
rm -rf "$TEST_DIR"/rack2/proc/driver/nvidia/gpus/*
run env MG_TEST_ROOT="$TEST_DIR/rack2" PATH="$TEST_DIR/empty" "$megatron" doctor
is "$(verdict driver) $(verdict gpus) $(verdict links)" "ok warn " "a driver without GPUs, and no nvidia-smi"
gpu_node rack2 535.161.08 3 SYS '200 Gb/sec (4X HDR)'
printf '#!/bin/sh\nprintf "\\nGPU0 GPUGPU0\\nGPU1"\nexit 1\n' >"$TEST_DIR/rack2/bin/nvidia-smi"
run env MG_TEST_ROOT="$TEST_DIR/rack2" PATH="$TEST_DIR/rack2/bin" "$megatron" doctor
is "$(verdict gpus)$(verdict links)" ok "an nvidia-smi that fails"
run env MG_TEST_ROOT="$TEST_DIR/empty" PATH="$TEST_DIR/empty" "$megatron" doctor
is "$(verdict driver)$(verdict gpus)$(verdict links)$(verdict nics)" "" "a machine without them"
# before NCCL 2.9 the minor number had one digit
mkdir -p nccl
for pair in 22703=2.27.3 20900=2.9.0 2804=2.8.4 2000=2.0.0; do
    printf 'int ncclGetVersion (int *v) { *v = %s; return 0; }\n' "${pair%=*}" >nccl.c
    if ${CC:-cc} -shared -fPIC -o nccl/libnccl.so.2 nccl.c 2>/dev/null; then
        run env LD_LIBRARY_PATH="$TEST_DIR/nccl" PATH="$TEST_DIR/empty" "$megatron" doctor
        is "$(sed -n 's/^  ok    nccl  *//p' <<<"$out")" "NCCL ${pair#*=}" \
            "the NCCL that the linker finds: ${pair%=*}"
    else
        skip 1 "there is no compiler"
    fi
done

# ---- usage ----------------------------------------------------------------------------

run "$megatron" doctor --help
is "$status:$err" "0:" "help"
is "$(grep -c on-node <<<"$out")" 0 "what is not for people is not in it"
for args in "--frob" "--nodes" "--nodes=" "x" "--json=1"; do
    run "$megatron" doctor $args
    like "$status:$out:$err" '^2::megatron: doctor: [^'$'\n'']*; see megatron doctor --help$' "usage: $args"
done

# ---- a Slurm that is not well -----------------------------------------------------------

# fake VERSION HELP MPI CONTROLLER: an srun and an scontrol that say these.
version=$("$megatron" --version | sed -n 's/^slurm //p')
mkdir fake
fake() {
    cat > fake/srun <<EOF
#!/bin/sh
case "\$*" in
    --version) echo "$1" ;;
    --help) echo "$2"; echo "$5" >&2 ;;
    --mpi=list) echo "$3" >&2 ;;
    *--test-only*) echo "$6" >&2 ;;
    *) echo "srun: error: no nodes" >&2; exit 3 ;;
esac
EOF
    cat > fake/scontrol <<EOF
#!/bin/sh
[ -n "$4" ] || { echo "slurm_load_ctl_conf error: Unable to contact slurm controller" >&2; exit 1; }
[ "\$2" != hostnames ] || { printf 'n1\nn2\n'; exit; }
printf 'MpiDefault              = %s\nSLURM_VERSION           = %s\n' "${7:-none}" "$4"
EOF
    chmod +x fake/*
}
# told TEXT NAME VERDICT REGEX: after a run of doctor.
told() {
    is "$(verdict "$2")" "$3" "$1"
    like "$out" "$4" "and in these words"
}
doctor() {
    run env PATH="$TEST_DIR/fake:$PATH" "$megatron" doctor "$@"
}
opts='      --megatron-tp=N  [megatron] x'
if [ "$version" = none ]; then
    skip 33 "this build has no plugin"
else
    fake "slurm $version" "$opts" "MPI: none pmix pmix_v4" "$version"
    doctor
    is "$(verdict slurm)$(verdict plugin)$(verdict pmix)$(verdict controller)$(verdict plugstack)" okokokokok \
        "all is well with Slurm"
    fake "slurm 20.11.3" "$opts" "pmix" "$version"
    doctor
    told "another release" slurm fail "slurm 20\.11\.3, but the plugin was built for ${version//./\\.}: a plugin works with one release only"
    is "$status" 1 "is a failure"
    fake "slurm ${version%.*}.99" "$opts" "pmix" "$version"
    doctor
    is "$(verdict slurm)" ok "another micro release is not"
    fake "slurm $version" "" "pmix" "$version" \
        "srun: error: spank: /x/megatron.so: Incompatible Slurm plugin version (23.02.7)"
    doctor
    told "a plugin for another release" plugin fail 'no --megatron options: srun: error: spank: .*23\.02\.7'
    fake "slurm $version" "" "pmix" "$version"
    doctor
    told "no plugin" plugin fail 'srun has no --megatron options'$'\n'' +-> add the line of plugstack-megatron.conf'
    fake "slurm $version" "$opts" "none pmi2" "$version"
    doctor
    told "no PMIx" pmix fail 'srun --mpi=list has no pmix'
    fake "slurm $version" "$opts" "pmix" "$version" "" \
        'srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library'
    doctor
    told "no libpmix.so" pmix fail 'cannot load it: srun: error:.* can not load PMIx library'$'\n'' +-> install the libpmix.so'
    fake "slurm $version" "$opts" "pmix" ""
    doctor
    told "no controller" controller fail 'does not answer: slurm_load_ctl_conf error: Unable to contact'
    fake "slurm $version" "$opts" "pmix" "29.05.1"
    doctor
    told "a controller of another release" controller warn 'slurmctld is 29\.05\.1'
    fake "slurm $version" "$opts" "pmix" "$version" "" "" "(null)"
    doctor
    told "the MpiDefault of newer releases" mpi-default ok 'MpiDefault is none; with --megatron options'
    fake "slurm $version" "$opts" "pmix" "$version" "" 'srun: error: megatron: plugstack.conf: x is not a key'
    doctor
    told "a bad word in plugstack.conf" plugstack fail 'plugstack\.conf: x is not a key'
    fake "slurm $version" "$opts" "pmix" "$version"
    doctor --nodes n1,n2
    told "a step that does not run" step fail '0 of 2 nodes answered, srun ended with 3: srun: error: no nodes'

    # What two nodes print comes line by line, in any order.
    for node in n1 n2; do
        run env SLURMD_NODENAME=$node "$megatron" doctor --on-node "$("$megatron" --version | head -n 1)"
        echo "$out" >"$node.lines"
    done
    ok "[ \$(wc -l <n1.lines) -gt 1 ] && ! grep -qE '.{1000}' n1.lines" "a node prints short lines"
    { sed '$d' fake/srun | sed '$d'
      echo '    *--on-node*) paste -d "\n" n2.lines n1.lines; echo "doctor n3 0/2:{" ;;'
      echo esac; } >fake/mixed
    chmod +x fake/mixed
    mv fake/mixed fake/srun
    doctor --nodes n1,n2 --json
    is "$(grep -o '"where":"n[1-3]"' <<<"$out" | sort | tr '\n' ' ')" \
        '"where":"n1" "where":"n2" ' "lines of two nodes that are mixed are put together"
    doctor --nodes n1,n2
    told "which are alike" alike ok 'nothing that was found differs between the 2 nodes'

    # nodes N1=ROOT N2=ROOT: what the doctor then sees of both.
    nodes() {
        local pair
        for pair in "$@"; do
            run env SLURMD_NODENAME="${pair%=*}" MG_TEST_ROOT="$TEST_DIR/${pair#*=}" \
                PATH="$TEST_DIR/${pair#*=}/bin" "$megatron" doctor --on-node \
                "$("$megatron" --version | head -n 1)"
            echo "$out" >"${pair%=*}.lines"
        done
        doctor --nodes n1,n2
        between=$(sed -n '/^between nodes$/,$p' <<<"$out")
    }
    nodes n1=rack1 n2=rack1
    like "$between" '^between nodes'$'\n''  ok    alike ' "two nodes of one kind"
    nodes n1=rack1 n2=rack2
    like "$between" 'warn  driver       differs: NVIDIA driver 570\.86\.15 on n1; NVIDIA driver 535\.161\.08 on n2'$'\n'' +-> install one driver' \
        "nodes with different drivers" || diag "$between"
    like "$between" 'warn  gpus         differs: 4 x NVIDIA H100 80GB HBM3 on n1; 3 x NVIDIA H100 80GB HBM3 on n2' \
        "a node that has lost a GPU"
    like "$between" 'warn  links        differs: NVLink joins 6 of 6 pairs of GPUs on n1; none on n2' "and its links"
    like "$between" 'warn  nics         differs: mlx5_0 400 Gb/sec \(4X NDR\), mlx5_1 DOWN on n1; mlx5_0 200 ' \
        "a slower adapter"
    # report NODE DRIVER: the line of a node that has found a driver only
    report() {
        printf 'doctor %s 0/1:{"where": "%s", "checks": [{"check": "driver", "verdict": "ok", "text": "%s"}]}\n' \
            "$1" "$1" "$2"
    }
    report n2 'driver B' >n2.lines
    for ((i = 101; i <= 180; i++)); do
        report "node-$i" 'driver A'
    done >n1.lines
    doctor --nodes n1,n2
    like "$out" 'differs: driver B on n2; driver A on node-101, node-102, [^;]*, node-120 and 60 more'$'\n' \
        "a long list of nodes is cut between names, and the others are counted" || diag "$out"
    for ((i = 101; i <= 180; i++)); do
        report "node-$i" "driver $i"
    done >n1.lines
    doctor --nodes n1,n2
    like "$out" 'differs: driver B on n2; driver 101 on node-101; [^'$'\n'']*; driver 1[0-9]* on node-1[0-9]*; and [0-9]* others'$'\n' \
        "kinds of nodes that one line does not hold are counted" || diag "$out"
    {
        report n1 "driver $(printf '%300s' C | tr ' ' x)"
        report n4 'driver B'
    } >n1.lines
    doctor --nodes n1,n2
    like "$out" 'differs: driver x{190}\.\.\. on n1; driver B on n2, n4'$'\n' "a long finding is cut with a mark" \
        || diag "$out"
    printf '#!/bin/sh\necho "srun: error: no conf" >&2\nexit 1\n' > fake/srun
    doctor
    told "an srun that does not work" slurm fail 'does not work here: srun: error: no conf'
    printf '#!/bin/sh\nprintf "\\033[1m\\377\\n"\n' > fake/srun
    doctor --json
    is "$(LC_ALL=C grep -c '[^ -~]' <<<"$out")" 0 "bytes of a program that are no text are not handed on"
fi

# ---- a real one ------------------------------------------------------------------------

plugin=$MG_BUILDDIR/plugin/.libs/megatron.so
if [ ! -f "$plugin" ] || ! command -v srun >/dev/null; then
    diag "no plugin or no Slurm: the real one is left out"
    done_testing
fi
slurm_start 3 4
run "$megatron" doctor
is "$(verdict slurm) $(verdict plugin) $(verdict pmix) $(verdict controller) $(verdict plugstack)" \
    "ok ok ok ok ok" "a real Slurm"
is "$status:$(grep -c '^n[0-2]$' <<<"$out")" \
    "$(grep -q '^  fail' <<<"$out" && echo 1 || echo 0):0" "no node is looked at unasked"
run "$megatron" doctor --nodes 'n[0,2]'
is "$(grep -E '^n[0-2]$' <<<"$out" | sort | tr '\n' ' ')$(grep -cE '^  ok +plugin +the plugin gave this task' <<<"$out")" \
    "n0 n2 2" "two nodes, where the plugin is"
like "$out" $'\nbetween nodes\n  ok    alike ' "which are alike, being this machine"
is "$(grep -cE '^  ok +master +MASTER_ADDR 127\.0\.0\.1 is 127\.0\.0\.1' <<<"$out")" 2 \
    "whose MASTER_ADDR has an address"
printf '#!/bin/sh\nexec %s doctor --json\n' "$megatron" > job
run sbatch -W -N3 --ntasks-per-node=2 -o job.out job
is "$(grep -o '"where":"n[0-2]"' job.out | sort | tr '\n' ' ')" '"where":"n0" "where":"n1" "where":"n2" ' \
    "inside a job: its nodes, one task each"
echo "optional $plugin master_addr=%n.invalid" > "$SLURM_DIR/plugstack.conf"
run "$megatron" doctor --nodes n1
told "a MASTER_ADDR without an address" master warn \
    'MASTER_ADDR n1\.invalid has no address here: [^'$'\n'']+'$'\n'' +-> PyTorch programs wait for it'
echo "optional $plugin placement=maybe" > "$SLURM_DIR/plugstack.conf"
run "$megatron" doctor
told "a bad word in the real plugstack.conf" plugstack fail 'placement: "maybe" is not allow, warn or refuse'
echo "required $TEST_DIR/nowhere/megatron.so" > "$SLURM_DIR/plugstack.conf"
run "$megatron" doctor
told "a required plugin whose file is missing" slurm fail \
    'Failed to load plugin .*/nowhere/megatron\.so.*'$'\n'' +-> a plugin that plugstack\.conf requires does not load'
: > "$SLURM_DIR/plugstack.conf"
run "$megatron" doctor --nodes n1
is "$status:$(verdict plugin):$(verdict nodes)" "1:fail:warn" "no plugin in the real one"

# Nodes without the plugin, for a client that has it.
echo "optional $plugin" > plugstack.conf
sed "s|^PlugStackConfig=.*|PlugStackConfig=$TEST_DIR/plugstack.conf|" "$SLURM_CONF" > client.conf
run env SLURM_CONF="$TEST_DIR/client.conf" "$megatron" doctor --nodes n1
is "$status:$(verdict plugin)" "1:ok" "the plugin here"
like "$out" $'\nn1\n.*fail +plugin +the plugin gave this task nothing: it is not loaded on this node' \
    "but not on the node"
done_testing

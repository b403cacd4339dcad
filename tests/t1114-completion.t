#!/bin/bash
# bash completion: every option of the tables is offered, and no other; what Slurm's own
# completion offers stays as it is.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

file=$MG_SRCDIR/contrib/completion/megatron
megatron=$MG_BUILDDIR/megatron

# complete_line SETUP WORD...: in a new shell, what pressing tab behind the last word offers,
# one a line, sorted; COMP_WORDBREAKS has "=", as is usual.
complete_line() {
    local setup=$1
    shift
    bash --norc --noprofile -c '
        setup=$1; shift
        eval "$setup"
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        [[ $(complete -p "${1##*/}") =~ \ -F\ ([^\ ]+) ]] || exit 1
        "${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"
    ' bash "$setup" "$@" 2>&1 | sort -u | sed '/^$/d'
}
source="source '$file'"

# ---- megatron ------------------------------------------------------------------------

is "$(complete_line "$source" "$megatron" "")" "$({ "$megatron" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p'
    printf '%s\n' --help --version; } | sort -u)" "subcommands"
is "$(complete_line "$source" "$megatron" pl)" plan "a part of one"
count=0
# help_options WORD...: those of its help.
help_options() {
    "$megatron" "$@" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p'
}
# options WORD...: offered are those of its help, and of train's where that says so.
options() {
    local want
    want=$({ help_options "$@"; echo --help
        "$megatron" "$@" --help | grep -qE 'MODEL-ARGUMENT|arguments are those of megatron train' \
            && help_options train; } | sort -u)
    is "$(complete_line "$source" "$megatron" "$@" --)" "$want" "megatron $*: $(wc -l <<<"$want") options"
    count=$((count + $(wc -l <<<"$want")))
}
options train
options doctor
options generate
options serve
options eval
for command in plan data checkpoint; do
    parts=$("$megatron" $command --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
    is "$(complete_line "$source" "$megatron" $command "")" "$(sort -u <<<"$parts")" "parts of $command"
    for part in $parts; do
        options $command "$part"
    done
done
ok "[ $count -ge 150 ]" "$count options in all"
is "$(complete_line "$source" "$megatron" train --data-path x --tensor-m)" --tensor-model-parallel-size \
    "behind other words"
is "$(complete_line "$source" "$megatron" plan memory --exp-avg)" $'--exp-avg-dtype\n--exp-avg-sq-dtype' \
    "a model's, for its plan"
tasks=$("$megatron" eval --load x --valid-data x --task none 2>&1 \
    | grep -oE '\b[A-Z][A-Z0-9]{2,}\b' | sort -u)
ok "[ $(wc -l <<<"$tasks") -eq 5 ]" "the tasks of megatron eval: $(xargs <<<"$tasks")"
for command in eval "plan memory"; do
    read -ra words <<<"$command"
    is "$(complete_line "$source" "$megatron" "${words[@]}" --task "")" "$tasks" "$command: values"
    is "$(complete_line "$source" "$megatron" "${words[@]}" --task = W)" WIKITEXT103 "behind ="
    is "$(complete_line "$source" "$megatron" "${words[@]}" --task=)" "$tasks" \
        "where = breaks no words"
done
is "$(complete_line "$source" "$megatron" plan memory --tas)" --task "an evaluation's, for its plan"
is "$(complete_line "$source" "$megatron" generate --temperature 1 --softmax-type "")" \
    $'learnable\noff-by-one\nvanilla' "values of a model's"
is "$(complete_line "$source" "$megatron" train --moe-router-load-balancing-type s)" "" \
    "a list that the help has in two parts is left to the user"
is "$(complete_line "$source" "$megatron" train --load "")" "" "a file's name is left to the shell"
is "$(complete_line "$source" /nowhere/megatron "")" $'--help\n--version' "a command that is not there"

# ---- srun, sbatch, salloc --------------------------------------------------------------

# The table, from the source: names of struct option_info.
table=$(sed -n 's/^ *\.name = "\(megatron-[a-z]*\)".*/--\1=/p' "$MG_SRCDIR/plugin/options.c" | sort)
ok "[ $(wc -l <<<"$table") -ge 8 ]" "the plugin's table is read"
slurm='_fake() { COMPREPLY=($(compgen -W "--nodes= --ntasks= --mpi= word" -- "$2")); last="$*"; }
    complete -o nospace -F _fake srun sbatch salloc'
own=$'--mpi=\n--nodes=\n--ntasks='
for command in srun sbatch salloc; do
    is "$(complete_line "$slurm; $source" $command --)" "$(printf '%s\n' "$table" $own | sort)" \
        "$command: Slurm's options and ours"
    is "$(complete_line "$slurm; $source" $command "")" "$(printf '%s\n' $own word | sort)" \
        "$command: without a dash Slurm's alone"
done
is "$(complete_line "$slurm; $source" srun --n)" $'--nodes=\n--ntasks=' "a part of Slurm's"
is "$(complete_line "$slurm; $source" srun --megatron-p)" $'--megatron-placement=\n--megatron-pp=' "a part of ours"
is "$(complete_line "$slurm; $source" srun --megatron-placement = "")" $'allow\nrefuse\nwarn' "values of a policy"
is "$(complete_line "$slurm; $source" srun --megatron-placement =)" $'allow\nrefuse\nwarn' "right behind ="
is "$(complete_line "$slurm; $source" srun --megatron-placement re)" refuse "and behind a blank"
is "$(complete_line "$slurm; $source" srun --megatron-order=tp-cp-ep-p)" tp-cp-ep-pp-dp "where = breaks no words"
is "$(complete_line "$slurm; $source" srun --megatron-tp = "")" "" "a number is the user's"
is "$(complete_line "$slurm; $source" srun --nodes = "")" $'--mpi=\n--nodes=\n--ntasks=\nword' "values of Slurm's options are Slurm's"
is "$(bash --norc -c "$slurm; $source; complete -p srun")" 'complete -o nospace -F _megatron_slurm srun' \
    "Slurm's settings are kept"
is "$(bash --norc -c "$slurm; $source; $source; COMP_WORDS=(srun --x); COMP_CWORD=1; _megatron_slurm srun --n srun; echo \$last")" \
    "srun --n srun" "sourced twice: Slurm's function is called, with its arguments"
is "$(bash --norc -c "f() { $source; }; f; COMP_WORDS=(srun --megatron-v); COMP_CWORD=1; _megatron_slurm srun --megatron-v srun; echo \${COMPREPLY[*]}")" \
    --megatron-vpp= "sourced in a function, as bash-completion does; no completion of Slurm's"
for loader in _comp_load __load_completion; do
    late="$loader() { _fake() { COMPREPLY=(--late); }; complete -F _fake srun; }"
    is "$(complete_line "$late; $source" srun --)" "$(printf '%s\n' --late "$table" | sort)" \
        "Slurm's completion that comes with the first use ($loader)"
done
is "$(bash --norc -c "complete -W 'a b' srun; $source; complete -p srun")" "complete -W 'a b' srun" \
    "one that is no function stays"
is "$(bash --norc -uec "$slurm; $source" 2>&1)" "" "it can be sourced by a strict shell"

# Slurm's own file, where the system has it.
theirs=/usr/share/bash-completion/completions/slurm-wlm
base=/usr/share/bash-completion/bash_completion # which newer ones want
if [ -r "$base" ]; then theirs="$base; source $theirs"; fi
names=$(bash --norc -c "source $theirs; complete -p srun sbatch salloc" 2>/dev/null)
if [ -n "$names" ]; then
    ours=$(bash --norc -c "source $theirs; $source; complete -p srun sbatch salloc
        for f in \"\${_megatron_original[@]}\"; do echo \$f; done" 2>&1)
    is "$(sort <<<"$ours")" "$({ sed 's/-F [^ ]*/-F _megatron_slurm/' <<<"$names"
        sed 's/.*-F \([^ ]*\).*/\1/' <<<"$names"; } | sort)" "Slurm's own functions are found"
else
    skip 1 "Slurm's completion, or bash-completion that it needs, is not installed"
fi
done_testing

#!/bin/bash
# The megatron command itself: version, help, and what it says to a wrong start.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

run megatron --version
is "$status" 0 "--version succeeds"
like "$out" '^megatron [0-9]+\.[0-9]+' "--version tells our version"
like "$out" $'\nslurm (none|[0-9]+\.[0-9]+\.[0-9]+)$' "--version tells the Slurm version"

run megatron --help
is "$status" 0 "--help succeeds"
like "$out" '^Usage: megatron COMMAND' "--help tells the usage"

run megatron
is "$status" 2 "no command is a usage error"
like "$err" '^megatron: a command is missing' "and says so"

run megatron frobnicate
is "$status" 2 "an unknown command is a usage error"
is "$err" 'megatron: "frobnicate" is not a command, see megatron --help' "and says so"
is "$out" "" "nothing on standard output"

run megatron trian
is "$err" 'megatron: "trian" is not a command; did you mean train, see megatron --help' "a mistyped command"
run megatron plan memroy
is "$err" 'megatron: plan: "memroy" is not a part; did you mean memory, see megatron plan --help' \
    "a mistyped part"
run megatron plan groups --megatron-tp 2
is "$status:$err" '2:megatron: plan groups: unknown option "--megatron-tp"; did you mean --tp?; see megatron plan groups --help' \
    "the plugin's name of an option"
run megatron train --tp 2
is "$status:$err" '2:megatron train: --tp is no argument of megatron train: give --tensor-model-parallel-size N' \
    "a short name where megatron train's count"

if [ -w /dev/full ]; then
    status=0
    megatron --help >/dev/full 2>err || status=$?
    is "$status" 1 "output that cannot be written is a failure"
    is "$(cat err)" "megatron: standard output cannot be written: No space left on device" \
        "and says why"
else
    skip 2 "/dev/full is not there"
fi

# Ranks share standard error: a long line is one write, so that others' lines do not cut it.
name=/nowhere/$(printf 'x%.0s' {1..150})
run perl -MSocket -e '
    socketpair (my $ours, my $theirs, AF_UNIX, SOCK_SEQPACKET, 0) or die "no sockets: $!\n";
    if (fork == 0) {
        open (STDERR, ">&", $theirs) and exec @ARGV;
        die "not started: $!\n";
    }
    close ($theirs);
    while (sysread ($ours, my $record, 8192)) {
        chomp $record;
        print "record: $record\n";
    }' megatron checkpoint verify "$name"
is "$(grep -c '^record: ' <<<"$out")" 1 "a long error is one write" || diag "$out"
like "$out" "^record: megatron: checkpoint verify: .*$name" "with all that it has to say"
done_testing

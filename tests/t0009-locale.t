#!/bin/bash
# All code runs in the C locale (libcore/base/c_locale.h): what could make it run in another one.
. "${MG_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}/tests/lib/test.sh"

cd "$MG_SRCDIR" || bail_out "no source directory"

# uses WORDS FILE...: places that call one of the words, comments aside
uses() {
    local words=$1
    shift
    grep -rnE --include='*.[ch]' "\\<($words) *\\(" "$@" \
        | grep -vE '^[^:]*:[0-9]+: *(\*|/\*|//)'
}

is "$(uses 'setlocale|newlocale|uselocale|duplocale|freelocale|[a-z]+_l|localeconv' \
    libcore cmd kernels plugin | grep -v '^libcore/base/c_locale\.c:')" "" \
    "only c_locale.c deals with locales"
is "$(uses 'pthread_create|thrd_create' libcore cmd kernels plugin \
    | grep -vE '^libcore/(base/thread|bootstrap/boot_pmix)\.c:')" "" \
    "only thread_create() starts threads, but for one of a module that writes nothing"
is "$(uses exit_later libcore | wc -l) $(grep -cE 'printf|strto|scanf' \
    <(sed -n '/exit_later (void/,/^}/p' libcore/bootstrap/boot_pmix.c))" "1 0" \
    "which neither writes nor reads text"
ok "grep -q 'c_locale_enter ()' cmd/megatron.c" "the command enters the C locale"

# Public functions that read and write no text but errors, which mg_error_set() makes, or that only
# call others.
simple='
mg_version mg_axis_name mg_geometry_create mg_geometry_destroy mg_geometry_set_size
mg_geometry_world mg_geometry_size mg_geometry_virtual_stages
mg_group_kind_name mg_group_kind_by_name mg_grid_destroy mg_grid_world mg_grid_size mg_grid_coord
mg_grid_rank_at mg_grid_group_count mg_grid_group_size mg_grid_group_index mg_grid_group_rank
mg_grid_group_member
mg_job_rank mg_job_world mg_job_node mg_job_num_nodes mg_job_local_rank mg_job_local_size
mg_job_coord mg_job_grid mg_job_comm mg_job_device
mg_sampling_probabilities mg_generator_create mg_generator_vocab_size mg_generator_has_room
mg_generator_cancel
mg_train_status mg_train_should_report mg_train_set_samples mg_train_fill mg_train_stop
mg_train_rank mg_train_world mg_train_iteration
mg_train_read_param mg_train_read_part mg_train_write_param mg_train_write_part
mg_comm_rank mg_comm_size mg_comm_name mg_comm_all_reduce mg_comm_reduce_scatter mg_comm_all_gather
mg_comm_broadcast mg_comm_all_to_all mg_comm_all_to_allv mg_comm_barrier mg_comm_send mg_comm_recv mg_comm_p2p
mg_comm_get_stats mg_comm_abort mg_dtype_size mg_dtype_name
mg_stream_create mg_stream_destroy mg_stream_synchronize mg_stream_wait_event
mg_event_create mg_event_destroy mg_event_record mg_event_synchronize
mg_error_set mg_error_prefix
'
# outside FOLDER HEAD NAME...: functions whose head is HEAD and that do not enter the C locale
outside() {
    find "$1" -name '*.c' | sort | xargs awk -v head="$2" -v simple="${*:3}" '
        BEGIN { n = split(simple, names); for (i = 1; i <= n; i++) known[names[i]] = 1 }
        $0 ~ "^[a-z].*" head "[a-z0-9_]+ \\(" && !/^static|;$/ {
            match($0, head "[a-z0-9_]+ \\(")
            name = substr($0, RSTART, RLENGTH - 2); entered = 0
        }
        /[ _]enter \(/ { entered = 1 } # c_locale_enter(), or a call of it
        /^}/ && name != "" {
            if (!entered && !(name in known)) print FILENAME ": " name
            count++; name = ""
        }
        END { if (count < 5) print "functions are not found" }'
}
is "$(outside libcore mg_ $simple)" "" "public functions enter the C locale"
is "$(outside plugin slurm_spank_)" "" "hooks of the plugin enter it"
is "$(uses 'f?printf|sn?printf|strto[a-z]+|s?scanf|is(space|digit|print|alpha)|to(lower|upper)|strn?casecmp|json_[a-z]+' \
    libcore/api | grep -v '"%d"\|tell_report\|"megatron: %s')" "" \
    "and write or read no text themselves"
done_testing

/* kernels_cpu.c - the CPU backend: which code it runs, create and destroy
 *
 * The kernels are compiled once for the base level and, on x86-64, for the levels v3 and v4; the
 * best level of the processor is chosen when the backend is made.  This file also keeps the
 * scratch memory, and sets the floating-point mode of the threads.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "libcore/base/flush.h"

/* the tables of one compilation; here are all of them */
#undef cpu_ops

extern const struct kern_ops cpu_ops_base, cpu_ops_v3, cpu_ops_v4;

static bool is_usable_base (void)
{
    return true;
}

#if HAVE_ISA_V3
/* Instructions that stand for the whole level: no processor has these and lacks F16C or MOVBE. */
static bool is_usable_v3 (void)
{
    return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma")
           && __builtin_cpu_supports ("bmi") && __builtin_cpu_supports ("bmi2");
}
#endif

#if HAVE_ISA_V4
static bool is_usable_v4 (void)
{
    return is_usable_v3 () && __builtin_cpu_supports ("avx512f")
           && __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512cd")
           && __builtin_cpu_supports ("avx512dq") && __builtin_cpu_supports ("avx512vl");
}
#endif

/* The best first. */
static const struct cpu_isa isas[] = {
#if HAVE_ISA_V4
    { "v4", is_usable_v4, &cpu_ops_v4 },
#endif
#if HAVE_ISA_V3
    { "v3", is_usable_v3, &cpu_ops_v3 },
#endif
    { "base", is_usable_base, &cpu_ops_base },
};

static const struct cpu_gemm *const gemms[] = {
#if HAVE_ONEDNN
    &cpu_gemm_onednn,
#endif
    NULL,
};

const struct cpu_isa *cpu_isa_get (size_t i)
{
    return i < sizeof (isas) / sizeof (isas[0]) ? &isas[i] : NULL;
}

const char *kernels_cpu_isa (const struct kernels *k)
{
    return cpu_of (k)->isa->name;
}

/* Threads that OpenMP makes later inherit the mode from the one that makes them. */
void kernels_cpu_enter (struct kernels *k)
{
    struct cpu *cpu = cpu_of (k);
    uint64_t own;

    if (cpu->entered++ > 0)
        return;
    own = flush_mode ();
    for (int i = 0; i < cpu->threads; i++)
        cpu->modes[i] = own; // of threads that OpenMP does not give us now
#pragma omp parallel num_threads (cpu->threads)
    cpu->modes[cpu_thread ()] = flush_begin ();
}

void kernels_cpu_leave (struct kernels *k)
{
    struct cpu *cpu = cpu_of (k);
    int saved_errno = errno;

    if (--cpu->entered > 0)
        return;
    flush_end (cpu->modes[0]); // first: threads that OpenMP makes now inherit it
#pragma omp parallel num_threads (cpu->threads)
    flush_end (cpu->modes[cpu_thread ()]);
    errno = saved_errno;
}

void kernels_cpu_each_thread (struct kernels *k, void (*fn) (void *arg), void *arg)
{
    struct cpu *cpu = cpu_of (k);

#pragma omp parallel num_threads (cpu->threads)
    fn (arg);
    (void)cpu; // where there is no OpenMP
}

/* The scratch memory that was given for a stream; NULL: none. */
static struct cpu_scratch *find_given (struct cpu *cpu, const struct mg_stream *stream)
{
    for (int i = 0; i < cpu->num_given; i++) {
        if (cpu->given[i].stream == stream)
            return &cpu->given[i];
    }
    return NULL;
}

void *cpu_scratch (const struct kernels *k, size_t size, struct mg_error *err)
{
    struct cpu *cpu = cpu_of (k);
    const struct cpu_scratch *given = find_given (cpu, cpu->stream);
    void *memory;

    if (given && size > given->size) {
        mg_error_set (err, ENOMEM, "cpu kernels: %zu bytes of scratch are needed, %zu were"
                      " planned", size, given->size);
        return NULL;
    }
    if (given)
        return given->memory;
    if (size <= cpu->own.size)
        return cpu->own.memory;
    if (size > SIZE_MAX - 63
        || !(memory = aligned_alloc (64, (size + 63) / 64 * 64))) {
        mg_error_set (err, ENOMEM, "cpu kernels: no memory for %zu bytes of scratch",
                      size);
        return NULL;
    }
    free (cpu->own.memory);
    cpu->own = (struct cpu_scratch){ .memory = memory, .size = size };
    return memory;
}

int kernels_cpu_set_scratch (struct kernels *k, const struct mg_stream *stream, void *memory,
                             size_t size, struct mg_error *err)
{
    struct cpu *cpu = cpu_of (k);
    struct cpu_scratch *given = find_given (cpu, stream);

    if (!memory) {
        if (given)
            *given = cpu->given[--cpu->num_given];
        return 0;
    }
    if (!given && cpu->num_given == KERN_SCRATCH_STREAMS)
        return mg_error_set (err, ENOSPC, "cpu kernels: scratch for more than %d streams",
                             KERN_SCRATCH_STREAMS);
    given = given ? given : &cpu->given[cpu->num_given++];
    *given = (struct cpu_scratch){ stream, memory, size };
    return 0;
}

void kernels_cpu_destroy (struct kernels *k)
{
    if (k) {
        int saved_errno = errno;
        struct cpu *cpu = cpu_of (k);

        if (cpu) {
            if (cpu->gemm_impl)
                cpu->gemm->destroy (cpu->gemm_impl);
            free (cpu->own.memory);
        }
        if (cpu)
            free (cpu->modes);
        free (cpu);
        free (k);
        errno = saved_errno;
    }
}

struct kernels *cpu_create (int threads, const struct cpu_isa *isa, enum cpu_library library,
                            struct mg_error *err)
{
    struct kernels *k;
    struct cpu *cpu;

    if (threads < 1) {
        mg_error_set (err, EINVAL, "cpu kernels: %d threads, want at least 1", threads);
        return NULL;
    }
    if (!(k = calloc (1, sizeof (*k))) || !(k->impl = calloc (1, sizeof (*cpu)))) {
        mg_error_set (err, ENOMEM, "cpu kernels: out of memory");
        goto error;
    }
    k->ops = isa->ops;
    cpu = cpu_of (k);
    if (!(cpu->modes = calloc ((size_t)threads, sizeof (*cpu->modes)))) {
        mg_error_set (err, ENOMEM, "cpu kernels: out of memory");
        goto error;
    }
    cpu->threads = threads;
    cpu->isa = isa;
    cpu->gemm = library == CPU_NO_LIBRARY ? NULL : gemms[0];
    if (cpu->gemm
        && !(cpu->gemm_impl
             = cpu->gemm->create (threads, library == CPU_LIBRARY_ALWAYS, err)))
        goto error;
    return k;
error:
    kernels_cpu_destroy (k);
    return NULL;
}

static const struct cpu_isa *best_isa (void)
{
    const struct cpu_isa *isa = isas;

    while (!isa->usable ()) /* the last one always is */
        isa++;
    return isa;
}

struct kernels *kernels_cpu_create (int threads, struct mg_error *err)
{
    return cpu_create (threads, best_isa (), CPU_LIBRARY, err);
}

struct kernels *kernels_cpu_create_light (int threads, struct mg_error *err)
{
    return cpu_create (threads, best_isa (), CPU_NO_LIBRARY, err);
}

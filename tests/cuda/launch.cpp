/* launch.cpp - the engine: blocks one after the other, the threads of a block as fibers
 *
 * A round resumes each fiber that is ready, in the order that MG_CUDA_THREADS asks for.  A fiber
 * leaves when it waits for a barrier or for lanes of its warp, or when its thread ends, and goes on
 * with the next one of the round.  The last one to arrive makes the others ready.  If a round
 * resumes nobody, the threads that are left wait for each other in vain, and the kernel fails.
 *
 * Shared memory ends at a guard page, and is 0xff (a NaN) before each block.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tests/cuda/watch.h"

#ifndef __x86_64__
#error "the double of CUDA switches fibers on x86-64 only"
#endif

/* Save the callee's registers and the stack pointer at *save; go on where 'to' was saved.  It ends
 * with a jump: the processor would predict a return to the caller, which is wrong each time.
 */
extern "C" void launch_switch (void **save, void *to);
asm(".text\n"
    ".type launch_switch, @function\n"
    ".globl launch_switch\n"
    ".hidden launch_switch\n"
    "launch_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n"
    "    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    popq %rcx\n    jmp *%rcx\n"
    ".size launch_switch, .-launch_switch\n");

__thread struct launch_thread *launch_self;
__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

enum { STACK = 128 << 10, PAGE = 4096, SHARED = 256 << 10, STATIC = 64 << 10, RED_ZONE = 16 };
enum { BAD_ACCESS = 700, BAD_ALIGNMENT = 716, BAD_LAUNCH = 719 }; /* of cudaError_t */

enum fiber_state { FIBER_READY, FIBER_BARRIER, FIBER_WARP, FIBER_DONE };

/* One cp.async. */
struct copy {
    char *to;
    const char *from;
    unsigned bytes, valid;
    unsigned group;
};

struct fiber {
    struct launch_thread self; /* the first field: launch_self points to it */
    void *sp;
    char *stack; /* STACK bytes; the first PAGE of them is a guard page */
    enum fiber_state state;
    const char *what, *file; /* what it waits for */
    int line;
    int predicate;
    unsigned mask;
    void *cell;
    launch_combine_f combine;
    std::vector<copy> copies;
    unsigned group; /* of the next copy */
};

struct piece {
    char *memory;
    size_t size;
};

/* What a host thread needs to run kernels.  Made at the first launch of the thread. */
struct engine {
    std::vector<std::unique_ptr<fiber>> fibers;
    std::vector<unsigned> order;
    unsigned next; /* position in 'order' of the next fiber of this round */
    /* A bit a lane of each warp: it has not ended; it waits for other lanes of the warp. */
    unsigned alive[LAUNCH_MAX_THREADS / 32], asleep[LAUNCH_MAX_THREADS / 32];
    char *shared, *statics; /* each with a guard page behind */
    void *sp;               /* of the scheduler */
    const struct launch_request *request;
    const struct launch_kernel *kernel;
    unsigned count, live, waiting; /* threads of the block; not ended; at a barrier */
    int sum;                       /* of the barrier's predicates */
    std::map<const void *, piece> pieces;
    size_t static_used;
    int error;
    uint64_t seed;

    engine ();
    ~engine ();
};

static thread_local std::unique_ptr<engine> own;
static thread_local char reason[600];

static char *map_memory (size_t size)
{
    void *p = mmap (nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED) {
        perror ("launch: mmap");
        abort ();
    }
    return (char *)p;
}

/* Memory whose end is the end of what may be accessed. */
static char *map_guarded (size_t size)
{
    char *p = map_memory (size + PAGE);

    mprotect (p + size, PAGE, PROT_NONE);
    return p;
}

engine::engine ()
{
    const char *text = getenv ("MG_CUDA_THREADS");

    shared = map_guarded (SHARED);
    statics = map_guarded (STATIC);
    seed = text ? strtoull (text, nullptr, 10) : 0;
}

engine::~engine ()
{
    for (auto &f : fibers)
        munmap (f->stack, STACK);
    munmap (shared, SHARED + PAGE);
    munmap (statics, STATIC + PAGE);
}

static uint64_t next_random (uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The order of 'n' things: see the top of launch.h. */
static void make_order (engine *e, std::vector<unsigned> *order, unsigned n)
{
    order->resize (n);
    for (unsigned i = 0; i < n; i++)
        (*order)[i] = e->seed == 1 ? n - 1 - i : i;
    if (e->seed > 1)
        for (unsigned i = n; i > 1; i--)
            std::swap ((*order)[i - 1], (*order)[next_random (&e->seed) % i]);
}

/* Descriptions of kernels. */
static std::mutex table_lock;
static std::unordered_map<const void *, struct launch_kernel> &table ()
{
    static auto *t = new std::unordered_map<const void *, struct launch_kernel>;

    return *t;
}

void launch_describe (const void *kernel, const struct launch_kernel *description)
{
    std::lock_guard<std::mutex> hold (table_lock);

    table ().emplace (kernel, *description);
}

const struct launch_kernel *launch_find (const void *kernel)
{
    std::lock_guard<std::mutex> hold (table_lock);
    auto found = table ().find (kernel);

    return found == table ().end () ? nullptr : &found->second;
}

const char *launch_reason (void)
{
    return reason;
}

bool launch_is_device (void)
{
    return launch_self != nullptr;
}

static fiber *current ()
{
    return (fiber *)launch_self;
}

static fiber *fiber_of (engine *e, unsigned linear)
{
    return e->fibers[linear].get ();
}

/* The next fiber of this round becomes the current one; NULL if there is none. */
static fiber *take_next (engine *e)
{
    while (e->next < e->count && !e->error) {
        fiber *f = fiber_of (e, e->order[e->next++]);

        if (f->state == FIBER_READY) {
            launch_self = &f->self;
            threadIdx = f->self.index;
            return f;
        }
    }
    launch_self = nullptr;
    return nullptr;
}

/* From a fiber to the next one, or to the scheduler. */
static void leave (fiber *f)
{
    engine *e = own.get ();
    fiber *next = take_next (e);

    launch_switch (&f->sp, next ? next->sp : e->sp);
}

static void say (int error, const char *text)
{
    const struct launch_thread *t = launch_self;
    size_t n = (size_t)snprintf (reason, sizeof (reason), "%s: ", own->kernel->name);

    if (t && n < sizeof (reason))
        n += (size_t)snprintf (reason + n, sizeof (reason) - n,
                               "block (%u,%u,%u) thread (%u,%u,%u): ", blockIdx.x, blockIdx.y,
                               blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    if (n < sizeof (reason))
        snprintf (reason + n, sizeof (reason) - n, "%s", text);
    fprintf (stderr, "cuda double: error %d: %s\n", error, reason);
    own->error = error;
}

void launch_fail (int error, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start (ap, fmt);
    vsnprintf (text, sizeof (text), fmt, ap);
    va_end (ap);
    say (error, text);
    leave (current ());
    abort (); // nobody resumes a fiber of a failed kernel
}

void launch_fault (const void *address)
{
    if (launch_self)
        launch_fail (BAD_ACCESS, "access of %p, which is not device memory", address);
}

/* Barriers and warps. */

static bool is_same (const char *a, const char *b)
{
    return a == b || strcmp (a, b) == 0;
}

int launch_barrier (int predicate, const char *what, const char *file, int line)
{
    engine *e = own.get ();
    fiber *f = current ();

    if (e->waiting == 0)
        e->sum = 0;
    f->what = what;
    f->file = file;
    f->line = line;
    f->state = FIBER_BARRIER;
    e->sum += predicate != 0;
    if (++e->waiting < e->count) {
        leave (f);
        return f->predicate;
    }
    for (unsigned i = 0; i < e->count; i++) {
        fiber *other = fiber_of (e, i);

        if (other->line != line || !is_same (other->file, file))
            launch_fail (BAD_LAUNCH, "%s of %s:%d meets %s of %s:%d", what, file, line,
                         other->what, other->file, other->line);
        other->state = FIBER_READY;
        other->predicate = e->sum;
    }
    e->waiting = 0;
    watch_barrier ();
    return f->predicate;
}

/* Whether all lanes of the mask of 'f' wait for what it waits for; fails if one can never come. */
static bool are_all_here (engine *e, fiber *f)
{
    unsigned warp = f->self.warp, ended = f->mask & ~e->alive[warp];

    if (ended)
        launch_fail (BAD_LAUNCH, "%s of %s:%d with mask %08x: lane %d has ended or does not exist",
                     f->what, f->file, f->line, f->mask, __builtin_ctz (ended));
    if (f->mask & ~e->asleep[warp])
        return false;
    for (unsigned lane = 0; lane < 32; lane++) {
        const fiber *other = f->mask >> lane & 1 ? fiber_of (e, warp * 32 + lane) : f;

        if (other->mask != f->mask || !is_same (other->what, f->what))
            return false;
    }
    return true;
}

void launch_warp (unsigned mask, void *cell, launch_combine_f combine, const char *what,
                  const char *file, int line)
{
    engine *e = own.get ();
    fiber *f = current ();
    f->what = what;
    f->file = file;
    f->line = line;
    f->mask = mask;
    f->cell = cell;
    f->combine = combine;
    f->state = FIBER_WARP;
    if (!(mask >> f->self.lane & 1))
        launch_fail (BAD_LAUNCH, "%s of %s:%d with mask %08x: the caller's lane %u is not in it",
                     what, file, line, mask, f->self.lane);
    e->asleep[f->self.warp] |= 1u << f->self.lane;
    if (!are_all_here (e, f)) {
        leave (f);
        return;
    }
    e->asleep[f->self.warp] &= ~mask;

    void *cells[32] = {};

    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) {
            fiber *other = fiber_of (e, f->self.warp * 32 + lane);

            if (other->combine != combine)
                launch_fail (BAD_LAUNCH, "%s of %s:%d meets one of %s:%d of another type", what,
                             file, line, other->file, other->line);
            cells[lane] = other->cell;
            other->state = FIBER_READY;
        }
    combine (cells, mask);
    watch_warp (f->self.warp, mask);
}

/* Shared memory. */

static size_t round_up (size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static char *dynamic_start (engine *e)
{
    return e->shared + SHARED - round_up (e->request->shared, 16);
}

void *launch_shared_dynamic (void)
{
    return dynamic_start (own.get ());
}

void *launch_shared_static (const void *key, size_t size)
{
    engine *e = own.get ();
    auto found = e->pieces.find (key);

    if (found != e->pieces.end ())
        return found->second.memory;
    e->static_used += round_up (size, 16) + RED_ZONE;
    if (e->static_used > 48 << 10)
        launch_fail (BAD_LAUNCH, "more than 48 KiB of static shared memory");
    piece p = { e->statics + STATIC - e->static_used, size };
    memset (p.memory, 0xff, round_up (size, 16) + RED_ZONE);
    e->pieces[key] = p;
    return p.memory;
}

static bool is_within (const void *address, const void *base, size_t size)
{
    return (const char *)address >= (const char *)base
           && (const char *)address < (const char *)base + size;
}

bool launch_shared_bounds (const void *address, const void **base, size_t *size)
{
    engine *e = own.get ();

    *base = dynamic_start (e);
    *size = e->request->shared;
    if (is_within (address, e->shared, SHARED + PAGE))
        return true;
    if (!is_within (address, e->statics, STATIC + PAGE))
        return false;
    *size = 0;
    for (auto &p : e->pieces)
        if (is_within (address, p.second.memory, p.second.size)) {
            *base = p.second.memory;
            *size = p.second.size;
        }
    return true;
}

bool launch_is_stack (const void *address)
{
    return is_within (address, current ()->stack, STACK);
}

/* cp.async: the source is read, and the bytes arrive, as late as the program allows. */

void launch_copy_async (void *shared, const void *global, unsigned bytes, unsigned valid,
                        const char *file, int line)
{
    fiber *f = current ();
    const void *base;
    size_t size;

    if (bytes != 4 && bytes != 8 && bytes != 16)
        launch_fail (BAD_LAUNCH, "cp.async of %s:%d: %u bytes", file, line, bytes);
    if ((uintptr_t)shared % bytes || (valid && (uintptr_t)global % bytes))
        launch_fail (BAD_ALIGNMENT, "cp.async of %s:%d: %u bytes from %p to %p", file, line, bytes,
                     global, shared);
    if (valid > bytes || !launch_shared_bounds (shared, &base, &size))
        launch_fail (BAD_ACCESS, "cp.async of %s:%d to %p, which is not shared memory", file, line,
                     shared);
    launch_note_access (shared, bytes, LAUNCH_WRITE);
    memset (shared, 0xff, bytes);
    f->copies.push_back ({ (char *)shared, (const char *)global, bytes, valid, f->group });
}

void launch_copy_commit (void)
{
    current ()->group++;
}

void launch_copy_wait (unsigned groups_left)
{
    fiber *f = current ();
    size_t done = 0;

    while (done < f->copies.size () && f->copies[done].group + groups_left < f->group) {
        const copy &c = f->copies[done++];

        if (c.valid)
            launch_note_access (c.from, c.valid, LAUNCH_READ);
        launch_note_access (c.to, c.bytes, LAUNCH_WRITE);
        memcpy (c.to, c.from, c.valid);
        memset (c.to + c.valid, 0, c.bytes - c.valid);
    }
    f->copies.erase (f->copies.begin (), f->copies.begin () + (long)done);
}

/* Blocks. */

static void run_fiber ()
{
    fiber *f = current ();

    own->kernel->call (own->request->kernel, own->request->args);
    f->state = FIBER_DONE;
    own->live--;
    own->alive[f->self.warp] &= ~(1u << f->self.lane);
    leave (f);
    abort ();
}

static void prepare_fiber (fiber *f)
{
    void **top = (void **)(f->stack + STACK - 64);

    /* run_fiber() starts as if called: its stack pointer is 8 below a multiple of 16. */
    *--top = nullptr;
    *--top = (void *)run_fiber;
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    f->sp = top;
    f->state = FIBER_READY;
    f->copies.clear ();
    f->group = 0;
    f->line = 0;
    f->what = f->file = "";
}

static void add_fibers (engine *e, unsigned count)
{
    while (e->fibers.size () < count) {
        std::unique_ptr<fiber> f (new fiber ());

        f->stack = map_memory (STACK);
        mprotect (f->stack, PAGE, PROT_NONE);
        e->fibers.push_back (std::move (f));
    }
}

static void prepare_block (engine *e, uint3 block)
{
    const unsigned *size = e->request->block;

    for (unsigned i = 0; i < e->count; i++) {
        fiber *f = fiber_of (e, i);

        f->self.index = make_uint3 (i % size[0], i / size[0] % size[1], i / size[0] / size[1]);
        f->self.linear = i;
        f->self.lane = i % 32;
        f->self.warp = i / 32;
        prepare_fiber (f);
    }
    blockIdx = block;
    blockDim = make_uint3 (size[0], size[1], size[2]);
    gridDim = make_uint3 (e->request->grid[0], e->request->grid[1], e->request->grid[2]);
    e->live = e->count;
    e->waiting = 0;
    memset (e->alive, 0, sizeof (e->alive));
    memset (e->asleep, 0, sizeof (e->asleep));
    for (unsigned i = 0; i < e->count; i++)
        e->alive[i / 32] |= 1u << i % 32;
    e->pieces.clear ();
    e->static_used = 0;
    memset (dynamic_start (e), 0xff, round_up (e->request->shared, 16));
}

/* A line for each place where threads wait that will never go on. */
static void report_stuck (engine *e)
{
    std::map<std::pair<std::pair<const char *, int>, std::pair<const char *, unsigned>>, unsigned>
        places;
    char text[400] = "";
    size_t n = 0;

    for (unsigned i = 0; i < e->count; i++) {
        const fiber *f = fiber_of (e, i);

        if (f->state != FIBER_DONE)
            places[{ { f->file, f->line }, { f->what, f->state == FIBER_WARP ? f->mask : 0 } }]++;
    }
    n += (size_t)snprintf (text, sizeof (text), "threads wait for each other: %u of %u have ended",
                           e->count - e->live, e->count);
    for (auto &p : places)
        if (n < sizeof (text))
            n += (size_t)snprintf (text + n, sizeof (text) - n, "; %u in %s of %s:%d", p.second,
                                   p.first.second.first, p.first.first.first, p.first.first.second);
    say (BAD_LAUNCH, text);
}

static void run_block (engine *e, uint3 block)
{
    prepare_block (e, block);
    watch_block_begin ();
    while (e->live > 0 && !e->error) {
        if (e->order.size () != e->count || e->seed > 1)
            make_order (e, &e->order, e->count);
        e->next = 0;

        fiber *first = take_next (e);

        if (first)
            launch_switch (&e->sp, first->sp);
        else
            report_stuck (e);
    }
    if (!e->error)
        watch_block_end ();
}

static launch_tell_f tell_launch;

void launch_tell (launch_tell_f tell)
{
    tell_launch = tell;
}

int launch_run (const struct launch_request *r)
{
    engine *e;
    std::vector<unsigned> order;

    reason[0] = '\0';
    if (!own)
        own.reset (new engine ());
    e = own.get ();
    e->request = r;
    e->kernel = launch_find (r->kernel);
    e->error = 0;
    e->count = r->block[0] * r->block[1] * r->block[2];
    if (!e->kernel) {
        snprintf (reason, sizeof (reason), "no kernel is known at %p", r->kernel);
        return cudaErrorInvalidDeviceFunction;
    }
    if (e->count == 0 || e->count > LAUNCH_MAX_THREADS || r->shared > SHARED) {
        snprintf (reason, sizeof (reason), "%s: %u threads, %zu bytes of shared memory",
                  e->kernel->name, e->count, r->shared);
        return cudaErrorInvalidConfiguration;
    }
    if (tell_launch)
        tell_launch (r);
    add_fibers (e, e->count);
    make_order (e, &order, r->grid[0] * r->grid[1] * r->grid[2]);
    watch_launch_begin (r);
    for (size_t i = 0; i < order.size () && !e->error; i++)
        run_block (e, make_uint3 (order[i] % r->grid[0], order[i] / r->grid[0] % r->grid[1],
                                  order[i] / r->grid[0] / r->grid[1]));
    watch_launch_end ();
    return e->error;
}

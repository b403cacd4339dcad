/* watch.cpp - answers the calls of code that gcc instruments with -fsanitize=thread
 *
 * A cell remembers the last write and the last read of a byte in this launch.  Cells are made in
 * pages when they are first needed.
 */

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/cuda/watch.h"

/* Who accessed a byte, and when. */
struct stamp {
    uint32_t launch; /* of an earlier one: nobody has accessed it in this launch */
    uint32_t block;
    uint32_t barrier; /* barriers of the block before */
    uint32_t sync;    /* warp operations of this lane before */
    uint16_t thread;
    bool atomic;
};

struct cell {
    struct stamp write, read, read_before; /* the last two readers are different threads */
    uint32_t warps;   /* warps that have read it since the barrier of the last read */
    bool many_blocks; /* several blocks have read it in the launch of the last read */
};

enum { PAGE_BITS = 9, PAGE_BYTES = 1 << PAGE_BITS, SECTOR = 32, BANKS = 32 };

struct page {
    struct cell cells[PAGE_BYTES];
};

/* The accesses of a warp's lanes that one place of the code makes at the same time. */
struct request_key {
    const void *place;
    uint32_t warp, turn;

    bool operator== (const request_key &o) const
    {
        return place == o.place && warp == o.warp && turn == o.turn;
    }
};
struct request_hash {
    size_t operator() (const request_key &k) const
    {
        return ((uintptr_t)k.place * 31 + k.warp) * 1000003 + k.turn;
    }
};
struct lane_access {
    uintptr_t at;
    uint8_t size, lane;
    enum launch_access access;
};

struct watch {
    const struct launch_request *request;
    bool on; /* the kernel is instrumented: it has called us */
    uint32_t launch, block, barrier;
    uint32_t syncs[LAUNCH_MAX_THREADS];
    /* syncs[i] when lane i last met lane j, index i * 32 + j % 32 */
    std::vector<uint32_t> met;
    std::unordered_map<uintptr_t, std::unique_ptr<page>> pages;
    struct page *found; /* the page used last, of the bytes from found_at << PAGE_BITS on */
    uintptr_t found_at;
    const void *base; /* the allocation found last */
    size_t size;
    std::unordered_map<request_key, std::vector<lane_access>, request_hash> requests;
    std::unordered_map<uint64_t, uint32_t> turns;
    std::unordered_set<uintptr_t> read_sectors, written_sectors; /* of this launch */
};

static thread_local std::unique_ptr<watch> own;

static struct {
    std::atomic<uint64_t> read_bytes, written_bytes, requests, sectors, memory_sectors,
        shared_requests, wavefronts, least_wavefronts, exps, mma;
} counts;

static std::atomic<bool> counting;

void launch_count (struct launch_counts *c)
{
    counting = false;
    *c = { counts.read_bytes, counts.written_bytes, counts.requests, counts.sectors,
           counts.memory_sectors, counts.shared_requests, counts.wavefronts,
           counts.least_wavefronts, counts.exps, counts.mma };
}

void launch_count_reset (void)
{
    counts.read_bytes = counts.written_bytes = counts.requests = counts.sectors = 0;
    counts.memory_sectors = counts.shared_requests = counts.wavefronts = 0;
    counts.least_wavefronts = counts.exps = counts.mma = 0;
    counting = true;
}

void launch_note_exp (void)
{
    counts.exps.fetch_add (1, std::memory_order_relaxed);
}

void launch_note_mma (void)
{
    counts.mma.fetch_add (1, std::memory_order_relaxed);
}

void watch_launch_begin (const struct launch_request *request)
{
    if (!own)
        own.reset (new watch ());
    own->request = request;
    own->on = false;
    own->launch++;
    own->block = 0;
    own->size = 0;
    if (own->pages.size () > 1 << 16) {
        own->pages.clear ();
        own->found = nullptr;
    }
}

void watch_launch_end (void)
{
    own->requests.clear ();
    own->turns.clear ();
    counts.memory_sectors += own->read_sectors.size () + own->written_sectors.size ();
    own->read_sectors.clear ();
    own->written_sectors.clear ();
}

/* No lane of the block has met another one. */
static void forget_warps (watch *w)
{
    const unsigned *size = w->request->block;
    unsigned count = size[0] * size[1] * size[2];

    std::fill_n (w->syncs, count, 0);
    w->met.assign (count * 32, 0);
}

void watch_block_begin (void)
{
    own->block++;
    own->barrier = 0;
    if (own->on)
        forget_warps (own.get ());
}

void watch_barrier (void)
{
    own->barrier++;
}

void watch_warp (unsigned warp, unsigned mask)
{
    watch *w = own.get ();

    if (!w->on)
        return;
    for (unsigned i = 0; i < 32; i++)
        if (mask >> i & 1)
            w->syncs[warp * 32 + i]++;
    for (unsigned i = 0; i < 32; i++)
        for (unsigned j = 0; j < 32; j++)
            if (mask >> i & mask >> j & 1)
                w->met[(warp * 32 + i) * 32 + j] = w->syncs[warp * 32 + j];
}

/* True if an earlier access is ordered before what the running thread does now.  'shared': the
 * memory is the block's, so what other blocks did there was somewhere else.
 */
static bool is_ordered (const watch *w, const struct stamp *s, bool shared)
{
    const struct launch_thread *t = launch_self;

    if (s->launch != w->launch)
        return true;
    if (s->block != w->block)
        return shared;
    if (s->thread == t->linear || s->barrier < w->barrier)
        return true;
    return s->thread / 32 == t->warp && s->sync < w->met[t->linear * 32 + s->thread % 32];
}

static void fail_race (const void *ptr, const char *now, const char *before, const struct stamp *s)
{
    launch_fail (cudaErrorLaunchFailure,
                 "race: %s of %p and an earlier %s by thread %u of %s are not ordered", now, ptr,
                 before, (unsigned)s->thread,
                 s->block == own->block ? "the same block" : "another block");
}

static void note_read (struct cell *c, const struct stamp *now)
{
    bool launch = c->read.launch == now->launch, block = launch && c->read.block == now->block;

    if (!block || c->read.barrier != now->barrier)
        c->warps = 0;
    c->many_blocks = launch && (c->many_blocks || !block);
    c->warps |= 1u << now->thread / 32;
    if (!block || c->read.thread != now->thread)
        c->read_before = c->read;
    c->read = *now;
}

/* A reader of the cell that nothing orders before the running thread, or NULL. */
static const struct stamp *unordered_reader (const watch *w, const struct cell *c,
                                            bool shared)
{
    if (c->read.launch != w->launch)
        return nullptr;
    if (!is_ordered (w, &c->read, shared) || (c->many_blocks && !shared))
        return &c->read;
    if (c->read.block == w->block && c->read.barrier == w->barrier
        && c->warps & ~(1u << launch_self->warp))
        return &c->read;
    return is_ordered (w, &c->read_before, shared) ? nullptr : &c->read_before;
}

static void find_page (watch *w, uintptr_t at)
{
    auto &p = w->pages[at];

    if (!p)
        p.reset (new page ());
    w->found = p.get ();
    w->found_at = at;
}

static void check_races (watch *w, const char *p, unsigned size, enum launch_access access,
                         bool shared)
{
    const struct stamp now
        = { w->launch, w->block, w->barrier, w->syncs[launch_self->linear],
            (uint16_t)launch_self->linear, access == LAUNCH_ATOMIC };

    for (unsigned i = 0; i < size; i++) {
        uintptr_t at = (uintptr_t)p + i;

        if (!w->found || at >> PAGE_BITS != w->found_at)
            find_page (w, at >> PAGE_BITS);
        struct cell *c = &w->found->cells[at & (PAGE_BYTES - 1)];

        if (!is_ordered (w, &c->write, shared) && !(now.atomic && c->write.atomic))
            fail_race (p + i, access == LAUNCH_READ ? "a read" : "a write", "write", &c->write);
        if (access == LAUNCH_READ) {
            note_read (c, &now);
            continue;
        }
        if (const struct stamp *reader = unordered_reader (w, c, shared))
            fail_race (p + i, "a write", "read", reader);
        c->write = now;
    }
}

/* True if the address is in one of the variables of the language (threadIdx ...). */
static bool is_builtin (const void *p)
{
    for (const void *v : { (const void *)&threadIdx, (const void *)&blockIdx,
                           (const void *)&blockDim, (const void *)&gridDim })
        if (p >= v && (const char *)p < (const char *)v + sizeof (uint3))
            return true;
    return p == (const void *)&launch_self;
}

/* True if the program may read this constant: nvcc refuses variables of the host in device code. */
static bool is_constant (const void *p, enum launch_access access)
{
    Dl_info info;

    return access == LAUNCH_READ && dladdr (p, &info) != 0;
}

/* True if the bytes are in the allocation that was found last. */
static bool is_inside (const watch *w, const void *ptr, unsigned size)
{
    const char *p = (const char *)ptr, *base = (const char *)w->base;

    return w->size > 0 && p >= base && p + size <= base + w->size;
}

static void check_bounds (watch *w, const char *p, unsigned size)
{
    if (!is_inside (w, p, size)) {
        if (!launch_shared_bounds (p, &w->base, &w->size)) {
            if (!w->request->bounds) {
                w->size = 0;
                return;
            }
            if (!w->request->bounds (w->request->bounds_arg, p, &w->base, &w->size))
                launch_fail (cudaErrorIllegalAddress, "%u bytes at %p are not device memory", size,
                             (const void *)p);
        }
    }
    if (!is_inside (w, p, size)) {
        const void *base = w->base;
        size_t has = w->size;

        w->size = 0;
        launch_fail (cudaErrorIllegalAddress, "%u bytes at %p, which is %td bytes into %zu bytes",
                     size, (const void *)p, p - (const char *)base, has);
    }
}

static void remember (watch *w, const void *place, const char *p, unsigned size,
                      enum launch_access access)
{
    uint64_t key = (uint64_t)(uintptr_t)place << 12 ^ launch_self->linear;
    uint32_t turn = w->turns[key]++;

    w->requests[{ place, launch_self->warp, turn }].push_back (
        { (uintptr_t)p, (uint8_t)size, (uint8_t)launch_self->lane, access });
}

/* Distinct 'unit'-byte pieces that the accesses touch, sorted. */
static std::vector<uintptr_t> pieces (const std::vector<lane_access> &all, unsigned unit)
{
    std::vector<uintptr_t> list;

    for (auto &a : all)
        for (uintptr_t u = a.at / unit; u <= (a.at + a.size - 1) / unit; u++)
            list.push_back (u);
    std::sort (list.begin (), list.end ());
    list.erase (std::unique (list.begin (), list.end ()), list.end ());
    return list;
}

/* Passes over the banks: accesses of 8 and 16 bytes go by half and quarter warps. */
static unsigned count_wavefronts (const std::vector<lane_access> &all)
{
    unsigned lanes = all[0].size > 4 ? 128u / all[0].size : 32, sum = 0;

    for (unsigned first = 0; first < 32; first += lanes) {
        std::vector<lane_access> some;
        unsigned in_bank[BANKS] = {}, most = 0;

        for (auto &a : all)
            if (a.lane >= first && a.lane < first + lanes)
                some.push_back (a);
        for (uintptr_t word : pieces (some, 4))
            most = std::max (most, ++in_bank[word % BANKS]);
        sum += most;
    }
    return sum;
}

void watch_block_end (void)
{
    const void *base;
    size_t size;

    for (auto &r : own->requests) {
        if (launch_shared_bounds ((const void *)r.second[0].at, &base, &size)) {
            counts.shared_requests++;
            counts.wavefronts += count_wavefronts (r.second);
            counts.least_wavefronts += (pieces (r.second, 4).size () + BANKS - 1) / BANKS;
        } else {
            auto list = pieces (r.second, SECTOR);
            enum launch_access access = r.second[0].access;

            counts.requests++;
            counts.sectors += list.size ();
            if (access != LAUNCH_WRITE)
                own->read_sectors.insert (list.begin (), list.end ());
            if (access != LAUNCH_READ)
                own->written_sectors.insert (list.begin (), list.end ());
        }
    }
    own->requests.clear ();
    own->turns.clear ();
}

static void note (const void *place, const void *ptr, unsigned size, enum launch_access access)
{
    watch *w = own.get ();
    const void *base;
    size_t has;
    bool shared;

    if (!launch_self || launch_is_stack (ptr) || is_builtin (ptr))
        return;
    if (!w->on)
        forget_warps (w);
    w->on = true;
    if ((uintptr_t)ptr % size && (size & (size - 1)) == 0)
        launch_fail (cudaErrorMisalignedAddress, "%u bytes at %p", size, ptr);
    shared = launch_shared_bounds (ptr, &base, &has);
    if (!shared && !is_inside (w, ptr, size) && is_constant (ptr, access))
        return;
    check_bounds (w, (const char *)ptr, size);
    check_races (w, (const char *)ptr, size, access, shared);
    if (counting)
        remember (w, place, (const char *)ptr, size, access);
    if (!shared)
        (access == LAUNCH_READ ? counts.read_bytes : counts.written_bytes) += size;
}

/* Code that is not instrumented calls this, too: then there is nothing to compare with. */
void launch_note_access (const void *ptr, unsigned size, enum launch_access access)
{
    if (own && own->on)
        note (__builtin_return_address (0), ptr, size, access);
}

extern "C" {
void __tsan_init (void) {}
void __tsan_func_entry (void *) {}
void __tsan_func_exit (void) {}
void __tsan_vptr_update (void *, void *) {}
#define ACCESS(NAME, SIZE, KIND)                                    \
    void NAME (const void *p);                                      \
    void NAME (const void *p)                                       \
    {                                                               \
        note (__builtin_return_address (0), p, SIZE, KIND);         \
    }
#define ACCESSES(SIZE)                                              \
    ACCESS (__tsan_read##SIZE, SIZE, LAUNCH_READ)                   \
    ACCESS (__tsan_write##SIZE, SIZE, LAUNCH_WRITE)                 \
    ACCESS (__tsan_unaligned_read##SIZE, SIZE, LAUNCH_READ)         \
    ACCESS (__tsan_unaligned_write##SIZE, SIZE, LAUNCH_WRITE)       \
    ACCESS (__tsan_volatile_read##SIZE, SIZE, LAUNCH_READ)          \
    ACCESS (__tsan_volatile_write##SIZE, SIZE, LAUNCH_WRITE)
ACCESSES (1)
ACCESSES (2)
ACCESSES (4)
ACCESSES (8)
ACCESSES (16)
void __tsan_read_range (const void *p, size_t n);
void __tsan_read_range (const void *p, size_t n)
{
    note (__builtin_return_address (0), p, (unsigned)n, LAUNCH_READ);
}
void __tsan_write_range (const void *p, size_t n);
void __tsan_write_range (const void *p, size_t n)
{
    note (__builtin_return_address (0), p, (unsigned)n, LAUNCH_WRITE);
}
}

/* expert_gemm.c - the products of all experts
 *
 * The result of each expert is cut into tiles, and the threads share the tiles of all experts.  A
 * tile is computed by one thread.  There are three ways to compute a tile:
 *
 * LOOPS   our own loops, for any types;
 * SINGLE  the library's float32 product, which takes any sizes: gradients.  Larger tiles are faster
 *         as long as each thread has several, so rounding may differ between numbers of threads, as
 *         that of the library's other float32 products does;
 * BLOCKS  the library's products that are made for certain sizes.  An expert has a different number
 *         of rows each time, so rows of the result are filled up to a multiple of a step, in memory
 *         of the thread.  Gradients of weights, of 16-bit types, have blocks for any number of rows
 *         that are summed over.
 *
 * With LOOPS and BLOCKS the cut follows the rows of the expert alone, and results do not depend on
 * the number of threads.
 *
 * The library's best code wants the rows of a weight that is stored as it is multiplied to have no
 * gaps between them.  So KERN_EXPERT_DGRAD of 16-bit types copies the columns of a tile first, if
 * they stay in the cache: with AMX that was up to 1.6 times as fast, but slower for long columns.
 */

#include <errno.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec.h"

enum { ROWS = CPU_BLOCK_ROWS };

/* Rows are filled up to a multiple of WIDE_STEP in float32, and of STEP otherwise. */
enum { WIDE_STEP = 8, STEP = 16 };

/* Columns of tiles, and how long they may be if they are copied. */
enum { LOOPS_COLS = CPU_BLOCK_COLS, COLS = 256, NARROW_COLS = 128, MAX_COPIED = 2048 };

/* SINGLE: the size of the largest tiles.  A tile that is larger than ROWS x COLS makes at most
 * 1 / SHARE of a thread's part of all products.  From about 1000 x 1000 on, oneDNN copies both
 * factors into panels, which was up to 1.4 times as fast as tiles of ROWS x COLS.
 */
enum { LARGE_ROWS = 2048, LARGE_COLS = 1024, SHARE = 2 };

/* The number of sizes of blocks: multiples of the step; the last size is a whole tile.  With
 * KERN_EXPERT_WGRAD the size says whether the product is added.
 */
enum { SIZES = ROWS / WIDE_STEP + 1 };

enum way { LOOPS, SINGLE, BLOCKS };

/* The most experts for which the number of tiles before them is stored, so that a task finds its
 * expert soon.
 */
enum { MARKS = 512 };

struct expert_job {
    const struct kern_expert_gemm *a;
    const struct cpu *cpu;
    enum way way;
    int64_t cols; /* of a tile; SINGLE: of the smallest */
    int64_t step; /* of its rows */
    bool copies;  /* the columns of B */
    const void *block[SIZES][2][2]; /* BLOCKS: [size][last rows of a weight][last columns] */
    size_t own[4]; /* a thread's bytes for the library, A, C, B; LOOPS: own[0] */
    size_t part;   /* their sum */
    int64_t tasks; /* tiles of all experts */
    int64_t stride;        /* experts between two marks */
    int64_t before[MARKS]; /* tiles of the experts before each mark */
};

/* --- the product of an expert --- */

static bool is_wgrad (const struct kern_expert_gemm *a)
{
    return a->form == KERN_EXPERT_WGRAD;
}

static char *at (const void *p, int64_t element, enum mg_dtype dtype)
{
    return (char *)(uintptr_t)p + (size_t)element * cpu_size (dtype);
}

/* The product of rows 'row' to 'row + count - 1' with weight 'w'. */
static struct kern_gemm product_of (const struct kern_expert_gemm *a, int64_t row, int64_t count,
                                    void *w)
{
    struct kern_gemm g = { .accumulate = a->accumulate, .dtype = a->dtype, .c_dtype = a->c_dtype };
    void *x = at (a->x, row * a->in, a->form == KERN_EXPERT_DGRAD ? a->c_dtype : a->dtype);
    void *y = at (a->y, row * a->out, a->form == KERN_EXPERT_FWD ? a->c_dtype : a->dtype);

    g.m = is_wgrad (a) ? a->out : count;
    g.n = a->form == KERN_EXPERT_FWD ? a->out : a->in;
    g.k = is_wgrad (a) ? count : a->form == KERN_EXPERT_FWD ? a->in : a->out;
    g.trans_a = is_wgrad (a);
    g.trans_b = a->form == KERN_EXPERT_FWD;
    g.a = a->form == KERN_EXPERT_FWD ? x : y;
    g.lda = a->form == KERN_EXPERT_FWD ? a->in : a->out;
    g.b = is_wgrad (a) ? x : w;
    g.ldb = a->in;
    g.c = is_wgrad (a) ? w : a->form == KERN_EXPERT_FWD ? y : x;
    g.ldc = a->form == KERN_EXPERT_FWD ? a->out : a->in;
    return g;
}

static struct kern_gemm product_of_expert (const struct kern_expert_gemm *a, int64_t e)
{
    int64_t stride = a->w_stride ? a->w_stride : a->in * a->out;

    return product_of (a, a->offset[e], a->offset[e + 1] - a->offset[e],
                       at (a->w, e * stride, is_wgrad (a) ? a->c_dtype : a->dtype));
}

/* The tile of C from (row, col) on, of at most rows x cols. */
static struct kern_gemm tile_of (const struct kern_gemm *g, int64_t row, int64_t rows, int64_t col,
                                 int64_t cols)
{
    struct kern_gemm t = *g;

    t.m = cpu_min (rows, g->m - row);
    t.n = cpu_min (cols, g->n - col);
    t.a = at (g->a, g->trans_a ? row : row * g->lda, g->dtype);
    t.b = at (g->b, g->trans_b ? col * g->ldb : col, g->dtype);
    t.c = at (g->c, row * g->ldc + col, g->c_dtype);
    return t;
}

static int64_t parts (int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

/* --- BLOCKS --- */

/* Rows of 'cols' elements of 'size' bytes, row lengths in elements. */
static void copy_rows (void *to, int64_t to_ld, const void *from, int64_t from_ld, int64_t rows,
                       int64_t cols, size_t size)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy ((char *)to + (size_t)(r * to_ld) * size,
                (const char *)from + (size_t)(r * from_ld) * size, (size_t)cols * size);
}

/* Copy rows as above, and fill up with zeros to 'filled' rows, which follow each other. */
static void copy_filled (void *to, const void *from, int64_t from_ld, int64_t rows,
                         int64_t filled, int64_t cols, enum mg_dtype dtype)
{
    size_t size = cpu_size (dtype);

    copy_rows (to, cols, from, from_ld, rows, cols, size);
    memset ((char *)to + (size_t)(rows * cols) * size, 0, (size_t)((filled - rows) * cols) * size);
}

/* The product that block [size][.][.] is made for: of tile 't' with 'm' rows. */
static struct kern_gemm filled_rows (struct kern_gemm t, int64_t m)
{
    t.m = m;
    t.ldc = t.n;
    return t;
}

/* The product that a block of KERN_EXPERT_WGRAD is made for: of any number of rows, in float32. */
static struct kern_gemm any_depth (struct kern_gemm t, bool add)
{
    t.k = CPU_ANY_DEPTH;
    t.accumulate = add;
    t.ldc = t.c_dtype == MG_FLOAT32 ? t.ldc : t.n;
    t.c_dtype = MG_FLOAT32;
    return t;
}

static void widen_own (size_t *own, size_t bytes)
{
    bytes = (bytes + 63) / 64 * 64;
    *own = bytes > *own ? bytes : *own;
}

static int prepare_block (struct expert_job *job, int i, int down, int across, struct kern_gemm t,
                          struct mg_error *err)
{
    size_t scratch = 0;
    const void *block = job->cpu->gemm->block (job->cpu->gemm_impl, &t, &scratch, err);

    job->block[i][down][across] = block;
    if (block)
        widen_own (&job->own[0], scratch);
    return block ? 0 : -1;
}

/* All blocks of a tile's sizes, which are 't'. */
static int prepare_tile (struct expert_job *job, int down, int across, struct kern_gemm t,
                         struct mg_error *err)
{
    int rc = 0;

    if (is_wgrad (job->a)) {
        for (int add = 0; add < 2 && rc == 0; add++)
            rc = prepare_block (job, add, down, across, any_depth (t, add), err);
        widen_own (&job->own[2], (size_t)(t.m * t.n) * sizeof (float));
        return rc;
    }
    if (job->copies) {
        t.ldb = t.n;
        widen_own (&job->own[3], (size_t)(t.k * t.n) * cpu_size (t.dtype));
    }
    for (int i = 0; i < ROWS / job->step && rc == 0; i++)
        rc = prepare_block (job, i, down, across, filled_rows (t, (i + 1) * job->step), err);
    t.m = ROWS;
    if (rc == 0)
        rc = prepare_block (job, SIZES - 1, down, across, t, err);
    widen_own (&job->own[1], (size_t)(ROWS * t.k) * cpu_size (t.dtype));
    widen_own (&job->own[2], (size_t)(ROWS * t.n) * cpu_size (t.c_dtype));
    return rc;
}

/* -1 and no text if errno is ENOTSUP: there are none. */
static int prepare_blocks (struct expert_job *job, struct mg_error *err)
{
    const struct kern_gemm g = product_of (job->a, 0, ROWS, job->a->w);
    int64_t last_row = is_wgrad (job->a) ? (parts (g.m, ROWS) - 1) * ROWS : 0;
    int64_t last_col = (parts (g.n, job->cols) - 1) * job->cols;
    int rc = 0;

    for (int i = 0; i < 4 && rc == 0; i++)
        rc = prepare_tile (job, i / 2, i % 2,
                           tile_of (&g, i / 2 ? last_row : 0, ROWS, i % 2 ? last_col : 0,
                                    job->cols),
                           err);
    return rc;
}

/* The parts of a thread's memory. */
static char *own_of (const struct expert_job *job, char *own, int i)
{
    for (int j = 0; j < i; j++)
        own += job->own[j];
    return own;
}

static int run_block (const struct expert_job *job, int i, int down, int across, char *own,
                      const struct kern_gemm *t)
{
    return job->cpu->gemm->run_block (job->cpu->gemm_impl, job->block[i][down][across],
                                      cpu_thread (), own, t);
}

/* A tile of rows.  'there' rows of A may be read. */
static int run_rows (const struct expert_job *job, struct kern_gemm t, int across, int64_t there,
                     char *own)
{
    int size = (int)parts (t.m, job->step);
    int64_t m = size * job->step;
    struct kern_gemm filled;
    size_t element = cpu_size (t.c_dtype);

    if (job->copies) {
        copy_rows (own_of (job, own, 3), t.n, t.b, t.ldb, t.k, t.n, cpu_size (t.dtype));
        t.b = own_of (job, own, 3);
        t.ldb = t.n;
    }
    if (t.m == ROWS)
        return run_block (job, SIZES - 1, 0, across, own, &t);
    filled = filled_rows (t, m);
    filled.c = own_of (job, own, 2);
    if (m > there) {
        filled.a = own_of (job, own, 1);
        copy_filled (own_of (job, own, 1), t.a, t.lda, t.m, m, t.k, t.dtype);
    }
    if (t.accumulate)
        copy_rows (filled.c, t.n, t.c, t.ldc, t.m, t.n, element);
    if (run_block (job, size - 1, 0, across, own, &filled) < 0)
        return -1;
    copy_rows (t.c, t.ldc, filled.c, t.n, t.m, t.n, element);
    return 0;
}

VEC_INLINE void store_row (const struct kern_gemm *t, int64_t row, const float *sum,
                           const enum mg_dtype type)
{
    for (int64_t c = 0; c < t->n; c += VEC) {
        int64_t i = row * t->ldc + c, left = t->n - c;
        vf v = vec_load_part (sum + row * t->n + c, left);

        if (t->accumulate)
            v = vec_get (t->c, i, left, type) + v;
        vec_put (t->c, i, v, left, type);
    }
}

/* A tile of a weight's gradient, with some rows at least. */
static int run_depth (const struct expert_job *job, const struct kern_gemm *t, int down, int across,
                      char *own)
{
    bool direct = t->c_dtype == MG_FLOAT32, add = direct && t->accumulate;
    struct kern_gemm g = any_depth (*t, add);

    g.k = t->k;
    g.c = direct ? t->c : own_of (job, own, 2);
    if (run_block (job, add, down, across, own, &g) < 0)
        return -1;
    for (int64_t r = 0; !direct && r < t->m; r++)
        VEC_TYPED (t->c_dtype, store_row, t, r, g.c);
    return 0;
}

/* --- all ways --- */

static void run_nothing (const struct kern_gemm *t)
{
    size_t size = cpu_size (t->c_dtype);

    for (int64_t r = 0; !t->accumulate && r < t->m; r++)
        memset ((char *)t->c + (size_t)(r * t->ldc) * size, 0, (size_t)t->n * size);
}

/* The size of an expert's tiles. */
struct cut {
    int64_t rows, cols;
};

/* Elements of the largest tile of C. */
static double elements_of (struct cut cut, const struct kern_gemm *g)
{
    return (double)cpu_min (cut.rows, g->m) * (double)cpu_min (cut.cols, g->n);
}

/* The size of tiles with SINGLE: the largest size that is at most 1 / SHARE of a thread's part of
 * all products.
 */
static struct cut large_cut (const struct expert_job *job, const struct kern_gemm *g)
{
    const struct kern_expert_gemm *a = job->a;
    double all = (double)a->in * (double)a->out * (double)(a->offset[a->experts] - a->offset[0]);
    double most = all / job->cpu->threads / SHARE / (double)(g->k > 0 ? g->k : 1);
    struct cut cut = { .rows = LARGE_ROWS, .cols = LARGE_COLS };

    while (cut.rows > ROWS && elements_of (cut, g) > most)
        cut.rows /= 2;
    if (elements_of (cut, g) > most)
        cut.cols = job->cols;
    return cut;
}

/* Rows that are tokens are cut into as few tiles as can be, of sizes as equal as can be. */
static struct cut cut_of (const struct expert_job *job, const struct kern_gemm *g)
{
    struct cut cut = { .rows = ROWS, .cols = job->cols };
    int64_t down;

    if (job->way == SINGLE)
        cut = large_cut (job, g);
    down = parts (g->m, cut.rows);
    if (!is_wgrad (job->a) && down > 0)
        cut.rows = parts (parts (g->m, down), job->step) * job->step;
    return cut;
}

/* Tile number 'i' of expert 'e', by columns. */
static int run_tile (const struct expert_job *job, int64_t e, int64_t i, char *own)
{
    const struct kern_expert_gemm *a = job->a;
    const struct kern_gemm g = product_of_expert (a, e);
    const struct cut cut = cut_of (job, &g);
    int64_t down = parts (g.m, cut.rows), row = i % down * cut.rows, col = i / down * cut.cols;
    const struct kern_gemm t = tile_of (&g, row, cut.rows, col, cut.cols);

    if (t.k == 0) {
        run_nothing (&t);
        return 0;
    }
    if (job->way == LOOPS) {
        cpu_gemm_block (&t, (float *)own);
        return 0;
    }
    if (job->way == SINGLE)
        return job->cpu->gemm->single (&t);
    if (is_wgrad (a))
        return run_depth (job, &t, row + cut.rows >= g.m, col + cut.cols >= g.n, own);
    return run_rows (job, t, col + cut.cols >= g.n,
                     a->offset[a->experts] - a->offset[e] - row, own);
}

/* Tiles of expert 'e'. */
static int64_t count_tiles (const struct expert_job *job, int64_t e)
{
    const struct kern_gemm g = product_of_expert (job->a, e);
    const struct cut cut = cut_of (job, &g);

    return parts (g.m, cut.rows) * parts (g.n, cut.cols);
}

/* Count the tiles of all experts, and note at marks how many there are before. */
static void count_tasks (struct expert_job *job)
{
    job->stride = parts (job->a->experts, MARKS);
    job->tasks = 0;
    for (int64_t e = 0; e < job->a->experts; e++) {
        if (e % job->stride == 0)
            job->before[e / job->stride] = job->tasks;
        job->tasks += count_tiles (job, e);
    }
}

static int run_task (const struct expert_job *job, int64_t task, char *own)
{
    int64_t low = 0, high = parts (job->a->experts, job->stride), e, tiles;

    while (high - low > 1) { // the last mark that is not behind the task
        int64_t middle = (low + high) / 2;

        if (job->before[middle] <= task)
            low = middle;
        else
            high = middle;
    }
    task -= job->before[low];
    e = low * job->stride;
    while (task >= (tiles = count_tiles (job, e))) {
        task -= tiles;
        e++;
    }
    return run_tile (job, e, task, own);
}

static void prepare_loops (struct expert_job *job)
{
    struct kern_gemm g = product_of (job->a, 0, job->a->rows, job->a->w);
    struct kern_gemm t;

    job->way = LOOPS;
    job->cols = LOOPS_COLS;
    job->copies = false;
    t = tile_of (&g, 0, ROWS, 0, job->cols);
    memset (job->own, 0, sizeof (job->own));
    widen_own (&job->own[0], cpu_gemm_block_floats (&t) * sizeof (float));
}

/* Choose how tiles are computed, and with how much memory. */
static int prepare (struct expert_job *job, const struct kernels *k,
                    const struct kern_expert_gemm *a, struct mg_error *err)
{
    const struct cpu_gemm *gemm = cpu_of (k)->gemm;
    bool wide = a->dtype == MG_FLOAT32 && a->c_dtype == MG_FLOAT32;
    int rc, before;

    memset (job, 0, sizeof (*job));
    job->a = a;
    job->cpu = cpu_of (k);
    job->step = wide ? WIDE_STEP : STEP;
    if (kern_expert_gemm_check (a, err) < 0)
        return -1;
    if (a->in == 0 || a->out == 0 || a->experts == 0) {
        job->cols = LOOPS_COLS; // no tile is computed
    } else if (!gemm) {
        prepare_loops (job);
    } else if (wide && a->form != KERN_EXPERT_FWD) {
        job->way = SINGLE;
        job->cols = COLS;
    } else {
        job->way = BLOCKS;
        job->copies = a->form == KERN_EXPERT_DGRAD && a->out <= MAX_COPIED;
        job->cols = a->form == KERN_EXPERT_FWD || job->copies ? NARROW_COLS : COLS;
        before = cpu_set_threads (1);
        rc = prepare_blocks (job, err);
        cpu_set_threads (before);
        if (rc < 0 && errno != ENOTSUP)
            return -1;
        if (rc < 0)
            prepare_loops (job);
    }
    for (int i = 0; i < 4; i++)
        job->part += job->own[i];
    return 0;
}

int cpu_expert_gemm_scratch (const struct kernels *k, const struct kern_expert_gemm *a,
                             size_t *bytes, struct mg_error *err)
{
    struct expert_job job;

    *bytes = 0;
    if (prepare (&job, k, a, err) < 0)
        return -1;
    *bytes = job.part * (size_t)job.cpu->threads;
    return 0;
}

int cpu_expert_gemm (const struct kernels *k, const struct kern_expert_gemm *a,
                     struct mg_error *err)
{
    int threads = cpu_of (k)->threads, failed = 0, before;
    struct expert_job job;
    char *own;

    if (prepare (&job, k, a, err) < 0
        || (!(own = cpu_scratch (k, job.part * (size_t)threads, err)) && job.part > 0))
        return -1;
    count_tasks (&job);
    before = cpu_set_threads (1);
#pragma omp parallel for num_threads (threads) schedule (dynamic) if (job.tasks > 1)
    for (int64_t task = 0; task < job.tasks; task++) {
        if (run_task (&job, task, own + (size_t)cpu_thread () * job.part) < 0) {
#pragma omp atomic write
            failed = 1;
        }
    }
    cpu_set_threads (before);
    return failed ? mg_error_set (err, EIO, "expert_gemm: the library's product failed") : 0;
}

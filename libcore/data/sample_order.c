/* sample_order.c - permutations as torch.randperm() draws them on a CPU
 *
 * torch's generator is the Mersenne Twister that NumPy has, seeded the same way.  Element i is
 * exchanged with element i + draw mod (n - i).  From UINT32_MAX / 20 elements on a draw has 64
 * bits, since 32 would favour some elements; there the order is not torch's.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "libcore/data/mt19937.h"
#include "libcore/data/sample_order.h"

static uint64_t draw (struct mt19937 *mt, int64_t count)
{
    uint64_t high = count < UINT32_MAX / 20 ? 0 : mt19937_next (mt);

    return high << 32 | mt19937_next (mt);
}

static void permute (struct sample_order *order, int64_t epoch)
{
    uint32_t *place = order->place;
    struct mt19937 mt;

    mt19937_seed (&mt, epoch & UINT32_MAX, NULL);
    for (int64_t i = 0; i < order->count; i++)
        place[i] = (uint32_t)i;
    for (int64_t i = 0; i < order->count - 1; i++) {
        int64_t other = i + (int64_t)(draw (&mt, order->count) % (uint64_t)(order->count - i));
        uint32_t kept = place[i];

        place[i] = place[other];
        place[other] = kept;
    }
    order->epoch = epoch;
}

int sample_order_init (struct sample_order *order, int64_t count, struct mg_error *err)
{
    *order = (struct sample_order){ .count = count };
    if (count < 1 || count > UINT32_MAX)
        return mg_error_set (err, ERANGE, "--dataloader-type cyclic: %" PRId64 " samples are out "
                             "of range, want 1 to %" PRIu32, count, UINT32_MAX);
    if (!(order->place = calloc ((size_t)count, sizeof (*order->place))))
        return mg_error_set (err, ENOMEM, "no memory for the order of %" PRId64 " samples", count);
    permute (order, 0);
    return 0;
}

void sample_order_clear (struct sample_order *order)
{
    int saved_errno = errno;

    free (order->place);
    *order = (struct sample_order){ 0 };
    errno = saved_errno;
}

int64_t sample_order_at (struct sample_order *order, int64_t i)
{
    int64_t epoch = i / order->count;

    if (epoch != order->epoch)
        permute (order, epoch);
    return order->place[i % order->count];
}

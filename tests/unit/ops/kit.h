/* kit - one operation of a layer in one process, for tests: a layer whose only phase is the
 * operation, and whose operands are arrays of the test.
 *
 * The rest is that of a small model of float32 (nn, shape of a pass), so that operations run as
 * they do in a model.  Failures of the kit end the test.
 */
#ifndef TESTS_UNIT_OPS_KIT_H
#define TESTS_UNIT_OPS_KIT_H

#include "libcore/ops/ops.h"
#include "tests/unit/nn/alone.h"

enum { OPS_OPERANDS = 16 };

struct ops_kit {
    struct alone alone;
    struct nn nn;          /* the model's; a test may change it */
    struct nn_shape shape; /* the same */
    struct layer_spec spec;
    struct layer layer;
    struct tensor tensor[OPS_OPERANDS + 1];
    struct param param[OPS_OPERANDS + 1];
    struct pass pass;
};

/* A model of this configuration, of which a few sizes may be missing, and passes of 'batch'
 * sequences.  No training: nothing is dropped.
 */
void ops_open (struct ops_kit *k, struct model_config c, int batch);
void ops_close (struct ops_kit *k);

/* Add a tensor operand of zeros or of random numbers between -1 and 1; add a parameter of random
 * numbers, whose gradient is zeros; cols 0: it has one dimension.  The result goes into the
 * operands of the phase.
 */
int ops_zeros (struct ops_kit *k, const char *name, enum mg_dtype dtype, int64_t rows,
               int64_t cols);
int ops_random (struct ops_kit *k, const char *name, int64_t rows, int64_t cols);
int ops_param (struct ops_kit *k, const char *name, int64_t rows, int64_t cols);

/* Elements of a float32 tensor; of a parameter; of its gradient. */
float *ops_at (const struct ops_kit *k, int tensor);
float *ops_value (const struct ops_kit *k, int param);
float *ops_grad (const struct ops_kit *k, int param);

/* Random numbers between -1 and 1. */
void ops_fill (float *x, int64_t n);

/* Let this be the only phase; run it. */
void ops_phase (struct ops_kit *k, const struct phase *phase);
void ops_forward (struct ops_kit *k);
void ops_backward (struct ops_kit *k);

/* An input and its gradient, which a backward pass has written or has added to. */
struct ops_slope {
    const char *what;
    float *x;
    const float *dx;
    int64_t n;
};

/* Check that gradients are the slopes of sum (dy y), which forward passes measure; 'dy' has the
 * shape of the tensor 'y'.  Inputs are as they were afterwards.
 */
void ops_check_slopes (struct ops_kit *k, int y, const float *dy, const struct ops_slope *slope,
                       int num);

/* The largest difference of two arrays. */
double ops_difference (const float *x, const double *y, int64_t n);

#endif /* TESTS_UNIT_OPS_KIT_H */

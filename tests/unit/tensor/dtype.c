/* dtype - each type has a size and a name of its own; other numbers have none */

#include <string.h>

#include "megatron/dtype.h"
#include "tests/tap/tap.h"

int main (void)
{
    static const struct {
        enum mg_dtype dtype;
        size_t size;
        const char *name;
    } rows[] = {
        { MG_FLOAT32, sizeof (float), "float32" }, { MG_FLOAT64, sizeof (double), "float64" },
        { MG_BFLOAT16, 2, "bfloat16" },            { MG_FLOAT16, 2, "float16" },
        { MG_INT32, sizeof (int32_t), "int32" },   { MG_INT64, sizeof (int64_t), "int64" },
        { MG_UINT8, 1, "uint8" },                  { MG_FLOAT8_E4M3, 1, "float8_e4m3" },
    };

    is_int (sizeof (rows) / sizeof (rows[0]), MG_NUM_DTYPES, "all types are here");
    for (size_t i = 0; i < sizeof (rows) / sizeof (rows[0]); i++) {
        is_int (mg_dtype_size (rows[i].dtype), rows[i].size, "bytes of %s", rows[i].name);
        is_str (mg_dtype_name (rows[i].dtype), rows[i].name, "its name");
    }
    for (int bad = -1; bad <= MG_NUM_DTYPES; bad += MG_NUM_DTYPES + 1) {
        is_int (mg_dtype_size ((enum mg_dtype)bad), 0, "type %d has no size", bad);
        is_str (mg_dtype_name ((enum mg_dtype)bad), "unknown", "nor a name");
    }
    return done_testing ();
}

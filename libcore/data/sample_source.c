/* sample_source - what all sources share */

#include <errno.h>
#include <stdlib.h>

#include "libcore/data/sample_source.h"

void sample_source_destroy (struct sample_source *source)
{
    if (source) {
        int saved_errno = errno;

        if (source->ops->destroy)
            source->ops->destroy (source->impl);
        free (source);
        errno = saved_errno;
    }
}

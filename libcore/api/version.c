/* version.c - the library's version */

#include "megatron/version.h"

const char *mg_version (void)
{
    return MG_VERSION;
}

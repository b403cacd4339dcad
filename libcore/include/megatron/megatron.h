/* The public interface of libmegatron, whole. */
#ifndef MEGATRON_MEGATRON_H
#define MEGATRON_MEGATRON_H

#include "megatron/comm.h"
#include "megatron/dtype.h"
#include "megatron/error.h"
#include "megatron/generate.h"
#include "megatron/geometry.h"
#include "megatron/grid.h"
#include "megatron/job.h"
#include "megatron/stream.h"
#include "megatron/train.h"
#include "megatron/version.h"

#endif /* MEGATRON_MEGATRON_H */

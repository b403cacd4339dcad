/* planted - which of the faults that tests/cuda/plant has planted a program makes */
#ifndef TESTS_CUDA_PLANTED_H
#define TESTS_CUDA_PLANTED_H

#include "tests/cuda/device.h"

/* The number in MG_PLANTED; 0, none, by default. */
extern "C" int planted_fault;

static DEVICE_QUIET bool planted_is (int number)
{
    return planted_fault == number;
}

#define PLANTED(number) planted_is (number)

#endif /* TESTS_CUDA_PLANTED_H */

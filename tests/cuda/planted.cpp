/* planted.cpp - which fault a program makes */

#include <stdlib.h>

extern "C" int planted_fault;

static int number ()
{
    const char *value = getenv ("MG_PLANTED");

    return value ? atoi (value) : 0;
}

int planted_fault = number ();

/* owners - which links of which users are followed, for the tests of files and of directories */
#ifndef TESTS_UNIT_FILE_OWNERS_H
#define TESTS_UNIT_FILE_OWNERS_H

#include <stdbool.h>
#include <sys/types.h>

enum { NOBODY = 65534, NUM_OWNERS = 10 };

/* A directory's mode and owner, a link's owner, and whether root follows the link. */
static const struct {
    mode_t mode;
    uid_t dir, link;
    bool followed;
} owners[NUM_OWNERS] = {
    { 0755, 0, 0, true },            { 0755, 0, NOBODY, true },
    { 0775, 0, NOBODY, false },      { 0757, 0, NOBODY, false },
    { 01777, 0, NOBODY, false },     { 01777, 0, 0, true },
    { 0777, NOBODY, 0, true },       { 0755, NOBODY, NOBODY, false },
    { 0700, NOBODY, NOBODY, false }, { 01777, NOBODY, NOBODY, false },
};

#endif /* TESTS_UNIT_FILE_OWNERS_H */

/* geometry.c - geometries for programs: arguments are checked here
 *
 * A wrong argument is an error with a text, never a crash.  The rules themselves are in
 * topo/geometry.h.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcore/api/geometry.h"
#include "libcore/base/c_locale.h"
#include "libcore/topo/environment.h"

bool api_axis_is_known (enum mg_layout layout, enum mg_axis axis)
{
    if ((layout == MG_DENSE || layout == MG_EXPERT) && (int)axis >= 0 && axis < MG_NUM_AXES)
        return true;
    errno = EINVAL;
    return false;
}

const char *mg_axis_name (enum mg_axis axis)
{
    return api_axis_is_known (MG_DENSE, axis) ? geometry_axis_name (axis) : "unknown";
}

struct mg_geometry *mg_geometry_create (struct mg_error *err)
{
    struct mg_geometry *geometry = calloc (1, sizeof (*geometry));

    if (!geometry) {
        mg_error_set (err, ENOMEM, "geometry: out of memory");
        return NULL;
    }
    geometry_init (&geometry->sizes);
    return geometry;
}

void mg_geometry_destroy (struct mg_geometry *geometry)
{
    int saved_errno = errno;

    free (geometry);
    errno = saved_errno;
}

int mg_geometry_set (struct mg_geometry *geometry, const char *field, const char *text,
                     struct mg_error *err)
{
    locale_t before;
    int rc;

    if (!geometry || !field || !text)
        return mg_error_set (err, EINVAL, "geometry: no %s given",
                             !geometry ? "geometry" : !field ? "field" : "value");
    before = c_locale_enter ();
    rc = geometry_set (&geometry->sizes, field, field, text, err);
    c_locale_leave (before);
    return rc;
}

int mg_geometry_set_size (struct mg_geometry *geometry, const char *field, int size,
                          struct mg_error *err)
{
    char text[16];

    if (field && strcmp (field, "order") == 0)
        return mg_error_set (err, EINVAL, "order: want names of axes, not the number %d",
                             size);
    snprintf (text, sizeof (text), "%d", size);
    return mg_geometry_set (geometry, field, text, err);
}

int mg_geometry_set_environment (struct mg_geometry *geometry, struct mg_error *err)
{
    locale_t before;
    int rc;

    if (!geometry)
        return mg_error_set (err, EINVAL, "geometry: no geometry given");
    before = c_locale_enter ();
    rc = environment_read (getenv, &geometry->sizes, NULL, err);
    c_locale_leave (before);
    return rc;
}

int mg_geometry_world (const struct mg_geometry *geometry)
{
    return geometry->sizes.world;
}

int mg_geometry_size (const struct mg_geometry *geometry, enum mg_layout layout,
                      enum mg_axis axis)
{
    if (!api_axis_is_known (layout, axis))
        return 0;
    return geometry_axis_size (&geometry->sizes, layout == MG_EXPERT, axis);
}

int mg_geometry_virtual_stages (const struct mg_geometry *geometry)
{
    return geometry->sizes.vpp > 1 ? geometry->sizes.vpp : 1;
}

/* The program's function for reports, which runs in the program's locale. */
struct reporter {
    mg_geometry_report_f report;
    void *arg;
    locale_t locale;
};

static void pass_on (void *arg, const char *rule, const char *text)
{
    const struct reporter *r = arg;

    c_locale_leave (r->locale);
    r->report (r->arg, rule, text);
    c_locale_enter ();
}

int mg_geometry_check (const struct mg_geometry *geometry, mg_geometry_report_f report,
                       void *arg)
{
    struct reporter r = { report, arg, c_locale_enter () };
    int rc = geometry_check (&geometry->sizes, report ? pass_on : NULL, &r);

    c_locale_leave (r.locale);
    return rc;
}

int mg_geometry_validate (const struct mg_geometry *geometry, struct mg_error *err)
{
    locale_t before;
    int rc;

    if (!geometry)
        return mg_error_set (err, EINVAL, "geometry: no geometry given");
    before = c_locale_enter ();
    rc = geometry_validate (&geometry->sizes, err);
    c_locale_leave (before);
    return rc;
}

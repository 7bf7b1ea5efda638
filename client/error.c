/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses and element types in words, and the texts of failures. Any thread; texts are cut to the bounds of struct
 * gm_failure.
 */
#include "client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *gm_status_name(int status)
{
    switch (status) {
#define E(name, number, retriable, text)                                                                               \
    case number:                                                                                                       \
        return "GM_" #name;
#include "errors.def"
#undef E
    default:
        return "GM_E?";
    }
}

const char *gm_strerror(int status)
{
    return gm_error_text(status);
}

int gm_retriable(int status)
{
    return gm_error_is_retriable(status);
}

int gm_element_by_name(const char *name)
{
    return name == NULL ? -1 : gm_dtype_by_name(name, strlen(name));
}

const char *gm_element_name(uint32_t element)
{
    return gm_dtype_name(element);
}

size_t gm_element_bytes(uint32_t element)
{
    return gm_dtype_bytes(element);
}

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *gm_version(void)
{
    return VERSION_TEXT(GM_VERSION_MAJOR, GM_VERSION_MINOR, GM_VERSION_PATCH);
}

void gm_free(void *bytes)
{
    free(bytes);
}

int gm__report(struct gm_failure *failure, int status, const char *field, const char *format, ...)
{
    va_list arguments;

    failure->status = status;
    snprintf(failure->field, sizeof failure->field, "%s", field);
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    return status;
}

int gm__report_problem(struct gm_failure *failure, const struct gm_problem *problem)
{
    return gm__report(failure, problem->code, problem->field, "%s", problem->text);
}

int gm__report_errno(struct gm_failure *failure, const char *what, int error)
{
    char text[96];
    const int status = error == EMFILE || error == ENFILE ? GM_EFDS : error == ENOMEM ? GM_ENOMEM : GM_ESYSTEM;

    /* _GNU_SOURCE's strerror_r: returns the text, which may be its own constant. */
    return gm__report(failure, status, "", "%s: %s", what, strerror_r(error, text, sizeof text));
}

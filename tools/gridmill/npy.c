/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the Python dictionary in a .npy header with a parser for exactly the grammar that NumPy writes: three known
 * keys, a type string, a boolean, a tuple of integers. Any thread; bounded by the caller's buffer. Format:
 * numpy.lib.format.
 */
#include "npy.h"

#include "gridmill.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[NPY_MAGIC_BYTES] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

struct text {
    const char *at, *end;
    const char *why;
};

static bool bad(struct text *t, const char *why)
{
    t->why = why;
    return false;
}

static void skip_space(struct text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\t' || *t->at == '\n' || *t->at == '\r'))
        t->at++;
}

static bool take(struct text *t, char c)
{
    skip_space(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static bool take_word(struct text *t, const char *word)
{
    const size_t size = strlen(word);

    skip_space(t);
    if ((size_t)(t->end - t->at) < size || memcmp(t->at, word, size) != 0)
        return false;
    t->at += size;
    return true;
}

/* A quoted string without escapes, which NumPy never needs here. */
static bool take_string(struct text *t, const char **string, size_t *size)
{
    skip_space(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return bad(t, "the header is not the dictionary that NumPy writes");
    const char quote = *t->at++;
    *string = t->at;
    while (t->at < t->end && *t->at != quote && *t->at != '\\')
        t->at++;
    if (t->at == t->end || *t->at != quote)
        return bad(t, "the header is not the dictionary that NumPy writes");
    *size = (size_t)(t->at++ - *string);
    return true;
}

/* Type strings: byte order, kind, size. Names of ours are kind and bits; this maps between the two. */
#define DESCRS(D)                                                                                           \
    D("u1", GM_U8) D("i1", GM_I8) D("u4", GM_U32) D("i4", GM_I32) D("u8", GM_U64) D("i8", GM_I64)           \
    D("f2", GM_F16) D("f4", GM_F32) D("f8", GM_F64)
#define D(descr, dtype) {descr, dtype},
static const struct {
    const char *descr;
    uint32_t dtype;
} descrs[] = {DESCRS(D)};
#undef D
#define D(descr, dtype) " " descr
static const char other_type[] = "the element type is none of ours:" DESCRS(D);
#undef D

static bool parse_descr(struct text *t, struct npy *npy)
{
    const char *descr;
    size_t size;

    skip_space(t);
    if (t->at < t->end && *t->at == '[')
        return bad(t, "structured arrays have no element type here");
    if (!take_string(t, &descr, &size))
        return false;
    if (size != 3)
        return bad(t, other_type);
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++) {
        if (memcmp(descr + 1, descrs[i].descr, 2) != 0)
            continue;
        npy->dtype = descrs[i].dtype;
        if (descr[0] == '>' && gm_element_bytes(npy->dtype) > 1)
            return bad(t, "the array is big-endian; convert it with a.astype(a.dtype.newbyteorder('<'))");
        if (descr[0] != '<' && descr[0] != '|' && descr[0] != '=' && descr[0] != '>')
            break;
        return true;
    }
    return bad(t, other_type);
}

static bool parse_dimension(struct text *t, uint64_t *value)
{
    uint64_t v = 0;

    skip_space(t);
    if (t->at == t->end || *t->at < '0' || *t->at > '9')
        return bad(t, "the shape is not a tuple of sizes");
    while (t->at < t->end && *t->at >= '0' && *t->at <= '9') {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*t->at - '0'), &v))
            return bad(t, "the shape does not fit 64 bits");
        t->at++;
    }
    *value = v;
    return true;
}

static bool parse_shape(struct text *t, struct npy *npy)
{
    uint64_t size;

    npy->n = 1;
    npy->last = 1;
    npy->dimensions = 0;
    if (!take(t, '('))
        return bad(t, "the shape is not a tuple of sizes");
    while (!take(t, ')')) {
        if (npy->dimensions == NPY_DIMENSIONS_MAX)
            return bad(t, "the array has too many dimensions");
        if (!parse_dimension(t, &size))
            return false;
        if (__builtin_mul_overflow(npy->n, size, &npy->n))
            return bad(t, "the shape does not fit 64 bits");
        npy->last = size;
        npy->dimensions++;
        if (!take(t, ',') && !(t->at < t->end && *t->at == ')'))
            return bad(t, "the shape is not a tuple of sizes");
    }
    return true;
}

enum { HAS_DESCR = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

/* One "key: value" of the dictionary. */
static bool parse_pair(struct text *t, struct npy *npy, unsigned *has, bool *fortran)
{
    const char *key;
    size_t size;
    unsigned which = 0;

    if (!take_string(t, &key, &size))
        return false;
    if (size == 5 && memcmp(key, "descr", 5) == 0)
        which = HAS_DESCR;
    else if (size == 13 && memcmp(key, "fortran_order", 13) == 0)
        which = HAS_ORDER;
    else if (size == 5 && memcmp(key, "shape", 5) == 0)
        which = HAS_SHAPE;
    if (which == 0 || (*has & which) != 0 || !take(t, ':'))
        return bad(t, "the header is not the dictionary that NumPy writes");
    *has |= which;
    if (which == HAS_DESCR)
        return parse_descr(t, npy);
    if (which == HAS_SHAPE)
        return parse_shape(t, npy);
    *fortran = take_word(t, "True");
    return *fortran || take_word(t, "False") || bad(t, "fortran_order is neither True nor False");
}

static bool parse_dictionary(struct text *t, struct npy *npy)
{
    unsigned has = 0;
    bool fortran = false;

    if (!take(t, '{'))
        return bad(t, "the header is not the dictionary that NumPy writes");
    while (!take(t, '}')) {
        if (!parse_pair(t, npy, &has, &fortran))
            return false;
        skip_space(t);
        if (!take(t, ',') && !(t->at < t->end && *t->at == '}'))
            return bad(t, "the header is not the dictionary that NumPy writes");
    }
    skip_space(t);
    if (has != HAS_ALL || t->at != t->end)
        return bad(t, "the header is not the dictionary that NumPy writes");
    /* One dimension has no order, and NumPy calls some such arrays both. */
    if (fortran && npy->dimensions > 1)
        return bad(t, "the array is in Fortran order; convert it with numpy.ascontiguousarray");
    return true;
}

int npy_parse(const uint8_t *bytes, size_t size, struct npy *npy, const char **why)
{
    const size_t known = size < NPY_MAGIC_BYTES ? size : NPY_MAGIC_BYTES;
    uint64_t length;
    size_t prefix;

    *npy = (struct npy){.dtype = GM_NO_ELEMENT};
    *why = "";
    if (memcmp(bytes, magic, known) != 0)
        return NPY_NOT_NPY;
    if (size < NPY_MAGIC_BYTES + 2)
        return NPY_SHORT;
    const uint8_t major = bytes[6];
    if (major < 1 || major > 3) {
        *why = "the version of the format is not 1, 2 or 3";
        return NPY_BAD;
    }
    prefix = major == 1 ? 10 : 12;
    if (size < prefix)
        return NPY_SHORT;
    length = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
    if (major > 1)
        length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (length > NPY_HEADER_MAX - prefix) {
        *why = "the header is too long";
        return NPY_BAD;
    }
    if (size - prefix < length)
        return NPY_SHORT;
    npy->header_bytes = prefix + (size_t)length;
    struct text t = {(const char *)bytes + prefix, (const char *)bytes + npy->header_bytes, ""};
    if (parse_dictionary(&t, npy))
        return NPY_OK;
    *why = t.why;
    return NPY_BAD;
}

size_t npy_header(uint32_t dtype, uint64_t n, uint8_t out[128])
{
    char dictionary[128];
    const char *descr = NULL;

    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
        if (descrs[i].dtype == dtype)
            descr = descrs[i].descr;
    if (descr == NULL)
        return 0;
    const int length = snprintf(dictionary, sizeof dictionary, "{'descr': '%c%s', 'fortran_order': False, 'shape': "
                                "(%" PRIu64 ",), }", gm_element_bytes(dtype) == 1 ? '|' : '<', descr, n);
    const size_t total = ((size_t)length + 1 + 10 + 63) & ~(size_t)63;
    memset(out, ' ', total);
    memcpy(out, magic, NPY_MAGIC_BYTES);
    out[6] = 1;
    out[7] = 0;
    out[8] = (uint8_t)((total - 10) & 0xff);
    out[9] = (uint8_t)((total - 10) >> 8);
    memcpy(out + 10, dictionary, (size_t)length);
    out[total - 1] = '\n';
    return total;
}

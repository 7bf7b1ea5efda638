/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps with known keys, their typed values, and numbers as element bits. Any thread; bounded by the scan that every
 * message went through before.
 */
#include "wire_cursor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void gm_printable(char *to, size_t capacity, const uint8_t *from, size_t size)
{
    const bool cut = size >= capacity;
    const size_t kept = cut ? capacity - 1 : size;
    for (size_t i = 0; i < kept; i++)
        to[i] = from[i] >= 0x20 && from[i] < 0x7f ? (char)from[i] : '?';
    if (cut && kept >= 2)
        to[kept - 1] = to[kept - 2] = '.';
    to[kept] = '\0';
}

/* "in[0]" and "offset" make "in[0].offset"; where both do not fit, the key alone. */
static void field_name(const struct gm_map *map, const char *key, char field[GM_FIELD_BYTES_MAX])
{
    if (map->name[0] == '\0' ||
        snprintf(field, GM_FIELD_BYTES_MAX, "%s.%s", map->name, key) >= (int)GM_FIELD_BYTES_MAX)
        snprintf(field, GM_FIELD_BYTES_MAX, "%s", key);
}

int gm_map_problem(const struct gm_map *map, uint32_t key, int code, const char *text, struct gm_problem *problem)
{
    char field[GM_FIELD_BYTES_MAX];
    field_name(map, map->names[key], field);
    if (!map->request)
        code = GM_EPROTO;
    return gm_problem_set(problem, code, field, "%s %s", field, text);
}

static int unknown_key(const struct gm_map *map, const struct gm_item *key, struct gm_problem *problem)
{
    char name[GM_FIELD_BYTES_MAX], field[GM_FIELD_BYTES_MAX];
    gm_printable(name, sizeof name, key->bytes, key->u);
    field_name(map, name, field);
    return gm_problem_set(problem, GM_EINVAL, field, "unknown key \"%s\"", name);
}

static int container_problem(const struct gm_map *map, const char *text, struct gm_problem *problem)
{
    const char *const name = map->name[0] != '\0' ? map->name : map->request ? "params" : "result";
    return gm_problem_set(problem, map->request ? GM_EINVAL : GM_EPROTO, name, "%s %s", name, text);
}

int gm_map_read(struct gm_map *map, struct gm_cursor *cursor, struct gm_problem *problem)
{
    struct gm_item head, key;

    for (uint32_t i = 0; i < map->count; i++)
        map->values[i] = (struct gm_cursor){NULL, NULL};
    if (!gm_cursor_next(cursor, &head) || head.type != GM_ITEM_MAP)
        return container_problem(map, "must be a map", problem);
    for (uint64_t pair = 0; pair < head.u; pair++) {
        uint32_t i = 0;
        if (!gm_cursor_next(cursor, &key) || key.type != GM_ITEM_STR)
            return container_problem(map, "has a key that is not a string", problem);
        while (i < map->count && !gm_same_text(map->names[i], key.bytes, key.u))
            i++;
        if (i == map->count && map->request)
            return unknown_key(map, &key, problem);
        if (i < map->count && map->values[i].at != NULL)
            return gm_map_problem(map, i, GM_EINVAL, "is there twice", problem);
        const uint8_t *const start = cursor->at;
        if (!gm_cursor_skip(cursor))
            return container_problem(map, "ends inside a value", problem);
        if (i < map->count)
            map->values[i] = (struct gm_cursor){start, cursor->at};
    }
    return GM_OK;
}

static const char *type_text(enum gm_item_type type)
{
    switch (type) {
    case GM_ITEM_UINT:
        return "must be an unsigned integer";
    case GM_ITEM_BOOL:
        return "must be true or false";
    case GM_ITEM_STR:
        return "must be a string";
    case GM_ITEM_ARRAY:
        return "must be an array";
    case GM_ITEM_BIN:
        return "must be binary data";
    default:
        return "has the wrong type";
    }
}

int gm_map_item(const struct gm_map *map, uint32_t key, enum gm_item_type type, struct gm_item *item,
                struct gm_problem *problem)
{
    struct gm_cursor c = map->values[key];
    if (c.at == NULL)
        return gm_map_problem(map, key, GM_EINVAL, "is missing", problem);
    if (!gm_cursor_next(&c, item) || item->type != type)
        return gm_map_problem(map, key, GM_EINVAL, type_text(type), problem);
    return GM_OK;
}

int gm_map_u64(const struct gm_map *map, uint32_t key, uint64_t *value, struct gm_problem *problem)
{
    struct gm_item item;
    const int rc = gm_map_item(map, key, GM_ITEM_UINT, &item, problem);
    if (rc == GM_OK)
        *value = item.u;
    return rc;
}

int gm_map_u32(const struct gm_map *map, uint32_t key, uint32_t *value, struct gm_problem *problem)
{
    uint64_t wide = 0;
    const int rc = gm_map_u64(map, key, &wide, problem);
    if (rc != GM_OK)
        return rc;
    if (wide > UINT32_MAX)
        return gm_map_problem(map, key, GM_EINVAL, "must fit 32 bits", problem);
    *value = (uint32_t)wide;
    return GM_OK;
}

int gm_map_bool(const struct gm_map *map, uint32_t key, bool *value, struct gm_problem *problem)
{
    struct gm_item item;
    const int rc = gm_map_item(map, key, GM_ITEM_BOOL, &item, problem);
    if (rc == GM_OK)
        *value = item.u != 0;
    return rc;
}

int gm_map_device(const struct gm_map *map, uint32_t key, bool *has, uint32_t *device, struct gm_problem *problem)
{
    uint64_t wide = 0;
    *has = gm_map_has(map, key);
    if (!*has)
        return GM_OK;
    const int rc = gm_map_u64(map, key, &wide, problem);
    if (rc != GM_OK)
        return rc;
    if (wide >= GM_DEVICES_MAX)
        return gm_map_problem(map, key, GM_ENODEVICE, "names a device that does not exist", problem);
    *device = (uint32_t)wide;
    return GM_OK;
}

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float float_of(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

bool gm_scalar_f64(const struct gm_item *item, double *value)
{
    switch (item->type) {
    case GM_ITEM_UINT:
        *value = (double)item->u;
        return true;
    case GM_ITEM_INT:
        *value = (double)(int64_t)item->u;
        return true;
    case GM_ITEM_F32:
        *value = float_of((uint32_t)item->u);
        return true;
    case GM_ITEM_F64:
        *value = double_of(item->u);
        return true;
    default:
        return false;
    }
}

/* A float with an integral value as an integer item. */
static bool integral(const struct gm_item *item, struct gm_item *integer)
{
    double v = 0;
    if (item->type == GM_ITEM_UINT || item->type == GM_ITEM_INT) {
        *integer = *item;
        return true;
    }
    if (!gm_scalar_f64(item, &v) || !(v >= -0x1p63 && v < 0x1p64))
        return false;
    integer->type = v < 0 ? GM_ITEM_INT : GM_ITEM_UINT;
    integer->u = v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
    return v == (v < 0 ? (double)(int64_t)integer->u : (double)integer->u);
}

static bool integer_bits(const struct gm_item *item, uint32_t dtype, uint64_t *bits)
{
    const uint64_t mask = UINT64_MAX >> (64 - 8 * gm_dtype_bytes(dtype));
    const bool is_signed = gm_dtype_kind(dtype) == 'i';
    struct gm_item v;
    if (!integral(item, &v))
        return false;
    if (v.type == GM_ITEM_UINT ? v.u > (is_signed ? mask >> 1 : mask) : !is_signed || ~v.u > mask >> 1)
        return false;
    *bits = v.u & mask;
    return true;
}

static bool f32_bits(const struct gm_item *item, uint64_t *bits)
{
    double v = 0;
    float narrow;
    uint32_t narrow_bits;
    if (item->type == GM_ITEM_F32) { /* as it is, with the payload of a NaN */
        *bits = item->u;
        return true;
    }
    if (!gm_scalar_f64(item, &v))
        return false;
    /* Integers are rounded once, not by way of f64. */
    narrow = item->type == GM_ITEM_UINT ? (float)item->u
             : item->type == GM_ITEM_INT ? (float)(int64_t)item->u
                                         : (float)v;
    if (isinf(narrow) && !isinf(v))
        return false;
    memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
    *bits = narrow_bits;
    return true;
}

static bool f64_bits(const struct gm_item *item, uint64_t *bits)
{
    double v = 0;
    if (!gm_scalar_f64(item, &v))
        return false;
    if (item->type == GM_ITEM_F64)
        *bits = item->u;
    else
        memcpy(bits, &v, sizeof v);
    return true;
}

/* 2 to an exponent that a normal f64 has. */
static double power_of_2(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* A number that is no NaN, for a type of 16 bits of which so many are the fraction, and the others but the sign the
 * exponent: rounded once, to even. False for what becomes infinite. */
static bool half_round(double v, int fraction, uint32_t infinity, uint32_t *rest)
{
    const int bias = (1 << (14 - fraction)) - 1;
    uint64_t wide;
    memcpy(&wide, &v, sizeof wide);
    const int exponent = (int)(wide >> 52 & 2047u) - 1023;
    const int first = exponent < 1 - bias ? 1 - bias : exponent; /* what the first bit of the fraction is a half of */
    *rest = infinity;
    if (first > bias)
        return isinf(v);
    const double units = fabs(v) * power_of_2(fraction - first);
    *rest = ((uint32_t)(first + bias - 1) << fraction) + (uint32_t)(units + 0x1p52 - 0x1p52);
    return *rest < infinity;
}

static bool half_bits(const struct gm_item *item, int fraction, uint64_t *bits)
{
    const uint32_t infinity = 0x7fffu >> fraction << fraction;
    const bool negative = item->type == GM_ITEM_INT;
    const uint64_t u = negative ? UINT64_C(0) - item->u : item->u, payload = item->type == GM_ITEM_F32 ? u << 29 : u;
    double v = 0;
    uint32_t rest;
    if (!gm_scalar_f64(item, &v))
        return false;
    if (isnan(v)) { /* with the highest bits of the payload */
        rest = (uint32_t)(payload >> (52 - fraction)) & ((1u << fraction) - 1u);
        rest = infinity | (rest != 0 ? rest : 1u << (fraction - 1));
    } else {
        /* What f64 loses of an integer keeps it odd, so that it does not look like a half. */
        if ((negative || item->type == GM_ITEM_UINT) && u >> 53 != 0)
            v = copysign((double)((u & ~UINT64_C(0x7ff)) | ((u & 0x7ffu) != 0 ? 0x800u : 0)), v);
        if (!half_round(v, fraction, infinity, &rest))
            return false;
    }
    *bits = (signbit(v) ? 0x8000u : 0) | rest;
    return true;
}

bool gm_scalar_bits(const struct gm_item *item, uint32_t dtype, uint64_t *bits)
{
    if (dtype >= GM_DTYPE_COUNT || (GM_SCALAR_TYPES >> dtype & 1u) == 0)
        return false;
    if (dtype == GM_DTYPE_f32)
        return f32_bits(item, bits);
    if (dtype == GM_DTYPE_f64)
        return f64_bits(item, bits);
    if (dtype == GM_DTYPE_f16 || dtype == GM_DTYPE_bf16)
        return half_bits(item, dtype == GM_DTYPE_f16 ? 10 : 7, bits);
    return integer_bits(item, dtype, bits);
}

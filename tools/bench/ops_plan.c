/* SPDX-License-Identifier: Apache-2.0
 *
 * See ops_plan.h. Arguments are chosen by their names, and by their types where a name has no rule; sizes of buffers
 * follow from them as they do in a job.
 */
#include "ops_plan.h"

#include <stdio.h>
#include <string.h>

#include "wire.h"

const uint32_t *gm_ops_sizes(void)
{
    static const uint32_t sizes[] = {
#define X(log2) log2,
        GM_OPS_SIZES(X)
#undef X
            0};
    return sizes;
}

bool gm_ops_row(const char *name, struct gm_op_row *row)
{
    const int op = gm_op_by_name(name, strlen(name));
    if (op >= 0)
        *row = gm_op_row((uint32_t)op);
    return op >= 0;
}

uint32_t gm_ops_types(const struct gm_op_row *row)
{
    static const uint32_t order[] = {GM_DTYPE_f32, GM_DTYPE_i32, GM_DTYPE_u32, GM_DTYPE_u8};
    uint32_t types = 0;
    for (uint32_t i = 0; i < sizeof order / sizeof *order && types == 0; i++)
        types = row->types & (1u << order[i]);
    if (types == 0)
        types = row->types & (~row->types + 1u);
    if (row->shape == GM_SHAPE_SCAN && row->tolerance == GM_TOLERANCE_SUM)
        types |= row->types & GM_TYPE(i32); /* integers add in any order */
    if (row->shape == GM_SHAPE_CHANNELS)
        types |= row->types & GM_TYPE(u8); /* what pixels are */
    return types;
}

enum gm_ops_data gm_ops_first_data(const struct gm_op_row *row)
{
    return row->shape == GM_SHAPE_UNIQUE || row->shape == GM_SHAPE_RUNS ? GM_OPS_RUNS : GM_OPS_WIDE;
}

bool gm_ops_poorer(enum gm_ops_data *data)
{
    if (*data == GM_OPS_ONES)
        return false;
    *data = *data == GM_OPS_WIDE ? GM_OPS_SMALL : *data == GM_OPS_SMALL ? GM_OPS_ONES : GM_OPS_SMALL;
    return true;
}

/* Of a set, the first that is not like the elements: indices of 32 bits, and what elements are cast to. */
static uint8_t second_type(const struct gm_op_row *row, uint32_t dtype)
{
    static const uint32_t order[] = {GM_DTYPE_i32, GM_DTYPE_f32, GM_DTYPE_u32};
    const bool indices = row->args >> GM_A_index & 1u;
    for (uint32_t i = 0; i < sizeof order / sizeof *order; i++)
        if ((row->types2 >> order[i] & 1u) && (indices || order[i] != dtype))
            return (uint8_t)order[i];
    uint8_t dtype2 = 0;
    while (dtype2 < GM_DTYPE_COUNT - 1 && !(row->types2 >> dtype2 & 1u))
        dtype2++;
    return dtype2;
}

/* Elements of a row, so that there are as many rows or half as many; where such rows do not come out even, the next
 * lower power of two with which they do. */
static uint64_t width_of(const struct gm_ops_plan *plan)
{
    uint64_t width = UINT64_C(1) << (plan->log2 + 1u) / 2u;
    while (plan->args.n % width != 0)
        width /= 2u;
    return width;
}

static void choose_count(struct gm_ops_plan *plan, uint32_t arg, uint32_t *count)
{
    const bool flat = plan->row.args >> GM_A_bins_y & 1u;
    switch (arg) {
    case GM_A_bins:
        *count = flat ? GM_OPS_BINS_2D : GM_OPS_BINS;
        break;
    case GM_A_bins_y:
        *count = GM_OPS_BINS_2D;
        break;
    case GM_A_channels:
        *count = GM_OPS_CHANNELS;
        break;
    case GM_A_compare:
        *count = GM_COMPARE_lt;
        break;
    default:
        *count = GM_OPS_COUNT;
        break;
    }
}

static uint64_t choose_value(const struct gm_ops_plan *plan, uint32_t arg)
{
    const uint32_t dtype = plan->args.dtype;
    const double low = gm_ops_low(dtype, plan->data), range = gm_ops_range(dtype, plan->data);
    switch (arg) {
    case GM_A_value: /* half of the elements are less */
        return gm_ops_element(dtype, low + range / 2.0);
    case GM_A_high: /* not with this comparison */
        return 0;
    case GM_A_lower:
        return gm_ops_element(dtype, low + range / 4.0);
    case GM_A_upper:
        return gm_ops_element(dtype, low + range / 4.0 * 3.0);
    case GM_A_lo:
    case GM_A_lo_y:
        return gm_ops_f64_bits(low);
    case GM_A_hi:
    case GM_A_hi_y:
        return gm_ops_f64_bits(low + range);
    case GM_A_length:
        return plan->args.n;
    case GM_A_segments:
        return plan->args.n > GM_OPS_SEGMENT ? plan->args.n / GM_OPS_SEGMENT : 1u;
    case GM_A_width:
        return width_of(plan);
    default:
        return gm_arg_type(arg) == GM_ARG_ELEMENT ? gm_ops_element(dtype, 1.0)
               : gm_arg_type(arg) == GM_ARG_F64   ? gm_ops_f64_bits(1.0)
                                                  : plan->args.n;
    }
}

static void choose(struct gm_ops_plan *plan, uint32_t arg)
{
    const uint32_t place = gm_arg_place(arg);
    if (place < GM_ARG_VALUES)
        plan->args.value[place] = choose_value(plan, arg);
    else if (place == GM_AT_COUNT)
        choose_count(plan, arg, &plan->args.count);
    else if (place == GM_AT_COUNT2)
        choose_count(plan, arg, &plan->args.count2);
    else if (place == GM_AT_TYPE2)
        plan->args.type2 = second_type(&plan->row, plan->args.dtype);
}

/* Whether a buffer grows with the job, so that every job of a turn has another one. */
static bool taken_in_turn(const struct gm_op_row *row, uint32_t i)
{
    const uint32_t extent = gm_buffer_extent(row->buffer[i]);
    return extent == GM_EXTENT_N || extent == GM_EXTENT_RESULT || extent == GM_EXTENT_PIXELS ||
           (extent == GM_EXTENT_LENGTH && (row->args >> GM_A_length & 1u));
}

bool gm_ops_plan_sized(struct gm_ops_plan *plan, const char *name, const struct gm_op_row *row, uint32_t dtype,
                       enum gm_ops_data data, uint64_t elements, uint32_t bins, enum gm_complaint *complaint)
{
    memset(plan, 0, sizeof *plan);
    plan->name = name;
    plan->row = *row;
    plan->log2 = 63u - (uint32_t)__builtin_clzll(elements | 1u);
    plan->data = data;
    plan->places = 1;
    plan->buffers = (uint32_t)row->inputs + row->outputs;
    *complaint = GM_COMPLAINT_NONE;
    if (row->types == GM_NO_TYPES)
        return true;
    plan->args.dtype = (uint8_t)dtype;
    plan->args.n = elements / (row->args >> GM_A_channels & 1u ? GM_OPS_CHANNELS : 1u);
    for (uint32_t arg = 0; arg < GM_ARGS; arg++)
        if (row->args >> arg & 1u)
            choose(plan, arg);
    if (bins != 0 && (row->args >> GM_A_bins & 1u))
        plan->args.count = bins;
    if (bins != 0 && (row->args >> GM_A_bins_y & 1u))
        plan->args.count2 = bins;
    *complaint = gm_args_check(row, &plan->args);
    if (*complaint != GM_COMPLAINT_NONE)
        return false;
    for (uint32_t i = 0; i < plan->buffers; i++)
        plan->bytes[i] = gm_buffer_bytes(row, i, &plan->args);
    return true;
}

bool gm_ops_plan_make(struct gm_ops_plan *plan, const char *name, const struct gm_op_row *row, uint32_t dtype,
                      enum gm_ops_data data, uint32_t log2, uint64_t rotated_bytes, enum gm_complaint *complaint)
{
    if (!gm_ops_plan_sized(plan, name, row, dtype, data, UINT64_C(1) << log2, 0, complaint))
        return false;
    for (uint32_t i = row->types == GM_NO_TYPES ? 0 : plan->buffers; i-- > 0;) {
        plan->step[i] = taken_in_turn(row, i) ? plan->bytes[i] : 0;
        if (plan->step[i] != 0) /* at last the first of them */
            plan->places = rotated_bytes > plan->bytes[i] ? rotated_bytes / plan->bytes[i] : 1u;
    }
    return true;
}

void gm_ops_figure_name(char *text, size_t size, const char *before, const struct gm_ops_plan *plan, const char *behind)
{
    if (plan->row.types == GM_NO_TYPES)
        snprintf(text, size, "%sop_%s%s", before, plan->name, behind);
    else
        snprintf(text, size, "%sop_%s_%s_%u%s", before, plan->name, gm_dtype_name(plan->args.dtype), plan->log2,
                 behind);
}

uint64_t gm_ops_room(const struct gm_ops_plan *plan, uint32_t i)
{
    return plan->bytes[i] + plan->step[i] * (plan->places - 1u);
}

uint64_t gm_ops_moved(const struct gm_ops_plan *plan, uint64_t result)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->buffers; i++)
        sum += gm_buffer_extent(plan->row.buffer[i]) == GM_EXTENT_RESULT && result <= plan->args.n
                   ? result * gm_buffer_element(&plan->row, i, &plan->args)
                   : plan->bytes[i];
    return sum;
}

bool gm_ops_fill(const struct gm_ops_plan *plan, uint32_t i, uint64_t bytes, void *chunk, uint64_t chunk_bytes,
                 gm_ops_put *put, void *context)
{
    const uint32_t element = gm_buffer_element(&plan->row, i, &plan->args);
    const uint32_t content = gm_buffer_content(plan->row.buffer[i]);
    const uint64_t count = bytes / element, step = chunk_bytes / element;
    const bool repeats = content == GM_CONTENT_T || content == GM_CONTENT_INDEX;
    uint64_t made = repeats && count > GM_OPS_BLOCK ? GM_OPS_BLOCK : count;
    for (uint64_t first = 0; first < made; first += step) {
        const uint64_t now = made - first < step ? made - first : step;
        for (uint64_t k = 0; k < now; k++) {
            const uint64_t bits = gm_ops_value(plan, i, first + k);
            memcpy((uint8_t *)chunk + k * element, &bits, element); /* the low bytes: little endian, as all here */
        }
        if (!put(context, false, 0, first * element, now * element))
            return false;
    }
    for (; made < count; made *= 2u)
        if (!put(context, true, 0, made * element, (made < count - made ? made : count - made) * element))
            return false;
    return true;
}

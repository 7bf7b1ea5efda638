/* SPDX-License-Identifier: Apache-2.0
 *
 * Times the peers of the catalogue's ops: the same sizes, the same data, inputs taken in turn from as much memory, from
 * the call to the end of the stream's synchronisation. An op that is not in the catalogue has no peer. One thread, one
 * stream; scratch memory is there before the clock starts.
 */
#include "peers.cuh"
#include "peers_ops.cuh"

#define RESULT_BYTES 256u
#define WARM_UP 5u
#define ENOUGH 10u
#define PATIENCE 20u /* of the budget, as bench_ops has it */

static const struct gm_peers_op *const tables[] = {gm_peers_map_ops,  gm_peers_reduce_ops, gm_peers_segment_ops,
                                                   gm_peers_scan_ops, gm_peers_select_ops, gm_peers_histogram_ops,
                                                   gm_peers_sort_ops};

/* Memory that grows: of the buffers, the result, scratch. */
struct grown {
    uint8_t *memory;
    uint64_t bytes;
};

struct ops_place {
    struct gm_peers_place place;
    struct grown buffer[GM_BUFFERS_MAX], scratch;
    void *result;
    uint64_t rotated_bytes, budget_ns;
};

/* Elements of one buffer, for all places. */
static __global__ void fill(struct gm_ops_plan plan, uint32_t b, uint32_t element, uint8_t *to, uint64_t count)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
         i += (uint64_t)gridDim.x * blockDim.x) {
        const uint64_t bits = gm_ops_value(&plan, b, i);
        if (element == 1u)
            to[i] = (uint8_t)bits;
        else if (element == 2u)
            ((uint16_t *)to)[i] = (uint16_t)bits;
        else if (element == 4u)
            ((uint32_t *)to)[i] = (uint32_t)bits;
        else
            ((uint64_t *)to)[i] = bits;
    }
}

static cudaError_t grow(struct grown *g, uint64_t bytes)
{
    if (g->bytes >= bytes)
        return cudaSuccess;
    cudaError_t error = cudaFree(g->memory);
    g->memory = NULL;
    g->bytes = 0;
    if (error == cudaSuccess)
        error = cudaMalloc((void **)&g->memory, bytes);
    g->bytes = error == cudaSuccess ? bytes : 0;
    return error;
}

static cudaError_t prepare(struct ops_place *o, const struct gm_ops_plan *plan)
{
    cudaError_t error = cudaSuccess;
    for (uint32_t i = 0; i < plan->buffers && error == cudaSuccess; i++) {
        const uint32_t element = gm_buffer_element(&plan->row, i, &plan->args);
        error = grow(&o->buffer[i], gm_ops_room(plan, i));
        if (error != cudaSuccess || i >= plan->row.inputs)
            continue;
        fill<<<2048, 256, 0, o->place.stream>>>(*plan, i, element, o->buffer[i].memory, gm_ops_room(plan, i) / element);
        error = cudaGetLastError();
    }
    return error == cudaSuccess ? cudaStreamSynchronize(o->place.stream) : error;
}

static void move(const struct ops_place *o, struct gm_peers_job *job, uint64_t place)
{
    const struct gm_ops_plan *plan = job->plan;
    for (uint32_t i = 0; i < plan->buffers; i++) {
        uint8_t *at = o->buffer[i].memory + place * plan->step[i];
        if (i < plan->row.inputs)
            job->in[i] = at;
        else
            job->out[i - plan->row.inputs] = at;
    }
}

static cudaError_t series(struct gm_peers *peers, struct ops_place *o, struct gm_peers_job *job, gm_peers_call *call,
                          size_t bytes)
{
    struct gm_samples *samples = &o->place.samples;
    const uint64_t start = gm_peers_now_ns();
    uint64_t end = start;
    samples->count = 0;
    for (size_t i = 0; i < peers->samples + WARM_UP; i++) {
        if ((i >= WARM_UP + ENOUGH && end - start > o->budget_ns) ||
            (i > WARM_UP && end - start > PATIENCE * o->budget_ns))
            break;
        size_t scratch_bytes = bytes;
        move(o, job, i % job->plan->places);
        const uint64_t begin = gm_peers_now_ns();
        cudaError_t error = call(job, o->scratch.memory, &scratch_bytes);
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(o->place.stream);
        end = gm_peers_now_ns();
        if (error != cudaSuccess)
            return error;
        if (i >= WARM_UP)
            gm_samples_add(samples, end - begin);
    }
    return cudaSuccess;
}

/* How much it wrote, where that depends on the data. */
static cudaError_t count_of(const struct ops_place *o, uint64_t *count)
{
    int value = 0;
    const cudaError_t error = cudaMemcpy(&value, o->result, sizeof value, cudaMemcpyDeviceToHost);
    *count = (uint64_t)value;
    return error;
}

static int one_case(struct gm_peers *peers, struct ops_place *o, struct gm_figures *figures,
                    const struct gm_peers_op *peer, const struct gm_ops_plan *plan)
{
    void *const answer = static_cast<uint8_t *>(o->result) + RESULT_BYTES / 2u; /* of an op without an output */
    struct gm_peers_job job = {plan, {NULL, NULL}, {answer, answer}, o->result, o->place.stream, (int)plan->args.n};
    char name[96], what[160];
    size_t bytes = 0;
    uint64_t count = 0;
    cudaError_t error = prepare(o, plan);
    gm_ops_figure_name(name, sizeof name, "peer_", plan, "");
    move(o, &job, 0);
    if (error == cudaSuccess)
        error = peer->call(&job, NULL, &bytes); /* one that needs no scratch leaves it at 0, and runs */
    if (error == cudaSuccess)
        error = cudaStreamSynchronize(o->place.stream);
    if (error == cudaSuccess)
        error = grow(&o->scratch, bytes > 256u ? bytes : 256u); /* never NULL: that would ask again */
    if (error == cudaSuccess)
        error = series(peers, o, &job, peer->call, bytes);
    if (error == cudaSuccess)
        error = count_of(o, &count);
    if (error != cudaSuccess) { /* the others may work all the same */
        gm_figures_skipped(figures, name, cudaGetErrorString(error));
        return gm_peers_failed(peers, name, error);
    }
    const struct gm_figure_part part = {"bytes", (double)gm_ops_moved(plan, count)};
    snprintf(what, sizeof what, "%s, launch + sync, %llu in turn", peer->what, (unsigned long long)plan->places);
    gm_figures_latency_with(figures, name, what, &o->place.samples, &part, 1);
    return 0;
}

static int one_peer(struct gm_peers *peers, struct ops_place *o, struct gm_figures *figures,
                    const struct gm_peers_op *peer, unsigned log2_max)
{
    struct gm_op_row row;
    struct gm_ops_plan plan;
    enum gm_complaint complaint;
    int status = 0;
    if (!gm_ops_row(peer->op, &row))
        return 0;
    for (const uint32_t *log2 = gm_ops_sizes(); *log2 != 0 && *log2 <= log2_max; log2++) {
        if (!gm_ops_plan_make(&plan, peer->op, &row, peer->dtype, gm_ops_first_data(&row), *log2, o->rotated_bytes,
                              &complaint))
            return gm_peers_failed(peers, peer->op, cudaErrorInvalidValue);
        status |= one_case(peers, o, figures, peer, &plan);
        if (row.types == GM_NO_TYPES)
            break; /* it has no size */
    }
    return status;
}

extern "C" int gm_peers_ops(struct gm_peers *peers, struct gm_figures *figures, unsigned log2_max,
                            uint64_t rotated_bytes, uint64_t budget_ns)
{
    struct ops_place o = {};
    o.rotated_bytes = rotated_bytes;
    o.budget_ns = budget_ns;
    if (gm_peers_open(peers, &o.place) != 0)
        return -1;
    cudaError_t error = cudaMalloc(&o.result, RESULT_BYTES);
    if (error == cudaSuccess)
        error = cudaMemset(o.result, 0, RESULT_BYTES);
    int status = error == cudaSuccess ? 0 : gm_peers_failed(peers, "ops: device memory", error);
    for (size_t i = 0; i < sizeof tables / sizeof *tables && error == cudaSuccess; i++)
        for (const struct gm_peers_op *peer = tables[i]; peer->op; peer++)
            status |= one_peer(peers, &o, figures, peer, log2_max);
    for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++)
        (void)cudaFree(o.buffer[i].memory);
    (void)cudaFree(o.scratch.memory);
    (void)cudaFree(o.result);
    gm_peers_close(&o.place);
    return status;
}

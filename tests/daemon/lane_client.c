/* SPDX-License-Identifier: Apache-2.0
 *
 * See lane_client.h. Everything is written by hand, granule by granule, so that a test can also do it wrong. One
 * thread.
 */
#include "lane_client.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "errors.h"

void lane_ask(struct client *c, int device, uint32_t slots)
{
    struct gm_wire_request open = request_of(GM_METHOD_LANE_OPEN);
    open.u.lane_open.has_device = device >= 0, open.u.lane_open.device = (uint32_t)device;
    open.u.lane_open.slots = slots;
    client_send(c, &open);
}

int lane_receive(struct client *c, struct lane *lane)
{
    struct gm_wire_response response;
    assert_true(client_receive(c, &response));
    memset(lane, 0, sizeof *lane);
    if (response.failed) {
        assert_int_equal(c->passed_count, 0);
        return response.problem.code;
    }
    lane->handle = (uint32_t)response_u64(&response, "lane");
    lane->device = (uint32_t)response_u64(&response, "device");
    lane->slots = (uint32_t)response_u64(&response, "slots");
    lane->bytes = response_u64(&response, "bytes");
    lane->start = lane->next = response_u64(&response, "start");
    lane->log2 = (uint32_t)__builtin_ctz(lane->slots);
    assert_int_equal(c->passed_count, 3);
    lane->fd = c->passed[0], lane->doorbell = c->passed[1], lane->wake = c->passed[2];
    c->passed_fd = -1;
    void *memory = mmap(NULL, lane->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, lane->fd, 0);
    assert_true(memory != MAP_FAILED);
    lane->memory = memory;
    lane->header = (struct gm_lane_header *)memory;
    return GM_OK;
}

int lane_open(struct client *c, int device, uint32_t slots, struct lane *lane)
{
    lane_ask(c, device, slots);
    return lane_receive(c, lane);
}

int lane_close(struct client *c, const struct lane *lane)
{
    struct gm_wire_request close = request_of(GM_METHOD_LANE_CLOSE);
    struct gm_wire_response response;
    close.u.lane_close.lane = lane->handle;
    client_call(c, &close, &response);
    return response.failed ? response.problem.code : GM_OK;
}

void lane_unmap(struct lane *lane)
{
    munmap(lane->memory, lane->bytes);
    close(lane->fd), close(lane->doorbell), close(lane->wake);
}

uint64_t lane_put(struct lane *lane, uint32_t op, uint64_t n)
{
    return lane_put_on(lane, op, 0, n);
}

uint64_t lane_put_on(struct lane *lane, uint32_t op, uint32_t arena, uint64_t n)
{
    uint32_t words[GM_DESC_WORDS] = {[GM_W_OP] = op, [GM_W_ARENA0] = arena};
    const uint64_t one = 1, position = lane->next++;
    gm_desc_put64(words, GM_W_N, n);
    gm_desc_store((struct gm_desc_slot *)(void *)(lane->memory + gm_lane_sq_offset()), lane->log2, position, words, 0);
    gm_fence_sys(); /* store-load: pairs with the fence between setting asleep and the last look at the lane */
    if (gm_load_relaxed_sys_u32(&lane->header->asleep) != 0)
        assert_int_equal(write(lane->doorbell, &one, sizeof one), sizeof one);
    return position;
}

bool lane_look(const struct lane *lane, uint64_t position, int *status, uint64_t *result)
{
    const struct gm_granule *cq =
        (const struct gm_granule *)(const void *)(lane->memory + gm_lane_cq_offset(lane->slots));
    const struct gm_granule g = gm_load16_sys(&cq[position & (lane->slots - 1u)]);
    if (g.w[3] != gm_lap(position, lane->log2))
        return false;
    if (status != NULL)
        *status = gm_completion_status(g);
    if (result != NULL)
        *result = gm_completion_result(g);
    return true;
}

int lane_wait(const struct lane *lane, uint64_t position)
{
    int status = GM_EAGAIN;
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(1))
        if (lane_look(lane, position, &status, NULL))
            return status;
    fail_msg("position %llu is not answered", (unsigned long long)position);
    return status;
}

void lane_wait_state(const struct lane *lane, uint32_t state)
{
    for (const uint64_t until = now_ms() + WAIT_MS; now_ms() < until; sleep_ms(1))
        if (gm_load_acquire_sys_u32(&lane->header->state) == state)
            return;
    fail_msg("the lane is in state %u and not %u", gm_load_acquire_sys_u32(&lane->header->state), state);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill.h as C++17: compiled, and every inline function of it used once. One thread.
 */
#include "gridmill.h"

static_assert(sizeof(gm_job) == 49 * 8, "as in C");

int main()
{
    const float data[2] = {1, 2};
    struct gm_request request = gm_request("sum", GM_F32, 2);

    request.in[0] = gm_in_memory(data, sizeof data);
    request.in[1] = gm_in_arena(nullptr, 0, 0);
    request.value = gm_bits_f32(1.0f) ^ gm_bits_f64(1.0);
    return request.device == GM_DEVICE_ANY && gm_strerror(GM_EBUSY) != nullptr ? 0 : 1;
}

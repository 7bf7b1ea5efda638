/* SPDX-License-Identifier: Apache-2.0
 *
 * gridmill.h as C++11 and C++17: compiled, every inline function of it used once, every argument of a request set by
 * its name, and arguments of one place seen to be one. One thread.
 */
#include "gridmill.h"

#include <cstddef>

static_assert(sizeof(gm_job) == 49 * 8, "as in C");
static_assert(sizeof(struct gm_request) == 240 && offsetof(struct gm_request, in) == 80, "as in C");

// What one op takes beside another lies elsewhere; what none takes together may share.
static bool members_are_apart_and_shared()
{
    struct gm_request r = gm_request("axpby", GM_F64, 1);

    r.alpha = 1, r.beta = 2, r.right = 3, r.hi_y = 4.0, r.bins = 5, r.channels = 6, r.index = GM_I64;
    r.descending = 0, r.exclusive = 1;
    if (r.value != 1 || r.lower != 1 || r.left != 1 || r.length != 1 || r.segments != 1 || r.width != 1)
        return false;
    if (r.high != 2 || r.upper != 2 || r.center != 2 || r.compare != 5 || r.bins_y != 6 || r.to != GM_I64)
        return false;
    r.lo = -1.5, r.hi = 2.5, r.lo_y = 0.5, r.compare = GM_OUTSIDE;
    return r.value == gm_bits_f64(-1.5) && r.high == gm_bits_f64(2.5) && r.right == gm_bits_f64(0.5) && r.bins == 7 &&
           r.hi_y > 3.0 && r.exclusive == 1 && r.descending == 0;
}

int main()
{
    const float data[2] = {1, 2};
    struct gm_request request = gm_request("sum", GM_F32, 2);

    request.in[0] = gm_in_memory(data, sizeof data);
    request.in[1] = gm_in_arena(nullptr, 0, 0);
    request.value = gm_bits_f32(1.0f) ^ gm_bits_f64(1.0);
    const bool good = request.device == GM_DEVICE_ANY && gm_strerror(GM_EBUSY) != nullptr;
    return good && members_are_apart_and_shared() ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the decoders of responses and of their results: texts end, outputs lie inside the frame, and a result is of
 * its type. One thread, no allocation.
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"version", "session", "arena", "bytes", "wait_ns", ""};
    struct gm_wire_response response;
    struct gm_wire_done done;
    struct gm_problem problem;
    uint64_t value;

    int rc = gm_wire_decode_response(data, size, &response, &problem);
    must(rc == problem.code && memchr(problem.text, '\0', sizeof problem.text) != NULL);
    if (rc != GM_OK)
        return 0;
    must(response.result >= data && response.result + response.result_bytes == data + size);
    if (response.failed) {
        must(response.problem.code < 0);
        must(memchr(response.problem.text, '\0', sizeof response.problem.text) != NULL);
        must(memchr(response.problem.field, '\0', sizeof response.problem.field) != NULL);
        return 0;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        rc = gm_wire_result_u64(&response, keys[i], &value, &problem);
        must(rc == GM_OK || rc == GM_EPROTO);
    }
    rc = gm_wire_decode_done(&response, &done, &problem);
    must_be_whole(&problem, rc);
    if (rc != GM_OK)
        return 0;
    must(done.result_dtype <= GM_DTYPE_COUNT);
    if (done.result_dtype < GM_DTYPE_COUNT && gm_dtype_bytes(done.result_dtype) < 8)
        must(done.result >> (8 * gm_dtype_bytes(done.result_dtype)) == 0);
    if (done.out != NULL)
        must(done.out >= response.result && done.out + done.out_bytes <= data + size);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the decoders of responses and of their results: texts end, outputs lie inside the frame, and a result is of
 * its type. One thread, no allocation.
 */
#include "fuzz.h"

static void check_results(const struct gm_wire_response *response)
{
    static const char *const keys[] = {"version", "session", "arena", "bytes", "wait_ns", "lane", "skip", "kind", ""};
    struct gm_wire_arena arenas[4];
    struct gm_problem problem;
    char text[GM_NAME_BYTES_MAX];
    uint64_t value;
    uint32_t count;
    bool flag;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int rc = gm_wire_result_u64(response, keys[i], &value, &problem);
        must(rc == GM_OK || rc == GM_EPROTO);
        rc = gm_wire_result_bool(response, keys[i], &flag, &problem);
        must(rc == GM_OK || rc == GM_EPROTO);
        rc = gm_wire_result_text(response, keys[i], text, sizeof text, &problem);
        must(rc == GM_OK ? memchr(text, '\0', sizeof text) != NULL : rc == GM_EPROTO);
    }
    const int rc = gm_wire_decode_arenas(response, arenas, 4, &count, &problem);
    must_be_whole(&problem, rc);
    for (uint32_t i = 0; rc == GM_OK && i < count && i < 4; i++)
        must(memchr(arenas[i].name, '\0', sizeof arenas[i].name) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gm_wire_response response;
    struct gm_wire_done done;
    struct gm_problem problem;

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
    check_results(&response);
    rc = gm_wire_decode_done(&response, &done, &problem);
    must_be_whole(&problem, rc);
    if (rc != GM_OK)
        return 0;
    must(done.result_dtype <= GM_DTYPE_COUNT);
    if (done.result_dtype < GM_DTYPE_COUNT && gm_dtype_bytes(done.result_dtype) < 8)
        must(done.result >> (8 * gm_dtype_bytes(done.result_dtype)) == 0);
    must(done.outputs <= GM_OUTPUTS_MAX);
    for (uint32_t i = 0; i < GM_OUTPUTS_MAX; i++) {
        must(done.out[i].bytes == NULL ? done.out[i].size == 0 : i < done.outputs);
        if (done.out[i].bytes != NULL)
            must(done.out[i].bytes >= response.result && done.out[i].size <= size &&
                 done.out[i].bytes + done.out[i].size <= data + size);
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the protocol's tests share: building message bodies, decoding them from memory of exactly their size, so that
 * AddressSanitizer sees a byte read too many, and one good request for every method and every op. One thread.
 */
#ifndef GM_TESTS_PROTO_MESSAGE_H
#define GM_TESTS_PROTO_MESSAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire.h"
#include "wire_cursor.h"

struct message {
    struct gm_wire_out out; /* the body, without a length */
    uint8_t bytes[8192];
};

void message_clear(struct message *m);
void message_raw(struct message *m, const void *bytes, size_t size);

/* Bodies of good requests: [0, 7, method, params]. */
#define GOOD_REQUESTS_MAX (2u * GM_OP_COUNT * GM_DTYPE_COUNT + 64u) /* ops, types, places; the other methods */
struct good {
    char name[64];
    struct gm_wire_request request;
};
size_t good_requests(struct good *list);
void message_request(struct message *m, const struct gm_wire_request *request);

/* Decoding from a copy of exactly this size. Inline inputs of the result point into memory that is gone. */
int decode_request(const struct message *m, size_t size, struct gm_wire_request *request, bool *has_id,
                   struct gm_problem *problem);
int decode_response(const struct message *m, size_t size, struct gm_wire_response *response,
                    struct gm_problem *problem);
int scan(const struct message *m, size_t size, struct gm_problem *problem);

/* Decodes a whole request and checks code and field. */
void expect_request(const struct message *m, int code, const char *field);

/* Begins [0, 7, method, map of pairs]. */
void message_begin(struct message *m, const char *method, uint32_t pairs);

#endif

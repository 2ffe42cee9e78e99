/*
 * steps - what the targets share in which things happen to one node of three: its keys, and the list of
 * steps that is the input behind its first byte. A step is a byte that says what happens, two of length,
 * and the bytes of the message or of the keys it happens to.
 */
#ifndef FUZZ_STEPS_H
#define FUZZ_STEPS_H

#include "fuzz/fuzz.h"

#include <string.h>

#include "core/core.h"
#include "support/view.h"

enum { FUZZ_KEYS = 16, FUZZ_LENGTH = 2, FUZZ_NODES = 3, FUZZ_STEPS = 64, FUZZ_MOST = 256 };

struct site; /* of the target: the node with its table */

static inline bool is_home_of(const void *context, uint64_t key)
{
    const struct core *core = context;
    return ring_home(core->view, key) == core->node;
}

static inline struct tern_table_options table_options(bool sparse)
{
    return (struct tern_table_options){.struct_size = sizeof(struct tern_table_options),
                                       .index = sparse ? TERN_SPARSE : TERN_DENSE,
                                       .type = TERN_I64,
                                       .n_keys = sparse ? 0 : FUZZ_KEYS,
                                       .length = FUZZ_LENGTH};
}

/* The keys that bytes stand for, FUZZ_MOST at the most; their number. */
static inline size_t keys_in(const uint8_t *bytes, size_t n, uint64_t keys[FUZZ_MOST])
{
    n = n < FUZZ_MOST ? n : FUZZ_MOST;
    for (size_t i = 0; i < n; i++)
        keys[i] = bytes[i] % FUZZ_KEYS;
    return n;
}

/* What happens in a step, of eight things. */
typedef void step_function(struct site *site, unsigned what, const uint8_t *bytes, size_t n);

/* Takes one step after the other. */
static inline void take_steps(struct site *site, const uint8_t *data, size_t size,
                              step_function *step)
{
    size_t at = 0;
    for (int i = 0; i < FUZZ_STEPS && size - at >= 3; i++) {
        size_t n = data[at + 1] | (size_t)(data[at + 2] & 15) << 8;
        unsigned what = data[at] & 7;
        at += 3;
        n = n < size - at ? n : size - at;
        /* The server aligns what it hands over. */
        uint8_t *bytes = malloc(n > 0 ? n : 1);
        require(bytes);
        if (n > 0)
            memcpy(bytes, data + at, n);
        step(site, what, bytes, n);
        free(bytes);
        at += n;
    }
}

/* ---- Requests ------------------------------------------------------------------------------------ */

/* What a target says about a request: how it is served, and a copy of what it can change, as `bytes` bytes. */
struct serving {
    enum tern_status (*serve)(struct site *site, uint32_t from, const struct frame *request,
                              const uint8_t *body, struct buffer *out);
    void (*take_image)(const struct site *site, void *image);
    size_t bytes;
};

/* Serves a request of these bytes: a refused one changes nothing, and the answer to another is whole. */
static inline void check_serving(struct site *site, const struct serving *serving, uint32_t from,
                                 const uint8_t *body, size_t bytes)
{
    const struct frame request = {.kind = FRAME_ROUND, .number = 1, .body_bytes = (uint32_t)bytes};
    struct buffer out = {0};
    uint8_t *before = malloc(serving->bytes), *after = malloc(serving->bytes);
    require(before && after);
    serving->take_image(site, before);
    if (serving->serve(site, from, &request, body, &out)) {
        serving->take_image(site, after);
        require(memcmp(before, after, serving->bytes) == 0);
        require(buffer_size(&out) == 0);
    } else {
        struct frame answer;
        require(frame_decode(buffer_head(&out), &answer) == TERN_OK);
        require(buffer_size(&out) == FRAME_HEADER_BYTES + answer.body_bytes);
    }
    buffer_free(&out);
    free(before);
    free(after);
}

#endif

/*
 * hello - the first frame of every connection: who calls, for which job, on which lane, and which shard.
 *
 * HELLO: a = incarnation of the caller's process, b = lane, table = shard that is called; payload: u32 node, u32 number
 * of nodes, and the job's token.
 */
#ifndef NODE_HELLO_H
#define NODE_HELLO_H

#include "base/buffer.h"
#include "core/core.h"
#include "node/place.h"
#include "wire/frame.h"

enum { HELLO_MAX_BYTES = 8 + sizeof((struct place *)0)->token };

struct hello {
    uint32_t node, shard;
    uint64_t incarnation;
    uint64_t lane;
};

bool hello_append(struct buffer *out, const struct place *place, const struct core *core,
                  uint32_t lane, uint32_t shard);

/* Reads a HELLO; fails, with a sentence for the caller to be told, if it is not of this job. */
enum tern_status hello_read(const struct frame *frame, const uint8_t *body,
                            const struct place *place, struct hello *hello);

#endif

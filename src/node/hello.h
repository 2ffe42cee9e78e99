/*
 * hello - the handshake at the beginning of every connection: who calls, for which shard and lane, and the proof of
 * both sides that they have the job's token.
 *
 *   caller  HELLO      b: lane, table: the shard that is called; payload: u32 node, u32 number of nodes, nonce
 *   called  CHALLENGE  payload: nonce, proof
 *   caller  PROOF      a: incarnation of the caller's process; payload: proof
 *   called  WELCOME    a: incarnation of the called process, b: the last request executed on this lane
 *
 * A proof is HMAC-SHA256, under the token, of everything that was said and of both nonces. So nobody learns the token
 * by listening where a node is expected, an overheard handshake proves nothing later, and no side learns the other's
 * incarnation, which names a member, before the other has proved itself.
 */
#ifndef NODE_HELLO_H
#define NODE_HELLO_H

#include "base/buffer.h"
#include "core/service.h"
#include "wire/frame.h"

struct launch;

enum {
    HELLO_NONCE_BYTES = 16,
    HELLO_PROOF_BYTES = 32,
    HELLO_MAX_BYTES =
        HELLO_NONCE_BYTES + HELLO_PROOF_BYTES, /* of the body of any of these frames */
};

/* A handshake under way, as either side has it. */
struct handshake {
    struct hello hello;                   /* what the caller says of itself, */
    uint32_t n_nodes;                     /* and of how many nodes it is one */
    uint32_t called;                      /* the node that is called */
    uint8_t nonces[2][HELLO_NONCE_BYTES]; /* the caller's, and the called node's */
};

/* The caller's first step: appends HELLO. False when memory or random numbers run out, with a sentence. */
bool hello_call(struct handshake *handshake, const struct core *core, uint64_t lane, uint32_t shard,
                uint32_t called, struct buffer *out);

/* The called node's first step: reads HELLO and appends CHALLENGE. */
enum tern_status hello_challenge(struct handshake *handshake, const struct frame *frame,
                                 const uint8_t *body, const struct launch *launch,
                                 const struct core *core, struct buffer *out);

/* The caller's second step: checks that the called node has the token, and appends PROOF. */
enum tern_status hello_prove(struct handshake *handshake, const struct frame *frame,
                             const uint8_t *body, const struct launch *launch, struct buffer *out);

/* The called node's second step: checks that the caller has the token and belongs to this cluster. On success
 * handshake->hello is the caller's word, to be believed. */
enum tern_status hello_check(struct handshake *handshake, const struct frame *frame,
                             const uint8_t *body, const struct launch *launch);

#endif

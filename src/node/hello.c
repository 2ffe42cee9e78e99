/* hello - see hello.h. */
#include "node/hello.h"

#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "node/launch.h"
#include "wire/bytes.h"

/* Who proves, so that no proof can be sent back as one's own. */
enum role { CALLER = 'c', CALLED = 's' };

enum {
    HELLO_BYTES = 4 + 4 + HELLO_NONCE_BYTES,
    CHALLENGE_BYTES = HELLO_NONCE_BYTES + HELLO_PROOF_BYTES,
};

static bool draw(uint8_t nonce[HELLO_NONCE_BYTES])
{
    if (getrandom(nonce, HELLO_NONCE_BYTES, 0) == HELLO_NONCE_BYTES)
        return true;
    fail(TERN_NETWORK, "no random numbers for a connection");
    return false;
}

static bool append(struct buffer *out, const struct frame *frame, const uint8_t *payload)
{
    uint8_t header[FRAME_HEADER_BYTES];
    frame_encode(frame, header);
    if (buffer_append(out, header, sizeof header) && buffer_append(out, payload, frame->body_bytes))
        return true;
    fail(TERN_NO_MEMORY, "no memory for a connection");
    return false;
}

/* The called node proves itself before it knows the caller's incarnation, which is 0 then. */
static bool prove(const struct handshake *handshake, const struct launch *launch, enum role role,
                  uint8_t proof[HELLO_PROOF_BYTES])
{
    const struct hello *hello = &handshake->hello;
    uint8_t text[1 + 4 * 4 + 2 * 8 + 2 * HELLO_NONCE_BYTES] = {(uint8_t)role};
    put_u32(text + 1, hello->node);
    put_u32(text + 5, handshake->n_nodes);
    put_u32(text + 9, hello->shard);
    put_u32(text + 13, handshake->called);
    put_u64(text + 17, hello->lane);
    put_u64(text + 25, role == CALLER ? hello->incarnation : 0);
    memcpy(text + 33, handshake->nonces, sizeof handshake->nonces);
    unsigned n_bytes = 0;
    if (HMAC(EVP_sha256(), launch->token, (int)strlen(launch->token), text, sizeof text, proof,
             &n_bytes) != NULL &&
        n_bytes == HELLO_PROOF_BYTES)
        return true;
    fail(TERN_NETWORK, "OpenSSL has no HMAC-SHA256");
    return false;
}

/* Whether a proof is the right one, in a time that does not depend on where it is wrong. */
static bool is_proved(const struct handshake *handshake, const struct launch *launch,
                      enum role role, const uint8_t *proof)
{
    uint8_t right[HELLO_PROOF_BYTES];
    return prove(handshake, launch, role, right) && CRYPTO_memcmp(proof, right, sizeof right) == 0;
}

bool hello_call(struct handshake *handshake, const struct core *core, uint64_t lane, uint32_t shard,
                uint32_t called, struct buffer *out)
{
    *handshake = (struct handshake){
        .hello = {.node = core->node,
                  .shard = shard,
                  .incarnation = core->incarnation,
                  .lane = lane},
        .n_nodes = view_n_nodes(core->view),
        .called = called,
    };
    uint8_t payload[HELLO_BYTES];
    if (!draw(handshake->nonces[0]))
        return false;
    put_u32(payload, core->node);
    put_u32(payload + 4, view_n_nodes(core->view));
    memcpy(payload + 8, handshake->nonces[0], HELLO_NONCE_BYTES);
    struct frame frame = {.kind = FRAME_HELLO,
                          .table = (uint16_t)shard,
                          .epoch = view_epoch(core->view),
                          .body_bytes = sizeof payload,
                          .fields.hello.lane = lane};
    return append(out, &frame, payload);
}

enum tern_status hello_challenge(struct handshake *handshake, const struct frame *frame,
                                 const uint8_t *body, const struct launch *launch,
                                 const struct core *core, struct buffer *out)
{
    if (frame->kind != FRAME_HELLO || frame->keys_bytes || frame->body_bytes != HELLO_BYTES)
        return fail(TERN_PEER, "the first frame of a connection must be HELLO");
    *handshake = (struct handshake){
        .hello = {.node = get_u32(body), .shard = frame->table, .lane = frame->fields.hello.lane},
        .n_nodes = get_u32(body + 4),
        .called = core->node,
    };
    uint8_t payload[CHALLENGE_BYTES];
    memcpy(handshake->nonces[0], body + 8, HELLO_NONCE_BYTES);
    if (!draw(handshake->nonces[1]) ||
        !prove(handshake, launch, CALLED, payload + HELLO_NONCE_BYTES))
        return TERN_NETWORK;
    memcpy(payload, handshake->nonces[1], HELLO_NONCE_BYTES);
    struct frame challenge = {
        .kind = FRAME_CHALLENGE, .epoch = view_epoch(core->view), .body_bytes = sizeof payload};
    return append(out, &challenge, payload) ? TERN_OK : TERN_NO_MEMORY;
}

enum tern_status hello_prove(struct handshake *handshake, const struct frame *frame,
                             const uint8_t *body, const struct launch *launch, struct buffer *out)
{
    if (frame->kind != FRAME_CHALLENGE || frame->keys_bytes || frame->body_bytes != CHALLENGE_BYTES)
        return fail(TERN_PEER, "node %" PRIu32 " answered HELLO with a broken frame",
                    handshake->called);
    uint8_t payload[HELLO_PROOF_BYTES];
    memcpy(handshake->nonces[1], body, HELLO_NONCE_BYTES);
    if (!is_proved(handshake, launch, CALLED, body + HELLO_NONCE_BYTES))
        return fail(
            TERN_PEER,
            "the process there belongs to another job or another user (TERN_TOKEN differs)");
    if (!prove(handshake, launch, CALLER, payload))
        return TERN_NETWORK;
    struct frame proof = {.kind = FRAME_PROOF,
                          .epoch = frame->epoch,
                          .body_bytes = sizeof payload,
                          .fields.proof.incarnation = handshake->hello.incarnation};
    return append(out, &proof, payload) ? TERN_OK : TERN_NO_MEMORY;
}

enum tern_status hello_check(struct handshake *handshake, const struct frame *frame,
                             const uint8_t *body, const struct launch *launch)
{
    struct hello *hello = &handshake->hello;
    if (frame->kind != FRAME_PROOF || frame->keys_bytes || frame->body_bytes != HELLO_PROOF_BYTES)
        return fail(TERN_PEER, "the second frame of a connection must be PROOF");
    hello->incarnation = frame->fields.proof.incarnation;
    if (!is_proved(handshake, launch, CALLER, body))
        return fail(TERN_PEER,
                    "the caller belongs to another job or another user (TERN_TOKEN differs)");
    if (handshake->n_nodes != launch->n_nodes || hello->node >= handshake->n_nodes)
        return fail(TERN_PEER,
                    "the caller is node %" PRIu32 " of %" PRIu32 ", but this cluster has %" PRIu32
                    " nodes",
                    hello->node, handshake->n_nodes, launch->n_nodes);
    return TERN_OK;
}

/* engine - see engine.h. */
#include "node/engine.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "net/address.h"
#include "node/remote.h"
#include "wire/bytes.h"

enum { LINGER_MS = 100 }; /* without a connection, before the coordinator ends */

#define MS UINT64_C(1000000)

/* ---- All shards --------------------------------------------------------------------------------- */

static uint32_t n_shards(const struct engine *engine)
{
    return atomic_load_explicit(&engine->n_shards, memory_order_acquire);
}

void engine_drive(struct engine *engine, uint64_t now_ns)
{
    struct shard *next = &engine->shards[0];
    uint64_t oldest_ns = UINT64_MAX;
    for (uint32_t i = 0; i < n_shards(engine); i++) {
        struct shard *shard = &engine->shards[i];
        uint64_t driven_ns = atomic_load_explicit(&shard->driven_ns, memory_order_relaxed);
        if (driven_ns < oldest_ns) {
            oldest_ns = driven_ns;
            next = shard;
        }
    }
    shard_drive(next, now_ns);
}

void engine_wake(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        shard_wake(&engine->shards[i]);
}

void engine_lock_rounds(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        sync_lock(&engine->shards[i].sync);
}

void engine_unlock_rounds(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        sync_unlock(&engine->shards[i].sync);
}

void engine_lock(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        pthread_mutex_lock(&engine->shards[i].lock);
}

void engine_unlock(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        pthread_mutex_unlock(&engine->shards[i].lock);
}

enum tern_status engine_start_rounds(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = sync_start(&engine->shards[i].sync);
    return status;
}

bool engine_has_rounds(const struct engine *engine)
{
    /* They are started in order. */
    const struct shard *last = &engine->shards[n_shards(engine) - 1];
    return atomic_load_explicit(&last->sync.is_running, memory_order_relaxed);
}

enum tern_status engine_wait(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = sync_wait(&engine->shards[i].sync);
    return status;
}

enum tern_status engine_wait_news(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = sync_wait_news(&engine->shards[i].sync);
    return status;
}

/* ---- Calls, and the pulse ---------------------------------------------------------------------- */

enum tern_status engine_call(struct remote *remote, uint32_t node, struct op *op,
                             enum frame_kind kind)
{
    enum tern_status status = client_call(&remote->client, node, op, kind);
    if (status)
        return status;
    remote_nudge(remote, client_lane(&remote->client, node));
    remote_wait(remote, op, kind != FRAME_PING && kind != FRAME_RANGE && kind != FRAME_JOIN);
    status = op_end(op);
    if (status)
        buffer_free(&op->answer_body);
    return status;
}

/* Sleeps for a quarter of the deadline; true when the engine is to end. */
static bool pulse_sleeps(struct engine *engine)
{
    uint64_t wake = clock_now_ns() + engine->place.deadline_ns / 4;
    struct timespec until = {.tv_sec = (time_t)(wake / UINT64_C(1000000000)),
                             .tv_nsec = (long)(wake % UINT64_C(1000000000))};
    pthread_mutex_lock(&engine->pulse_lock);
    int outcome = 0;
    while (outcome != ETIMEDOUT && !atomic_load_explicit(&engine->stop, memory_order_relaxed))
        outcome = pthread_cond_timedwait(&engine->pulse_stop, &engine->pulse_lock, &until);
    pthread_mutex_unlock(&engine->pulse_lock);
    return atomic_load_explicit(&engine->stop, memory_order_relaxed);
}

static void *pulse_main(void *context)
{
    struct engine *engine = context;
    struct remote remote;
    if (remote_init_shard(&remote, engine, 0))
        return NULL;
    remote.is_pulse = true;
    while (!pulse_sleeps(engine)) {
        struct op op = {0};
        struct neighbours *neighbours = atomic_load(&engine->neighbours);
        if (neighbours)
            neighbours_free_stuck(neighbours);
        uint32_t dead = 1; /* node 0, if it does not answer */
        if (!engine_call(&remote, 0, &op, FRAME_PING)) {
            dead = (uint32_t)op.answer.a;
            buffer_free(&op.answer_body);
        }
        if (dead)
            atomic_store_explicit(&engine->dead, dead, memory_order_relaxed);
        if (dead && neighbours)
            neighbours_find_stuck(neighbours);
    }
    remote_fini(&remote);
    return NULL;
}

bool engine_is_one_host(const struct engine *engine)
{
    bool is_one = true;
    for (uint32_t i = 0; is_one && i < engine->core.n_nodes; i++)
        is_one = address_is_unix(engine->addresses[i]);
    return is_one;
}

enum tern_status engine_check_dead(const struct engine *engine)
{
    uint32_t dead = atomic_load_explicit(&engine->dead, memory_order_relaxed);
    if (!dead)
        return TERN_OK;
    return fail(TERN_PEER, "node %" PRIu32 " at %s was given up: it gave no sign of life for %.1f s",
                dead - 1, engine->addresses[dead - 1], (double)engine->place.deadline_ns / 1e9);
}

/* ---- Joining and leaving ---------------------------------------------------------------------- */

/* Reads the addresses and incarnations of all nodes. */
static enum tern_status read_roster(struct engine *engine, const uint8_t *bytes, size_t size)
{
    for (uint32_t i = 0; i < engine->core.n_nodes; i++) {
        size_t length = size >= 10 ? get_u16(bytes + 8) : SIZE_MAX;
        if (length >= sizeof engine->addresses[0] || size - 10 < length)
            return fail(TERN_PEER, "the coordinator sent a broken list of nodes");
        engine->incarnations[i] = get_u64(bytes);
        memcpy(engine->addresses[i], bytes + 10, length);
        engine->addresses[i][length] = '\0';
        bytes += 10 + length;
        size -= 10 + length;
    }
    return TERN_OK;
}

static enum tern_status join(struct engine *engine)
{
    struct remote remote;
    enum tern_status status = remote_init_shard(&remote, engine, 0);
    if (status)
        return status;
    const char *address = listener_address(engine->listener);
    struct op op = {.a = engine->core.incarnation,
                    .payload = address,
                    .payload_bytes = (uint32_t)strlen(address)};
    status = engine_call(&remote, 0, &op, FRAME_JOIN);
    uint64_t n = status ? 1 : op.answer.b;
    if (n < 1 || n > STORE_MAX_SHARDS)
        status = fail(TERN_PEER, "the coordinator said that nodes have %" PRIu64 " shards", n);
    if (!status) {
        pthread_mutex_lock(&engine->shards[0].lock);
        engine->core.n_shards = (uint32_t)n;
        status = read_roster(engine, buffer_head(&op.answer_body), buffer_size(&op.answer_body));
        /* The coordinator is where this node has found it, whatever it calls itself. */
        if (remote.peers[0].connection.stream)
            snprintf(engine->addresses[0], sizeof engine->addresses[0], "%s",
                     stream_peer(remote.peers[0].connection.stream));
        pthread_mutex_unlock(&engine->shards[0].lock);
        buffer_free(&op.answer_body);
    }
    remote_fini(&remote);
    return status;
}

/* Begins the other shards, of which the coordinator has said how many there are. */
static enum tern_status start_shards(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 1; !status && i < engine->core.n_shards; i++) {
        shard_init(&engine->shards[i], engine, i);
        status = shard_start(&engine->shards[i], NULL);
        atomic_store_explicit(&engine->n_shards, i + 1, memory_order_release);
    }
    shard_wake(&engine->shards[0]);
    return status;
}

static enum tern_status start_pulse(struct engine *engine)
{
    int failure = pthread_create(&engine->pulse, NULL, pulse_main, engine);
    if (failure)
        return fail(TERN_NO_MEMORY, "no thread can be started: %s", strerror(failure));
    engine->has_pulse = true;
    return TERN_OK;
}

static enum tern_status open_net(struct engine *engine)
{
    const struct place *place = &engine->place;
    struct net_options options = {.insecure = place->insecure};
    if (place->certificate[0]) {
        options.certificate = place->certificate;
        options.key = place->key;
        options.authority = place->authority;
    }
    enum tern_status status = net_open(&options, &engine->net);
    if (!status)
        status = listener_open(engine->net, place->listen, &engine->listener);
    if (!status && place->node != 0)
        listener_face(engine->listener, place->coordinator);
    return status;
}

static enum tern_status init_core(struct engine *engine, struct group **group)
{
    struct core *core = &engine->core;
    const struct place *place = &engine->place;
    core->node = engine->place.node;
    core->n_nodes = engine->place.n_nodes;
    core->epoch = 1;
    if (getrandom(&core->incarnation, sizeof core->incarnation, 0) !=
            (ssize_t)sizeof core->incarnation ||
        !core->incarnation)
        core->incarnation = clock_now_ns() | 1;
    core->ring = ring_new(core->n_nodes);
    engine->addresses = calloc(core->n_nodes, sizeof *engine->addresses);
    engine->incarnations = calloc(core->n_nodes, sizeof *engine->incarnations);
    if (core->node == 0) {
        core->n_shards = place->n_shards;
        *group = group_new(core->n_nodes, core->epoch, place->deadline_ns, clock_now_ns());
        if (*group)
            group_set_shards(*group, place->n_shards);
    }
    if (!core->ring || !engine->addresses || !engine->incarnations || (core->node == 0 && !*group))
        return fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", core->n_nodes);
    strcpy(engine->addresses[0], place->coordinator);
    return TERN_OK;
}

void engine_end(struct engine *engine)
{
    const uint32_t n = n_shards(engine);
    for (uint32_t i = 0; i < n; i++)
        sync_fini(&engine->shards[i].sync);
    pthread_mutex_lock(&engine->pulse_lock);
    atomic_store_explicit(&engine->stop, true, memory_order_release);
    pthread_cond_signal(&engine->pulse_stop);
    pthread_mutex_unlock(&engine->pulse_lock);
    if (engine->has_pulse)
        pthread_join(engine->pulse, NULL);
    /* All before the first is freed: it gives connections to the others. */
    for (uint32_t i = 0; i < n; i++)
        shard_stop(&engine->shards[i]);
    for (uint32_t i = 0; i < n; i++)
        shard_end(&engine->shards[i]);
    if (engine->listener)
        listener_close(engine->listener);
    if (engine->net)
        net_close(engine->net);
    ring_free(engine->core.ring);
    free(engine->addresses);
    free(engine->incarnations);
    free(engine->spare_lanes);
    pthread_cond_destroy(&engine->pulse_stop);
    pthread_mutex_destroy(&engine->pulse_lock);
    pthread_mutex_destroy(&engine->lane_lock);
}

bool engine_take_lane(struct engine *engine, uint32_t *lane)
{
    pthread_mutex_lock(&engine->lane_lock);
    bool taken = engine->n_spare_lanes > 0;
    if (taken) {
        *lane = engine->spare_lanes[--engine->n_spare_lanes];
    } else {
        size_t n = (size_t)engine->n_own_lanes + 1;
        uint32_t *grown = realloc(engine->spare_lanes, n * sizeof *grown);
        taken = grown;
        if (taken) {
            engine->spare_lanes = grown;
            *lane = engine->n_own_lanes++;
        }
    }
    pthread_mutex_unlock(&engine->lane_lock);
    return taken;
}

void engine_give_lane(struct engine *engine, uint32_t lane)
{
    pthread_mutex_lock(&engine->lane_lock);
    engine->spare_lanes[engine->n_spare_lanes++] = lane;
    pthread_mutex_unlock(&engine->lane_lock);
}

/* Each worker has a connection to each other node, so the usual 1024 files are soon too few. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

enum tern_status engine_start(struct engine *engine, const struct place *place)
{
    raise_file_limit();
    *engine = (struct engine){.place = *place, .takes_newcomers = true, .n_shards = 1};
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&engine->pulse_stop, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&engine->pulse_lock, NULL);
    pthread_mutex_init(&engine->lane_lock, NULL);
    shard_init(&engine->shards[0], engine, 0);

    struct group *group = NULL;
    enum tern_status status = init_core(engine, &group);
    if (!status)
        status = open_net(engine);
    if (status)
        group_free(group);
    else
        status = shard_start(&engine->shards[0], group);
    if (!status)
        status = join(engine);
    if (!status)
        status = start_shards(engine);
    if (!status)
        status = start_pulse(engine);
    if (status)
        engine_end(engine);
    return status;
}

static bool others_are_connected(struct engine *engine)
{
    bool connected = false;
    for (uint32_t i = 0; !connected && i < n_shards(engine); i++)
        connected = shard_has_others(&engine->shards[i]);
    return connected;
}

/* The coordinator goes last: a node whose connection broke before it heard that all have left comes
 * back at once and asks again. */
static void linger(struct engine *engine)
{
    uint64_t start = clock_now_ns(), quiet = start;
    for (uint64_t now = start; now - start < engine->place.deadline_ns; now = clock_now_ns()) {
        if (others_are_connected(engine))
            quiet = now;
        else if (now - quiet >= LINGER_MS * MS)
            return;
        poll(NULL, 0, LINGER_MS / 10);
    }
}

/* Whoever waits for this node to open a table waits in vain. */
static void open_no_more(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++) {
        pthread_mutex_lock(&engine->shards[i].lock);
        engine->shards[i].server.is_leaving = true;
        pthread_mutex_unlock(&engine->shards[i].lock);
    }
    engine_wake(engine);
}

enum tern_status engine_leave(struct engine *engine)
{
    struct remote remote;
    open_no_more(engine);
    enum tern_status status = remote_init_shard(&remote, engine, 0);
    if (!status) {
        struct op op = {0};
        status = engine_call(&remote, 0, &op, FRAME_BYE);
        if (!status)
            buffer_free(&op.answer_body);
        remote_fini(&remote);
    }
    if (!status && engine->core.node == 0)
        linger(engine);
    return status;
}

/* engine - see engine.h. */
#include "node/engine.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/keymap.h"
#include "base/log.h"
#include "base/interrupt.h"
#include "base/thread.h"
#include "core/pulse.h"
#include "core/technique.h"
#include "net/address.h"
#include "node/host.h"
#include "node/remote.h"
#include "wire/bytes.h"

enum {
    LINGER_MS = 10, /* between two looks whether the coordinator may end */
    FIRST_EPOCH = 1,
};

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
    status_aside(); /* what others ask for may be refused */
    shard_drive(next, now_ns);
    status_back();
}

void engine_wake(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        shard_wake(&engine->shards[i]);
}

void engine_lock_rounds(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        round_driver_lock(&engine->shards[i].round_driver);
}

void engine_unlock_rounds(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        round_driver_unlock(&engine->shards[i].round_driver);
}

void engine_lock(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        lock_take(&engine->shards[i].lock);
}

void engine_unlock(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        lock_release(&engine->shards[i].lock);
}

enum tern_status engine_start_rounds(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = round_driver_start(&engine->shards[i].round_driver);
    return status;
}

bool engine_has_rounds(const struct engine *engine)
{
    /* They are started in order. */
    const struct shard *last = &engine->shards[n_shards(engine) - 1];
    return atomic_load_explicit(&last->round_driver.is_running, memory_order_relaxed);
}

enum tern_status engine_wait(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = round_driver_wait(&engine->shards[i].round_driver);
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = backup_driver_flush(&engine->shards[i].backup_driver);
    return status;
}

void engine_backup_bytes(struct engine *engine, uint64_t *confirmed, uint64_t *taken)
{
    *confirmed = *taken = 0;
    engine_lock(engine);
    for (uint32_t i = 0; i < n_shards(engine); i++) {
        *confirmed += engine->shards[i].service.backup.n_bytes;
        *taken += engine->shards[i].service.backup.n_taken;
    }
    engine_unlock(engine);
}

enum tern_status engine_start_backups(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = backup_driver_start(&engine->shards[i].backup_driver);
    return status;
}

enum tern_status engine_wait_changes(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = round_driver_wait_changes(&engine->shards[i].round_driver);
    return status;
}

enum tern_status engine_hold(struct engine *engine)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < n_shards(engine); i++)
        status = round_driver_hold(&engine->shards[i].round_driver);
    return status;
}

void engine_release(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++)
        round_driver_release(&engine->shards[i].round_driver);
}

/* ---- Calls, and the pulse ---------------------------------------------------------------------- */

enum tern_status engine_call(struct remote *remote, uint32_t node, struct op *op,
                             enum frame_kind kind)
{
    enum tern_status status = client_call(&remote->client, node, op, kind);
    if (status)
        return status;
    remote_nudge(remote, client_lane(&remote->client, node));
    remote_wait(remote, op, lanes_is_patient(kind));
    status = op_end(op);
    if (status)
        buffer_free(&op->answer_body);
    return status;
}

void engine_fetch_view(struct engine *engine)
{
    lock_take(&engine->pulse_lock);
    engine->wants_view = true;
    pthread_cond_signal(&engine->pulse_stop);
    lock_release(&engine->pulse_lock);
}

/* Sleeps until the next pulse; true when the engine is to end. */
static bool pulse_sleeps(struct engine *engine)
{
    uint64_t wake = clock_now_ns() + pulse_pause_ns(&engine->peers);
    bool in_time = true;
    lock_take(&engine->pulse_lock);
    while (in_time && !engine->wants_view &&
           !atomic_load_explicit(&engine->peers.stop, memory_order_relaxed))
        in_time = lock_wait_until(&engine->pulse_lock, &engine->pulse_stop, wake);
    engine->wants_view = false;
    lock_release(&engine->pulse_lock);
    return atomic_load_explicit(&engine->peers.stop, memory_order_relaxed);
}

/* Workers that wait for the clocks of others may have waited for those of a node that is not in the view any more. */
static void ring_bells(const struct core *core)
{
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        const struct core_table *table =
            atomic_load_explicit(&core->tables[i], memory_order_acquire);
        struct bell *bell = table && table->technique->bell ? table->technique->bell(table) : NULL;
        if (bell)
            bell_ring(bell);
    }
}

/* A node that was leaving is taken to have left, also if it died in the last moment. */
static void log_gone(const struct engine *engine, const struct view *next, uint32_t node)
{
    char whose[64] = "the others have its rows in their memory";
    if (view_n_members(next) > 1)
        snprintf(whose, sizeof whose, "node %" PRIu32 " has its keys now", view_home(next, node));
    if (view_is_leaving(next->before, node)) {
        log_notice("node %" PRIu32 " has left; %s", node, whose);
        return;
    }
    log_notice("node %" PRIu32
               " was given up: it has ended, or gave no sign of life for %.1f s; %s",
               node, (double)engine->peers.deadline_ns / 1e9, whose);
}

/* Replaces the view by a later one. */
static void change_view(struct engine *engine, const struct buffer *bytes)
{
    struct view *next = view_read(engine->views[1], buffer_head(bytes), buffer_size(bytes));
    if (!next) {
        log_line("%s", tern_error());
        return;
    }
    struct service *services[STORE_MAX_SHARDS];
    for (uint32_t i = 0; i < n_shards(engine); i++)
        services[i] = &engine->shards[i].service;
    engine_lock_rounds(engine);
    engine_lock(engine);
    for (uint32_t i = 0; i < n_shards(engine); i++)
        services[i]->backup.rounds = round_driver_get(&engine->shards[i].round_driver);
    backup_change_view(&engine->core, services, n_shards(engine), next);
    ring_bells(&engine->core);
    engine_unlock(engine);
    engine_unlock_rounds(engine);
    engine->views[1] = next;
    for (uint32_t i = 0; i < view_capacity(next); i++)
        if (view_is_present(next->before, i) && !view_is_present(next, i))
            log_gone(engine, next, i);
    if (!view_is_present(next, engine->core.node) &&
        !atomic_load_explicit(&engine->is_parting, memory_order_relaxed))
        peers_give_up(&engine->peers, engine->core.node);
    engine_wake(engine);
    if (view_has_leaving(next)) /* the coordinator waits to be told that the backups are complete */
        engine_fetch_view(engine);
    watcher_wake(&engine->watcher);
    for (uint32_t i = 0; i < n_shards(engine); i++)
        backup_driver_hurry(&engine->shards[i].backup_driver);
}

/* The epoch in which all backups of this node's rows are complete, or 0. */
static uint32_t formed_epoch(struct engine *engine)
{
    struct service *services[STORE_MAX_SHARDS];
    engine_lock(engine);
    for (uint32_t i = 0; i < n_shards(engine); i++)
        services[i] = &engine->shards[i].service;
    const uint32_t formed = backup_formed(services, n_shards(engine));
    engine_unlock(engine);
    return formed;
}

static void *pulse_main(void *context)
{
    struct engine *engine = context;
    struct remote remote;
    if (remote_init_shard(&remote, engine, 0))
        return NULL;
    struct pulse pulse;
    pulse_init(&pulse, &remote.lanes);
    while (!pulse_sleeps(engine)) {
        uint32_t dead;
        struct buffer view = {0};
        if (!pulse_ask(&pulse, formed_epoch(engine)))
            continue;
        remote_nudge(&remote, client_lane(&remote.client, 0));
        remote_wait(&remote, &pulse.op, lanes_is_patient(FRAME_PING));
        pulse_hear(&pulse, &dead, &view);
        if (dead)
            member_lose(engine, dead - 1);
        if (buffer_size(&view))
            change_view(engine, &view);
        buffer_free(&view);
    }
    remote_fini(&remote);
    return NULL;
}

/* ---- Joining and leaving ---------------------------------------------------------------------- */

/* The members: processes of one host. NULL: each is a member of its own, or memory runs out, which is the failure. */
static enum tern_status find_members(const struct engine *engine, uint32_t **members)
{
    const uint32_t n_nodes = engine->launch.n_nodes;
    struct keymap leaders = {0};
    *members = malloc(n_nodes * sizeof **members);
    bool shares = false, ready = *members && keymap_reserve(&leaders, n_nodes);
    for (uint32_t i = 0; ready && i < n_nodes; i++) {
        const uint64_t host = engine->peers.hosts[i];
        const uint32_t leader = host ? keymap_get(&leaders, host) : 0;
        (*members)[i] = leader ? leader - 1 : i;
        shares |= leader;
        if (host && !leader)
            keymap_set(&leaders, host, i + 1);
    }
    keymap_free(&leaders);
    if (!shares) {
        free(*members);
        *members = NULL;
    }
    return ready ? TERN_OK
                 : fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", n_nodes);
}

/* Takes the view of the cluster that this node has joined: which processes share memory is known from their hosts. */
static enum tern_status take_view(struct engine *engine)
{
    uint32_t *members;
    enum tern_status status = find_members(engine, &members);
    if (status)
        return status;
    engine->views[1] = view_new(FIRST_EPOCH, engine->launch.n_nodes, members);
    free(members);
    engine->views[2] = engine->views[1] ? view_of_leaders(engine->views[1]) : NULL;
    if (!engine->views[2])
        return TERN_NO_MEMORY;
    engine->core.view = engine->views[1];
    engine->member = (struct core){.node = view_leader(engine->views[1], engine->core.node),
                                   .view = engine->views[2],
                                   .n_shards = engine->core.n_shards,
                                   .incarnation = engine->core.incarnation};
    return TERN_OK;
}

/* Nodes of this host are reached without the network. */
static void find_colocated(struct engine *engine)
{
    struct peers *peers = &engine->peers;
    view_each_while (i, engine->core.view, engine->listeners[1])
        if (peers->hosts[i] == engine->host)
            host_address(&engine->launch, i, sizeof peers->addresses[i], peers->addresses[i]);
}

/* Asks the coordinator to join. *is_absent: nobody has answered at its address. */
static enum tern_status ask_to_join(struct engine *engine, bool *is_absent)
{
    struct remote remote;
    *is_absent = false;
    enum tern_status status = remote_init_shard(&remote, engine, 0);
    if (status)
        return status;
    const char *address = listener_address(engine->listeners[0]);
    struct op op = {.fields.join = {engine->core.incarnation, engine->host},
                    .payload = address,
                    .payload_bytes = (uint32_t)strlen(address)};
    status = engine_call(&remote, 0, &op, FRAME_JOIN);
    *is_absent = status == TERN_PEER && !remote_was_answered(&remote, 0);
    uint64_t n = status ? 1 : op.answer.fields.roster.n_shards;
    if (n < 1 || n > STORE_MAX_SHARDS)
        status = fail(TERN_PEER, "the coordinator said that nodes have %" PRIu64 " shards", n);
    if (!status) {
        lock_take(&engine->shards[0].lock);
        engine->core.n_shards = (uint32_t)n;
        status = peers_read_roster(&engine->peers, buffer_head(&op.answer_body),
                                   buffer_size(&op.answer_body));
        /* The coordinator is where this node has found it, whatever it calls itself. */
        if (remote_address(&remote, 0))
            snprintf(engine->peers.addresses[0], sizeof engine->peers.addresses[0], "%s",
                     remote_address(&remote, 0));
        if (!status)
            status = take_view(engine);
        if (!status)
            find_colocated(engine);
        lock_release(&engine->shards[0].lock);
        buffer_free(&op.answer_body);
    }
    remote_fini(&remote);
    return status;
}

/* The host of the coordinator may be started later than this one: to be silent is not to be absent. */
static enum tern_status join(struct engine *engine)
{
    const struct launch *launch = &engine->launch;
    const uint64_t began_ns = clock_now_ns();
    for (;;) {
        bool is_absent;
        enum tern_status status = ask_to_join(engine, &is_absent);
        uint64_t waited_ns = clock_now_ns() - began_ns;
        if (!is_absent || waited_ns >= launch->join_deadline_ns)
            return status;
        log_notice("node %" PRIu32
                   " waits for node 0 at %s, which does not answer (%.0f of %.0f s)",
                   launch->node, launch->coordinator, (double)waited_ns / 1e9,
                   (double)launch->join_deadline_ns / 1e9);
    }
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
    enum tern_status status = thread_start(&engine->pulse, pulse_main, engine);
    engine->has_pulse = !status;
    return status;
}

/* Without a socket for its host, a node shares no memory. */
static void listen_to_host(struct engine *engine)
{
    const struct launch *launch = &engine->launch;
    char address[sizeof launch->listen];
    engine->host = host_identity(launch);
    if (!engine->host || address_is_unix(launch->listen))
        return;
    status_aside();
    if (!host_address(launch, launch->node, sizeof address, address) ||
        listener_open(engine->net, address, &engine->listeners[1]))
        engine->host = 0;
    status_back();
}

static enum tern_status open_net(struct engine *engine)
{
    const struct launch *launch = &engine->launch;
    struct net_options options = {.insecure = launch->insecure};
    if (launch->certificate[0]) {
        options.certificate = launch->certificate;
        options.key = launch->key;
        options.authority = launch->authority;
    }
    enum tern_status status = net_open(&options, &engine->net);
    if (!status)
        status = listener_open(engine->net, launch->listen, &engine->listeners[0]);
    if (!status && launch->node != 0)
        listener_face(engine->listeners[0], launch->coordinator);
    if (!status)
        listen_to_host(engine);
    return status;
}

static enum tern_status init_core(struct engine *engine, struct group **group)
{
    struct core *core = &engine->core;
    const struct launch *launch = &engine->launch;
    core->node = engine->launch.node;
    if (getrandom(&core->incarnation, sizeof core->incarnation, 0) !=
            (ssize_t)sizeof core->incarnation ||
        !core->incarnation)
        core->incarnation = clock_now_ns() | 1;
    core->view = engine->views[0] = view_new(FIRST_EPOCH, launch->n_nodes, NULL);
    if (!core->view)
        return TERN_NO_MEMORY;
    enum tern_status status = peers_init(&engine->peers, core->view, launch->deadline_ns);
    if (core->node == 0) {
        core->n_shards = launch->n_shards;
        *group = group_new(core->view, launch->deadline_ns, clock_now_ns());
        if (*group) {
            group_set_shards(*group, launch->n_shards);
            group_set_join_deadline(*group, launch->join_deadline_ns);
        }
    }
    if (status || (core->node == 0 && !*group))
        return TERN_NO_MEMORY;
    strcpy(engine->peers.addresses[0], launch->coordinator);
    return TERN_OK;
}

void engine_end(struct engine *engine)
{
    const uint32_t n = n_shards(engine);
    for (uint32_t i = 0; i < n; i++)
        round_driver_fini(&engine->shards[i].round_driver);
    lock_take(&engine->pulse_lock);
    atomic_store_explicit(&engine->peers.stop, true, memory_order_release);
    pthread_cond_signal(&engine->pulse_stop);
    lock_release(&engine->pulse_lock);
    if (engine->has_pulse)
        pthread_join(engine->pulse, NULL);
    watcher_fini(&engine->watcher);
    for (uint32_t i = 0; i < n; i++)
        backup_driver_fini(&engine->shards[i].backup_driver);
    /* All before the first is freed: it gives connections to the others. */
    for (uint32_t i = 0; i < n; i++)
        shard_stop(&engine->shards[i]);
    for (uint32_t i = 0; i < n; i++)
        shard_end(&engine->shards[i]);
    for (int i = 0; i < 2; i++)
        listener_close(engine->listeners[i]);
    if (engine->net)
        net_close(engine->net);
    peers_fini(&engine->peers);
    free(engine->spare_lanes);
    pthread_cond_destroy(&engine->pulse_stop);
    lock_fini(&engine->pulse_lock);
    lock_fini(&engine->lane_lock);
}

bool engine_take_lane(struct engine *engine, uint32_t *lane)
{
    lock_take(&engine->lane_lock);
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
    lock_release(&engine->lane_lock);
    return taken;
}

void engine_give_lane(struct engine *engine, uint32_t lane)
{
    lock_take(&engine->lane_lock);
    engine->spare_lanes[engine->n_spare_lanes++] = lane;
    lock_release(&engine->lane_lock);
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

enum tern_status engine_start(struct engine *engine, const struct launch *launch,
                              struct view *views[3])
{
    raise_file_limit();
    *engine =
        (struct engine){.launch = *launch, .views = views, .takes_newcomers = true, .n_shards = 1};
    watcher_init(&engine->watcher, engine);
    condition_init(&engine->pulse_stop);
    lock_init(&engine->pulse_lock, RANK_THREADS, 0);
    lock_init(&engine->lane_lock, RANK_THREADS, 0);
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

/* Says that this node knows that all have left. Nobody waits for an answer. */
static void tell_last(struct remote *remote)
{
    struct op op = {.fields.bye = {.is_last = 1}};
    status_aside();
    if (!client_call(&remote->client, 0, &op, FRAME_BYE)) {
        remote_nudge(remote, client_lane(&remote->client, 0));
        lanes_abandon(&remote->lanes, TERN_CLOSED);
    }
    status_back();
}

/* The coordinator goes last: a node whose connection broke before it heard that all have left comes back and asks again.
 * One that has died meanwhile does not. */
static void linger(struct engine *engine)
{
    const uint64_t start = clock_now_ns(), deadline_ns = engine->launch.deadline_ns;
    uint64_t quiet = start;
    for (uint64_t now = start; now - start < deadline_ns; now = clock_now_ns()) {
        if (others_are_connected(engine))
            quiet = now;
        if (shard_end_is_known(&engine->shards[0]) || now - quiet >= deadline_ns / 2 ||
            interrupt_check())
            return;
        poll(NULL, 0, LINGER_MS);
    }
}

/* Nodes that wait for this node to open a table wait in vain. */
static void open_no_more(struct engine *engine)
{
    for (uint32_t i = 0; i < n_shards(engine); i++) {
        lock_take(&engine->shards[i].lock);
        service_leave(&engine->shards[i].service);
        lock_release(&engine->shards[i].lock);
    }
    engine_wake(engine);
}

enum tern_status engine_part(struct engine *engine)
{
    struct remote remote;
    enum tern_status status = remote_init_shard(&remote, engine, 0);
    if (status)
        return status;
    atomic_store_explicit(&engine->is_parting, true, memory_order_relaxed);
    struct op op = {.fields.bye.alone = 1};
    status = client_call(&remote.client, 0, &op, FRAME_BYE);
    if (!status) {
        remote_nudge(&remote, client_lane(&remote.client, 0));
        engine_fetch_view(engine);
        remote_wait(&remote, &op, lanes_is_patient(FRAME_BYE));
        status = op_end(&op);
        buffer_free(&op.answer_body);
    }
    atomic_store_explicit(&engine->is_parting, !status, memory_order_relaxed);
    remote_fini(&remote);
    return status;
}

enum tern_status engine_leave(struct engine *engine)
{
    struct remote remote;
    open_no_more(engine);
    enum tern_status status = remote_init_shard(&remote, engine, 0);
    if (!status) {
        struct op op = {0};
        status = engine_call(&remote, 0, &op, FRAME_BYE);
        if (!status) {
            buffer_free(&op.answer_body);
            tell_last(&remote);
        }
        remote_fini(&remote);
    }
    if (!status && engine->core.node == 0)
        linger(engine);
    return status;
}

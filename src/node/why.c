/*
 * why - tern_why, which tells how a key is managed, and the trace of chosen keys. See tern.h.
 *
 * What happens to keys is noted by the manager of their shard (core/trace.h), under the shard's lock.
 * The trace is written in two steps, so that no file is written to while that lock is held: the events
 * are taken from the recording under it, and made into lines after. The lock of the rounds, which is
 * taken before the shard's, guards the files: they are written to at the end of rounds. All shards append to one file,
 * which the first begins and ends.
 */
#include "node/why.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/manager.h"
#include "core/trace.h"
#include "node/node.h"

enum {
    LAST_EVENTS = 8,      /* that tern_why tells */
    LISTED_NODES = 16,    /* the same */
    WORTH_EVENTS = 1024,  /* of a recording before they are written */
    CHUNK_BYTES = 1 << 14 /* handed to the system at once */
};

/* The clock that all nodes of a host have in common. */
static uint64_t time_of_day_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void why_begin(struct manager *manager)
{
    manager_trace(manager)->clock = time_of_day_ns;
}

/* ---- Sentences ---------------------------------------------------------------------------------- */

/* Text that is cut where its room ends. */
struct text {
    char *bytes;
    size_t size, used; /* used < size */
};

static void say(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = text->size - text->used;
    int n = vsnprintf(text->bytes + text->used, room, format, args);
    va_end(args);
    if (n > 0)
        text->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void say_moves(struct text *text, uint32_t n_moves)
{
    if (n_moves)
        say(text, ", after %" PRIu32 " move%s.\n", n_moves, n_moves == 1 ? "" : "s");
    else
        say(text, ", as it has been from the start.\n");
}

static void say_place(struct text *text, const struct key_facts *facts)
{
    switch (facts->copy) {
    case COPY_MAIN:
        say(text, "The main copy is here");
        break;
    case COPY_REPLICA:
        say(text, "A replica is here; the main copy is believed to be at node %" PRIu32,
            facts->owner);
        break;
    case COPY_NONE:
        say(text, "It is not here; the main copy is believed to be at node %" PRIu32, facts->owner);
        break;
    }
    say_moves(text, facts->n_moves);
}

/* What the owner knows of others. */
static void say_others(struct text *text, const struct tern_table *table, uint64_t key,
                       const struct key_facts *facts)
{
    struct manager *manager = table->core.managers[store_shard(&table->core.store, key)];
    if (!facts->n_wanting) {
        say(text, "No other node wants it.\n");
        return;
    }
    bool has_replicas = table->core.policy->replica != REPLICA_NEVER;
    say(text, "Other nodes want it%s:",
        has_replicas ? " and have replicas" : ", but this policy makes no replicas");
    uint32_t n_nodes = table->node->engine->core.n_nodes, n = 0;
    for (uint32_t i = 0; i < n_nodes && n < LISTED_NODES; i++) {
        bool is_behind = false;
        if (!manager_wanted_by(manager, key, i, &is_behind))
            continue;
        say(text, "%s %" PRIu32 "%s", n++ ? "," : "", i,
            is_behind && has_replicas ? " (which will get a value in its next round)" : "");
    }
    if (n < facts->n_wanting)
        say(text, " and %" PRIu32 " more", facts->n_wanting - n);
    say(text, ".\n");
}

static void say_intents(struct text *text, const struct key_facts *facts)
{
    if (facts->n_intents)
        say(text, "This node has %" PRIu32 " active intent%s for it", facts->n_intents,
            facts->n_intents == 1 ? "" : "s");
    else
        say(text, "This node has no active intent for it");
    if (facts->is_asked_for)
        say(text, ", and has asked for it without an answer yet");
    if (facts->is_ending)
        say(text, ", and is telling the owner that it does not want it any more");
    say(text, ".\n");
}

static const char *sentence_of(enum trace_kind kind)
{
    switch (kind) {
    case TRACE_MAIN_CAME:
        return "the main copy came from node";
    case TRACE_MAIN_LEFT:
        return "the main copy left for node";
    case TRACE_REPLICA_MADE:
        return "a replica was made here, of the main copy at node";
    case TRACE_REPLICA_ENDED:
        return "the replica here ended, as agreed with node";
    case TRACE_OTHER_WANTS:
        return "the main copy stayed, and was wanted as well by node";
    case TRACE_OTHER_LEAVES:
        return "the key was not wanted any more by node";
    case TRACE_INTENT_BEGAN:
    case TRACE_INTENT_ENDED:
        break;
    }
    return "something happened with node";
}

static void say_events(struct text *text, const struct trace_event *events, size_t n)
{
    uint64_t now_ns = time_of_day_ns();
    if (!n) {
        say(text, "Of the last %d moves and replicas seen here none was of this key.\n",
            (int)TRACE_RING);
        return;
    }
    say(text, "What was seen of it here last:\n");
    for (size_t i = 0; i < n; i++) {
        uint64_t age_ns = now_ns > events[i].time_ns ? now_ns - events[i].time_ns : 0;
        say(text, "  %.6f s ago %s %" PRIu32 "\n", (double)age_ns / 1e9,
            sentence_of((enum trace_kind)events[i].kind), events[i].node);
    }
}

static void explain_managed(struct text *text, const struct tern_table *table, uint64_t key)
{
    struct engine *engine = table->node->engine;
    const uint32_t number = store_shard(&table->core.store, key);
    struct manager *manager = table->core.managers[number];
    struct shard *shard = &engine->shards[number];
    struct trace_event events[LAST_EVENTS];
    struct key_facts facts;
    pthread_mutex_lock(&shard->lock);
    manager_facts(manager, key, &facts);
    size_t n = trace_last(manager_trace(manager), key, events, LAST_EVENTS);
    say(text,
        "Key %" PRIu64 " of table '%s', policy %s, as node %" PRIu32 " of %" PRIu32
        " sees it. Its home is node %" PRIu32 ".\n",
        key, table->core.store.name, table->core.policy->name, engine->core.node,
        engine->core.n_nodes, facts.home);
    say_place(text, &facts);
    if (facts.copy == COPY_MAIN)
        say_others(text, table, key, &facts);
    pthread_mutex_unlock(&shard->lock);
    say_intents(text, &facts);
    say_events(text, events, n);
}

static void explain_fixed(struct text *text, const struct tern_table *table, uint64_t key)
{
    const struct store *store = &table->core.store;
    const struct engine *engine = table->node->engine;
    say(text, "Key %" PRIu64 " of table '%s' ", key, store->name);
    if (!engine) {
        say(text, "is here: this node is alone.\n");
        return;
    }
    uint32_t home = core_home(&engine->core, store, key);
    if (table->piece)
        say(text, "is in memory that all nodes share, by policy %s, since they are on one host.\n",
            table->core.policy->name);
    else if (table->core.policy->replica == REPLICA_OF_EVERY_KEY)
        say(text,
            "is at every node, by policy %s. The main copy is at its home, node %" PRIu32 ".\n",
            table->core.policy->name, home);
    else if (table->core.policy->replica == REPLICA_ON_ACCESS)
        say(text,
            "is at its home, node %" PRIu32
            ", by policy %s, with replicas at nodes that have used it.\n",
            home, table->core.policy->name);
    else
        say(text, "is at its home, node %" PRIu32 ", for good, by policy %s.\n", home,
            table->core.policy->name);
}

static enum tern_status check_key(const struct store *store, uint64_t key)
{
    if (key > store->last_key)
        return fail(TERN_RANGE, "key %" PRIu64 " is outside table '%s' of %" PRIu64 " keys", key,
                    store->name, store->n_keys);
    return TERN_OK;
}

enum tern_status tern_why(struct tern_table *table, uint64_t key, char *text, size_t size)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!text || !size)
        return fail(TERN_INVALID, "tern_why: there is no room for the text");
    enum tern_status status = check_key(&table->core.store, key);
    if (status)
        return status;
    struct text out = {.bytes = text, .size = size};
    text[0] = 0;
    if (core_is_managed(&table->core))
        explain_managed(&out, table, key);
    else
        explain_fixed(&out, table, key);
    return TERN_OK;
}

/* ---- Trace files -------------------------------------------------------------------------------- */

struct trace_file {
    struct recording recording; /* first, so that it leads to the rest */
    struct trace_events taken;  /* to be written */
    uint32_t node, shard;
    int fd;
    int error; /* why something could not be written: an errno; 0: nothing was wrong */
    char path[];
};

static void put(struct trace_file *file, const char *bytes, size_t n)
{
    while (n && !file->error) {
        ssize_t written = write(file->fd, bytes, n);
        if (written < 0 && errno != EINTR)
            file->error = errno;
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
}

/* Writes the events that were taken. */
static void put_taken(struct trace_file *file)
{
    char chunk[CHUNK_BYTES];
    size_t used = 0;
    for (size_t i = 0; i < file->taken.n; i++) {
        if (sizeof chunk - used < TRACE_LINE) {
            put(file, chunk, used);
            used = 0;
        }
        used += trace_line(&file->taken.events[i], file->node, chunk + used);
    }
    put(file, chunk, used);
    file->taken.n = 0;
}

/* The first line: which node, and which table; a name is not to break the line. */
static void put_head(struct trace_file *file, const char *name, uint32_t n_nodes)
{
    char line[TERN_MAX_NAME + 80];
    int n = snprintf(line, sizeof line, "# tern trace 1, node %" PRIu32 " of %" PRIu32 ", table %s",
                     file->node, n_nodes, name);
    for (int i = 0; i < n; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = '?';
    line[n] = '\n';
    put(file, line, (size_t)n + 1);
}

/* Writes the rest, and the last line if no other shard writes after this one, and closes the file. */
static void complete(struct trace_file *file)
{
    char line[TRACE_LINE];
    recording_take(&file->recording, &file->taken);
    put_taken(file);
    int n = snprintf(line, sizeof line, "# end %" PRIu64 "\n", time_of_day_ns());
    if (file->shard == 0)
        put(file, line, (size_t)n);
    if (close(file->fd) && !file->error)
        file->error = errno;
}

static void file_free(struct trace_file *file)
{
    recording_fini(&file->recording);
    free(file->taken.events);
    free(file);
}

/* The table is closed while it is traced. */
static void release(struct recording *recording)
{
    struct trace_file *file = (struct trace_file *)recording;
    complete(file);
    file_free(file);
}

/* Ends a file, and says what was wrong with it. */
static enum tern_status finish(struct trace_file *file)
{
    enum tern_status status = TERN_OK;
    complete(file);
    if (file->error)
        status = fail(TERN_INVALID, "the trace file '%s' could not be written: %s", file->path,
                      strerror(file->error));
    else if (file->recording.n_lost)
        status = fail(TERN_NO_MEMORY, "no memory for %" PRIu64 " events of the trace '%s'",
                      file->recording.n_lost, file->path);
    file_free(file);
    return status;
}

static enum tern_status file_open(const struct tern_table *table, uint32_t shard,
                                  const uint64_t *keys, size_t n, const char *path,
                                  struct trace_file **opened)
{
    const struct engine *engine = table->node->engine;
    size_t size = strlen(path) + sizeof ".4294967295";
    struct trace_file *file = calloc(1, sizeof *file + size);
    if (!file || !recording_init(&file->recording, keys, n)) {
        free(file);
        return fail(TERN_NO_MEMORY, "no memory to trace %zu keys of table '%s'", n,
                    table->core.store.name);
    }
    file->node = engine ? engine->core.node : 0;
    file->recording.release = release;
    snprintf(file->path, size, "%s.%" PRIu32, path, file->node);
    file->shard = shard;
    int how = shard ? O_WRONLY | O_APPEND : O_WRONLY | O_APPEND | O_CREAT | O_TRUNC;
    file->fd = open(file->path, how | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        enum tern_status status = fail(TERN_INVALID, "the trace file '%s' cannot be made: %s",
                                       file->path, strerror(errno));
        file_free(file);
        return status;
    }
    if (shard == 0)
        put_head(file, table->core.store.name, engine ? engine->core.n_nodes : 1);
    *opened = file;
    return TERN_OK;
}

/* ---- Tracing ------------------------------------------------------------------------------------ */

/* What is here of a key of a table whose keys stay where they are. */
static enum copy fixed_copy(const struct tern_table *table, uint64_t key)
{
    const struct engine *engine = table->node->engine;
    if (!engine || table->piece || core_home(&engine->core, &table->core.store, key) == engine->core.node)
        return COPY_MAIN;
    return table->core.policy->replica == REPLICA_OF_EVERY_KEY ? COPY_REPLICA : COPY_NONE;
}

/* Records what is here of each key of the file's shard, and whether it is wanted, as if that had just come about. */
static void record_begin(const struct tern_table *table, struct trace_file *file,
                         const uint64_t *keys, size_t n)
{
    static const enum trace_kind kinds[] = {[COPY_NONE] = TRACE_MAIN_LEFT,
                                            [COPY_REPLICA] = TRACE_REPLICA_MADE,
                                            [COPY_MAIN] = TRACE_MAIN_CAME};
    uint64_t now_ns = time_of_day_ns();
    for (size_t i = 0; i < n; i++) {
        struct key_facts facts = {0};
        if (store_shard(&table->core.store, keys[i]) != file->shard && core_is_managed(&table->core))
            continue;
        if (core_is_managed(&table->core))
            manager_facts(table->core.managers[file->shard], keys[i], &facts);
        else
            facts.copy = fixed_copy(table, keys[i]);
        struct trace_event event = {.time_ns = now_ns, .key = keys[i], .kind = kinds[facts.copy]};
        recording_add(&file->recording, &event);
        event.kind = TRACE_INTENT_BEGAN;
        if (facts.n_intents)
            recording_add(&file->recording, &event);
    }
}

/* The recording of a shard of a table; NULL: it is not traced. Read and changed under the locks of its rounds. */
static struct trace_file *file_of(const struct tern_table *table, uint32_t shard)
{
    return (struct trace_file *)manager_trace(table->core.managers[shard])->recording;
}

/* Ends the files of all shards, the first one's last; the first trouble counts. The caller holds the locks of the
 * rounds. */
static enum tern_status stop_managed(const struct tern_table *table)
{
    enum tern_status status = TERN_OK;
    char sentence[STATUS_SENTENCE_BYTES] = "";
    for (uint32_t i = table->core.store.n_shards; i-- > 0;) {
        pthread_mutex_t *lock = &table->node->engine->shards[i].lock;
        pthread_mutex_lock(lock);
        struct trace_file *file = file_of(table, i);
        manager_trace(table->core.managers[i])->recording = NULL;
        pthread_mutex_unlock(lock);
        enum tern_status ended = file ? finish(file) : TERN_OK;
        if (ended && !status) {
            status = ended;
            snprintf(sentence, sizeof sentence, "%s", tern_error());
        }
    }
    return status ? fail(status, "%s", sentence) : TERN_OK;
}

/* The caller holds the locks of the rounds. */
static enum tern_status start_managed(struct tern_table *table, const uint64_t *keys, size_t n,
                                      const char *path)
{
    if (file_of(table, 0))
        return fail(TERN_BUSY, "table '%s' is being traced; stop that first",
                    table->core.store.name);
    for (uint32_t i = 0; i < table->core.store.n_shards; i++) {
        pthread_mutex_t *lock = &table->node->engine->shards[i].lock;
        struct trace_file *file = NULL;
        enum tern_status status = file_open(table, i, keys, n, path, &file);
        if (status) {
            char sentence[STATUS_SENTENCE_BYTES];
            snprintf(sentence, sizeof sentence, "%s", tern_error());
            (void)stop_managed(table);
            return fail(status, "%s", sentence);
        }
        pthread_mutex_lock(lock);
        record_begin(table, file, keys, n);
        manager_trace(table->core.managers[i])->recording = &file->recording;
        pthread_mutex_unlock(lock);
    }
    return TERN_OK;
}

/* Keys that stay where they are have nothing more to tell than where that is. */
static enum tern_status write_fixed(const struct tern_table *table, const uint64_t *keys, size_t n,
                                    const char *path)
{
    struct trace_file *file = NULL;
    enum tern_status status = file_open(table, 0, keys, n, path, &file);
    if (status)
        return status;
    record_begin(table, file, keys, n);
    return finish(file);
}

enum tern_status tern_trace_start(struct tern_table *table, const uint64_t *keys, size_t n,
                                  const char *path)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!keys || !n)
        return fail(TERN_INVALID, "tern_trace_start: there is no key to trace");
    if (!path || !path[0])
        return fail(TERN_INVALID, "tern_trace_start: there is no path for the trace");
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < n; i++)
        status = check_key(&table->core.store, keys[i]);
    if (status)
        return status;
    if (!core_is_managed(&table->core))
        return write_fixed(table, keys, n, path);
    engine_lock_rounds(table->node->engine);
    status = start_managed(table, keys, n, path);
    engine_unlock_rounds(table->node->engine);
    return status;
}

enum tern_status tern_trace_stop(struct tern_table *table)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!core_is_managed(&table->core))
        return TERN_OK;
    engine_lock_rounds(table->node->engine);
    enum tern_status status = stop_managed(table);
    engine_unlock_rounds(table->node->engine);
    return status;
}

bool why_has_news(struct manager *manager)
{
    const struct recording *recording = manager_trace(manager)->recording;
    return recording && recording->events.n >= WORTH_EVENTS;
}

void why_write(struct shard *shard)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *table =
            atomic_load_explicit(&shard->engine->core.tables[i], memory_order_acquire);
        struct manager *manager = table ? table->managers[shard->number] : NULL;
        if (!manager)
            continue;
        pthread_mutex_lock(&shard->lock);
        struct trace_file *file = (struct trace_file *)manager_trace(manager)->recording;
        bool has_news = why_has_news(manager);
        if (has_news)
            recording_take(&file->recording, &file->taken);
        pthread_mutex_unlock(&shard->lock);
        if (has_news)
            put_taken(file);
    }
}

/*
 * explain - tern_why, which tells how a key is managed, and the trace of chosen keys. See tern.h.
 *
 * The technique records the events of keys (core/trace.h), under the shard's lock.
 * The trace is written in two steps, so that no file is written to while that lock is held: the events
 * are taken from the recording under it, and made into lines after. The lock of the rounds, which is
 * taken before the shard's, guards the files: they are written to at the end of rounds. All shards append to one file,
 * which the first begins and ends.
 */
#include "node/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/technique.h"
#include "node/node.h"

enum {
    WORTH_EVENTS = 1024,  /* of a recording before they are written */
    CHUNK_BYTES = 1 << 14 /* handed to the system at once */
};

uint64_t explain_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
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
    struct engine *engine = table->node->engine;
    text_add(&out, "Key %" PRIu64 " of table '%s' ", key, table->core.store.name);
    if (!engine) {
        text_add(&out, "is here: this node is alone.\n");
    } else if (table_is_whole(table)) {
        text_add(&out, "is in memory that all nodes share, since they are processes of one host "
                       "(TERN_SHARE=0 ends "
                       "that).\n");
    } else {
        struct lock *lock = &engine->shards[store_shard(&table->core.store, key)].lock;
        lock_take(lock);
        table->core.technique->explain(table_core(table), &table->core, key, &out);
        lock_release(lock);
    }
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
    int n = snprintf(line, sizeof line, "# end %" PRIu64 "\n", explain_time_ns());
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
        put_head(file, table->core.store.name,
                 view_n_nodes(engine ? engine->core.view : &view_alone));
    *opened = file;
    return TERN_OK;
}

/* ---- Tracing ------------------------------------------------------------------------------------ */

/* What is here of a key. */
static enum copy copy_here(const struct tern_table *table, uint64_t key, bool *is_wanted)
{
    *is_wanted = false;
    return table_is_whole(table)
               ? COPY_MAIN
               : table->core.technique->copy(table_core(table), &table->core, key, is_wanted);
}

/* Whether anything happens to the keys of a table after it was opened. */
static bool has_trace(const struct tern_table *table)
{
    return table->core.technique->trace;
}

/* Records what is here of each key of the file's shard, and whether it is wanted, as if that had just come about. */
static void record_begin(const struct tern_table *table, struct trace_file *file,
                         const uint64_t *keys, size_t n)
{
    static const enum trace_kind kinds[] = {[COPY_NONE] = TRACE_MAIN_LEFT,
                                            [COPY_REPLICA] = TRACE_REPLICA_MADE,
                                            [COPY_MAIN] = TRACE_MAIN_CAME};
    uint64_t now_ns = explain_time_ns();
    for (size_t i = 0; i < n; i++) {
        bool is_wanted;
        if (store_shard(&table->core.store, keys[i]) != file->shard && has_trace(table))
            continue;
        enum copy copy = copy_here(table, keys[i], &is_wanted);
        struct trace_event event = {.time_ns = now_ns, .key = keys[i], .kind = kinds[copy]};
        recording_add(&file->recording, &event);
        event.kind = TRACE_INTENT_BEGAN;
        if (is_wanted)
            recording_add(&file->recording, &event);
    }
}

/* The recording of a shard of a table; NULL in it: it is not traced. Read and changed under the locks of its rounds. */
static struct recording **recording_of(const struct core_table *table, uint32_t shard)
{
    return &table->technique->trace(table, shard)->recording;
}

/* Ends the files of all shards, the first one's last; the first trouble counts. The caller holds the locks of the
 * rounds. */
static enum tern_status stop_shards(const struct tern_table *table)
{
    enum tern_status status = TERN_OK;
    char sentence[STATUS_SENTENCE_BYTES] = "";
    for (uint32_t i = table->core.store.n_shards; i-- > 0;) {
        struct lock *lock = &table->node->engine->shards[i].lock;
        lock_take(lock);
        struct recording **recording = recording_of(&table->core, i);
        struct trace_file *file = (struct trace_file *)*recording;
        *recording = NULL;
        lock_release(lock);
        enum tern_status ended = file ? finish(file) : TERN_OK;
        if (ended && !status) {
            status = ended;
            snprintf(sentence, sizeof sentence, "%s", tern_error());
        }
    }
    return status ? fail(status, "%s", sentence) : TERN_OK;
}

/* The caller holds the locks of the rounds. */
static enum tern_status start_shards(struct tern_table *table, const uint64_t *keys, size_t n,
                                     const char *path)
{
    if (*recording_of(&table->core, 0))
        return fail(TERN_BUSY, "table '%s' is being traced; stop that first",
                    table->core.store.name);
    for (uint32_t i = 0; i < table->core.store.n_shards; i++) {
        struct lock *lock = &table->node->engine->shards[i].lock;
        struct trace_file *file = NULL;
        enum tern_status status = file_open(table, i, keys, n, path, &file);
        if (status) {
            char sentence[STATUS_SENTENCE_BYTES];
            snprintf(sentence, sizeof sentence, "%s", tern_error());
            (void)stop_shards(table);
            return fail(status, "%s", sentence);
        }
        lock_take(lock);
        record_begin(table, file, keys, n);
        *recording_of(&table->core, i) = &file->recording;
        lock_release(lock);
    }
    return TERN_OK;
}

/* Keys that stay where they are have nothing more to tell than where that is. */
static enum tern_status write_once(const struct tern_table *table, const uint64_t *keys, size_t n,
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
    if (!has_trace(table))
        return write_once(table, keys, n, path);
    engine_lock_rounds(table->node->engine);
    status = start_shards(table, keys, n, path);
    engine_unlock_rounds(table->node->engine);
    return status;
}

enum tern_status tern_trace_stop(struct tern_table *table)
{
    if (!handle_is((const struct handle *)table, HANDLE_TABLE))
        return handle_refuse((const struct handle *)table, HANDLE_TABLE);
    if (!has_trace(table))
        return TERN_OK;
    engine_lock_rounds(table->node->engine);
    enum tern_status status = stop_shards(table);
    engine_unlock_rounds(table->node->engine);
    return status;
}

/* The recording of the table at a slot with enough events to be written; NULL: there is none. */
static struct recording *full_recording(const struct shard *shard, uint32_t slot)
{
    const struct core_table *table =
        atomic_load_explicit(&shard->engine->core.tables[slot], memory_order_acquire);
    if (!table || !table->technique->trace || shard->number >= table->store.n_shards)
        return NULL;
    struct recording *recording = *recording_of(table, shard->number);
    return recording && recording->events.n >= WORTH_EVENTS ? recording : NULL;
}

bool explain_has_events(const struct shard *shard)
{
    bool found = false;
    for (uint32_t i = 0; !found && i < TERN_MAX_TABLES; i++)
        found = full_recording(shard, i);
    return found;
}

void explain_write(struct shard *shard)
{
    for (uint32_t i = 0; i < TERN_MAX_TABLES; i++) {
        lock_take(&shard->lock);
        struct trace_file *file = (struct trace_file *)full_recording(shard, i);
        if (file)
            recording_take(&file->recording, &file->taken);
        lock_release(&shard->lock);
        if (file)
            put_taken(file);
    }
}

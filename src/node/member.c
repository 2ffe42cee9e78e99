/* member - see member.h. */
#include "node/member.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/node.h"

void member_init(struct member *member, uint32_t n_processes, uint64_t deadline_ns)
{
    *member = (struct member){.n_processes = n_processes, .deadline_ns = deadline_ns};
    lock_init(&member->lock, RANK_SEGMENTS, 0);
}

static void free_segment(struct table_segment *segment)
{
    segment_close(segment->segment);
    free(segment);
}

void member_fini(struct member *member)
{
    for (struct table_segment *segment = member->segments, *next; segment; segment = next) {
        next = segment->next;
        free_segment(segment);
    }
    lock_fini(&member->lock);
}

/* The names are by number of node, like the board's lines: a table with backups is shared by all nodes or none. */
static uint64_t segment_bytes(const struct member *member, const struct tern_table_options *options,
                              const struct store_home *home)
{
    const uint64_t names = options->backups ? member->n_processes * sizeof(struct watched_name) : 0;
    return shared_bytes(options, home) + board_bytes(member->n_processes) + names;
}

/* Puts a segment, which is new in this process, on the list. */
static struct table_segment *add(struct member *member, uint32_t node, struct segment *memory,
                                 const struct tern_table_options *options,
                                 const struct store_home *home)
{
    struct table_segment *made = calloc(1, sizeof *made);
    if (!made) {
        segment_close(memory);
        return NULL;
    }
    made->segment = memory;
    made->shared = memory->memory;
    made->board = (struct board *)((char *)memory->memory + shared_bytes(options, home));
    atomic_fetch_add(&made->shared->n_processes, 1);
    if (options->backups) {
        made->names =
            (struct watched_name *)((char *)made->board + board_bytes(member->n_processes));
        watcher_sign(&made->names[node]);
    }
    lock_take(&member->lock);
    made->next = member->segments;
    member->segments = made;
    lock_release(&member->lock);
    return made;
}

struct table_segment *member_offer(struct member *member, uint32_t node,
                                   const struct tern_table_options *options,
                                   const struct store_home *home)
{
    struct segment *memory;
    if (segment_new(segment_bytes(member, options, home), (uint16_t)node, &memory))
        return NULL;
    /* A process that is lost is known to be after a deadline and a half; one that lives may be slow. */
    shared_format(memory->memory, options, home, 2 * member->deadline_ns);
    return add(member, node, memory, options, home);
}

/* Ends a segment of the list. The caller holds the lock. */
static void drop(struct member *member, struct table_segment *segment)
{
    struct table_segment **at = &member->segments;
    while (*at != segment)
        at = &(*at)->next;
    *at = segment->next;
    free_segment(segment);
}

static struct table_segment *find(struct member *member, struct table_segment *offered,
                                  uint64_t number)
{
    lock_take(&member->lock);
    if (offered && offered->segment->number != number)
        drop(member, offered);
    struct table_segment *found = member->segments;
    while (found && found->segment->number != number)
        found = found->next;
    lock_release(&member->lock);
    return found;
}

/* Gets the descriptor of a segment from the process that made it. */
static enum tern_status fetch(const struct member *member, const struct engine *engine,
                              uint64_t number, int *fd)
{
    const uint32_t maker = segment_maker(number);
    char why[STATUS_SENTENCE_BYTES];
    if (!view_has(engine->core.view, maker))
        return fail(TERN_PEER, "the coordinator told a number of shared memory that is none");
    const enum tern_status status = stream_fetch_segment(engine->peers.addresses[maker], number,
                                                         clock_now_ns() + member->deadline_ns, fd);
    if (!status)
        return TERN_OK;
    snprintf(why, sizeof why, "%s", tern_error());
    return fail(status,
                "node %" PRIu32
                " made the memory that the processes of this host share, and %s: %s",
                maker, status == TERN_PEER ? "is gone" : "they cannot have it", why);
}

enum tern_status member_take(struct member *member, struct table_segment *offered, uint64_t number,
                             const struct engine *engine, const struct tern_table_options *options,
                             const struct store_home *home, struct table_segment **segment)
{
    *segment = find(member, offered, number);
    if (*segment || !number)
        return TERN_OK;
    int fd;
    struct segment *memory;
    enum tern_status status = fetch(member, engine, number, &fd);
    if (!status)
        status = segment_map(fd, segment_bytes(member, options, home), number, &memory);
    if (status)
        return status;
    *segment = add(member, engine->core.node, memory, options, home);
    if (!*segment)
        return fail(TERN_NO_MEMORY, "no memory to open a table");
    const struct watched_name *names = (*segment)->names;
    return !names || watcher_has_signed(&names[engine->core.node])
               ? TERN_OK
               : fail(TERN_PEER, "this node was given up before it had opened the table");
}

void member_use(struct member *member, struct table_segment *segment)
{
    if (!segment)
        return;
    lock_take(&member->lock);
    segment->is_open = true;
    lock_release(&member->lock);
}

void member_part(struct member *member, uint32_t node, bool leaves)
{
    lock_take(&member->lock);
    for (struct table_segment *segment = member->segments; segment; segment = segment->next)
        if (segment->names)
            watcher_part(&segment->names[node], leaves);
    lock_release(&member->lock);
}

void member_leave(struct member *member, struct table_segment *segment)
{
    if (!segment)
        return;
    lock_take(&member->lock);
    segment->is_open = false;
    /* Those that nobody will ask this process for. */
    for (struct table_segment *other = member->segments, *next; other; other = next) {
        next = other->next;
        if (!other->is_open && atomic_load(&other->shared->n_processes) >= member->n_processes)
            drop(member, other);
    }
    lock_release(&member->lock);
}

void member_lose(struct engine *engine, uint32_t node)
{
    const struct view *view = engine->core.view;
    const bool is_of_this_host = view_leader(view, node) == engine->member.node;
    engine_lock(engine);
    for (size_t i = 0; i < TERN_MAX_TABLES; i++) {
        struct core_table *core =
            atomic_load_explicit(&engine->core.tables[i], memory_order_acquire);
        if (!core)
            continue;
        if (core->store.watch && is_of_this_host)
            watch_lose(core->store.watch, node + 1);
        struct tern_table *table = table_around(core);
        if (table_needs_all(table))
            atomic_store_explicit(&table->n_straight, 0, memory_order_relaxed);
    }
    engine_unlock(engine);
}

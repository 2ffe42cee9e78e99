/*
 * ticket - operations that are started now and waited for later. On a single node an operation is finished when
 * its start returns; in a cluster the part that concerns other nodes waits under its ticket, and so
 * does a localization (localize.c). A localization orders nothing: keys on their way here are used where they are. See
 * access.h.
 */
#include "node/access.h"

#include <inttypes.h>
#include <stdlib.h>

/* Notes that an operation is under way no more, once. */
static void uncount(struct tern_worker *worker, struct pending *pending)
{
    if (pending->is_counted)
        order_ended(&worker->space->order, &pending->op);
    pending->is_counted = false;
}

enum tern_status ticket_wait_for_turn(struct tern_worker *worker, const struct tern_table *table,
                                      const uint64_t *keys, size_t n)
{
    if (!order_must_wait(&worker->space->order, &table->core, keys, n))
        return TERN_OK;
    enum tern_status status = TERN_OK;
    for (struct pending *pending = worker->pending; pending && !status; pending = pending->next) {
        if (!pending->is_counted)
            continue;
        remote_wait(worker->remote, &pending->op, false);
        status = away_catch_up(worker, &pending->op);
        if (!status)
            uncount(worker, pending);
    }
    return status;
}

/* Memory for an operation under way, and back: a few are kept, so that none is made on the way. */
static struct pending *take_pending(struct tern_worker *worker)
{
    struct pending *pending = worker->free_pending;
    if (pending)
        worker->free_pending = pending->next;
    else
        pending = malloc(sizeof *pending);
    return pending;
}

static void give_pending(struct tern_worker *worker, struct pending *pending)
{
    pending->next = worker->free_pending;
    worker->free_pending = pending;
}

static bool is_localization(const struct pending *pending)
{
    return pending->localization.n != 0;
}

/* Puts an operation that was started under the next ticket. */
static void add_pending(struct tern_worker *worker, struct pending *pending)
{
    pending->is_counted = !is_localization(pending);
    if (pending->is_counted)
        order_began(&worker->space->order, &pending->op);
    atomic_fetch_add_explicit(&pending->table->n_under_way, 1, memory_order_relaxed);
    pending->ticket = worker->last_ticket + 1;
    pending->next = NULL;
    pending->before = worker->last_pending;
    if (worker->last_pending)
        worker->last_pending->next = pending;
    else
        worker->pending = pending;
    worker->last_pending = pending;
}

/* Starts what is left to do for other nodes. */
static enum tern_status start_pending(struct tern_worker *worker, struct tern_table *table,
                                      enum frame_kind kind, const uint64_t *keys, size_t n,
                                      void *values)
{
    struct workspace *space = worker->space;
    bool has_room = order_reserve(&space->order, &table->core, space->n_away);
    struct pending *pending = has_room ? take_pending(worker) : NULL;
    if (!pending)
        return fail(TERN_NO_MEMORY, "no memory for an operation under way");
    pending->table = table;
    pending->localization = (struct localization){0};
    enum tern_status status = away_start(worker, table, kind, keys, n, values, &pending->op);
    if (status)
        give_pending(worker, pending);
    else
        add_pending(worker, pending);
    return status;
}

enum tern_status ticket_add_localization(struct tern_worker *worker, struct tern_table *table,
                                         const struct localization *localization)
{
    struct pending *pending = take_pending(worker);
    if (!pending)
        return fail(TERN_NO_MEMORY, "no memory for an operation under way");
    pending->table = table;
    pending->localization = *localization;
    add_pending(worker, pending);
    return TERN_OK;
}

/* An operation that is started now; what is left to do for other nodes waits under its ticket. */
static enum tern_status operate_start(struct tern_worker *worker, struct tern_table *table,
                                      enum frame_kind kind, const uint64_t *keys, size_t n,
                                      void *values, uint64_t *ticket)
{
    if (!ticket)
        return fail(TERN_INVALID, "the pointer `ticket` for the result is NULL");
    enum tern_status status = access_begin(worker, table, kind, keys, n, values);
    if (!status && worker->space->n_away)
        status = start_pending(worker, table, kind, keys, n, values);
    if (status)
        return status;
    access_count(worker, table, kind, n);
    *ticket = ++worker->last_ticket;
    return TERN_OK;
}

enum tern_status tern_pull_start(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, void *values, uint64_t *ticket)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate_start(worker, table, FRAME_PULL, keys, n, values, ticket);
}

enum tern_status tern_push_start(struct tern_worker *worker, struct tern_table *table,
                                 const uint64_t *keys, size_t n, const void *updates,
                                 uint64_t *ticket)
{
    if (!access_allowed(worker, table, keys, n, updates))
        return access_refuse(worker, table, keys, updates, "updates");
    return operate_start(worker, table, FRAME_PUSH, keys, n, (void *)(uintptr_t)updates, ticket);
}

enum tern_status tern_set_start(struct tern_worker *worker, struct tern_table *table,
                                const uint64_t *keys, size_t n, const void *values,
                                uint64_t *ticket)
{
    if (!access_allowed(worker, table, keys, n, values))
        return access_refuse(worker, table, keys, values, "values");
    return operate_start(worker, table, FRAME_SET, keys, n, (void *)(uintptr_t)values, ticket);
}

/* The operation with this ticket; NULL if it is finished. The list is searched from the end that is nearer. */
static struct pending *find_pending(const struct tern_worker *worker, uint64_t ticket)
{
    struct pending *first = worker->pending, *last = worker->last_pending;
    if (!first || ticket < first->ticket || ticket > last->ticket)
        return NULL;
    bool forwards = ticket - first->ticket < last->ticket - ticket;
    struct pending *pending = forwards ? first : last;
    while (forwards && pending->ticket < ticket)
        pending = pending->next;
    while (!forwards && pending->ticket > ticket)
        pending = pending->before;
    return pending->ticket == ticket ? pending : NULL;
}

/* Takes a finished operation out of the list and gives its outcome. */
static enum tern_status end_pending(struct tern_worker *worker, struct pending *pending)
{
    *(pending->before ? &pending->before->next : &worker->pending) = pending->next;
    *(pending->next ? &pending->next->before : &worker->last_pending) = pending->before;
    bool is_behind = pending->is_counted; /* else it was waited for already */
    uncount(worker, pending);
    enum tern_status status = TERN_OK;
    if (!is_localization(pending))
        status = is_behind ? away_end(worker, &pending->op) : op_end(&pending->op);
    atomic_fetch_sub_explicit(&pending->table->n_under_way, 1, memory_order_release);
    give_pending(worker, pending);
    return status;
}

static enum tern_status check_ticket(const struct tern_worker *worker, uint64_t ticket)
{
    if (!handle_is((const struct handle *)worker, HANDLE_WORKER))
        return handle_refuse((const struct handle *)worker, HANDLE_WORKER);
    if (!ticket || ticket > worker->last_ticket)
        return fail(TERN_INVALID, "ticket %" PRIu64 " was not given out by this worker", ticket);
    return TERN_OK;
}

enum tern_status tern_wait(struct tern_worker *worker, uint64_t ticket)
{
    enum tern_status status = check_ticket(worker, ticket);
    if (status)
        return status;
    struct pending *pending = find_pending(worker, ticket);
    if (!pending)
        return TERN_OK;
    enum tern_status came = TERN_OK;
    if (is_localization(pending))
        came = localize_wait(pending->table, &pending->localization);
    else
        remote_wait(worker->remote, &pending->op, false);
    status = end_pending(worker, pending);
    return came ? came : status;
}

/* Whether an operation is done; it is given a push if it is not. */
static bool look(struct tern_worker *worker, struct pending *pending)
{
    if (is_localization(pending)) {
        worker_drive(worker);
        return localize_is_done(pending->table, &pending->localization);
    }
    if (!op_is_done(&pending->op))
        remote_progress(worker->remote);
    return op_is_done(&pending->op);
}

enum tern_status tern_test(struct tern_worker *worker, uint64_t ticket, bool *done)
{
    if (!done)
        return fail(TERN_INVALID, "tern_test: the pointer `done` is NULL");
    enum tern_status status = check_ticket(worker, ticket);
    if (status)
        return status;
    struct pending *pending = find_pending(worker, ticket);
    bool finished = !pending || look(worker, pending);
    if (pending && finished)
        status = end_pending(worker, pending);
    if (!status)
        *done = finished;
    return status;
}

void access_finish_all(struct tern_worker *worker)
{
    while (worker->pending) {
        if (!is_localization(worker->pending))
            remote_wait(worker->remote, &worker->pending->op, false);
        end_pending(worker, worker->pending);
    }
    for (struct pending *pending = worker->free_pending, *next; pending; pending = next) {
        next = pending->next;
        free(pending);
    }
    worker->free_pending = NULL;
}

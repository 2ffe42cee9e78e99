/* alone - see alone.h. */
#include "node/alone.h"

#include "base/barrier.h"
#include "base/spin.h"

static bool is_alone(const struct tern_worker *worker)
{
    return atomic_load_explicit(&worker->is_alone, memory_order_relaxed);
}

enum tern_status alone_open(struct tern_worker *worker)
{
    struct tern_worker *other = worker->next;
    bool can_be = !other && !worker->node->engine && barrier_prepare();
    atomic_store_explicit(&worker->is_alone, can_be, memory_order_relaxed);
    if (!other || !is_alone(other))
        return TERN_OK;
    atomic_store_explicit(&other->is_alone, false, memory_order_relaxed);
    if (!barrier_everywhere()) {
        atomic_store_explicit(&other->is_alone, true, memory_order_relaxed);
        return fail(TERN_BUSY, "a worker has the node for itself, and the system refuses "
                               "membarrier(2), which would tell it of a second one");
    }
    /* Acquire: partner of the release in alone_end; what it has changed is visible. */
    const _Atomic bool *changing = &other->space->is_changing;
    for (unsigned tries = 0; atomic_load_explicit(changing, memory_order_acquire);)
        spin_wait(&tries);
    return TERN_OK;
}

void alone_close(struct tern_node *node)
{
    struct tern_worker *left = node->workers;
    /* Release: partner of the acquire in alone_begin. */
    if (left && !left->next && !node->engine && !is_alone(left))
        atomic_store_explicit(&left->is_alone, barrier_prepare(), memory_order_release);
}

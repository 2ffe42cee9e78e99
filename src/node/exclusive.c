/* exclusive - see exclusive.h. */
#include "node/exclusive.h"

#include "base/barrier.h"
#include "base/spin.h"

static bool is_exclusive(const struct tern_worker *worker)
{
    return atomic_load_explicit(&worker->is_exclusive, memory_order_relaxed);
}

/* Takes it from a worker that may be exclusive; NULL: there is none. */
static enum tern_status take_from(struct tern_worker *other)
{
    if (!other || !is_exclusive(other))
        return TERN_OK;
    atomic_store_explicit(&other->is_exclusive, false, memory_order_relaxed);
    if (!barrier_everywhere()) {
        atomic_store_explicit(&other->is_exclusive, true, memory_order_relaxed);
        return fail(TERN_BUSY, "a worker has the node for itself, and the system refuses "
                               "membarrier(2), which would tell it of a second one");
    }
    /* Acquire: partner of the release in exclusive_end; what it has changed is visible. */
    const _Atomic bool *changing = &other->space->is_changing;
    for (struct spin spin = {0}; atomic_load_explicit(changing, memory_order_acquire);)
        spin_again(&spin, NULL);
    return TERN_OK;
}

enum tern_status exclusive_open(struct tern_worker *worker)
{
    struct tern_worker *other = worker->next;
    bool can_be = !other && !worker->node->engine && barrier_prepare();
    atomic_store_explicit(&worker->is_exclusive, can_be, memory_order_relaxed);
    return take_from(other);
}

enum tern_status exclusive_suspend(struct tern_node *node)
{
    return take_from(node->workers);
}

void exclusive_close(struct tern_node *node)
{
    struct tern_worker *left = node->workers;
    /* Release: partner of the acquire in exclusive_begin. */
    if (left && !left->next && !node->engine && !is_exclusive(left))
        atomic_store_explicit(&left->is_exclusive, barrier_prepare(), memory_order_release);
}

/* order - see order.h. */
#include "core/order.h"

#include "core/defect.h"
#include "core/technique.h"

enum { MOST_SWEEPS = 16 };

/* ---- Operations under way ------------------------------------------------------------------------ */

void order_fini(struct order *order)
{
    keymap_free(&order->under_way);
    keymap_free(&order->last);
}

static bool may_be_overtaken(const struct core_table *table)
{
    return !store_is_homebound(&table->store) || table->technique->counting || table->backup;
}

bool order_must_wait(const struct order *order, const struct core_table *table,
                     const uint64_t *keys, size_t n)
{
    bool found = false;
    for (size_t i = 0; may_be_overtaken(table) && order->under_way.n && !found && i < n; i++)
        found = keymap_get(&order->under_way, keys[i]);
    return found && !defect(DEFECT_TURN_SKIPPED);
}

bool order_reserve(struct order *order, const struct core_table *table, size_t n)
{
    return !may_be_overtaken(table) || keymap_reserve(&order->under_way, n);
}

void order_began(struct order *order, const struct op *op)
{
    for (size_t i = 0; may_be_overtaken(op->of) && i < op->n; i++)
        keymap_set(&order->under_way, op->sorted[i],
                   keymap_get(&order->under_way, op->sorted[i]) + 1);
}

void order_ended(struct order *order, const struct op *op)
{
    for (size_t i = 0; may_be_overtaken(op->of) && i < op->n; i++)
        keymap_set(&order->under_way, op->sorted[i],
                   keymap_get(&order->under_way, op->sorted[i]) - 1);
}

/* ---- One operation ------------------------------------------------------------------------------- */

enum tern_status order_leave_last(struct order *order, const struct core_table *table,
                                  const uint64_t *keys, size_t n, uint32_t *away, size_t *n_away)
{
    struct keymap *last = &order->last;
    if (!table->store.home.rows_move || n < 2 || !*n_away || defect(DEFECT_SETS_REPEATED))
        return TERN_OK;
    if (!keymap_reserve(last, *n_away))
        return fail(TERN_NO_MEMORY, "no memory for a call on %zu keys", n);
    for (size_t i = 0; i < *n_away; i++)
        keymap_set(last, keys[away[i]], 1);
    for (size_t i = 0; i < n; i++)
        if (keymap_get(last, keys[i]))
            keymap_set(last, keys[i], (uint32_t)i + 1);
    size_t n_left = 0;
    for (size_t i = 0; i < *n_away; i++) {
        uint32_t position = away[i];
        if (keymap_get(last, keys[position]) != position + 1)
            continue;
        keymap_set(last, keys[position], 0);
        away[n_left++] = position;
    }
    *n_away = n_left;
    for (size_t i = 0; last->n && i < n; i++)
        keymap_set(last, keys[i], 0);
    return TERN_OK;
}

static bool outran_unregistered(const struct op *op, const struct io *io, void *driver)
{
    bool outran = false;
    for (uint32_t i = 0; !outran && i < op->of->store.n_shards; i++) {
        io->enter_shard(driver, i);
        outran = op_outran_unregistered(op, i);
        io->leave_shard(driver, i);
    }
    return outran;
}

bool order_catches_up(struct catch_up *catch_up, const struct op *op, const struct io *io,
                      void *driver)
{
    if (op->status || catch_up->n_sweeps == MOST_SWEEPS ||
        (!catch_up->n_sweeps && !op_outran_replicas(op)))
        return false;
    const bool outran = outran_unregistered(op, io, driver);
    const bool waits = !catch_up->n_sweeps || catch_up->outran_unregistered || outran;
    catch_up->outran_unregistered = outran;
    catch_up->n_sweeps += waits;
    return waits;
}

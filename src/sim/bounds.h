/*
 * bounds - how a simulated worker waits for what core/admit.h demands, with events and for virtual time.
 */
#ifndef SIM_BOUNDS_H
#define SIM_BOUNDS_H

#include "sim/worker.h"

extern const struct io
    bounds_io; /* of a worker (core/admit.h, core/order.h); its driver is the worker */

/* Whether an operation on a bounded table can be done now; *status if it never can. */
bool bounds_are_kept(struct worker *worker, struct slot *slot, enum tern_status *status);

/* Notes an update that was done. */
void bounds_pushed(struct worker *worker, const struct slot *slot);

/* The worker's step is over, unless it has to wait. */
void bounds_advance(struct worker *worker);

void bounds_rest(struct worker *worker);

/* Comes back from a rest; false if it has to wait, or cannot: then it does nothing more. */
bool bounds_return(struct worker *worker);

/* The worker is closed, and another opened in its place, which rests at first. */
void bounds_reopen(struct worker *worker);

#endif

/*
 * straggler - workers that are slower than others on purpose, to measure what they cost the others.
 *
 * A straggler sleeps after each piece of work until that has taken STRAGGLER_SLOWNESS times as long. So it takes no time from
 * others that share its cores. The time for which it waited for others itself does not count.
 */
#ifndef TASKS_STRAGGLER_H
#define TASKS_STRAGGLER_H

#include <tern/tern.h>

enum { STRAGGLER_SLOWNESS = 3 };

/* One worker, used by its thread alone. */
struct straggler {
    double since_s, waited_s;
};

/* Its work begins now. */
void straggler_begin(struct straggler *straggler, struct tern_worker *worker);

/* It has done a piece of work: sleeps, and begins the next. */
void straggler_lag(struct straggler *straggler, struct tern_worker *worker);

#endif

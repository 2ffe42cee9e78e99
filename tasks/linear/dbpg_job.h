/* dbpg_job - what a thread computes in a job, for dbpg.c alone. */
#ifndef TASKS_LINEAR_DBPG_JOB_H
#define TASKS_LINEAR_DBPG_JOB_H

#include "linear/dbpg.h"

bool dbpg_space_init(struct dbpg_space *space, const struct dbpg *dbpg, size_t thread);
void dbpg_space_fini(struct dbpg_space *space, const struct dbpg *dbpg);

/* Pulls the rows of n features into the thread's space; pushes updates from there. */
bool dbpg_pull_rows(struct dbpg *dbpg, size_t thread, const uint32_t *features, size_t n);
bool dbpg_push_rows(struct dbpg *dbpg, size_t thread, const uint32_t *features, size_t n);

/* Lists the features of a block that are active, or all of them; returns their number. */
size_t dbpg_list(const struct dbpg *dbpg, size_t thread, const struct dbpg_job *job);

/* Adds `change` times the values of a feature to the margins. */
void dbpg_move(const struct slice *slice, size_t feature, double change);

/* Counts the features of a job as no longer on their way; before any thread fetches them. */
void dbpg_land(struct dbpg *dbpg, size_t thread, const struct dbpg_job *job);

/* Asks for the thread's share of the weights of a job, which has a number; takes them and notes how they have changed. */
bool dbpg_ask(struct dbpg *dbpg, size_t thread, uint64_t number, const struct dbpg_job *job);
bool dbpg_take(struct dbpg *dbpg, size_t thread, uint64_t number, const struct dbpg_job *job);

/* Adds what has changed, at all threads, to the margins of the thread's examples. */
void dbpg_apply(struct dbpg *dbpg, size_t thread, const struct dbpg_job *job);

/* Slopes and curvatures of the active features of the block, whose number it returns. */
size_t dbpg_measure(struct dbpg *dbpg, size_t thread, const struct dbpg_job *job);

/* Adds up those of all threads for the thread's share of the features, and starts to push the sums. */
bool dbpg_send(struct dbpg *dbpg, size_t thread, uint64_t number, size_t n_active);

/* Whether the push of the oldest job that is not confirmed has arrived; with `waits`, not before it has. */
bool dbpg_confirm(struct dbpg *dbpg, size_t thread, bool waits, bool *has_arrived);

#endif

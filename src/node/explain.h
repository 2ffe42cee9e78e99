/*
 * explain - how the keys of a table are managed, told in sentences and in trace files: see explain.c. Included
 * by the files of node/ only.
 */
#ifndef NODE_EXPLAIN_H
#define NODE_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

struct shard;

/* The time of day, which all nodes of a host share. */
uint64_t explain_time_ns(void);

/* Whether the recording of a table of the shard has gathered enough to be written. The caller holds the shard's lock. */
bool explain_has_events(const struct shard *shard);

/* Writes what such recordings have gathered to their files. For the rounds of a shard, which hold their own lock
 * and not the shard's. */
void explain_write(struct shard *shard);

#endif

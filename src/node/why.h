/*
 * why - how the keys of a table are managed, told in sentences and in trace files: see why.c. Included
 * by the files of node/ only.
 */
#ifndef NODE_WHY_H
#define NODE_WHY_H

#include <stdbool.h>

struct manager;
struct shard;

/* From now on the events of a new manager have the time of day. */
void why_begin(struct manager *manager);

/* Whether a recording has gathered enough to be written. The caller holds the shard's lock. */
bool why_has_news(struct manager *manager);

/* Writes what such recordings have gathered to their files. For the rounds of a shard, which hold their own lock
 * and not the shard's. */
void why_write(struct shard *shard);

#endif

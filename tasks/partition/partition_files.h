/*
 * partition_files - the folder of a partition:
 *
 *   rows.txt           the part of each row, a number per line, as gpmetis writes it
 *   keys.npy           the keys that rows use, ascending (<u8)
 *   homes.npy          the home of each of them (<u2)
 *   frequencies.npy    how many entries have each of them (<u8)
 *   sets.npy           the parts that use each of them, in words of 64 bits (<u8): what --resume goes on with
 *   replica_keys.npy replica_parts.npy   one entry per replica: the key, and the part that has it
 *   part-0000.txt ...  the lines of the data by part, with --split; .svm if they are libsvm
 *   partition.txt      what was done, and the measures: "name value" per line. It is written last
 */
#ifndef TASKS_PARTITION_PARTITION_FILES_H
#define TASKS_PARTITION_PARTITION_FILES_H

#include "partition/outcome.h"

bool partition_files_write(const char *folder, const struct job *job,
                           const struct outcome *outcome);

/* The keys and sets of an earlier partition into n_parts parts; both are to be freed. */
bool partition_files_read_sets(const char *folder, uint32_t n_parts, uint64_t *n_keys,
                               uint64_t **keys, uint64_t **sets);

#endif

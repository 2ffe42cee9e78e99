/*
 * links - reads what links between parts cost: a file with a line for each part, and in it a number for each part, with blanks or
 * commas between. Lines that are empty or begin with '#' are comments.
 */
#ifndef TASKS_PARTITION_LINKS_H
#define TASKS_PARTITION_LINKS_H

#include <stdbool.h>
#include <stdint.h>

/* *costs, n_parts x n_parts, is to be freed. */
bool links_read(const char *path, uint32_t n_parts, double **costs);

#endif

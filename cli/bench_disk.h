/*
 * bench_disk - a checkpoint of a table, beside a plain write of as many bytes to the same disk: for tern bench survive.
 *
 * Every node is a process with a `static` table, all of whose rows have been changed, and a worker that pushes and pulls keys of the
 * whole table. One checkpoint is written while the workers go on. Then one process writes as many bytes in one file past the page
 * cache, in blocks of 4 MiB, and syncs it, as `dd oflag=direct conv=fsync bs=4M` does.
 */
#ifndef CLI_BENCH_DISK_H
#define CLI_BENCH_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct disk_setup {
    uint32_t n_nodes, length;
    uint64_t n_keys;
    double seconds;     /* of the measurement without a checkpoint */
    const char *folder; /* where files are written; they are removed again */
    const char *link;   /* between the nodes; NULL: none */
};

struct disk_figures {
    double n_bytes; /* of the checkpoint's files */
    double write_s,
        plain_s; /* from the return of the start to the end of the wait; of the plain write, 0: not possible */
    double pause_ms;                       /* the start, at the node where it took longest */
    double keys_per_s, keys_per_s_without; /* while files are written; and before */
    double copied_bytes; /* that the processes had more after the start than before */
};

/* False after an error message. */
bool bench_disk(const struct disk_setup *setup, struct disk_figures *figures);

#endif

/*
 * process - another process of this host: whether it is gone, and its end.
 *
 * A process is named by its number, the moment it began, and the namespace that the number is in, which it tells by itself.
 * So a number that was given to another process since is not taken for it, and nobody else is killed.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct process_name {
    uint32_t pid;
    uint64_t began; /* as the system counts */
    uint64_t space; /* the namespace of the number */
};

/* The calling process; false if the system does not tell. */
bool process_self(struct process_name *name);

enum process_state {
    PROCESS_LIVES,
    PROCESS_GONE,   /* it executes no instruction any more */
    PROCESS_UNKNOWN /* the system does not tell */
};

/* Looks for a process. If it lives, *fd is a descriptor that is readable, for poll, once it is gone; else -1. */
enum process_state process_find(const struct process_name *name, int *fd);

/* Whether the process of a descriptor is gone. */
bool process_is_gone(int fd);

/* Kills it, if it is not gone yet: false if that is not possible. It is gone some time later. */
bool process_kill(int fd);

#endif

/*
 * outputs - a folder of files that is replaced as a whole: whoever opens it finds all files of the last
 * complete run, or all of the run before.
 *
 * outputs_open() makes a temporary folder beside the one that is asked for: .NAME.new beside NAME. Files
 * are written there. outputs_commit() brings every byte to the disk (fsync of each file and of the folder)
 * and then gives the folder its name by one rename; where the name is taken, it exchanges the two
 * folders, which is one step as well, and removes the old one. So a kill or a power failure at any moment
 * leaves the old folder or the new one, and perhaps .NAME.new, which the next run clears.
 *
 * A file of the old folder that the new one does not replace belongs to the user and is kept, unless
 * outputs_drop() names it. On a file system that cannot exchange folders (NFS) it takes two renames; a
 * kill between them leaves the old folder as .NAME.old, and outputs_recover(), which every reader and
 * writer calls first, gives it its name back.
 *
 * A lock on the temporary folder keeps two programs from writing the same outputs. A signal that ends the
 * program removes the temporary folder, unless it has more than INTERRUPT_MAX_FILES files (interrupt.h). A program writes one set of outputs at a time, in
 * one thread. Writers do not look at errors: the first one of a file is kept and reported by
 * outputs_commit().
 */
#ifndef TASKS_OUTPUTS_H
#define TASKS_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { OUTPUTS_MAX = 4096 + 16, OUTPUTS_MAX_DROPPED = 16 };

struct outfile {
    FILE *file;
    char *name;
    char *path;      /* where it will be, in the user's words: for messages */
    char *temporary; /* where it is */
    int error;       /* errno of the first write that failed; 0: none */
};

struct outputs {
    char *folder;    /* as it was given */
    char *target;    /* the same without symbolic links */
    char *parent;    /* of the target */
    char *temporary; /* .NAME.new in the parent */
    int lock;        /* descriptor of the temporary folder; -1: none */
    size_t n;
    struct outfile at[OUTPUTS_MAX];
    size_t n_dropped;
    const char *dropped[OUTPUTS_MAX_DROPPED];
};

/* The folder above the one that is given must exist. */
bool outputs_open(struct outputs *outputs, const char *folder);

/* Whether a folder can be written, or replaced; leaves everything as it was. */
bool outputs_try(const char *folder);

/* One more file; NULL after task_fail(). */
struct outfile *outputs_add(struct outputs *outputs, const char *name);

/* A file that an earlier run may have written and that does not belong to this one; `name` stays valid. */
void outputs_drop(struct outputs *outputs, const char *name);

void outfile_write(struct outfile *out, const void *bytes, size_t n);
void outfile_print(struct outfile *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* End the outputs, in success and failure. */
bool outputs_commit(struct outputs *outputs);
void outputs_discard(struct outputs *outputs);

/* Completes what a kill has interrupted, as told above. */
void outputs_recover(const char *folder);

#endif

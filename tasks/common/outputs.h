/*
 * outputs - the files of a folder that are written together: where the first one is, all of them are, complete
 * and of the same run.
 *
 * Each file is written under a temporary name in its folder, the same one in every run, so that what an
 * interrupted run leaves is used again; a lock tells it from that of a run under way. outputs_commit() looks
 * whether every byte has arrived, and only then gives the files their names, replacing those of an earlier run: the
 * first one goes before the others do and comes after them. outputs_discard() removes what is not committed,
 * and the folder if it was made for it, and so does a signal that ends the program (of one that cannot be caught the
 * files stay). A program writes one set of outputs at a time. Writers do not look at errors: the first one of a file is kept and
 * reported by outputs_commit().
 */
#ifndef TASKS_OUTPUTS_H
#define TASKS_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { OUTPUTS_MAX = 16 };

struct outfile {
    FILE *file;
    char *path, *temporary;
    int error; /* errno of the first write that failed; 0: none */
};

struct outputs {
    char *folder;
    bool folder_is_new;
    size_t n;
    struct outfile at[OUTPUTS_MAX];
};

/* Makes the folder if there is none; the folders above it must exist. */
bool outputs_open(struct outputs *outputs, const char *folder);

/* Whether files can be made in a folder, which may have to be made for them; leaves everything as it was. */
bool outputs_try(const char *folder);

/* One more file; NULL after task_fail(). */
struct outfile *outputs_add(struct outputs *outputs, const char *name);

void outfile_write(struct outfile *out, const void *bytes, size_t n);
void outfile_print(struct outfile *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Ends the outputs, in success and failure. */
bool outputs_commit(struct outputs *outputs);
void outputs_discard(struct outputs *outputs);

#endif

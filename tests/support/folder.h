/*
 * folder - a folder for the files of one test program, and files in it. The program gives make_folder and drop_folder to
 * cmocka_run_group_tests(); one thread uses them.
 */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include "support/check.h"

static char folder[] = "/tmp/tern-test-XXXXXX";

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

/* Fails if the folder is not there any more. */
static inline int drop_folder(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* The path of a file in the folder, which stays what it is during the next three calls. */
static inline const char *path_of(const char *name)
{
    static char paths[4][256];
    static size_t next;
    char *path = paths[next++ % COUNT(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Writes a file; its path. */
static inline const char *put_bytes(const char *name, const void *bytes, size_t n)
{
    const char *path = path_of(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *put_text(const char *name, const char *text)
{
    return put_bytes(name, text, strlen(text));
}

#endif

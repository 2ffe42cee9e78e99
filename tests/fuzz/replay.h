/*
 * replay - runs the corpus of a fuzz target in a test. An input that breaks a property ends the program;
 * the line before says which file it was.
 *
 * The corpus is found below the folder that the environment variable ROOT names (tools/run-tests sets
 * it), else below the current one.
 */
#ifndef FUZZ_REPLAY_H
#define FUZZ_REPLAY_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#undef fail /* cmocka's; base/status.h has a function of this name */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"

enum { MAX_INPUT_BYTES = 1 << 20 };

typedef int fuzz_target(const uint8_t *data, size_t size);

/* Gives the target the bytes of a file in a buffer of just that size, so that a sanitizer sees any
 * access beyond. */
static inline void replay_file(fuzz_target *target, const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *buffer = malloc(MAX_INPUT_BYTES);
    assert_non_null(buffer);
    const size_t size = fread(buffer, 1, MAX_INPUT_BYTES, file);
    assert_true(feof(file));
    fclose(file);
    uint8_t *data = realloc(buffer, size > 0 ? size : 1);
    assert_non_null(data);
    printf("%s\n", path);
    fflush(stdout);
    assert_int_equal(target(data, size), 0);
    free(data);
}

static inline void replay(fuzz_target *target, const char *name)
{
    const char *root = getenv("ROOT");
    char folder[2048], path[4096];
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", root ? root : ".", name);
    DIR *entries = opendir(folder);
    if (entries == NULL)
        print_error("cannot open %s: run this in the top folder, or set ROOT\n", folder);
    assert_non_null(entries);
    unsigned n_replayed = 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay_file(target, path);
        n_replayed++;
    }
    closedir(entries);
    assert_true(n_replayed >= 10);
}

#endif

/* npy - see npy.h. */
#include "common/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

enum { HEAD_BYTES = 128, MAX_PATH = 4096 };

void npy_write_head(struct outfile *out, const char *type, uint64_t n, size_t n_columns)
{
    char text[HEAD_BYTES - 10 + 1], shape[64];
    uint8_t head[HEAD_BYTES] = "\x93NUMPY\x01";
    snprintf(shape, sizeof shape, n_columns > 1 ? "%" PRIu64 ", %zu" : "%" PRIu64 ",", n,
             n_columns);
    snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type,
             shape);
    memset(head + 8, ' ', sizeof head - 8);
    head[8] = HEAD_BYTES - 10;
    head[9] = 0;
    memcpy(head + 10, text, strlen(text));
    head[HEAD_BYTES - 1] = '\n';
    outfile_write(out, head, sizeof head);
}

/* Reads the head, and the number of rows in it. */
static bool read_head(FILE *file, const char *path, const char *type, size_t n_columns,
                      uint64_t *n_rows)
{
    char head[HEAD_BYTES + 1] = "", shape[32], quoted[16];
    const bool is_whole = fread(head, 1, HEAD_BYTES, file) == HEAD_BYTES;
    const char *at = is_whole ? strstr(head + 10, "'shape': (") : NULL;
    char *end = NULL;
    *n_rows = at != NULL ? strtoull(at + 10, &end, 10) : 0;
    snprintf(shape, sizeof shape, n_columns > 1 ? ", %zu)" : ",)", n_columns);
    snprintf(quoted, sizeof quoted, "'%s'", type);
    return (memcmp(head, "\x93NUMPY\x01\x00", 8) == 0 && at != NULL &&
            strstr(head + 10, quoted) != NULL && strncmp(end, shape, strlen(shape)) == 0) ||
           task_fail("%s is not an array of a partition into as many parts", path);
}

bool npy_read_array(const char *folder, const char *name, const char *type, size_t value_bytes,
                    size_t n_columns, uint64_t *n, void **values)
{
    static const uint64_t limit = UINT64_C(1) << 40;
    char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *values = NULL;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return task_fail("cannot open %s: %s", path, strerror(errno));
    bool ok = read_head(file, path, type, n_columns, n);
    ok = ok &&
         (*n < limit / n_columns || task_fail("%s says that it has %" PRIu64 " rows", path, *n));
    *values = ok ? malloc((*n + 1) * n_columns * value_bytes) : NULL;
    ok = ok && (*values != NULL || task_fail_memory(path));
    ok = ok && (fread(*values, n_columns * value_bytes, *n, file) == *n ||
                task_fail("%s is shorter than its head says", path));
    fclose(file);
    if (ok)
        return true;
    free(*values);
    *values = NULL;
    return false;
}

/* vectors - files of vectors. See vectors.h. */
#include "common/vectors.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/outputs.h"
#include "common/sentence.h"

enum {
    NPY_MAGIC = 10, /* bytes of magic, version and length of the head */
    NPY_ALIGNMENT = 64,
    NPY_HEAD_MAX = 65535, /* what two bytes can say */
};

static const char npy_magic[8] = "\x93NUMPY\x01";

/* ---- Writing --------------------------------------------------------------------------------- */

static void npy_begin(struct outfile *out, uint64_t n_rows, uint64_t n_columns)
{
    char head[2 * NPY_ALIGNMENT + 1] = "";
    int n =
        snprintf(head, sizeof head,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }",
                 n_rows, n_columns);
    int length = 2 * NPY_ALIGNMENT - NPY_MAGIC;
    memset(head + n, ' ', (size_t)(length - n));
    head[length - 1] = '\n';
    outfile_write(out, npy_magic, sizeof npy_magic);
    const unsigned char low_high[2] = {(unsigned char)length, 0};
    outfile_write(out, low_high, sizeof low_high);
    outfile_write(out, head, (size_t)length);
}

void vectors_begin(struct outfile *out, enum vectors_format format, uint64_t n_rows,
                   uint64_t n_columns)
{
    if (format == VECTORS_NPY)
        npy_begin(out, n_rows, n_columns);
    else
        outfile_print(out, "%" PRIu64 " %" PRIu64 "\n", n_rows, n_columns);
}

static void write_name(struct outfile *out, const char *name)
{
    char piece[256];
    do {
        size_t n = 0;
        for (; *name != '\0' && n < sizeof piece; name++)
            piece[n++] = isspace((unsigned char)*name) ? '_' : *name;
        outfile_write(out, piece, n);
    } while (*name != '\0');
}

void vectors_add(struct outfile *out, enum vectors_format format, const char *name,
                 const float *vector, uint64_t n_columns)
{
    if (format == VECTORS_NPY) {
        outfile_write(out, vector, n_columns * sizeof *vector);
        return;
    }
    write_name(out, name);
    if (format == VECTORS_BINARY) {
        outfile_write(out, " ", 1);
        outfile_write(out, vector, n_columns * sizeof *vector);
    } else {
        for (uint64_t i = 0; i < n_columns; i++)
            outfile_print(out, " %.9g", (double)vector[i]);
    }
    outfile_write(out, "\n", 1);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool not_npy(const struct npy *npy, const char *why)
{
    return task_fail("%s is not an .npy file that can be read here: %s", npy->path, why);
}

/* A number of the shape, at *text; moves *text behind it and the comma. */
static bool read_extent(const char **text, uint64_t *extent)
{
    char *end;
    *text += strspn(*text, " ");
    if (!isdigit((unsigned char)**text))
        return false;
    errno = 0;
    *extent = strtoull(*text, &end, 10);
    *text = end + strspn(end, ", ");
    return errno == 0 && *extent < UINT64_C(1) << 48;
}

static bool read_head(struct npy *npy, const char *head)
{
    const char *shape = strstr(head, "'shape': (");
    if (strstr(head, "'descr': '<f4'") == NULL)
        return not_npy(npy, "its numbers are not little-endian f4");
    if (strstr(head, "'fortran_order': False") == NULL)
        return not_npy(npy, "its order is not that of C");
    npy->n_columns = 1;
    if (shape == NULL)
        return not_npy(npy, "its head has no shape");
    shape += strlen("'shape': (");
    bool ok = read_extent(&shape, &npy->n_rows) &&
              (*shape == ')' || read_extent(&shape, &npy->n_columns)) && *shape == ')';
    return ok || not_npy(npy, "its shape has more than two dimensions or makes no sense");
}

bool npy_open(struct npy *npy, const char *path)
{
    unsigned char start[NPY_MAGIC];
    char *head = NULL;
    *npy = (struct npy){.path = strdup(path), .file = fopen(path, "rbe")};
    bool ok = false;
    if (npy->path == NULL)
        task_fail_memory("the name of a file");
    else if (npy->file == NULL)
        task_fail("cannot open %s: %s", path, strerror(errno));
    else if (fread(start, 1, sizeof start, npy->file) != sizeof start ||
             memcmp(start, npy_magic, 7) != 0)
        not_npy(npy, "it does not begin like one of version 1");
    else if ((head = calloc(1, NPY_HEAD_MAX + 1)) == NULL)
        task_fail_memory(path);
    else if (fread(head, 1, start[8] + 256u * start[9], npy->file) != start[8] + 256u * start[9])
        not_npy(npy, "its head ends too early");
    else
        ok = read_head(npy, head);
    free(head);
    if (!ok)
        npy_close(npy);
    return ok;
}

bool npy_read(struct npy *npy, uint64_t n_rows, float *values)
{
    size_t n = n_rows * npy->n_columns;
    return fread(values, sizeof *values, n, npy->file) == n ||
           task_fail("%s ends before all its %" PRIu64 " rows", npy->path, npy->n_rows);
}

bool npy_skip(struct npy *npy, uint64_t row)
{
    return fseeko(npy->file, (off_t)(row * npy->n_columns * sizeof(float)), SEEK_CUR) == 0 ||
           task_fail("cannot read %s", npy->path);
}

void npy_close(struct npy *npy)
{
    if (npy->file != NULL)
        fclose(npy->file);
    free(npy->path);
    *npy = (struct npy){0};
}

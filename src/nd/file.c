/* file - see file.h. */
#include "nd/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/status.h"

enum { PIECE = 1 << 20 };

enum tern_status file_read(const char *path, struct buffer *bytes)
{
    gzFile file = path ? gzopen(path, "rb") : NULL;
    if (!file)
        return fail(TERN_INVALID, "%.300s cannot be opened: %s", path ? path : "(NULL)",
                    strerror(errno));
    enum tern_status status = TERN_OK;
    int n = 1;
    while (n > 0 && !status) {
        uint8_t *room = buffer_reserve(bytes, PIECE);
        if (!room) {
            status = fail(TERN_NO_MEMORY, "there is no memory for the content of %.300s", path);
            break;
        }
        n = gzread(file, room, PIECE);
        if (n > 0)
            bytes->end += (size_t)n;
    }
    int error;
    const char *sentence = gzerror(file, &error);
    if (!status && (n < 0 || error != Z_OK))
        status = fail(TERN_INVALID, "%.300s cannot be read to its end: %s", path, sentence);
    gzclose(file);
    return status;
}

enum tern_status file_write(const char *path, const struct slice *parts, size_t n)
{
    char other[4096];
    if (!path || (size_t)snprintf(other, sizeof other, "%s.new", path) >= sizeof other)
        return fail(TERN_INVALID, "the path is NULL or too long");
    FILE *file = fopen(other, "wb");
    bool ok = file != NULL;
    for (size_t i = 0; i < n && ok; i++)
        ok = fwrite(parts[i].bytes, 1, parts[i].n, file) == parts[i].n;
    ok = ok && !fflush(file) && !fsync(fileno(file));
    int error = errno;
    if (file && fclose(file) && ok) {
        ok = false;
        error = errno;
    }
    if (ok && rename(other, path)) {
        ok = false;
        error = errno;
    }
    if (ok)
        return TERN_OK;
    if (file)
        unlink(other);
    return fail(TERN_INVALID, "%.300s cannot be written: %s", path, strerror(error));
}

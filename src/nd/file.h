/* file - whole files in memory, for the readers of nd/. */
#ifndef ND_FILE_H
#define ND_FILE_H

#include "base/buffer.h"
#include "tern/tern.h"

/* Reads a file, which may be compressed by gzip, into an empty buffer. Failures name the path. */
enum tern_status file_read(const char *path, struct buffer *bytes);

/* Writes a file under another name first, so that it appears as a whole or not at all. */
enum tern_status file_write(const char *path, const struct slice *parts, size_t n);

#endif

/*
 * checkpoint_files - the folder of a checkpoint. See checkpoint.h.
 *
 * Files are written to PATH.new and synced one by one. The manifest comes last; then the folder is synced, renamed to
 * PATH, and the folder above it synced. So PATH is there exactly if everything is, whenever the machine stops.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "node/checkpoint.h"

enum { WRITE_BYTES = 4 << 20, HASH_BYTES = 1 << 20 };

#define MANIFEST_NAME "manifest.json"

static enum tern_status refuse(const char *verb, const char *folder, const char *name)
{
    const int error = errno;
    return fail(TERN_INVALID, "cannot %s '%s%s%s': %s", verb, folder, *name ? "/" : "", name,
                strerror(error));
}

static int open_in(const char *folder, const char *name, int flags)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC, 0666);
}

/* ---- Writing ------------------------------------------------------------------------------------ */

enum tern_status files_write(const char *folder, const char *name, const void *bytes, size_t n,
                             const atomic_bool *is_given_up)
{
    const char *at = bytes, *end = at + n;
    int fd = open_in(folder, name, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return refuse("make", folder, name);
    bool ok = true;
    while (ok && at < end && !atomic_load_explicit(is_given_up, memory_order_relaxed)) {
        const size_t most = (size_t)(end - at) < WRITE_BYTES ? (size_t)(end - at) : WRITE_BYTES;
        const ssize_t written = write(fd, at, most);
        ok = written > 0 || (written < 0 && errno == EINTR);
        at += written > 0 ? written : 0;
    }
    ok = ok && fdatasync(fd) == 0;
    enum tern_status status = ok ? TERN_OK : refuse("write", folder, name);
    if (close(fd) != 0 && !status)
        status = refuse("write", folder, name);
    return status;
}

enum tern_status files_sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    enum tern_status status = ok ? TERN_OK : refuse("sync", folder, "");
    if (fd >= 0)
        close(fd);
    return status;
}

bool files_link(const char *from, const char *to, const char *name)
{
    char old[PATH_MAX], new[PATH_MAX];
    return (size_t)snprintf(old, sizeof old, "%s/%s", from, name) < sizeof old &&
           (size_t)snprintf(new, sizeof new, "%s/%s", to, name) < sizeof new &&link(old, new) == 0;
}

void files_unlink(const char *folder, const char *name)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path)
        unlink(path);
}

/* Names that a checkpoint gives: nothing else is ever removed. */
static bool is_ours(const char *name)
{
    return !strcmp(name, MANIFEST_NAME) || !fnmatch("part-[0-9]*.safetensors", name, 0) ||
           !fnmatch("notes-[0-9]*.safetensors", name, 0);
}

void files_discard(const char *folder)
{
    DIR *entries = opendir(folder);
    if (!entries)
        return;
    for (const struct dirent *entry; (entry = readdir(entries));)
        if (is_ours(entry->d_name))
            unlinkat(dirfd(entries), entry->d_name, 0);
    closedir(entries);
    rmdir(folder);
}

enum tern_status files_begin(const char *path, const char *folder)
{
    struct stat there;
    if (lstat(path, &there) == 0)
        return fail(TERN_INVALID, "'%s' exists already: give the checkpoint a new name", path);
    files_discard(folder);
    return mkdir(folder, 0777) == 0 ? TERN_OK : refuse("make the folder", folder, "");
}

/* A part that another node wrote must be seen here. */
static enum tern_status check_size(const char *folder, const struct manifest_part *part)
{
    char name[MANIFEST_FILE_BYTES];
    struct stat there;
    manifest_file_name(part, name);
    int fd = open_in(folder, name, O_RDONLY);
    const bool seen = fd >= 0 && fstat(fd, &there) == 0 && S_ISREG(there.st_mode);
    if (fd >= 0)
        close(fd);
    if (!seen)
        return fail(TERN_INVALID, "'%s/%s' of node %" PRIu32 " is not there", folder, name,
                    part->node);
    if ((uint64_t)there.st_size != part->bytes)
        return fail(TERN_INVALID, "'%s/%s' has %lld bytes, not %" PRIu64, folder, name,
                    (long long)there.st_size, part->bytes);
    return TERN_OK;
}

enum tern_status files_check_sizes(const char *folder, const struct manifest *manifest)
{
    enum tern_status status = TERN_OK;
    for (size_t i = 0; !status && i < manifest->n_parts; i++)
        status = check_size(folder, &manifest->parts[i]);
    return status;
}

enum tern_status files_commit(const char *path, const char *folder, const struct manifest *manifest)
{
    const atomic_bool goes_on = false;
    struct buffer text = {0};
    char above[PATH_MAX];
    enum tern_status status = files_check_sizes(folder, manifest);
    if (!status && !manifest_encode(manifest, &text))
        status = fail(TERN_NO_MEMORY, "no memory for the manifest of a checkpoint");
    if (!status)
        status =
            files_write(folder, MANIFEST_NAME, buffer_head(&text), buffer_size(&text), &goes_on);
    buffer_free(&text);
    if (!status)
        status = files_sync_folder(folder);
    if (!status && rename(folder, path) != 0)
        status = refuse("rename a folder to", path, "");
    snprintf(above, sizeof above, "%s", path);
    return status ? status : files_sync_folder(dirname(above));
}

/* ---- Reading ------------------------------------------------------------------------------------ */

uint64_t files_hash(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

uint64_t files_hash_row(const void *value, size_t n_value, const void *state, size_t n_state)
{
    const uint64_t hash = XXH3_64bits(value, n_value);
    return n_state ? XXH3_64bits_withSeed(state, n_state, hash) : hash;
}

enum tern_status files_read(const char *folder, const char *name, uint64_t most, char **bytes,
                            size_t *n)
{
    struct stat there;
    int fd = open_in(folder, name, O_RDONLY);
    if (fd < 0)
        return refuse("open", folder, name);
    enum tern_status status = TERN_OK;
    char *read_bytes = NULL;
    size_t n_read = 0;
    if (fstat(fd, &there) != 0 || !S_ISREG(there.st_mode) || (uint64_t)there.st_size > most)
        status = fail(TERN_INVALID, "'%s/%s' is no file of a checkpoint", folder, name);
    else if (!(read_bytes = malloc((size_t)there.st_size + 1)))
        status = fail(TERN_NO_MEMORY, "no memory to read '%s/%s'", folder, name);
    while (!status && n_read < (size_t)there.st_size) {
        const ssize_t got = read(fd, read_bytes + n_read, (size_t)there.st_size - n_read);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            status = refuse("read", folder, name);
        n_read += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    if (status) {
        free(read_bytes);
        return status;
    }
    *bytes = read_bytes;
    *n = n_read;
    return TERN_OK;
}

/* The hash of an open file, and how long it is. */
static bool hash_file(int fd, char *block, uint64_t *hash, uint64_t *bytes)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    *bytes = 0;
    for (ssize_t got; (got = read(fd, block, HASH_BYTES)) != 0;) {
        if (got < 0 && errno != EINTR)
            return false;
        if (got > 0)
            XXH3_64bits_update(&state, block, (size_t)got);
        *bytes += got > 0 ? (uint64_t)got : 0;
    }
    *hash = XXH3_64bits_digest(&state);
    return true;
}

enum tern_status files_check(const char *folder, const struct manifest_part *part)
{
    char name[MANIFEST_FILE_BYTES];
    uint64_t hash, bytes;
    manifest_file_name(part, name);
    char *block = malloc(HASH_BYTES);
    if (!block)
        return fail(TERN_NO_MEMORY, "no memory to read '%s/%s'", folder, name);
    int fd = open_in(folder, name, O_RDONLY);
    enum tern_status status = TERN_OK;
    if (fd < 0 || !hash_file(fd, block, &hash, &bytes))
        status = refuse("read", folder, name);
    else if (bytes != part->bytes || hash != part->hash)
        status = fail(TERN_INVALID, "'%s/%s' is damaged: its hash is not that of the manifest",
                      folder, name);
    if (fd >= 0)
        close(fd);
    free(block);
    return status;
}

/* outputs - a folder of files that is replaced as a whole. See outputs.h. */
#include "common/outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/interrupt.h"
#include "common/sentence.h"

/* ---- Names of folders ------------------------------------------------------------------------ */

/* "a/b", to be freed; NULL after task_fail(). */
static char *join(const char *folder, const char *before, const char *name, const char *ending)
{
    char *path;
    if (asprintf(&path, "%s/%s%s%s", folder, before, name, ending) >= 0)
        return path;
    task_fail_memory("the name of a file");
    return NULL;
}

/* The folder without symbolic links, which need not exist, while the one above it must. To be freed; NULL
 * with errno. */
static char *resolve(const char *folder)
{
    char *path = realpath(folder, NULL), *copy = path == NULL ? strdup(folder) : NULL;
    if (path != NULL || copy == NULL || errno != ENOENT) {
        free(copy);
        return path;
    }
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/')
        copy[--n] = '\0';
    char *slash = strrchr(copy, '/');
    const char *name = slash != NULL ? slash + 1 : copy;
    if (slash != NULL)
        *slash = '\0';
    char *parent = realpath(slash == NULL ? "." : slash == copy ? "/" : copy, NULL);
    if (parent != NULL && asprintf(&path, "%s/%s", parent, name) < 0)
        path = NULL;
    free(parent);
    free(copy);
    return path;
}

/* Whether this process is in the folder, or below it. */
static bool contains_us(const char *target)
{
    char *here = realpath(".", NULL);
    size_t n = strlen(target);
    bool inside =
        here != NULL && strncmp(here, target, n) == 0 && (here[n] == '\0' || here[n] == '/');
    free(here);
    return inside;
}

static bool is_mount_point(const char *target)
{
    struct statx status;
    return statx(AT_FDCWD, target, 0, STATX_TYPE, &status) == 0 &&
           (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* A folder that is replaced gets a new inode, so it must not be one that others hold on to. */
static bool can_be_replaced(const struct outputs *outputs)
{
    struct stat status;
    if (stat(outputs->target, &status) != 0)
        return true;
    if (!S_ISDIR(status.st_mode))
        return task_fail("cannot make the folder %s: %s", outputs->folder, strerror(ENOTDIR));
    if (contains_us(outputs->target))
        return task_fail("%s is the folder you are in, and it would be replaced as a whole: name "
                         "a folder inside it",
                         outputs->folder);
    if (is_mount_point(outputs->target))
        return task_fail("%s is a mount point, which cannot be replaced as a whole: name a folder "
                         "inside it",
                         outputs->folder);
    return true;
}

static bool find_folders(struct outputs *outputs, const char *folder)
{
    outputs->folder = strdup(folder);
    outputs->target = resolve(folder);
    if (outputs->folder != NULL && outputs->target == NULL)
        return task_fail("cannot make the folder %s: %s", folder, strerror(errno));
    const char *slash = outputs->target != NULL ? strrchr(outputs->target, '/') : NULL;
    if (slash != NULL)
        outputs->parent = slash == outputs->target
                              ? strdup("/")
                              : strndup(outputs->target, (size_t)(slash - outputs->target));
    if (outputs->folder == NULL || outputs->parent == NULL)
        return task_fail_memory("the name of a folder");
    outputs->temporary = join(outputs->parent, ".", slash + 1, ".new");
    return outputs->temporary != NULL && can_be_replaced(outputs);
}

/* ---- The temporary folder -------------------------------------------------------------------- */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_folder_at(int fd, const char *name)
{
    struct stat status;
    return fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* Removes a folder that is not needed any more: all its files are in the target as well, or belong to a
 * run that was not completed. Folders in it are moved to the target, because they cannot be linked. */
static void remove_folder(const char *folder, const char *target)
{
    DIR *entries = opendir(folder);
    int to = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        int from = dirfd(entries);
        if (is_dots(entry->d_name))
            continue;
        if (!is_folder_at(from, entry->d_name))
            unlinkat(from, entry->d_name, 0);
        else if (to >= 0)
            renameat(from, entry->d_name, to, entry->d_name);
    }
    if (to >= 0)
        close(to);
    if (entries != NULL)
        closedir(entries);
    rmdir(folder);
}

/* Whether the path still leads to an open folder: another run may have renamed it meanwhile. */
static bool is_at(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

/* Opens and locks the temporary folder. Some file systems cannot lock a folder; then nothing is locked. */
static bool lock_temporary(struct outputs *outputs)
{
    outputs->lock = open(outputs->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (outputs->lock < 0)
        return task_fail("cannot open the folder %s: %s", outputs->temporary, strerror(errno));
    bool is_locked = flock(outputs->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    return (is_locked && is_at(outputs->lock, outputs->temporary)) ||
           task_fail("another program is writing %s", outputs->folder);
}

/* Makes the temporary folder, also where an interrupted run has left one. */
static bool make_temporary(struct outputs *outputs)
{
    if (mkdir(outputs->temporary, 0777) == 0)
        return lock_temporary(outputs);
    if (errno != EEXIST)
        return task_fail("cannot make the folder %s: %s (files are written to %s first)",
                         outputs->folder, strerror(errno), outputs->temporary);
    if (!lock_temporary(outputs))
        return false;
    remove_folder(outputs->temporary, outputs->target);
    close(outputs->lock);
    outputs->lock = -1;
    return (mkdir(outputs->temporary, 0777) == 0 && lock_temporary(outputs)) ||
           task_fail("cannot make the folder %s: %s", outputs->temporary, strerror(errno));
}

bool outputs_open(struct outputs *outputs, const char *folder)
{
    *outputs = (struct outputs){.lock = -1};
    outputs_recover(folder);
    interrupt_begin();
    if (find_folders(outputs, folder) && make_temporary(outputs)) {
        interrupt_remove_folder(outputs->temporary);
        return true;
    }
    /* The temporary folder, if it is there, is another program's. */
    free(outputs->temporary);
    outputs->temporary = NULL;
    outputs_discard(outputs);
    return false;
}

bool outputs_try(const char *folder)
{
    struct outputs outputs;
    if (!outputs_open(&outputs, folder))
        return false;
    outputs_discard(&outputs);
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

struct outfile *outputs_add(struct outputs *outputs, const char *name)
{
    struct outfile *out = &outputs->at[outputs->n];
    *out = (struct outfile){.name = strdup(name),
                            .path = join(outputs->folder, "", name, ""),
                            .temporary = join(outputs->temporary, "", name, "")};
    if (out->name != NULL && out->path != NULL && out->temporary != NULL) {
        if (outputs->n < INTERRUPT_MAX_FILES)
            interrupt_remove_file(outputs->n, out->temporary);
        out->file = fopen(out->temporary, "wbe");
        if (out->file == NULL)
            task_fail("cannot make the file %s: %s", out->temporary, strerror(errno));
    } else
        task_fail_memory("the name of a file");
    outputs->n++;
    return out->file != NULL ? out : NULL;
}

void outputs_drop(struct outputs *outputs, const char *name)
{
    outputs->dropped[outputs->n_dropped++] = name;
}

void outfile_write(struct outfile *out, const void *bytes, size_t n)
{
    if (out->error == 0 && n > 0 && fwrite(bytes, 1, n, out->file) != n)
        out->error = errno;
}

void outfile_print(struct outfile *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (out->error == 0 && vfprintf(out->file, format, args) < 0)
        out->error = errno;
    va_end(args);
}

/* Whether every byte has arrived. */
static bool finish_file(struct outfile *out)
{
    if (out->error == 0 && (fflush(out->file) != 0 || fsync(fileno(out->file)) != 0))
        out->error = errno;
    if (fclose(out->file) != 0 && out->error == 0)
        out->error = errno;
    out->file = NULL;
    return out->error == 0 || task_fail("cannot write %s: %s", out->path, strerror(out->error));
}

/* ---- Replacing the folder -------------------------------------------------------------------- */

static bool is_dropped(const struct outputs *outputs, const char *name)
{
    for (size_t i = 0; i < outputs->n_dropped; i++)
        if (strcmp(outputs->dropped[i], name) == 0)
            return true;
    return false;
}

/* Keeps an entry of the old folder, unless it is replaced or dropped. */
static bool keep_entry(const struct outputs *outputs, int old, const char *name)
{
    bool is_folder = is_folder_at(old, name), is_replaced = false;
    for (size_t i = 0; i < outputs->n; i++)
        is_replaced |= strcmp(outputs->at[i].name, name) == 0;
    if (is_replaced && is_folder)
        return task_fail("cannot write %s/%s: it is a folder", outputs->folder, name);
    return is_folder || is_replaced || is_dropped(outputs, name) ||
           linkat(old, name, outputs->lock, name, 0) == 0 ||
           task_fail("cannot keep %s/%s, which is not a part of what is written: %s; move it to "
                     "another folder",
                     outputs->folder, name, strerror(errno));
}

/* Links the user's own files from the old folder, if there is one, into the new one. */
static bool keep_others(struct outputs *outputs, bool *has_old)
{
    DIR *entries = opendir(outputs->target);
    struct stat status;
    *has_old = entries != NULL;
    if (entries == NULL)
        return errno == ENOENT ||
               task_fail("cannot read the folder %s: %s", outputs->folder, strerror(errno));
    const struct dirent *entry;
    bool ok = true;
    while (ok && (entry = readdir(entries)) != NULL)
        ok = is_dots(entry->d_name) || keep_entry(outputs, dirfd(entries), entry->d_name);
    if (ok && fstat(dirfd(entries), &status) == 0)
        (void)!fchmod(outputs->lock, status.st_mode & 07777);
    closedir(entries);
    return ok;
}

/* Brings the names in a folder to the disk. Some file systems cannot, and do so by themselves. */
static bool sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    int error = errno;
    if (fd >= 0)
        close(fd);
    return ok || task_fail("cannot write the folder %s: %s", path, strerror(error));
}

/* .NAME.old beside NAME, to be freed. */
static char *old_name(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *path;
    return asprintf(&path, "%.*s.%s.old", (int)(slash + 1 - target), target, slash + 1) >= 0 ? path
                                                                                             : NULL;
}

/* Exchanges the folders by two renames; the old one is removed. See outputs_recover(). */
static bool exchange_slowly(struct outputs *outputs)
{
    char *old = old_name(outputs->target);
    if (old != NULL)
        remove_folder(old, outputs->target); /* what a kill right after the renames has left */
    bool ok = old != NULL && rename(outputs->target, old) == 0 &&
              rename(outputs->temporary, outputs->target) == 0;
    if (!ok)
        task_fail("cannot replace the folder %s: %s", outputs->folder, strerror(errno));
    outputs_recover(outputs->folder);
    if (ok && sync_folder(outputs->parent))
        remove_folder(old, outputs->target);
    free(old);
    return ok;
}

/* Gives the new folder its name, and removes the old one. */
static bool put_in_place(struct outputs *outputs, bool has_old)
{
    if (has_old &&
        renameat2(AT_FDCWD, outputs->temporary, AT_FDCWD, outputs->target, RENAME_EXCHANGE) != 0)
        return errno == EINVAL || errno == ENOSYS ? exchange_slowly(outputs)
                                                  : task_fail("cannot replace the folder %s: %s",
                                                              outputs->folder, strerror(errno));
    if (!has_old && rename(outputs->temporary, outputs->target) != 0)
        return task_fail("cannot make the folder %s: %s", outputs->folder, strerror(errno));
    if (!sync_folder(outputs->parent))
        return false;
    if (has_old)
        remove_folder(outputs->temporary, outputs->target);
    return true;
}

bool outputs_commit(struct outputs *outputs)
{
    bool ok = true, has_old = false;
    for (size_t i = 0; i < outputs->n && ok; i++)
        ok = finish_file(&outputs->at[i]);
    ok = ok && keep_others(outputs, &has_old) && sync_folder(outputs->temporary) &&
         put_in_place(outputs, has_old);
    outputs_discard(outputs);
    return ok;
}

void outputs_discard(struct outputs *outputs)
{
    for (size_t i = 0; i < outputs->n; i++) {
        struct outfile *out = &outputs->at[i];
        if (out->file != NULL)
            fclose(out->file);
        if (i < INTERRUPT_MAX_FILES)
            interrupt_remove_file(i, NULL);
        free(out->temporary);
        free(out->path);
        free(out->name);
    }
    /* After a commit there is none. */
    if (outputs->temporary != NULL && is_at(outputs->lock, outputs->temporary))
        remove_folder(outputs->temporary, outputs->target);
    interrupt_remove_folder(NULL);
    interrupt_end();
    if (outputs->lock >= 0)
        close(outputs->lock);
    free(outputs->temporary);
    free(outputs->parent);
    free(outputs->target);
    free(outputs->folder);
    *outputs = (struct outputs){.lock = -1};
}

void outputs_recover(const char *folder)
{
    char *target = resolve(folder), *old = target != NULL ? old_name(target) : NULL;
    struct stat status;
    if (old != NULL && stat(target, &status) != 0 && errno == ENOENT)
        rename(old, target);
    free(old);
    free(target);
}

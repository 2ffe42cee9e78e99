/* outputs - files that appear complete or not at all. See outputs.h. */
#include "common/outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sentence.h"

/* ---- Signals --------------------------------------------------------------------------------- */

/* What a signal that ends the program removes first: temporary files, and the folder if it is new, in the last place. An
 * empty name is none; a name counts from when its first byte is there. */
static volatile char leftovers[OUTPUTS_MAX + 1][PATH_MAX];
static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

static void remove_leftovers(int number)
{
    for (size_t i = 0; i < OUTPUTS_MAX; i++)
        if (leftovers[i][0] != '\0')
            unlink((const char *)leftovers[i]);
    if (leftovers[OUTPUTS_MAX][0] != '\0')
        rmdir((const char *)leftovers[OUTPUTS_MAX]);
    signal(number, SIG_DFL);
    raise(number);
}

static void note_leftover(size_t place, const char *path)
{
    size_t n = strlen(path);
    for (size_t i = n + 1; n < PATH_MAX && i-- > 0;)
        leftovers[place][i] = path[i];
}

static void forget_leftover(size_t place)
{
    leftovers[place][0] = '\0';
}

/* Of signals that the program ignores, or handles itself, it stays so. */
static void handle_signals(void (*from)(int), void (*to)(int))
{
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct sigaction action;
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler == from)
            signal(ending[i], to);
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

bool outputs_open(struct outputs *outputs, const char *folder)
{
    *outputs = (struct outputs){.folder = strdup(folder)};
    if (outputs->folder == NULL)
        return task_fail_memory("the name of a folder");
    handle_signals(SIG_DFL, remove_leftovers);
    outputs->folder_is_new = mkdir(folder, 0777) == 0;
    if (outputs->folder_is_new)
        note_leftover(OUTPUTS_MAX, folder);
    if (!outputs->folder_is_new && errno != EEXIST) {
        task_fail("cannot make the folder %s: %s", folder, strerror(errno));
        outputs_discard(outputs);
        return false;
    }
    return true;
}

bool outputs_try(const char *folder)
{
    struct outputs outputs;
    if (!outputs_open(&outputs, folder))
        return false;
    bool ok = outputs_add(&outputs, "model.txt") != NULL;
    outputs_discard(&outputs);
    return ok;
}

/* Whether the path still leads to an open file: another run may have given it its name meanwhile. */
static bool is_at(int fd, const char *path)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
           open_one.st_ino == named.st_ino && open_one.st_dev == named.st_dev;
}

/* Opens a temporary file, empty and locked; -1 after task_fail(). */
static int open_temporary(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) {
        task_fail("cannot make the file %s: %s", path, strerror(errno));
        return -1;
    }
    bool is_ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, path);
    if (is_ours && ftruncate(fd, 0) == 0)
        return fd;
    if (is_ours)
        task_fail("cannot write %s: %s", path, strerror(errno));
    else
        task_fail("another program is writing %s", path);
    close(fd);
    return -1;
}

struct outfile *outputs_add(struct outputs *outputs, const char *name)
{
    struct outfile *out = &outputs->at[outputs->n];
    *out = (struct outfile){0};
    if (asprintf(&out->path, "%s/%s", outputs->folder, name) < 0)
        out->path = NULL;
    if (asprintf(&out->temporary, "%s/.%s.new", outputs->folder, name) < 0)
        out->temporary = NULL;
    int fd = -1;
    if (out->path == NULL || out->temporary == NULL)
        task_fail_memory("the name of a file");
    else
        fd = open_temporary(out->temporary);
    if (fd >= 0)
        note_leftover(outputs->n, out->temporary);
    if (fd >= 0)
        out->file = fdopen(fd, "wb");
    if (fd >= 0 && out->file == NULL) {
        task_fail_memory("a file");
        close(fd);
        unlink(out->temporary);
        forget_leftover(outputs->n);
    }
    if (out->file != NULL) {
        outputs->n++;
        return out;
    }
    free(out->path);
    free(out->temporary);
    return NULL;
}

void outfile_write(struct outfile *out, const void *bytes, size_t n)
{
    if (out->error == 0 && fwrite(bytes, 1, n, out->file) != n)
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
    return out->error == 0 || task_fail("cannot write %s: %s", out->path, strerror(out->error));
}

/* Whether the file can get its name: all are asked before the first one does. */
static bool may_name(const struct outfile *out)
{
    struct stat old;
    return lstat(out->path, &old) != 0 || !S_ISDIR(old.st_mode) ||
           task_fail("cannot write %s: it is a folder", out->path);
}

static bool name_file(struct outfile *out)
{
    if (rename(out->temporary, out->path) != 0)
        return task_fail("cannot write %s: %s", out->path, strerror(errno));
    free(out->temporary);
    out->temporary = NULL;
    return true;
}

bool outputs_commit(struct outputs *outputs)
{
    bool ok = true;
    for (size_t i = 0; i < outputs->n && ok; i++)
        ok = finish_file(&outputs->at[i]);
    for (size_t i = 0; i < outputs->n && ok; i++)
        ok = may_name(&outputs->at[i]);
    if (ok && outputs->n > 1)
        unlink(outputs->at[0].path);
    for (size_t i = outputs->n; i-- > 0 && ok;) {
        ok = name_file(&outputs->at[i]);
        forget_leftover(i);
    }
    outputs->folder_is_new &= !ok;
    outputs_discard(outputs);
    return ok;
}

void outputs_discard(struct outputs *outputs)
{
    for (size_t i = 0; i < outputs->n; i++) {
        struct outfile *out = &outputs->at[i];
        if (out->file != NULL)
            fclose(out->file);
        if (out->temporary != NULL)
            unlink(out->temporary);
        free(out->temporary);
        free(out->path);
    }
    if (outputs->folder_is_new)
        rmdir(outputs->folder);
    for (size_t i = 0; i <= OUTPUTS_MAX; i++)
        forget_leftover(i);
    handle_signals(remove_leftovers, SIG_DFL);
    free(outputs->folder);
    *outputs = (struct outputs){0};
}

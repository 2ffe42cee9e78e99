/* outputs - files that appear complete or not at all. See outputs.h. */
#include "common/outputs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sentence.h"

bool outputs_open(struct outputs *outputs, const char *folder)
{
    *outputs = (struct outputs){.folder = strdup(folder)};
    if (outputs->folder == NULL)
        return task_fail_memory("the name of a folder");
    outputs->folder_is_new = mkdir(folder, 0777) == 0;
    if (!outputs->folder_is_new && errno != EEXIST) {
        task_fail("cannot make the folder %s: %s", folder, strerror(errno));
        outputs_discard(outputs);
        return false;
    }
    return true;
}

struct outfile *outputs_add(struct outputs *outputs, const char *name)
{
    struct outfile *out = &outputs->at[outputs->n++];
    if (asprintf(&out->path, "%s/%s", outputs->folder, name) < 0)
        out->path = NULL;
    if (asprintf(&out->temporary, "%s/.%s.XXXXXX", outputs->folder, name) < 0)
        out->temporary = NULL;
    if (out->path == NULL || out->temporary == NULL) {
        task_fail_memory("the name of a file");
        return NULL;
    }
    int fd = mkstemp(out->temporary);
    if (fd >= 0) {
        /* mkstemp is for secrets; these are not. */
        mode_t mask = umask(0);
        umask(mask);
        fchmod(fd, 0666 & ~mask);
        out->file = fdopen(fd, "wb");
    }
    if (out->file == NULL) {
        task_fail("cannot make a file in %s: %s", outputs->folder, strerror(errno));
        return NULL;
    }
    return out;
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
    if (fclose(out->file) != 0 && out->error == 0)
        out->error = errno;
    out->file = NULL;
    return out->error == 0 || task_fail("cannot write %s: %s", out->path, strerror(out->error));
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
        ok = name_file(&outputs->at[i]);
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
    free(outputs->folder);
    *outputs = (struct outputs){0};
}

/* checkpoints - see checkpoints.h. */
#include "common/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char PREFIX[] = "epoch-";

/* ---- Folders --------------------------------------------------------------------------------- */

static bool has_manifest(const char *folder)
{
    char path[PATH_MAX + 32];
    struct stat status;
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The epoch of the newest checkpoint in a folder; 0: there is none. */
static int64_t find_newest(const char *folder)
{
    int64_t newest = 0;
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        char path[PATH_MAX], *end;
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        int64_t epoch = strtoll(entry->d_name + strlen(PREFIX), &end, 10);
        snprintf(path, sizeof path, "%.3000s/%s", folder, entry->d_name);
        if (*end == '\0' && epoch > newest && has_manifest(path))
            newest = epoch;
    }
    if (entries != NULL)
        closedir(entries);
    return newest;
}

/* Where the checkpoint is that --resume names; false: it names a model. */
static bool find_resumed(const char *resume, char path[PATH_MAX])
{
    const int64_t newest = has_manifest(resume) ? 0 : find_newest(resume);
    if (newest == 0)
        snprintf(path, PATH_MAX, "%s", resume);
    else
        snprintf(path, PATH_MAX, "%.4000s/%s%" PRId64, resume, PREFIX, newest);
    return newest > 0 || has_manifest(resume);
}

/* Makes the folder of --checkpoints, unless it is there; newer checkpoints in it would be in the way. */
static bool prepare_folder(const struct train *train)
{
    const char *folder = train->options->checkpoints;
    if (train->options->checkpoint_every == 0)
        return true;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return task_fail("cannot make the folder %s: %s", folder, strerror(errno));
    const int64_t newest = find_newest(folder);
    return newest <= train->n_epochs_done ||
           task_fail("there is a checkpoint of epoch %" PRId64 " in %s already: go on from it "
                     "(--resume %s) or choose another folder",
                     newest, folder, folder);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool read_mark(struct train *train, struct checkpoint_mark *mark)
{
    size_t bytes = 0;
    if (tern_checkpoint_get_note(train->checkpoint, 0, "mark", mark, sizeof *mark, &bytes))
        return task_fail_tern("cannot go on from the checkpoint");
    if (bytes != sizeof *mark || mark->bytes != sizeof *mark || mark->n_epochs_done < 1)
        return task_fail("the checkpoint in %s was not written by this version of tern train",
                         train->options->resume);
    mark->task[sizeof mark->task - 1] = mark->out[sizeof mark->out - 1] = '\0';
    return strcmp(mark->task, train->options->task) == 0 ||
           task_fail("the checkpoint in %s is one of tern train %s", train->options->resume,
                     mark->task);
}

/* Whether what --out has is the best model of the run that goes on. */
static bool is_in_out(const struct train *train, const struct checkpoint_mark *mark)
{
    char path[PATH_MAX], file[PATH_MAX + 16];
    struct stat status;
    if (train->options->out == NULL || mark->saved_epoch == 0 ||
        realpath(train->options->out, path) == NULL || strcmp(path, mark->out) != 0)
        return false;
    snprintf(file, sizeof file, "%s/model.txt", path);
    return stat(file, &status) == 0;
}

/* Whether --resume names a model, which node 0 has to have. */
static bool is_model(const struct train *train)
{
    char file[PATH_MAX];
    struct stat status;
    snprintf(file, sizeof file, "%.4000s/model.txt", train->options->resume);
    return train->self != 0 || stat(file, &status) == 0 ||
           task_fail("there is neither a model nor a complete checkpoint in %s (--resume)",
                     train->options->resume);
}

static bool open_resumed(struct train *train)
{
    char path[PATH_MAX];
    const char *resume = train->options->resume;
    if (resume == NULL || train->options->task == NULL)
        return true;
    if (!find_resumed(resume, path))
        return is_model(train);
    if (train->node == NULL)
        return task_fail("--plain has no tables, so it cannot go on from a checkpoint");
    train->mark = calloc(1, sizeof *train->mark);
    if (train->mark == NULL)
        return task_fail_memory("the checkpoint");
    if (tern_checkpoint_open(path, &train->checkpoint))
        return task_fail_tern("cannot go on from the checkpoint");
    if (!read_mark(train, train->mark))
        return false;
    train->n_epochs_done = train->mark->n_epochs_done;
    train->has_saved = is_in_out(train, train->mark);
    train->saved_epoch = train->has_saved ? train->mark->saved_epoch : 0;
    return true;
}

bool checkpoints_open(struct train *train)
{
    return train_agree(train, open_resumed(train)) &&
           train_agree(train, train->self != 0 || prepare_folder(train));
}

void checkpoints_close(struct train *train)
{
    if (train->checkpoint != NULL)
        (void)tern_checkpoint_close(train->checkpoint);
    train->checkpoint = NULL;
    free(train->mark);
    train->mark = NULL;
}

bool checkpoints_check_data(struct train *train, uint64_t digest)
{
    train->digest = digest;
    return train->mark == NULL || train->mark->digest == digest ||
           task_fail("the checkpoint in %s was made from other data, or with another "
                     "dimension, seed or placement",
                     train->options->resume);
}

bool checkpoints_restore(struct train *train, struct tern_table *table, bool ok)
{
    if (train->checkpoint == NULL)
        return ok;
    if (!train_agree(train, ok))
        return false;
    return !tern_checkpoint_restore(table, train->checkpoint) ||
           task_fail_tern("cannot go on from the checkpoint");
}

bool checkpoints_find_table(struct train *train, const char *name, size_t *number)
{
    struct tern_checkpoint_table table = {.struct_size = sizeof table};
    for (*number = 0; !tern_checkpoint_get_table(train->checkpoint, *number, &table); ++*number)
        if (strcmp(table.name, name) == 0)
            return true;
    return task_fail("the checkpoint in %s has no table '%s'", train->options->resume, name);
}

void *checkpoints_recall(struct train *train, uint32_t node, size_t *bytes)
{
    void *note = NULL;
    bool ok = !tern_checkpoint_get_note(train->checkpoint, node, "model", NULL, 0, bytes) ||
              task_fail_tern("cannot go on from the checkpoint");
    if (ok && (note = malloc(*bytes + 1)) == NULL)
        task_fail_memory("the checkpoint");
    if (note != NULL &&
        tern_checkpoint_get_note(train->checkpoint, node, "model", note, *bytes, bytes)) {
        task_fail_tern("cannot go on from the checkpoint");
        free(note);
        note = NULL;
    }
    return note;
}

/* ---- Writing --------------------------------------------------------------------------------- */

bool checkpoints_is_due(const struct train *train)
{
    const int64_t every = train->options->checkpoint_every;
    return every > 0 && train->n_epochs_done % every == 0;
}

/* A checkpoint has failed at all nodes. With backups training goes on: a node may have been given up. */
static bool do_without(const struct train *train, int64_t epoch)
{
    if (train->options->backups == 0)
        return task_fail_tern("cannot write a checkpoint");
    if (train_speaks(train))
        fprintf(stderr, "tern: there is no checkpoint after epoch %" PRId64 ": %s\n", epoch,
                tern_error());
    return true;
}

bool checkpoints_finish(struct train *train)
{
    if (train->writing_epoch == 0)
        return true;
    const int64_t epoch = train->writing_epoch;
    train->writing_epoch = 0;
    if (tern_checkpoint_wait(train->node))
        return do_without(train, epoch);
    train->written_epoch = epoch;
    return true;
}

bool checkpoints_write(struct train *train, const struct train_task *task, void *model,
                       const struct checkpoint_mark *mark)
{
    char path[PATH_MAX];
    struct train_note own = {0};
    snprintf(path, sizeof path, "%.4000s/%s%" PRId64, train->options->checkpoints, PREFIX,
             mark->n_epochs_done);
    bool ok = task->note == NULL || task->note(model, train, &own);
    ok = train_agree(train, ok);
    const struct tern_note notes[] = {{"mark", mark, sizeof *mark}, {"model", own.data, own.bytes}};
    const bool begun =
        ok && !tern_checkpoint_start(train->node, path, notes, task->note != NULL ? 2 : 1);
    free(own.data);
    if (!ok || (!begun && !do_without(train, mark->n_epochs_done)))
        return false;
    train->writing_epoch = begun ? mark->n_epochs_done : 0;
    /* Several nodes have prepared batches of the next epoch. They cannot repeat a run bit by bit anyway. */
    return task->renew == NULL || train->n_nodes > 1 || task->renew(model, train);
}

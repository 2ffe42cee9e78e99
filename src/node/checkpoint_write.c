/* checkpoint_write - start and wait: the steps that all nodes take together. See checkpoint.h. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "node/checkpoint.h"

enum tern_status checkpoint_agree(struct tern_node *node, enum tern_status status)
{
    uint32_t self, n_nodes, first = 0;
    struct {
        uint32_t status;
        char sentence[STATUS_SENTENCE_BYTES];
    } told = {.status = (uint32_t)status};
    tern_node_self(node, &self, &n_nodes);
    if (n_nodes == 1)
        return status;
    snprintf(told.sentence, sizeof told.sentence, "%s", status ? tern_error() : "");
    int32_t *failed = calloc(n_nodes, sizeof *failed);
    if (!failed)
        return fail(TERN_NO_MEMORY, "no memory to hear %" PRIu32 " nodes", n_nodes);
    failed[self] = status != TERN_OK;
    const enum tern_status heard = tern_all_reduce(node, TERN_I32, n_nodes, failed);
    while (first < n_nodes && !failed[first])
        first++;
    free(failed);
    if (heard || first == n_nodes)
        return heard;
    const enum tern_status taken = tern_broadcast(node, first, sizeof told, &told);
    if (taken || first == self)
        return taken ? taken : fail(status, "%s", told.sentence);
    told.sentence[sizeof told.sentence - 1] = 0;
    return fail((enum tern_status)told.status, "node %" PRIu32 ": %.*s", first,
                STATUS_SENTENCE_BYTES - 20, told.sentence);
}

static void writing_free(struct checkpointing *writing)
{
    if (!writing)
        return;
    cut_free(writing);
    written_free(writing->written);
    free(writing->path);
    free(writing->folder);
    free(writing);
}

/* ---- The thread ---------------------------------------------------------------------------------- */

/* Writes the images, and frees each when it is on disk. */
static enum tern_status write_all(struct checkpointing *writing)
{
    enum tern_status status = TERN_OK;
    for (struct image *image; !status && (image = writing->images);) {
        char name[MANIFEST_FILE_BYTES];
        manifest_file_name(&image->part, name);
        image->part.hash = files_hash(image->bytes, image->n_bytes);
        status =
            files_write(writing->folder, name, image->bytes, image->n_bytes, &writing->is_given_up);
        if (!status && !manifest_add_part(&writing->manifest, &image->part))
            status = fail(TERN_NO_MEMORY, "no memory for the list of a checkpoint's files");
        writing->images = image->next;
        free(image);
    }
    return status ? status : files_sync_folder(writing->folder);
}

static void keep_failure(struct checkpointing *writing, enum tern_status status)
{
    writing->status = status;
    snprintf(writing->sentence, sizeof writing->sentence, "%s", status ? tern_error() : "");
}

static void *run(void *context)
{
    struct checkpointing *writing = context;
    keep_failure(writing, write_all(writing));
    return NULL;
}

/* ---- Start --------------------------------------------------------------------------------------- */

static enum tern_status check_notes(const struct tern_note *notes, size_t n_notes)
{
    if (n_notes > TERN_MAX_NOTES)
        return fail(TERN_LIMIT, "%zu notes are more than the %d of a checkpoint", n_notes,
                    TERN_MAX_NOTES);
    if (n_notes && !notes)
        return fail(TERN_INVALID, "tern_checkpoint_start: the array `notes` is NULL");
    for (size_t i = 0; i < n_notes; i++) {
        const char *name = notes[i].name;
        const size_t length = name ? strnlen(name, TERN_MAX_NAME + 1) : 0;
        if (!length || length > TERN_MAX_NAME || !strcmp(name, "__metadata__"))
            return fail(TERN_INVALID, "the name of a note must have 1 to %d characters",
                        TERN_MAX_NAME);
        if (notes[i].bytes && !notes[i].data)
            return fail(TERN_INVALID, "the data of note '%s' is NULL", name);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(notes[j].name, name))
                return fail(TERN_INVALID, "two notes have the name '%s'", name);
    }
    return TERN_OK;
}

static enum tern_status check_start(const struct tern_node *node, const char *path,
                                    const struct tern_note *notes, size_t n_notes)
{
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    if (!path || !path[0] || strnlen(path, PATH_MAX) > PATH_MAX - MANIFEST_FILE_BYTES - 8 ||
        path[strlen(path) - 1] == '/')
        return fail(TERN_INVALID, "the path of a checkpoint is NULL, empty, too long or ends in /");
    if (node->checkpoint)
        return fail(TERN_BUSY, "a checkpoint is being written to '%s'; wait for it first",
                    node->checkpoint->path);
    return check_notes(notes, n_notes);
}

static enum tern_status writing_new(const char *path, struct checkpointing **writing)
{
    struct checkpointing *made = calloc(1, sizeof *made);
    if (made) {
        made->path = strdup(path);
        made->folder = malloc(strlen(path) + sizeof ".new");
        if (made->folder)
            sprintf(made->folder, "%s.new", path);
    }
    if (made && made->path && made->folder) {
        *writing = made;
        return TERN_OK;
    }
    writing_free(made);
    return fail(TERN_NO_MEMORY, "no memory to write a checkpoint");
}

/* The node's rows, under the view that all nodes have. */
static enum tern_status take_rows(struct tern_node *node, const struct tern_note *notes,
                                  size_t n_notes, struct checkpointing *writing)
{
    enum tern_status status = meeting_check(node, &writing->meeting);
    if (!status)
        status = cut_take(node, notes, n_notes, writing);
    return status ? status : meeting_check(node, &writing->meeting);
}

/* Steps 1 to 3. */
static enum tern_status take_cut(struct tern_node *node, const struct tern_note *notes,
                                 size_t n_notes, struct checkpointing *writing)
{
    enum tern_status status = meeting_begin(node, &writing->meeting);
    if (!status)
        status = tern_quiesce(node);
    if (!status && node->engine)
        status = engine_hold(node->engine);
    if (!status)
        status = tern_barrier(node);
    if (!status)
        status = checkpoint_agree(node, take_rows(node, notes, n_notes, writing));
    if (node->engine)
        engine_release(node->engine);
    return status;
}

static enum tern_status start(struct tern_node *node, const char *path,
                              const struct tern_note *notes, size_t n_notes, bool changes)
{
    uint32_t self;
    struct checkpointing *writing = NULL;
    enum tern_status status = check_start(node, path, notes, n_notes);
    if (status)
        return status;
    tern_node_self(node, &self, NULL);
    status = writing_new(path, &writing);
    if (!status && self == 0)
        status = files_begin(path, writing->folder);
    const bool has_folder = !status && self == 0;
    status = checkpoint_agree(node, status);
    if (!status && changes)
        status = checkpoint_agree(node, changes_begin(node, writing));
    if (!status)
        status = take_cut(node, notes, n_notes, writing);
    if (status) {
        if (has_folder)
            files_discard(writing->folder);
        writing_free(writing);
        return status;
    }
    status = thread_start(&writing->thread, run, writing);
    writing->has_thread = !status;
    if (status)
        keep_failure(writing, status); /* for the wait: the other nodes write already */
    node->checkpoint = writing;
    return TERN_OK;
}

enum tern_status tern_checkpoint_start(struct tern_node *node, const char *path,
                                       const struct tern_note *notes, size_t n_notes)
{
    return start(node, path, notes, n_notes, false);
}

enum tern_status tern_checkpoint_start_changes(struct tern_node *node, const char *path,
                                               const struct tern_note *notes, size_t n_notes)
{
    return start(node, path, notes, n_notes, true);
}

/* ---- Wait ---------------------------------------------------------------------------------------- */

/* The manifest of one node for all: only node 0 adds it to the others. */
static enum tern_status tell_one(struct tern_node *node, uint32_t root, const struct buffer *own,
                                 struct manifest *all)
{
    uint32_t self;
    tern_node_self(node, &self, NULL);
    uint64_t n = self == root ? buffer_size(own) : 0;
    enum tern_status status = tern_broadcast(node, root, sizeof n, &n);
    if (status)
        return status;
    char *text = malloc(n ? n : 1);
    if (!text)
        return fail(TERN_NO_MEMORY, "no memory for the files of node %" PRIu32, root);
    if (self == root)
        memcpy(text, buffer_head(own), n);
    status = tern_broadcast(node, root, n, text);
    struct manifest *told = calloc(1, sizeof *told);
    if (!status && self == 0 && root != 0) {
        const char *wrong = told ? manifest_decode(text, n, told) : "there is no memory for it";
        if (!wrong)
            wrong = manifest_merge(all, told);
        if (wrong)
            status = fail(TERN_MISMATCH, "the list of files of node %" PRIu32 ": %s", root, wrong);
    }
    if (told)
        manifest_free(told);
    free(told);
    free(text);
    return status;
}

/* Step 5, of nodes that have all written their files. */
static enum tern_status finish(struct tern_node *node, struct checkpointing *writing)
{
    uint32_t self, n_nodes;
    struct buffer own = {0};
    enum tern_status status = TERN_OK;
    tern_node_self(node, &self, &n_nodes);
    if (!manifest_encode(&writing->manifest, &own))
        status = fail(TERN_NO_MEMORY, "no memory for the list of a checkpoint's files");
    status = checkpoint_agree(node, status);
    for (uint32_t i = 1; !status && i < n_nodes; i++)
        if (view_is_present(writing->meeting.view, i))
            status = checkpoint_agree(node, tell_one(node, i, &own, &writing->manifest));
    buffer_free(&own);
    if (!status && self == 0)
        status = files_commit(writing->path, writing->folder, &writing->manifest);
    return n_nodes == 1 ? status : checkpoint_agree(node, status);
}

enum tern_status tern_checkpoint_wait(struct tern_node *node)
{
    uint32_t self;
    if (!handle_is((const struct handle *)node, HANDLE_NODE))
        return handle_refuse((const struct handle *)node, HANDLE_NODE);
    struct checkpointing *writing = node->checkpoint;
    if (!writing)
        return fail(TERN_INVALID, "no checkpoint is being written");
    tern_node_self(node, &self, NULL);
    if (writing->has_thread)
        pthread_join(writing->thread, NULL);
    enum tern_status status =
        writing->status ? fail(writing->status, "%s", writing->sentence) : TERN_OK;
    status = checkpoint_agree(node, status);
    if (!status)
        status = finish(node, writing);
    if (status && self == 0)
        files_discard(writing->folder);
    log_line("checkpoint '%s': %s", writing->path, status ? tern_error() : "complete");
    if (!status && writing->written)
        changes_end(node, writing);
    node->checkpoint = NULL;
    writing_free(writing);
    return status;
}

void checkpoint_give_up(struct tern_node *node)
{
    struct checkpointing *writing = node->checkpoint;
    if (!writing)
        return;
    atomic_store_explicit(&writing->is_given_up, true, memory_order_relaxed);
    if (writing->has_thread)
        pthread_join(writing->thread, NULL);
    node->checkpoint = NULL;
    writing_free(writing);
}

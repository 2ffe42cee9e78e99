/* dbpg_note - what a node keeps outside of the table, in a checkpoint and back. See dbpg.h. */
#include <stdlib.h>
#include <string.h>

#include "common/checkpoints.h"
#include "linear/dbpg.h"

/* The beginning of a note; the arrays of list_arrays() follow. */
struct head {
    uint64_t n_nodes, n_features, n_blocks, n_slices, n_rows;
    uint64_t n_jobs;
    double first_violation;
};

struct array {
    void *at;
    size_t bytes;
};

enum { N_ARRAYS = 6 };

static struct head make_head(const struct dbpg *dbpg, double first_violation)
{
    struct head head = {.n_nodes = dbpg->train->n_nodes,
                        .n_features = dbpg->columns.n_features,
                        .n_blocks = dbpg->columns.n_blocks,
                        .n_slices = dbpg->columns.n_slices,
                        .n_jobs = dbpg->n_jobs,
                        .first_violation = first_violation};
    for (size_t i = 0; i < dbpg->columns.n_slices; i++)
        head.n_rows += dbpg->columns.slices[i].n_rows;
    return head;
}

static void list_arrays(const struct dbpg *dbpg, struct array arrays[N_ARRAYS])
{
    const size_t n = dbpg->columns.n_features;
    const struct array all[N_ARRAYS] = {
        {dbpg->weights, n * sizeof *dbpg->weights},
        {dbpg->radii, n * sizeof *dbpg->radii},
        {dbpg->violations, n * sizeof *dbpg->violations},
        {dbpg->changes, n * sizeof *dbpg->changes},
        {dbpg->n_sharers, n * sizeof *dbpg->n_sharers},
        {dbpg->last_job, dbpg->columns.n_blocks * sizeof *dbpg->last_job},
    };
    memcpy(arrays, all, sizeof all);
}

static size_t note_bytes(const struct dbpg *dbpg, const struct head *head)
{
    struct array arrays[N_ARRAYS];
    size_t bytes = sizeof *head + head->n_rows * sizeof(double);
    list_arrays(dbpg, arrays);
    for (size_t i = 0; i < N_ARRAYS; i++)
        bytes += arrays[i].bytes;
    return bytes;
}

/* A checkpoint has no directions, so the run that writes one begins them anew, as a run that goes on from it does. */
static void begin_anew(struct dbpg *dbpg)
{
    subspace_reset(dbpg);
    dbpg->subspace.n_steps = 0;
    dbpg->is_settled = true;
}

bool dbpg_note(struct dbpg *dbpg, double first_violation, struct train_note *note)
{
    struct array arrays[N_ARRAYS];
    const struct head head = make_head(dbpg, first_violation);
    note->bytes = note_bytes(dbpg, &head);
    char *at = note->data = malloc(note->bytes);
    if (at == NULL)
        return task_fail_memory("the checkpoint");
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    list_arrays(dbpg, arrays);
    for (size_t i = 0; i < N_ARRAYS; at += arrays[i++].bytes)
        memcpy(at, arrays[i].at, arrays[i].bytes);
    begin_anew(dbpg);
    for (size_t i = 0; i < dbpg->columns.n_slices; i++) {
        const struct slice *slice = &dbpg->columns.slices[i];
        memcpy(at, slice->margins, slice->n_rows * sizeof *slice->margins);
        at += slice->n_rows * sizeof *slice->margins;
    }
    return true;
}

/* Takes a note that fits. */
static void take(struct dbpg *dbpg, const struct head *head, const char *at)
{
    struct array arrays[N_ARRAYS];
    list_arrays(dbpg, arrays);
    for (size_t i = 0; i < N_ARRAYS; at += arrays[i++].bytes)
        memcpy(arrays[i].at, at, arrays[i].bytes);
    for (size_t i = 0; i < dbpg->columns.n_slices; i++) {
        const struct slice *slice = &dbpg->columns.slices[i];
        memcpy(slice->margins, at, slice->n_rows * sizeof *slice->margins);
        at += slice->n_rows * sizeof *slice->margins;
    }
    dbpg->n_jobs = dbpg->n_fetched = head->n_jobs;
    for (size_t i = 0; i < dbpg->columns.n_slices; i++)
        dbpg->spaces[i].n_sent = dbpg->spaces[i].n_confirmed = head->n_jobs;
    begin_anew(dbpg);
}

bool dbpg_recall(struct dbpg *dbpg, double *first_violation, double *n_fit)
{
    struct train *train = dbpg->train;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    if (tern_checkpoint_get_info(train->checkpoint, &info))
        return task_fail_tern("cannot go on from the checkpoint");
    size_t bytes;
    char *note = checkpoints_recall(train, train->self < info.n_nodes ? train->self : 0, &bytes);
    if (note == NULL)
        return false;
    struct head head = {0}, own = make_head(dbpg, 0);
    if (bytes >= sizeof head)
        memcpy(&head, note, sizeof head);
    *first_violation = head.first_violation;
    own.n_jobs = head.n_jobs;
    own.first_violation = head.first_violation;
    *n_fit = bytes == note_bytes(dbpg, &own) && memcmp(&head, &own, sizeof head) == 0;
    if (*n_fit > 0)
        take(dbpg, &head, note + sizeof head);
    free(note);
    return true;
}

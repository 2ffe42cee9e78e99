/* plan - who learns from which rating. See plan.h. */
#include "mf/plan.h"

#include <stdlib.h>

#include "common/rng.h"
#include "common/sentence.h"

/* A band is so large that a column has about this many cells in it, as long as the part has them: a visit costs about as much as
 * learning from one or two cells, and columns move between nodes once in each band. But a part has two bands if visits then have
 * FEWEST_PER_VISIT: where all of a column is learned from at once, copies that are an epoch old cost quality. */
enum { CELLS_PER_VISIT = 128, FEWEST_PER_VISIT = 64 };

/* A part whose cells are fewer than those of others by this much has fewer bands. */
static const double ENOUGH_FOR_BANDS = 0.9;

/* A cell on its way to its place. */
struct placed {
    uint32_t band, piece, column;
    struct cell cell;
};

/* What is only needed while the plan is made. */
struct draft {
    const struct ratings *ratings;
    uint64_t *before;    /* cells of the rows with keys below k; n_rows + 1 of them */
    uint32_t begin, end; /* the rows of this node, if rows are dealt to nodes */
    uint32_t *cuts;      /* the first row of each part of this node, and behind the last */
    uint32_t *band_of;   /* of each row of this node, among its bands */
    struct placed *cells;
    size_t n_cells;
};

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool number_rows(struct plan *plan)
{
    struct rng rng = rng_seed(plan->seed, UINT64_MAX - 1);
    plan->key_of_row = malloc(plan->n_rows * sizeof *plan->key_of_row);
    if (plan->key_of_row == NULL)
        return task_fail_memory("the rows");
    for (uint32_t i = 0; i < plan->n_rows; i++) {
        uint32_t j = (uint32_t)rng_below(&rng, (uint64_t)i + 1);
        plan->key_of_row[i] = plan->key_of_row[j];
        plan->key_of_row[j] = i;
    }
    return true;
}

/* Renumbers the rows so that those of a node are consecutive; *begin .. *end - 1 are those of the node of these workers. */
static bool group_rows(struct plan *plan, struct plan_workers workers, uint32_t *begin,
                       uint32_t *end)
{
    const size_t n_nodes = workers.n_all / workers.n, node = workers.first / workers.n;
    *begin = 0;
    *end = plan->n_rows;
    if (workers.node_of_row == NULL)
        return true;
    uint32_t *next = calloc(n_nodes + 1, sizeof *next);
    uint32_t *row_of_key = malloc(plan->n_rows * sizeof *row_of_key);
    bool ok = (next != NULL && row_of_key != NULL) || task_fail_memory("the rows");
    for (uint32_t row = 0; ok && row < plan->n_rows; row++) {
        row_of_key[plan->key_of_row[row]] = row;
        next[workers.node_of_row[row] + 1]++;
    }
    for (size_t i = 0; ok && i < n_nodes; i++)
        next[i + 1] += next[i];
    if (ok) {
        *begin = next[node];
        *end = next[node + 1];
    }
    for (uint32_t key = 0; ok && key < plan->n_rows; key++)
        plan->key_of_row[row_of_key[key]] = next[workers.node_of_row[row_of_key[key]]]++;
    free(row_of_key);
    free(next);
    return ok;
}

static bool count_cells(const struct plan *plan, struct draft *draft)
{
    const struct rating_list *train = &draft->ratings->train;
    draft->before = calloc((size_t)plan->n_rows + 1, sizeof *draft->before);
    if (draft->before == NULL)
        return task_fail_memory("the rows");
    for (size_t i = 0; i < train->n; i++)
        draft->before[plan->key_of_row[train->at[i].row] + 1]++;
    for (uint32_t key = 0; key < plan->n_rows; key++)
        draft->before[key + 1] += draft->before[key];
    return true;
}

static uint64_t cells_between(const struct draft *draft, uint32_t begin, uint32_t end)
{
    return draft->before[end] - draft->before[begin];
}

/* Where piece i of n begins, when the rows begin .. end - 1 are cut into pieces of equally many cells. */
static uint32_t cut(const struct draft *draft, uint32_t begin, uint32_t end, size_t i, size_t n)
{
    double wanted = (double)draft->before[begin] +
                    (double)cells_between(draft, begin, end) * (double)i / (double)n;
    uint32_t low = begin, high = end;
    while (i < n && low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((double)draft->before[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return high;
}

/* ---- Parts and bands ------------------------------------------------------------------------- */

static bool cut_parts(struct plan *plan, struct draft *draft, struct plan_workers workers)
{
    plan->n_parts = workers.n;
    plan->parts = calloc(workers.n, sizeof *plan->parts);
    draft->cuts = malloc((workers.n + 1) * sizeof *draft->cuts);
    if (plan->parts == NULL || draft->cuts == NULL)
        return task_fail_memory("the workers");
    const bool is_placed = workers.node_of_row != NULL;
    for (size_t i = 0; i <= workers.n; i++)
        draft->cuts[i] = is_placed ? cut(draft, draft->begin, draft->end, i, workers.n)
                                   : cut(draft, 0, plan->n_rows, workers.first + i, workers.n_all);
    return true;
}

/* The bands of a part with so many cells. */
static size_t bands_for(size_t n_cells, size_t n_columns)
{
    const size_t n = n_cells / (CELLS_PER_VISIT * n_columns + 1);
    const size_t most = n_cells / (FEWEST_PER_VISIT * n_columns + 1);
    return n >= 2 ? n : most >= 2 ? 2 : 1;
}

/* All parts have as many bands as one of the mean size, so that their workers go through blocks at the same pace. */
static size_t count_bands(struct plan *plan, const struct draft *draft)
{
    const size_t n_columns = draft->ratings->columns.n;
    const size_t usual = draft->ratings->train.n / plan->n_workers;
    size_t n_bands = 0;
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct part *part = &plan->parts[i];
        part->n_cells = cells_between(draft, draft->cuts[i], draft->cuts[i + 1]);
        const bool is_usual = (double)part->n_cells > ENOUGH_FOR_BANDS * (double)usual;
        part->n_bands =
            part->n_cells > 0 ? bands_for(is_usual ? usual : part->n_cells, n_columns) : 0;
        n_bands += part->n_bands;
    }
    return n_bands;
}

/* Cuts a part into its bands, which begin at plan->bands[n_before]. */
static void cut_bands(struct plan *plan, struct draft *draft, size_t number, size_t n_before)
{
    struct part *part = &plan->parts[number];
    uint32_t begin = draft->cuts[number], end = draft->cuts[number + 1];
    part->bands = plan->bands + n_before;
    for (size_t i = 0; i < part->n_bands; i++) {
        uint32_t first = cut(draft, begin, end, i, part->n_bands);
        uint32_t last = cut(draft, begin, end, i + 1, part->n_bands);
        part->bands[i] = (struct band){.first_row = first, .n_rows = last - first};
        for (uint32_t key = first; key < last; key++)
            draft->band_of[key - draft->cuts[0]] = (uint32_t)(n_before + i);
    }
}

static bool make_bands(struct plan *plan, struct draft *draft)
{
    size_t n_rows = draft->cuts[plan->n_parts] - draft->cuts[0], n_before = 0;
    plan->bands = calloc(count_bands(plan, draft) + 1, sizeof *plan->bands);
    draft->band_of = malloc((n_rows + 1) * sizeof *draft->band_of);
    if (plan->bands == NULL || draft->band_of == NULL)
        return task_fail_memory("the rows");
    for (size_t i = 0; i < plan->n_parts; i++) {
        cut_bands(plan, draft, i, n_before);
        n_before += plan->parts[i].n_bands;
    }
    return true;
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Puts the columns one behind the other in a random order, which is the same at all nodes, and cuts what they have into
 * pieces of about as many cells. */
static bool cut_columns(struct plan *plan, const struct draft *draft)
{
    const struct rating_list *train = &draft->ratings->train;
    const size_t n = draft->ratings->columns.n, n_pieces = plan->n_workers * BLOCK_PIECES;
    struct rng rng = rng_seed(plan->seed, UINT64_MAX - 2);
    uint32_t *order = malloc((n + 1) * sizeof *order);
    size_t *n_cells = calloc(n + 1, sizeof *n_cells), n_before = 0;
    plan->piece_of_column = malloc((n + 1) * sizeof *plan->piece_of_column);
    const bool ok = order != NULL && n_cells != NULL && plan->piece_of_column != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        const uint32_t j = (uint32_t)rng_below(&rng, (uint64_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; ok && i < train->n; i++)
        n_cells[train->at[i].column]++;
    for (size_t i = 0; ok && i < n; n_before += n_cells[order[i++]])
        plan->piece_of_column[order[i]] =
            (uint32_t)((double)n_before / (double)(train->n + 1) * (double)n_pieces);
    free(order);
    free(n_cells);
    return ok || task_fail_memory("the columns");
}

/* ---- Cells and visits ------------------------------------------------------------------------ */

static bool is_own(const struct plan *plan, const struct draft *draft, uint32_t key)
{
    return key >= draft->cuts[0] && key < draft->cuts[plan->n_parts];
}

static int compare_places(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    if (a->band != b->band)
        return a->band < b->band ? -1 : 1;
    if (a->piece != b->piece)
        return a->piece < b->piece ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return (a->cell.row > b->cell.row) - (a->cell.row < b->cell.row);
}

/* Puts this node's cells in the order of bands, and in a band of pieces and columns. */
static bool place_cells(const struct plan *plan, struct draft *draft)
{
    const struct rating_list *train = &draft->ratings->train;
    size_t n = cells_between(draft, draft->cuts[0], draft->cuts[plan->n_parts]);
    draft->cells = malloc((n + 1) * sizeof *draft->cells);
    if (draft->cells == NULL)
        return task_fail_memory("the ratings");
    for (size_t i = 0; i < train->n; i++) {
        struct rating rating = train->at[i];
        uint32_t key = plan->key_of_row[rating.row];
        if (!is_own(plan, draft, key))
            continue;
        uint32_t band = draft->band_of[key - draft->cuts[0]];
        uint32_t row = key - (uint32_t)plan->bands[band].first_row;
        draft->cells[draft->n_cells++] = (struct placed){
            band, plan->piece_of_column[rating.column], rating.column, {row, rating.value}};
    }
    qsort(draft->cells, n, sizeof *draft->cells, compare_places);
    return true;
}

/* How many cells from `first` on are one visit. */
static uint32_t measure_visit(const struct draft *draft, size_t first)
{
    const struct placed *at = &draft->cells[first];
    size_t n_left = draft->n_cells - first;
    uint32_t n = 1;
    while (n < MAX_VISIT && n < n_left && at[n].band == at->band && at[n].column == at->column)
        n++;
    return n;
}

static bool make_visits(struct plan *plan, const struct draft *draft)
{
    size_t n_visits = 0;
    for (size_t i = 0; i < draft->n_cells; i += measure_visit(draft, i))
        n_visits++;
    plan->cells = malloc((draft->n_cells + 1) * sizeof *plan->cells);
    plan->visits = malloc((n_visits + 1) * sizeof *plan->visits);
    if (plan->cells == NULL || plan->visits == NULL)
        return task_fail_memory("the ratings");
    struct visit *visit = plan->visits;
    for (size_t i = 0; i < draft->n_cells; i += visit++->n) {
        struct band *band = &plan->bands[draft->cells[i].band];
        *visit = (struct visit){draft->cells[i].column, measure_visit(draft, i), i};
        band->visits = band->n_visits++ > 0 ? band->visits : visit;
    }
    for (size_t i = 0; i < draft->n_cells; i++)
        plan->cells[i] = draft->cells[i].cell;
    return true;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static int compare_rows(const void *left, const void *right)
{
    const struct rating *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

/* Gives each worker the tests of its rows. */
static bool deal_tests(struct plan *plan, const struct draft *draft)
{
    const struct rating_list *test = &draft->ratings->test;
    size_t n = 0;
    plan->tests = malloc((test->n + 1) * sizeof *plan->tests);
    if (plan->tests == NULL)
        return task_fail_memory("the ratings");
    for (size_t i = 0; i < test->n; i++) {
        struct rating rating = test->at[i];
        rating.row = plan->key_of_row[rating.row];
        if (is_own(plan, draft, rating.row))
            plan->tests[n++] = rating;
    }
    qsort(plan->tests, n, sizeof *plan->tests, compare_rows);
    struct rating *next = plan->tests;
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct part *part = &plan->parts[i];
        part->tests = next;
        while (next < plan->tests + n && next->row < draft->cuts[i + 1])
            next++;
        part->n_tests = (size_t)(next - part->tests);
    }
    return true;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Makes the parts of this node's workers; rows have their keys. */
static bool deal(struct plan *plan, struct draft *draft, struct plan_workers workers)
{
    plan->first_worker = workers.first;
    plan->n_workers = workers.n_all;
    bool ok = cut_columns(plan, draft) && count_cells(plan, draft) &&
              cut_parts(plan, draft, workers) && make_bands(plan, draft) &&
              place_cells(plan, draft) && make_visits(plan, draft) && deal_tests(plan, draft);
    free(draft->before);
    free(draft->cuts);
    free(draft->band_of);
    free(draft->cells);
    return ok;
}

bool plan_make(struct plan *plan, const struct ratings *ratings, struct plan_workers workers,
               uint64_t seed)
{
    struct draft draft = {.ratings = ratings};
    *plan = (struct plan){.n_rows = ratings->rows.n, .seed = seed};
    return number_rows(plan) && group_rows(plan, workers, &draft.begin, &draft.end) &&
           deal(plan, &draft, workers);
}

static void forget_parts(struct plan *plan)
{
    free(plan->parts);
    free(plan->bands);
    free(plan->cells);
    free(plan->visits);
    free(plan->tests);
    free(plan->piece_of_column);
    *plan =
        (struct plan){.key_of_row = plan->key_of_row, .n_rows = plan->n_rows, .seed = plan->seed};
}

bool plan_share_out(struct plan *plan, const struct ratings *ratings, struct plan_workers workers)
{
    struct draft draft = {.ratings = ratings, .end = plan->n_rows};
    forget_parts(plan);
    return deal(plan, &draft, workers);
}

static int compare_bands(const void *left, const void *right)
{
    const struct band *a = left, *b = right;
    return (a->first_row > b->first_row) - (a->first_row < b->first_row);
}

void plan_sort(struct plan *plan)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        struct part *part = &plan->parts[i];
        if (part->n_bands > 0)
            qsort(part->bands, part->n_bands, sizeof *part->bands, compare_bands);
    }
}

void plan_fini(struct plan *plan)
{
    forget_parts(plan);
    free(plan->key_of_row);
    *plan = (struct plan){0};
}

/*
 * mf_predict - asks a saved factorization for a rating, for the best items of a user or for the best users of an
 * item. See mf.h.
 */
#include <math.h>
#include <stdlib.h>

#include "common/best.h"
#include "common/dense.h"
#include "common/modelfile.h"
#include "common/quoted.h"
#include "common/vectors.h"
#include "mf/mf.h"
#include "mf/mf_files.h"

/* Users, or items. */
struct side {
    const char *stem; /* "users" */
    struct names names;
    uint32_t number;          /* that is given; NAMES_NONE: the best are asked for */
    float *vector, biases[2]; /* of that number */
};

struct query {
    const struct mf_question *question;
    struct mf_info info;
    struct side user, item;
    bool *
        is_rated; /* by the number of what is asked for: together with what is given, in the data */
};

static bool open_side(const struct query *query, struct side *side, const char *stem, uint64_t n,
                      const char *name)
{
    const char *folder = query->question->folder;
    *side = (struct side){.stem = stem, .number = NAMES_NONE};
    side->vector = calloc(query->info.rank, sizeof *side->vector);
    if (side->vector == NULL)
        return task_fail_memory("the factors");
    if (!model_read_names(folder, stem, n, &side->names))
        return false;
    return name == NULL ||
           (model_find_name(folder, stem, &side->names, name, &side->number) &&
            model_read_vector(folder, stem, ".npy", n, query->info.rank, side->number,
                              side->vector) &&
            model_read_vector(folder, stem, "_biases.npy", n, 2, side->number, side->biases));
}

static void close_side(struct side *side)
{
    names_fini(&side->names);
    free(side->vector);
}

/* As far as the factors go, also outside of the range of ratings, so that there are no ties. */
static double predict(const struct query *query, const float *factors, float bias,
                      const struct side *given)
{
    double product = (double)dense_dot(factors, given->vector, query->info.rank);
    return query->info.mean +
           query->info.scale * (product + (double)bias + (double)given->biases[0]);
}

static double within_ratings(const struct query *query, double rating)
{
    return fmin(fmax(rating, query->info.low), query->info.high);
}

/* ---- The best -------------------------------------------------------------------------------- */

/* Marks what `given` has been rated with in the data. */
static bool mark_rated(struct query *query, const struct side *given, const struct side *asked)
{
    struct ratings ratings = {0};
    const struct ratings_source source = {.data = query->question->data, .unknown = RATINGS_SKIP};
    query->is_rated = calloc(asked->names.n + (size_t)1, sizeof *query->is_rated);
    if (query->is_rated == NULL)
        return task_fail_memory("the ratings");
    if (query->question->data == NULL)
        return true;
    bool ok = ratings_read(&ratings, &source), by_user = given == &query->user;
    const char *name = names_at(&given->names, given->number);
    uint32_t wanted = names_find(by_user ? &ratings.rows : &ratings.columns, name, strlen(name));
    for (size_t i = 0; ok && i < ratings.train.n; i++) {
        const struct rating *rating = &ratings.train.at[i];
        if ((by_user ? rating->row : rating->column) != wanted)
            continue;
        name = by_user ? names_at(&ratings.columns, rating->column)
                       : names_at(&ratings.rows, rating->row);
        uint32_t number = names_find(&asked->names, name, strlen(name));
        if (number != NAMES_NONE)
            query->is_rated[number] = true;
    }
    ratings_fini(&ratings);
    return ok;
}

static bool score_all(const struct query *query, const struct side *given, const struct side *asked,
                      struct best *best)
{
    const char *folder = query->question->folder;
    struct npy factors, biases;
    uint64_t n = asked->names.n;
    float bias[2];
    if (!model_open_vectors(folder, asked->stem, ".npy", n, query->info.rank, &factors))
        return false;
    bool ok = model_open_vectors(folder, asked->stem, "_biases.npy", n, 2, &biases);
    if (ok) {
        for (uint32_t i = 0; ok && i < n; i++) {
            ok = npy_read(&factors, 1, asked->vector) && npy_read(&biases, 1, bias);
            double rating = ok ? predict(query, asked->vector, bias[0], given) : 0;
            if (!isfinite(rating))
                ok = task_fail("%s:%u: the rating is not a finite number", factors.path, i);
            else if (ok && !query->is_rated[i])
                best_offer(best, i, (float)rating);
        }
        npy_close(&biases);
    }
    npy_close(&factors);
    return ok;
}

static void print_best(const struct query *query, const struct side *asked, const struct best *best)
{
    for (size_t i = 0; i < best->n; i++) {
        const char *name = names_at(&asked->names, best->at[i].number);
        double rating = within_ratings(query, (double)best->at[i].score);
        if (query->question->json) {
            printf("{\"rank\":%zu,\"rating\":%.6g,\"name\":", i + 1, rating);
            print_quoted(name);
            printf("}\n");
        } else
            printf("%4zu  %8.4f  %s\n", i + 1, rating, name);
    }
}

static bool answer(struct query *query)
{
    bool by_user = query->question->user != NULL;
    const struct side *given = by_user ? &query->user : &query->item;
    const struct side *asked = by_user ? &query->item : &query->user;
    struct best best;
    bool ok = best_init(&best, (size_t)query->question->n_answers) &&
              mark_rated(query, given, asked) && score_all(query, given, asked, &best);
    if (ok)
        print_best(query, asked, &best);
    best_fini(&best);
    return ok;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool print_rating(const struct query *query)
{
    double rating = predict(query, query->item.vector, query->item.biases[0], &query->user);
    if (!isfinite(rating))
        return task_fail("the rating is not a finite number");
    rating = within_ratings(query, rating);
    if (query->question->json)
        printf("{\"rating\":%.6g}\n", rating);
    else
        printf("%.4f\n", rating);
    return true;
}

bool mf_predict(const struct mf_question *question)
{
    struct query query = {.question = question};
    bool ok =
        mf_files_read_info(question->folder, &query.info) &&
        open_side(&query, &query.user, "users", query.info.n_users, question->user) &&
        open_side(&query, &query.item, "items", query.info.n_items, question->item) &&
        (question->user != NULL && question->item != NULL ? print_rating(&query) : answer(&query));
    close_side(&query.user);
    close_side(&query.item);
    free(query.is_rated);
    return ok;
}

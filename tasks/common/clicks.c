/* clicks - makes examples with Zipf features and labels of a planted model. See clicks.h. */
#include "common/clicks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/outputs.h"
#include "common/rng.h"
#include "common/sentence.h"
#include "common/zipf.h"

enum {
    RANK = 4,       /* of the planted pairs */
    N_TRIED = 4000, /* examples that the scales are measured with */
    DRAWS_PER_FEATURE = 100,
    MAX_FEATURE_BYTES = 32, /* of "field:index:1 " */
};

/* Streams of random numbers. */
enum { STREAM_TRY, STREAM_TRAIN, STREAM_TEST, STREAM_WEIGHTS };

struct making {
    const struct clicks *clicks;
    struct zipf zipf;
    uint64_t weights;                   /* seed of the planted weights */
    double scale, pair_scale, constant; /* of the margin */
    int64_t features[CLICKS_MAX_EACH];  /* of the example, ascending */
    char line[(CLICKS_MAX_EACH + 1) * MAX_FEATURE_BYTES];
};

/* ---- The planted model ------------------------------------------------------------------------ */

/* About normal, of variance 1: the sum of four uniform numbers, each of 16 bits. */
static double normal_of(uint64_t bits)
{
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)((bits >> (16 * i)) & 0xffff);
    return (sum / 65536 - 2 + 2.0 / 65536) * 1.7320508075688772;
}

static bool matters(const struct making *making, int64_t feature)
{
    uint64_t bits = rng_mix(making->weights ^ rng_mix((uint64_t)feature * 8 + 7));
    return (double)(bits >> 11) * 0x1p-53 < making->clicks->share;
}

/* Number `which` of a feature: its weight, then the elements of its vector. */
static double planted(const struct making *making, int64_t feature, int which)
{
    return normal_of(rng_mix(making->weights ^ rng_mix((uint64_t)feature * 8 + (uint64_t)which)));
}

/* The two parts of the margin, not scaled: weights, and pairs. */
static void measure(const struct making *making, double parts[2])
{
    double sums[RANK] = {0}, squares[RANK] = {0};
    parts[0] = parts[1] = 0;
    for (int64_t i = 0; i < making->clicks->n_each; i++) {
        const int64_t feature = making->features[i];
        if (!matters(making, feature))
            continue;
        parts[0] += planted(making, feature, 0);
        for (int k = 0; making->clicks->has_pairs && k < RANK; k++) {
            const double element = planted(making, feature, k + 1);
            sums[k] += element;
            squares[k] += element * element;
        }
    }
    for (int k = 0; k < RANK; k++)
        parts[1] += (sums[k] * sums[k] - squares[k]) / 2;
}

static double margin_of(const struct making *making)
{
    double parts[2];
    measure(making, parts);
    return making->constant + making->scale * parts[0] + making->pair_scale * parts[1];
}

/* ---- Features --------------------------------------------------------------------------------- */

static bool has_feature(const struct making *making, int64_t n, int64_t feature)
{
    for (int64_t i = 0; i < n; i++)
        if (making->features[i] == feature)
            return true;
    return false;
}

/* A feature that the example does not have yet. Of steep laws it gets the most frequent of those it lacks after a while. */
static int64_t draw_another(struct making *making, int64_t n, struct rng *rng)
{
    int64_t feature = 0;
    for (int i = 0; i < DRAWS_PER_FEATURE; i++) {
        feature = zipf_draw(&making->zipf, rng);
        if (!has_feature(making, n, feature))
            return feature;
    }
    for (feature = 1; has_feature(making, n, feature);)
        feature++;
    return feature;
}

static int compare_features(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

static void draw_features(struct making *making, struct rng *rng)
{
    const struct clicks *clicks = making->clicks;
    const int64_t n_of_field = clicks->n_features / clicks->n_each;
    for (int64_t i = 0; i < clicks->n_each; i++)
        making->features[i] = clicks->has_pairs ? i * n_of_field + zipf_draw(&making->zipf, rng)
                                                : draw_another(making, i, rng);
    if (!clicks->has_pairs)
        qsort(making->features, (size_t)clicks->n_each, sizeof *making->features, compare_features);
}

/* ---- Scales ----------------------------------------------------------------------------------- */

static double share_of_positives(const double *margins, double constant)
{
    double sum = 0;
    for (int i = 0; i < N_TRIED; i++)
        sum += 1 / (1 + exp(-margins[i] - constant));
    return sum / N_TRIED;
}

static double deviation(const double (*parts)[2], int which)
{
    double sum = 0, squares = 0;
    for (int i = 0; i < N_TRIED; i++) {
        sum += parts[i][which];
        squares += parts[i][which] * parts[i][which];
    }
    return sqrt(fmax(squares / N_TRIED - sum * sum / N_TRIED / N_TRIED, 0));
}

/* Tries some examples to find the scales and, by bisection, the constant. */
static bool calibrate(struct making *making)
{
    const struct clicks *clicks = making->clicks;
    struct rng rng = rng_seed((uint64_t)clicks->seed, STREAM_TRY);
    double(*parts)[2] = malloc(N_TRIED * sizeof *parts),
    *margins = malloc(N_TRIED * sizeof *margins);
    if (parts == NULL || margins == NULL) {
        free(parts);
        free(margins);
        return task_fail_memory("the planted model");
    }
    for (int i = 0; i < N_TRIED; i++) {
        draw_features(making, &rng);
        measure(making, parts[i]);
    }
    const double each = clicks->strength * (clicks->has_pairs ? sqrt(0.5) : 1);
    const double own = deviation(parts, 0), pairs = deviation(parts, 1);
    making->scale = own > 0 ? each / own : 0;
    making->pair_scale = pairs > 0 ? each / pairs : 0;
    for (int i = 0; i < N_TRIED; i++)
        margins[i] = making->scale * parts[i][0] + making->pair_scale * parts[i][1];
    double low = -1e4, high = 1e4;
    for (int i = 0; i < 100; i++) {
        const double middle = (low + high) / 2;
        if (share_of_positives(margins, middle) < clicks->positive)
            low = middle;
        else
            high = middle;
    }
    making->constant = low;
    free(parts);
    free(margins);
    return true;
}

/* ---- Writing ---------------------------------------------------------------------------------- */

static char *put_number(char *at, int64_t number)
{
    char digits[24];
    int n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (n > 0)
        *at++ = digits[--n];
    return at;
}

static void write_line(struct making *making, bool is_positive, struct outfile *out)
{
    char *at = making->line;
    *at++ = is_positive ? '1' : '0';
    for (int64_t i = 0; i < making->clicks->n_each; i++) {
        *at++ = ' ';
        if (making->clicks->has_pairs) {
            at = put_number(at, i + 1);
            *at++ = ':';
        }
        at = put_number(at, making->features[i]);
        memcpy(at, ":1", 2);
        at += 2;
    }
    *at++ = '\n';
    outfile_write(out, making->line, (size_t)(at - making->line));
}

/* Writes n examples; returns the log loss of the planted model. */
static double write_rows(struct making *making, int64_t n, uint64_t stream, struct outfile *out)
{
    struct rng rng = rng_seed((uint64_t)making->clicks->seed, stream);
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        draw_features(making, &rng);
        const double margin = margin_of(making);
        const bool is_positive = rng_unit(&rng) < 1 / (1 + exp(-margin));
        loss += is_positive ? log1p(exp(-margin)) : log1p(exp(margin));
        write_line(making, is_positive, out);
    }
    return loss / (double)n;
}

static bool make(struct making *making, const char *folder, double *log_loss)
{
    struct outputs outputs;
    if (!calibrate(making) || !outputs_open(&outputs, folder))
        return false;
    struct outfile *train = outputs_add(&outputs, "train.txt"), *test = NULL;
    if (train != NULL)
        test = outputs_add(&outputs, "test.txt");
    if (test == NULL) {
        outputs_discard(&outputs);
        return false;
    }
    (void)write_rows(making, making->clicks->n_rows, STREAM_TRAIN, train);
    *log_loss = write_rows(making, making->clicks->n_test_rows, STREAM_TEST, test);
    return outputs_commit(&outputs);
}

bool clicks_make(const struct clicks *clicks, const char *folder, double *log_loss)
{
    const int64_t n_drawn =
        clicks->has_pairs ? clicks->n_features / clicks->n_each : clicks->n_features;
    if (clicks->n_each > CLICKS_MAX_EACH)
        return task_fail("an example can have %d features, not %" PRId64, CLICKS_MAX_EACH,
                         clicks->n_each);
    if (clicks->n_features < 2 * clicks->n_each)
        return task_fail("%" PRId64 " features are too few for examples of %" PRId64
                         ": there must be twice as many",
                         clicks->n_features, clicks->n_each);
    struct making *making = malloc(sizeof *making);
    if (making == NULL)
        return task_fail_memory("the examples");
    *making = (struct making){.clicks = clicks,
                              .zipf = zipf_make(clicks->skew, n_drawn),
                              .weights = rng_seed((uint64_t)clicks->seed, STREAM_WEIGHTS).state};
    bool ok = make(making, folder, log_loss);
    free(making);
    return ok;
}

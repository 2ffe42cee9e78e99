/*
 * skipgram - one step of learning. See skipgram.h.
 *
 * The loops are written once, on vectors of eight floats, and compiled as the compiler's target allows
 * and, on x86-64, for AVX2, which is chosen when the machine has it. Products and sums may be fused, so
 * results differ in the last bits between machines.
 *
 * The scores of one predicting row with the rows of a group are the lanes of one vector.
 */
#include "wordvec/skipgram.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { WIDTH = SKIPGRAM_VECTOR, GROUP = SKIPGRAM_GROUP, AROUND_MAX = 512 };

typedef float vector __attribute__((vector_size(4 * WIDTH)));
typedef float unaligned __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t lanes __attribute__((vector_size(4 * WIDTH)));

#define INLINE static inline __attribute__((always_inline))

/* Macros, because functions that pass vectors depend on the target. */
#define LOAD(p) ((vector) * (const unaligned *)(p))
#define STORE(p, v) (*(unaligned *)(p) = (unaligned)(v))
#define SPREAD(x) ((x) - (vector){0})
#define WHERE(mask, a, b) ((vector)(((lanes)(a) & (mask)) | ((lanes)(b) & ~(mask))))

/* Sums of two neighbouring lanes: first those of a, then those of b, within each half. */
#define ADD_PAIRS(a, b)                                         \
    (__builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + \
     __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15))

/* Sums of the halves: of a in the lower four lanes, of b in the upper four. */
#define ADD_HALVES(a, b)                                       \
    (__builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + \
     __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15))

/* The rows around a token, and a group of those they predict. */
struct meeting {
    float *around[AROUND_MAX];
    size_t n_around;
    float *group[GROUP];
    float label[WIDTH];             /* 1 for the right word, 0 for negatives */
    float steps[AROUND_MAX][WIDTH]; /* scores, then rate * (label - prediction), by row around */
};

/* ---- Scores ---------------------------------------------------------------------------------- */

/* N_ROWS rows around, from `first` on, with a group of n. */
enum { N_ROWS = 2 };

INLINE void score_rows(struct meeting *m, size_t first, size_t n_rows, size_t n, size_t width)
{
    vector sums[N_ROWS][8] = {0};
    for (size_t k = 0; k < width; k += WIDTH)
        for (size_t i = 0; i < n_rows; i++)
            for (size_t j = 0; j < n; j++)
                sums[i][j] += LOAD(m->around[first + i] + k) * LOAD(m->group[j] + k);
    for (size_t i = 0; i < n_rows; i++) {
        vector *s = sums[i];
        vector low = ADD_PAIRS(ADD_PAIRS(s[0], s[1]), ADD_PAIRS(s[2], s[3]));
        vector high = ADD_PAIRS(ADD_PAIRS(s[4], s[5]), ADD_PAIRS(s[6], s[7]));
        STORE(m->steps[first + i], ADD_HALVES(low, high));
    }
}

INLINE void score(struct meeting *m, size_t n, size_t width)
{
    size_t i = 0;
    for (; i + N_ROWS <= m->n_around; i += N_ROWS)
        score_rows(m, i, N_ROWS, n, width);
    if (i < m->n_around)
        score_rows(m, i, 1, n, width);
}

/* log(1 + e^x) */
static float softplus(float x)
{
    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));
}

INLINE double loss_of_scores(const struct meeting *m, size_t n)
{
    float loss = 0;
    for (size_t i = 0; i < m->n_around; i++)
        for (size_t j = 0; j < n; j++)
            loss += softplus(m->label[j] > 0 ? -m->steps[i][j] : m->steps[i][j]);
    return (double)loss;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/*
 * 1 / (1 + e^-x), for |x| beyond 30 that of 30: -x = k log 2 + r, |r| at most half of log 2, e^r by its
 * Taylor series to the fifth power, times 2^k put together from its bits. The relative error is below
 * 4e-6. What is not a number remains so.
 */
INLINE void logistic(vector *x)
{
    vector y = -*x;
    y = WHERE(y < SPREAD(-30.0f), SPREAD(-30.0f), y);
    y = WHERE(y > SPREAD(30.0f), SPREAD(30.0f), y);
    vector k = (y * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds to a whole number */
    vector r = y - k * 0.693147181f;
    vector e = 0.0416666679f + r * 0.00833333377f;
    e = 1.0f + r * (1.0f + r * (0.5f + r * (0.166666672f + r * e)));
    lanes power = (__builtin_convertvector(k, lanes) + 127) << 23;
    *x = 1.0f / (1.0f + e * (vector)power);
}

INLINE void find_steps(struct meeting *m, float rate)
{
    for (size_t i = 0; i < m->n_around; i++) {
        vector prediction = LOAD(m->steps[i]);
        logistic(&prediction);
        STORE(m->steps[i], (LOAD(m->label) - prediction) * rate);
    }
}

/* All rows gain, a vector of each at a time, so that those of the group stay in registers. */
INLINE void take_steps(struct meeting *m, size_t n, size_t width)
{
    for (size_t k = 0; k < width; k += WIDTH) {
        vector group[GROUP], gains[GROUP];
        for (size_t j = 0; j < n; j++) {
            group[j] = LOAD(m->group[j] + k);
            gains[j] = SPREAD(0.0f);
        }
        for (size_t i = 0; i < m->n_around; i++) {
            vector row = LOAD(m->around[i] + k), gain = row;
            for (size_t j = 0; j < n; j++) {
                vector step = SPREAD(m->steps[i][j]);
                gain += step * group[j];
                gains[j] += step * row;
            }
            STORE(m->around[i] + k, gain);
        }
        for (size_t j = 0; j < n; j++)
            STORE(m->group[j] + k, group[j] + gains[j]);
    }
}

/* A group of n, which the compiler knows. */
INLINE double meet_n(struct meeting *m, size_t n, size_t width, float rate, bool measure)
{
    score(m, n, width);
    double loss = measure ? loss_of_scores(m, n) : 0;
    find_steps(m, rate);
    take_steps(m, n, width);
    return loss;
}

INLINE double meet(struct meeting *m, size_t n, size_t width, float rate, bool measure)
{
    switch (n) {
    case 1:
        return meet_n(m, 1, width, rate, measure);
    case 2:
        return meet_n(m, 2, width, rate, measure);
    case 3:
        return meet_n(m, 3, width, rate, measure);
    case 4:
        return meet_n(m, 4, width, rate, measure);
    case 5:
        return meet_n(m, 5, width, rate, measure);
    default:
        return meet_n(m, GROUP, width, rate, measure);
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

INLINE void gather_around(struct meeting *m, const struct token *token, float *const *rows)
{
    m->n_around = 0;
    for (size_t i = 1; i <= token->before; i++)
        m->around[m->n_around++] = rows[token[-(ptrdiff_t)i].word];
    for (size_t i = 1; i <= token->after; i++)
        m->around[m->n_around++] = rows[token[i].word];
}

INLINE double learn_token(struct meeting *m, const struct token *token, const uint32_t *negatives,
                          float *const *predicted, size_t width, float rate, bool measure)
{
    size_t n = 0;
    double loss = 0;
    m->group[n++] = predicted[token->word];
    m->label[0] = 1;
    for (size_t i = 0; i < token->n_negatives; i++) {
        if (n == GROUP) {
            loss += meet(m, n, width, rate, measure);
            m->label[0] = 0;
            n = 0;
        }
        m->group[n++] = predicted[negatives[i]];
    }
    return loss + meet(m, n, width, rate, measure);
}

INLINE double learn(const struct excerpt *excerpt, float *const *rows, size_t width, float rate)
{
    struct meeting m;
    const uint32_t *negatives = excerpt->negatives;
    double loss = 0;
    size_t n_measured = 0;
    memset(m.label, 0, sizeof m.label);
    for (size_t i = 0; i < excerpt->n_tokens; i++) {
        const struct token *token = &excerpt->tokens[i];
        bool measure = i % SKIPGRAM_MEASURED == 0;
        gather_around(&m, token, rows);
        if (m.n_around > 0)
            loss +=
                learn_token(&m, token, negatives, rows + excerpt->n_words, width, rate, measure);
        n_measured += measure ? m.n_around : 0;
        negatives += token->n_negatives;
    }
    return n_measured > 0 ? loss / (double)n_measured : 0;
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double learn_avx2(const struct excerpt *excerpt,
                                                             float *const *rows, size_t width,
                                                             float rate)
{
    return learn(excerpt, rows, width, rate);
}
#endif

double skipgram_learn(const struct excerpt *excerpt, float *const *rows, size_t width, float rate)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return learn_avx2(excerpt, rows, width, rate);
#endif
    return learn(excerpt, rows, width, rate);
}

/*
 * gibbs - draws new topics for the occurrences of one word. See gibbs.h.
 *
 * The loops over the topics of a document are most of the work. They are written on vectors of eight
 * entries, and the whole is compiled twice: as the compiler's target allows, and on x86-64 also for
 * AVX2, which is chosen when the machine has it.
 */
#include "lda/gibbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/sentence.h"

enum {
    AHEAD = 4,      /* occurrences whose documents are fetched before they are visited */
    LINE = 16,      /* entries of a cache line */
    LOG_EVERY = 16, /* factors of a product before its logarithm is taken; each is above 1e-19 */
};

typedef float floats __attribute__((vector_size(4 * GIBBS_LANES)));
typedef int32_t ints __attribute__((vector_size(4 * GIBBS_LANES)));
typedef uint32_t words __attribute__((vector_size(4 * GIBBS_LANES)));
typedef uint32_t unaligned __attribute__((vector_size(4 * GIBBS_LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* ---- Memory ---------------------------------------------------------------------------------- */

unsigned gibbs_topic_bits(size_t n_topics)
{
    unsigned bits = 1;
    while ((size_t)1 << bits <= n_topics)
        bits++;
    return bits;
}

static size_t round_up(size_t n, size_t step)
{
    return (n + step - 1) / step * step;
}

static bool wants_dense(size_t n_topics, size_t n_words)
{
    return n_topics <= GIBBS_DENSE && n_topics <= 2 * n_words;
}

size_t gibbs_room(size_t n_topics, size_t n_words)
{
    return round_up(wants_dense(n_topics, n_words) || n_words > n_topics ? n_topics : n_words,
                    GIBBS_LANES);
}

static void *make_zeros(size_t n)
{
    size_t bytes = round_up(4 * n, 64);
    void *zeros = aligned_alloc(64, bytes);
    return zeros != NULL ? memset(zeros, 0, bytes) : NULL;
}

bool gibbs_init(struct gibbs *gibbs, size_t n_topics, uint32_t n_words, double alpha, double beta,
                struct rng rng)
{
    unsigned bits = gibbs_topic_bits(n_topics);
    size_t n_shares = round_up((size_t)1 << bits, GIBBS_BLOCK);
    *gibbs = (struct gibbs){.n_topics = n_topics,
                            .topic_bits = bits,
                            .alpha = (float)alpha,
                            .beta = (float)beta,
                            .beta_sum = (float)(beta * n_words),
                            .totals = make_zeros(n_topics),
                            .shares = make_zeros(n_shares),
                            .sums = make_zeros(n_shares / GIBBS_BLOCK),
                            .products = make_zeros(gibbs_room(n_topics, n_topics)),
                            .rng = rng};
    return (gibbs->totals != NULL && gibbs->shares != NULL && gibbs->sums != NULL &&
            gibbs->products != NULL) ||
           task_fail_memory("a worker");
}

void gibbs_fini(struct gibbs *gibbs)
{
    free(gibbs->totals);
    free(gibbs->shares);
    free(gibbs->sums);
    free(gibbs->products);
    *gibbs = (struct gibbs){0};
}

/* ---- Lists of topics ------------------------------------------------------------------------- */

/* An entry that stands for no topic; also the mask of an entry's topic. */
INLINE uint32_t blank(unsigned topic_bits)
{
    return ((uint32_t)1 << topic_bits) - 1;
}

INLINE void add_topic(struct mixture *mixture, uint32_t *entries, uint32_t topic,
                      unsigned topic_bits)
{
    uint32_t i = 0;
    while (i < mixture->n && (entries[i] & blank(topic_bits)) != topic)
        i++;
    if (i == mixture->n) {
        entries[i] = topic;
        mixture->n++;
    }
    entries[i] += (uint32_t)1 << topic_bits;
}

INLINE void take_topic(struct mixture *mixture, uint32_t *entries, uint32_t place,
                       unsigned topic_bits)
{
    uint32_t one = (uint32_t)1 << topic_bits;
    entries[place] -= one;
    if (entries[place] >= one)
        return;
    mixture->n--;
    entries[place] = entries[mixture->n];
    entries[mixture->n] = blank(topic_bits);
}

/* ---- Documents ------------------------------------------------------------------------------- */

void gibbs_clear(const struct mixtures *mixtures, uint32_t document, size_t n_topics,
                 size_t n_words)
{
    struct mixture *mixture = &mixtures->of[document];
    uint32_t *entries = mixtures->entries + mixture->first;
    bool dense = wants_dense(n_topics, n_words);
    mixture->n = dense ? (uint32_t)n_topics : 0;
    for (size_t i = 0; i < gibbs_room(n_topics, n_words); i++)
        entries[i] = dense ? 0 : blank(gibbs_topic_bits(n_topics));
}

void gibbs_add(const struct mixtures *mixtures, uint32_t document, size_t n_topics, uint32_t topic)
{
    struct mixture *mixture = &mixtures->of[document];
    uint32_t *entries = mixtures->entries + mixture->first;
    if (gibbs_is_dense(mixture, n_topics))
        entries[topic]++;
    else
        add_topic(mixture, entries, topic, gibbs_topic_bits(n_topics));
}

/* ---- What belongs to the word ---------------------------------------------------------------- */

/* What was read while other nodes were writing may be behind, but no count is below 0. */
INLINE float share_of(const struct gibbs *gibbs, int32_t of_word, int32_t total)
{
    return ((float)(of_word > 0 ? of_word : 0) + gibbs->beta) /
           ((float)(total > 0 ? total : 0) + gibbs->beta_sum);
}

/* Makes the shares and their sums; returns the sum of all. */
INLINE float make_shares(struct gibbs *gibbs, const int32_t *row)
{
    float sum = 0;
    for (size_t k = 0; k < gibbs->n_topics; k++)
        gibbs->shares[k] = share_of(gibbs, row[k], gibbs->totals[k]);
    for (size_t begin = 0; begin < gibbs->n_topics; begin += GIBBS_BLOCK) {
        const float *shares = gibbs->shares + begin;
        float parts[4] = {0};
        for (size_t k = 0; k < GIBBS_BLOCK; k += 4)
            for (size_t j = 0; j < 4; j++)
                parts[j] += shares[k + j];
        sum += gibbs->sums[begin / GIBBS_BLOCK] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    return sum;
}

/* One more occurrence of the word has the topic, or one less; returns the change of the share. */
INLINE float count(struct gibbs *gibbs, int32_t *row, uint32_t topic, int32_t by)
{
    row[topic] += by;
    gibbs->totals[topic] += by;
    float share = share_of(gibbs, row[topic], gibbs->totals[topic]);
    float change = share - gibbs->shares[topic];
    gibbs->shares[topic] = share;
    gibbs->sums[topic / GIBBS_BLOCK] += change;
    return change;
}

/* The topic where the shares before it add up to `point`. */
INLINE uint32_t find_share(const struct gibbs *gibbs, float point)
{
    size_t n_blocks = (gibbs->n_topics + GIBBS_BLOCK - 1) / GIBBS_BLOCK, block = 0;
    while (block + 1 < n_blocks && point >= gibbs->sums[block])
        point -= gibbs->sums[block++];
    size_t k = block * GIBBS_BLOCK;
    size_t last = k + GIBBS_BLOCK < gibbs->n_topics ? k + GIBBS_BLOCK - 1 : gibbs->n_topics - 1;
    while (k < last && point >= gibbs->shares[k])
        point -= gibbs->shares[k++];
    return (uint32_t)k;
}

/* ---- What belongs to the document ------------------------------------------------------------ */

/* The shares of eight entries; eight loads are faster here than the machine's instruction for it. */
#define SHARE(gibbs, entry, mask) ((gibbs)->shares[(entry) & (mask)])
#define SHARES(gibbs, e, mask)                                                                    \
    ((floats){SHARE(gibbs, (e)[0], mask), SHARE(gibbs, (e)[1], mask), SHARE(gibbs, (e)[2], mask), \
              SHARE(gibbs, (e)[3], mask), SHARE(gibbs, (e)[4], mask), SHARE(gibbs, (e)[5], mask), \
              SHARE(gibbs, (e)[6], mask), SHARE(gibbs, (e)[7], mask)})

/* Forms the products of counts and shares and their sums by lane; *place is where `topic` stands. */
INLINE void make_products(struct gibbs *gibbs, const struct mixture *mixture,
                          const uint32_t *entries, uint32_t topic, uint32_t *place)
{
    unsigned bits = gibbs->topic_bits;
    const words numbers = {0, 1, 2, 3, 4, 5, 6, 7};
    floats sums = {0};
    words places = {0};
    for (uint32_t i = 0; i < mixture->n; i += GIBBS_LANES) {
        words entry = *(const unaligned *)(entries + i);
        floats counts = __builtin_convertvector((ints)(entry >> bits), floats);
        floats products = counts * SHARES(gibbs, entries + i, blank(bits));
        *(floats *)(gibbs->products + i) = products;
        sums += products;
        places |= (words)((entry & blank(bits)) == topic) & (numbers + i);
    }
    *place = 0;
    for (size_t i = 0; i < GIBBS_LANES; i++) {
        gibbs->lanes[i] = sums[i];
        *place |= places[i];
    }
}

/* The same of a dense document, for all terms at once: (count + alpha) share. */
INLINE void make_terms(struct gibbs *gibbs, const uint32_t *counts)
{
    floats sums = {0};
    for (size_t i = 0; i < gibbs->n_topics; i += GIBBS_LANES) {
        ints count = (ints) * (const unaligned *)(counts + i);
        floats terms = (__builtin_convertvector(count, floats) + gibbs->alpha) *
                       *(const floats *)(gibbs->shares + i);
        *(floats *)(gibbs->products + i) = terms;
        sums += terms;
    }
    for (size_t i = 0; i < GIBBS_LANES; i++)
        gibbs->lanes[i] = sums[i];
}

INLINE float add_lanes(const struct gibbs *gibbs)
{
    const float *l = gibbs->lanes;
    return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

/* The place, of n, where the products before it, lane by lane, add up to `point`. */
INLINE uint32_t find_product(const struct gibbs *gibbs, uint32_t n, float point)
{
    uint32_t lane = 0;
    while (lane + 1 < GIBBS_LANES && point >= gibbs->lanes[lane])
        point -= gibbs->lanes[lane++];
    uint32_t i = lane;
    while (i + GIBBS_LANES < n && point >= gibbs->products[i]) {
        point -= gibbs->products[i];
        i += GIBBS_LANES;
    }
    return i < n ? i : n - 1;
}

/* ---- Visiting -------------------------------------------------------------------------------- */

INLINE void fetch(const struct mixtures *mixtures, uint32_t document)
{
    const struct mixture *mixture = &mixtures->of[document];
    for (uint32_t i = 0; i < mixture->n; i += LINE)
        __builtin_prefetch(mixtures->entries + mixture->first + i, 1);
}

/* The new topic of an occurrence in a dense document. *sum is that of the shares, *total what all
 * probabilities add up to. */
INLINE uint32_t draw_dense(struct gibbs *gibbs, int32_t *row, uint32_t *counts, uint32_t old,
                           float *sum, float *total)
{
    *sum += count(gibbs, row, old, -1);
    counts[old]--;
    make_terms(gibbs, counts);
    *total = add_lanes(gibbs);
    uint32_t topic =
        find_product(gibbs, (uint32_t)gibbs->n_topics, rng_unit_float(&gibbs->rng) * *total);
    *sum += count(gibbs, row, topic, 1);
    counts[topic]++;
    return topic;
}

/* The same in a document with a list. Rounding may lead to a neighbour of the right topic, or in the end to the old one: all are possible. */
INLINE uint32_t draw_listed(struct gibbs *gibbs, int32_t *row, struct mixture *mixture,
                            uint32_t *entries, uint32_t old, float *sum, float *total)
{
    unsigned bits = gibbs->topic_bits;
    uint32_t place, topic;
    *sum += count(gibbs, row, old, -1);
    make_products(gibbs, mixture, entries, old, &place);
    gibbs->products[place] -= gibbs->shares[old];
    gibbs->lanes[place % GIBBS_LANES] -= gibbs->shares[old];
    float of_document = add_lanes(gibbs);
    of_document = of_document > 0 ? of_document : 0;
    *total = of_document + gibbs->alpha * *sum;
    float point = rng_unit_float(&gibbs->rng) * *total;
    if (point < of_document) {
        uint32_t found = find_product(gibbs, mixture->n, point);
        topic = entries[found] & blank(bits);
        entries[found] += (uint32_t)1 << bits;
        take_topic(mixture, entries, place, bits);
    } else {
        topic = find_share(gibbs, (point - of_document) / gibbs->alpha);
        take_topic(mixture, entries, place, bits);
        add_topic(mixture, entries, topic, bits);
    }
    *sum += count(gibbs, row, topic, 1);
    return topic;
}

INLINE double visit(struct gibbs *gibbs, int32_t *row, const uint32_t *documents, uint16_t *topics,
                    size_t n, const struct mixtures *mixtures)
{
    float sum = make_shares(gibbs, row), total;
    double product = 1, logarithm = 0;
    for (size_t i = 0; i < n; i++) {
        struct mixture *mixture = &mixtures->of[documents[i]];
        uint32_t *entries = mixtures->entries + mixture->first;
        if (i + AHEAD < n)
            fetch(mixtures, documents[i + AHEAD]);
        if (gibbs_is_dense(mixture, gibbs->n_topics))
            topics[i] = (uint16_t)draw_dense(gibbs, row, entries, topics[i], &sum, &total);
        else
            topics[i] =
                (uint16_t)draw_listed(gibbs, row, mixture, entries, topics[i], &sum, &total);
        product *= (double)total;
        if (i % LOG_EVERY == LOG_EVERY - 1) {
            logarithm += log(product);
            product = 1;
        }
    }
    return logarithm + log(product);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double visit_avx2(struct gibbs *gibbs, int32_t *row,
                                                             const uint32_t *documents,
                                                             uint16_t *topics, size_t n,
                                                             const struct mixtures *mixtures)
{
    return visit(gibbs, row, documents, topics, n, mixtures);
}
#endif

double gibbs_visit(struct gibbs *gibbs, int32_t *row, const uint32_t *documents, uint16_t *topics,
                   size_t n, const struct mixtures *mixtures)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return visit_avx2(gibbs, row, documents, topics, n, mixtures);
#endif
    return visit(gibbs, row, documents, topics, n, mixtures);
}

/*
 * gibbs - which sampler for topic models (docs/decisions/017)? Two of them, in one thread, on arrays:
 *
 *   by document  SparseLDA (Yao, Mimno and McCallum, KDD 2009): documents one after the other; the topics
 *                of a word are a list sorted by count, and the probabilities three sums, of which the last
 *                is formed for each word
 *   by word      what `tern train lda` does (tasks/lda/gibbs.h)
 *
 * Both begin with the same topics. The likelihood of words and topics (tasks/lda/likelihood.h) shows that
 * both sample the same, and get there in as many passes. Usage: gibbs DATA [TOPICS [PASSES]], with
 * documents as `tern train lda` takes them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/sentence.h"
#include "lda/likelihood.h"
#include "lda/part.h"

enum { REPORTS = 5 };

static const double beta = 0.01;

/* What both have: the documents and their topics. */
struct trial {
    struct bags bags;
    struct part part;
    uint16_t *topics; /* in the order of documents */
    size_t n_topics;
    unsigned bits;
    double alpha;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void need(bool held)
{
    if (held)
        return;
    fprintf(stderr, "gibbs: %s\n", task_error());
    exit(1);
}

static void *zeros(size_t n, size_t bytes)
{
    void *array = calloc(n + 1, bytes);
    need(array != NULL || task_fail_memory("the trial"));
    return array;
}

/* ---- By document ----------------------------------------------------------------------------- */

struct sparse {
    uint32_t *words;            /* of each token, in the order of documents */
    uint32_t **lists, *lengths; /* of each word: entries count << bits | topic, the largest first */
    int32_t *totals;
    uint32_t *of_document, *present, n_present; /* of the document: counts, and the topics it has */
    double *coefficients;                       /* (alpha + n_dk) / (n_k + W beta) */
    double beta_sum, smoothing, of_document_sum;
    struct rng rng;
};

/* Moves an entry whose count has grown or shrunk to where it belongs. */
static void settle(uint32_t *list, uint32_t n, uint32_t at)
{
    uint32_t entry = list[at];
    for (; at > 0 && list[at - 1] < entry; at--)
        list[at] = list[at - 1];
    for (; at + 1 < n && list[at + 1] > entry; at++)
        list[at] = list[at + 1];
    list[at] = entry;
}

static void count_word(struct sparse *s, unsigned bits, uint32_t word, uint32_t topic, int by)
{
    uint32_t *list = s->lists[word], mask = (1u << bits) - 1, at = 0;
    while (at < s->lengths[word] && (list[at] & mask) != topic)
        at++;
    if (at == s->lengths[word])
        list[s->lengths[word]++] = topic;
    list[at] += (uint32_t)by << bits;
    settle(list, s->lengths[word], at);
    if (list[s->lengths[word] - 1] >> bits == 0)
        s->lengths[word]--;
}

/* Changes the counts of document and topic, and the sums that depend on them. */
static void count_topic(struct sparse *s, const struct trial *trial, uint32_t topic, int by)
{
    double before = 1 / (s->totals[topic] + s->beta_sum);
    double after = 1 / (s->totals[topic] + by + s->beta_sum);
    s->smoothing += trial->alpha * beta * (after - before);
    s->of_document_sum -= beta * s->of_document[topic] * before;
    s->of_document[topic] += (uint32_t)by;
    s->totals[topic] += by;
    s->of_document_sum += beta * s->of_document[topic] * after;
    s->coefficients[topic] = (trial->alpha + s->of_document[topic]) * after;
    if (by > 0 && s->of_document[topic] == 1) {
        s->present[s->n_present++] = topic;
    } else if (s->of_document[topic] == 0) {
        uint32_t i = 0;
        while (s->present[i] != topic)
            i++;
        s->present[i] = s->present[--s->n_present];
    }
}

static uint32_t draw_topic(struct sparse *s, const struct trial *trial, uint32_t word)
{
    const uint32_t *list = s->lists[word];
    uint32_t mask = (1u << trial->bits) - 1, n = s->lengths[word], i = 0;
    double of_word = 0;
    for (uint32_t j = 0; j < n; j++)
        of_word += (list[j] >> trial->bits) * s->coefficients[list[j] & mask];
    double point = rng_unit(&s->rng) * (of_word + s->of_document_sum + s->smoothing);
    if (point < of_word) {
        for (; i + 1 < n; i++)
            if ((point -= (list[i] >> trial->bits) * s->coefficients[list[i] & mask]) < 0)
                break;
        return list[i] & mask;
    }
    point = (point - of_word) / beta;
    if (point * beta < s->of_document_sum) {
        for (; i + 1 < s->n_present; i++)
            if ((point -=
                 s->of_document[s->present[i]] / (s->totals[s->present[i]] + s->beta_sum)) < 0)
                break;
        return s->present[i];
    }
    point = (point - s->of_document_sum / beta) / trial->alpha;
    for (; i + 1 < trial->n_topics; i++)
        if ((point -= 1 / (s->totals[i] + s->beta_sum)) < 0)
            break;
    return i;
}

static void enter_document(struct sparse *s, const struct trial *trial, const uint16_t *topics,
                           uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (s->of_document[topics[i]]++ == 0)
            s->present[s->n_present++] = topics[i];
    s->of_document_sum = 0;
    for (uint32_t i = 0; i < s->n_present; i++) {
        uint32_t k = s->present[i];
        s->of_document_sum += beta * s->of_document[k] / (s->totals[k] + s->beta_sum);
        s->coefficients[k] = (trial->alpha + s->of_document[k]) / (s->totals[k] + s->beta_sum);
    }
}

static void leave_document(struct sparse *s, const struct trial *trial)
{
    for (uint32_t i = 0; i < s->n_present; i++) {
        uint32_t k = s->present[i];
        s->of_document[k] = 0;
        s->coefficients[k] = trial->alpha / (s->totals[k] + s->beta_sum);
    }
    s->n_present = 0;
}

static void sparse_pass(struct sparse *s, struct trial *trial)
{
    s->smoothing = 0;
    for (size_t k = 0; k < trial->n_topics; k++) {
        s->smoothing += trial->alpha * beta / (s->totals[k] + s->beta_sum);
        s->coefficients[k] = trial->alpha / (s->totals[k] + s->beta_sum);
    }
    for (uint32_t d = 0; d < trial->bags.n_documents; d++) {
        uint64_t first = trial->bags.first_token[d], end = trial->bags.first_token[d + 1];
        enter_document(s, trial, trial->topics + first, end - first);
        for (uint64_t i = first; i < end; i++) {
            count_word(s, trial->bits, s->words[i], trial->topics[i], -1);
            count_topic(s, trial, trial->topics[i], -1);
            trial->topics[i] = (uint16_t)draw_topic(s, trial, s->words[i]);
            count_word(s, trial->bits, s->words[i], trial->topics[i], 1);
            count_topic(s, trial, trial->topics[i], 1);
        }
        leave_document(s, trial);
    }
}

/* The word of each token; within a document they are in the order of their numbers. */
static uint32_t *list_words(const struct trial *trial)
{
    uint32_t *words = zeros(trial->bags.n_tokens, sizeof *words);
    uint64_t *next = zeros(trial->bags.n_documents, sizeof *next);
    memcpy(next, trial->bags.first_token, trial->bags.n_documents * sizeof *next);
    for (uint32_t i = 0; i < trial->part.n_visits; i++)
        for (uint32_t j = 0; j < trial->part.visits[i].n; j++)
            words[next[trial->part.documents[trial->part.visits[i].first + j]]++] =
                trial->part.visits[i].word;
    free(next);
    return words;
}

static struct sparse sparse_make(const struct trial *trial)
{
    uint32_t n_words = trial->bags.words.n, *n_of = zeros(n_words, sizeof *n_of);
    struct sparse s = {.words = list_words(trial),
                       .lists = zeros(n_words, sizeof *s.lists),
                       .lengths = zeros(n_words, sizeof *s.lengths),
                       .totals = zeros(trial->n_topics, sizeof *s.totals),
                       .of_document = zeros(trial->n_topics, sizeof *s.of_document),
                       .present = zeros(trial->n_topics, sizeof *s.present),
                       .coefficients = zeros(trial->n_topics, sizeof *s.coefficients),
                       .beta_sum = beta * n_words,
                       .rng = rng_seed(1, 1)};
    for (uint64_t i = 0; i < trial->bags.n_tokens; i++)
        n_of[s.words[i]]++;
    for (uint32_t i = 0; i < n_words; i++)
        s.lists[i] = zeros(n_of[i] < trial->n_topics ? n_of[i] : trial->n_topics, sizeof **s.lists);
    for (uint64_t i = 0; i < trial->bags.n_tokens; i++) {
        count_word(&s, trial->bits, s.words[i], trial->topics[i], 1);
        s.totals[trial->topics[i]]++;
    }
    free(n_of);
    return s;
}

/* ---- By word --------------------------------------------------------------------------------- */

struct dense {
    struct gibbs gibbs;
    int32_t *rows;
};

static struct dense dense_make(struct trial *trial)
{
    struct part *part = &trial->part;
    struct dense dense = {.rows = zeros(trial->bags.words.n * trial->n_topics, sizeof(int32_t))};
    need(gibbs_init(&dense.gibbs, trial->n_topics, trial->bags.words.n, trial->alpha, beta,
                    rng_seed(2, 2)) &&
         part_set_topics(part, trial->topics));
    for (uint32_t i = 0; i < part->n_visits; i++)
        for (uint32_t j = part->visits[i].first; j < part->visits[i].first + part->visits[i].n;
             j++) {
            dense.rows[part->visits[i].word * trial->n_topics + part->topics[j]]++;
            dense.gibbs.totals[part->topics[j]]++;
        }
    return dense;
}

static void dense_pass(struct dense *dense, struct part *part)
{
    for (uint32_t i = 0; i < part->n_visits; i++) {
        const struct visit *visit = &part->visits[i];
        (void)gibbs_visit(&dense->gibbs, dense->rows + visit->word * dense->gibbs.n_topics,
                          part->documents + visit->first, part->topics + visit->first, visit->n,
                          &part->mixtures);
    }
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* log p(w, z) per token, of the topics as they are. */
static double judge(struct trial *trial)
{
    struct dense dense = dense_make(trial);
    const struct part *part = &trial->part;
    double sum = 0;
    for (size_t k = 0; k < trial->n_topics; k++)
        sum -= rise(beta * trial->bags.words.n, (uint64_t)dense.gibbs.totals[k]);
    for (size_t i = 0; i < trial->bags.words.n * trial->n_topics; i++)
        if (dense.rows[i] > 0)
            sum += rise(beta, (uint64_t)dense.rows[i]);
    for (uint32_t i = 0; i < part->n_documents; i++) {
        sum -= rise(trial->alpha * (double)trial->n_topics, bags_length(&trial->bags, i));
        for (uint32_t j = 0; j < part->mixtures.of[i].n; j++)
            sum += rise(trial->alpha,
                        gibbs_count(&part->mixtures, i, trial->n_topics, trial->bits, j));
    }
    gibbs_fini(&dense.gibbs);
    free(dense.rows);
    return sum / (double)trial->bags.n_tokens;
}

/* Makes the passes of one contender; `topics` are to begin with. */
static void contend(struct trial *trial, bool by_word, const uint16_t *topics, int n_passes)
{
    memcpy(trial->topics, topics, trial->bags.n_tokens * sizeof *topics);
    struct sparse sparse = by_word ? (struct sparse){0} : sparse_make(trial);
    struct dense dense = by_word ? dense_make(trial) : (struct dense){0};
    double seconds = 0;
    for (int pass = 1; pass <= n_passes; pass++) {
        double started_s = now_s();
        if (by_word)
            dense_pass(&dense, &trial->part);
        else
            sparse_pass(&sparse, trial);
        seconds += now_s() - started_s;
        if (pass * REPORTS % n_passes >= REPORTS)
            continue;
        if (by_word)
            need(part_get_topics(&trial->part, trial->topics));
        printf("  %-12s  %6d  %12.1f  %14.4f\n", by_word ? "by word" : "by document", pass,
               1e9 * seconds / pass / (double)trial->bags.n_tokens, judge(trial));
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct trial trial = {.n_topics = argc > 2 ? strtoul(argv[2], NULL, 10) : 100};
    int n_passes = argc > 3 ? atoi(argv[3]) : 30;
    if (argc < 2 || trial.n_topics < 1 || trial.n_topics > GIBBS_MAX_TOPICS || n_passes < 1) {
        fprintf(stderr, "usage: %s DATA [TOPICS [PASSES]]\n", argv[0]);
        return 2;
    }
    trial.alpha = 50.0 / (double)trial.n_topics;
    trial.bits = gibbs_topic_bits(trial.n_topics);
    need(bags_read(&trial.bags, argv[1], NULL) &&
         part_make(&trial.part, &trial.bags, 0, 1, trial.n_topics));
    trial.topics = zeros(trial.bags.n_tokens, sizeof *trial.topics);
    uint16_t *first = zeros(trial.bags.n_tokens, sizeof *first);
    struct rng rng = rng_seed(3, 3);
    for (uint64_t i = 0; i < trial.bags.n_tokens; i++)
        first[i] = (uint16_t)rng_below(&rng, trial.n_topics);
    printf("  sampler       passes  ns per word  log-likelihood\n");
    contend(&trial, false, first, n_passes);
    contend(&trial, true, first, n_passes);
    return 0;
}

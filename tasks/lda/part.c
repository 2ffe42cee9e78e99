/* part - the documents of one worker. See part.h. */
#include "lda/part.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/list.h"
#include "common/sentence.h"

enum { BAND_ENTRIES = 1 << 20 }; /* room for the mixtures of a band: 4 MiB */

/* ---- Who has which documents ----------------------------------------------------------------- */

/* The first document, of begin .. end - 1, that does not begin before this share of their tokens. */
static uint32_t cut(const struct bags *bags, uint32_t begin, uint32_t end, size_t worker,
                    size_t n_workers)
{
    const uint64_t first = bags->first_token[begin];
    uint64_t token = first + (bags->first_token[end] - first) * worker / n_workers;
    uint32_t low = begin, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bags->first_token[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return worker < n_workers ? low : end;
}

/* The documents of a worker: an equal share of all or, if they are arranged in groups, of those of its group. */
static void find_range(const struct bags *bags, size_t worker, size_t n_workers, uint32_t *begin,
                       uint32_t *end)
{
    uint32_t first = 0, last = bags->n_documents;
    if (bags->n_groups > 0) {
        n_workers /= bags->n_groups;
        first = bags->first_of_group[worker / n_workers];
        last = bags->first_of_group[worker / n_workers + 1];
        worker %= n_workers;
    }
    *begin = cut(bags, first, last, worker, n_workers);
    *end = cut(bags, first, last, worker + 1, n_workers);
}

/* The document behind the band that begins with document `first`; both counted in the part. */
static uint32_t end_of_band(const struct part *part, uint32_t first)
{
    size_t room = 0;
    uint32_t end = first;
    while (end < part->n_documents && (end == first || room < BAND_ENTRIES))
        room += gibbs_room(part->n_topics, bags_length(part->bags, part->first_document + end++));
    return end;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static bool check_lengths(const struct part *part)
{
    uint64_t most = (UINT64_C(1) << (32 - gibbs_topic_bits(part->n_topics))) - 1;
    for (uint32_t i = 0; i < part->n_documents; i++) {
        uint64_t n = bags_length(part->bags, part->first_document + i);
        if (n > most)
            return task_fail("document %u has %" PRIu64 " words, but with so many topics one may "
                             "have %" PRIu64 "; cut it, or choose fewer --topics",
                             bags_number(part->bags, part->first_document + i) + 1, n, most);
    }
    return true;
}

static bool make_mixtures(struct part *part)
{
    size_t room = 0;
    part->mixtures.of = calloc((size_t)part->n_documents + 1, sizeof *part->mixtures.of);
    if (part->mixtures.of == NULL)
        return task_fail_memory("the documents");
    for (uint32_t i = 0; i < part->n_documents; i++) {
        part->mixtures.of[i].first = (uint32_t)room;
        room += gibbs_room(part->n_topics, bags_length(part->bags, part->first_document + i));
    }
    if (room > UINT32_MAX)
        return task_fail("%u documents are too many for one worker; more --threads or --nodes help",
                         part->n_documents);
    part->mixtures.of[part->n_documents].first = (uint32_t)room;
    part->mixtures.entries = malloc((room + 1) * sizeof *part->mixtures.entries);
    return part->mixtures.entries != NULL || task_fail_memory("the documents");
}

static bool add_band(struct part *part, uint32_t first_visit)
{
    struct band *bands =
        list_grow(part->bands, sizeof *bands, part->n_bands, &part->band_capacity, "the documents");
    if (bands == NULL)
        return false;
    part->bands = bands;
    part->bands[part->n_bands++] = (struct band){first_visit, part->n_visits - first_visit};
    return true;
}

/* Adds the visits of a word with n tokens from `first` on. */
static bool add_visits(struct part *part, uint32_t word, uint32_t first, uint32_t n)
{
    for (uint32_t done = 0, step; done < n; done += step) {
        step = n - done < MAX_VISIT ? n - done : MAX_VISIT;
        struct visit *visits = list_grow(part->visits, sizeof *visits, part->n_visits,
                                         &part->visit_capacity, "the words");
        if (visits == NULL)
            return false;
        part->visits = visits;
        part->visits[part->n_visits++] = (struct visit){word, step, first + done};
    }
    return true;
}

/* Sorts the tokens of documents begin .. end-1 by word; n_of has a place for each word, and one more. */
static bool make_band(struct part *part, uint32_t begin, uint32_t end, uint32_t *n_of)
{
    const struct bags *bags = part->bags;
    const uint64_t *first_pair = bags->first_pair + part->first_document;
    uint32_t at = part->n_tokens, first_visit = part->n_visits;
    memset(n_of, 0, bags->words.n * sizeof *n_of);
    for (uint64_t i = first_pair[begin]; i < first_pair[end]; i++)
        n_of[bags->pairs[i].word] += bags->pairs[i].n;
    for (uint32_t word = 0; word < bags->words.n; word++) {
        uint32_t n = n_of[word];
        if (!add_visits(part, word, at, n))
            return false;
        n_of[word] = at;
        at += n;
    }
    for (uint32_t document = begin; document < end; document++)
        for (uint64_t i = first_pair[document]; i < first_pair[document + 1]; i++)
            for (uint32_t j = 0; j < bags->pairs[i].n; j++)
                part->documents[n_of[bags->pairs[i].word]++] = document;
    part->n_tokens = at;
    return add_band(part, first_visit);
}

static bool make_bands(struct part *part)
{
    uint32_t *n_of = malloc((size_t)part->bags->words.n * sizeof *n_of);
    bool ok = n_of != NULL || task_fail_memory("the words");
    for (uint32_t begin = 0, end; ok && begin < part->n_documents; begin = end) {
        end = end_of_band(part, begin);
        ok = make_band(part, begin, end, n_of);
    }
    free(n_of);
    return ok;
}

bool part_make(struct part *part, const struct bags *bags, size_t worker, size_t n_workers,
               size_t n_topics)
{
    uint32_t begin, end;
    find_range(bags, worker, n_workers, &begin, &end);
    *part = (struct part){.bags = bags,
                          .n_topics = n_topics,
                          .first_document = begin,
                          .n_documents = end - begin,
                          .first_token = bags->first_token[begin]};
    uint64_t n_tokens = bags->first_token[end] - bags->first_token[begin];
    part->documents = malloc((n_tokens + 1) * sizeof *part->documents);
    part->topics = calloc(n_tokens + 1, sizeof *part->topics);
    if (part->documents == NULL || part->topics == NULL)
        return task_fail_memory("the documents");
    return check_lengths(part) && make_mixtures(part) && make_bands(part);
}

void part_fini(struct part *part)
{
    free(part->documents);
    free(part->topics);
    free(part->mixtures.of);
    free(part->mixtures.entries);
    free(part->visits);
    free(part->bands);
    *part = (struct part){0};
}

/* ---- Topics ---------------------------------------------------------------------------------- */

/* Where each token stands when they are in the order of documents. Visits are in the order of words
 * within a band, and the documents of bands follow each other. */
static uint32_t *places_of(const struct part *part)
{
    uint32_t *next = calloc((size_t)part->n_documents + 1, sizeof *next);
    uint32_t *places = malloc(((size_t)part->n_tokens + 1) * sizeof *places);
    if (next == NULL || places == NULL) {
        free(next);
        free(places);
        task_fail_memory("the topics");
        return NULL;
    }
    for (uint32_t i = 0; i < part->n_tokens; i++)
        next[part->documents[i] + 1]++;
    for (uint32_t i = 1; i < part->n_documents; i++)
        next[i] += next[i - 1];
    for (uint32_t i = 0; i < part->n_tokens; i++)
        places[i] = next[part->documents[i]]++;
    free(next);
    return places;
}

bool part_set_topics(struct part *part, const uint16_t *topics)
{
    uint32_t *places = places_of(part);
    if (places == NULL)
        return false;
    for (uint32_t i = 0; i < part->n_documents; i++)
        gibbs_clear(&part->mixtures, i, part->n_topics,
                    bags_length(part->bags, part->first_document + i));
    for (uint32_t i = 0; i < part->n_tokens; i++) {
        part->topics[i] = topics[places[i]];
        gibbs_add(&part->mixtures, part->documents[i], part->n_topics, part->topics[i]);
    }
    free(places);
    return true;
}

bool part_get_topics(const struct part *part, uint16_t *topics)
{
    uint32_t *places = places_of(part);
    if (places == NULL)
        return false;
    for (uint32_t i = 0; i < part->n_tokens; i++)
        topics[places[i]] = part->topics[i];
    free(places);
    return true;
}

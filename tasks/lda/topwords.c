/* topwords - the most frequent words of each topic. See topwords.h. */
#include "lda/topwords.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/quoted.h"

enum { BLOCK_ROWS = 256 };

/* ---- Finding --------------------------------------------------------------------------------- */

/* Puts a word in its place among the first words of a topic. Equals stay in the order of numbers. */
static void offer(struct topword *words, size_t n, struct topword word)
{
    if (n == 0 || word.n <= words[n - 1].n)
        return;
    size_t at = n - 1;
    for (; at > 0 && words[at - 1].n < word.n; at--)
        words[at] = words[at - 1];
    words[at] = word;
}

static void take_row(struct topwords *top, uint32_t word, const int32_t *row)
{
    for (size_t k = 0; k < top->n_topics; k++) {
        if (row[k] <= 0)
            continue;
        top->totals[k] += (uint64_t)row[k];
        top->n_tokens += (uint64_t)row[k];
        offer(top->words + k * top->n_top, top->n_top, (struct topword){row[k], word});
    }
}

static bool take_rows(struct topwords *top, const struct counts *rows, struct tern_worker *worker,
                      int32_t *space)
{
    uint64_t keys[BLOCK_ROWS];
    for (uint32_t first = 0, n; first < top->names->n; first += n) {
        n = top->names->n - first < BLOCK_ROWS ? top->names->n - first : BLOCK_ROWS;
        for (uint32_t i = 0; i < n; i++)
            keys[i] = first + i;
        if (!counts_get(rows, worker, keys, n, space))
            return false;
        for (uint32_t i = 0; i < n; i++)
            take_row(top, first + i, space + i * top->n_topics);
    }
    return true;
}

bool topwords_find(struct topwords *top, const struct counts *rows, struct tern_worker *worker,
                   const struct names *names, size_t n_top)
{
    *top = (struct topwords){.names = names, .n_topics = rows->length, .n_top = n_top};
    top->words = calloc(top->n_topics * n_top + 1, sizeof *top->words);
    top->totals = calloc(top->n_topics, sizeof *top->totals);
    int32_t *space = malloc(BLOCK_ROWS * rows->length * sizeof *space);
    bool ok = top->words != NULL && top->totals != NULL && space != NULL
                  ? take_rows(top, rows, worker, space)
                  : task_fail_memory("the words of topics");
    free(space);
    return ok;
}

void topwords_fini(struct topwords *top)
{
    free(top->words);
    free(top->totals);
    *top = (struct topwords){0};
}

/* ---- Telling --------------------------------------------------------------------------------- */

const char *topwords_at(const struct topwords *top, size_t topic, size_t i)
{
    const struct topword *word = top->words + topic * top->n_top + i;
    return i < top->n_top && word->n > 0 ? names_at(top->names, word->word) : NULL;
}

static void print_json(const struct topwords *top, size_t topic)
{
    const char *word;
    printf("{\"topic\":%zu,\"tokens\":%" PRIu64 ",\"words\":[", topic, top->totals[topic]);
    for (size_t i = 0; (word = topwords_at(top, topic, i)) != NULL; i++) {
        printf("%s", i > 0 ? "," : "");
        print_quoted(word);
    }
    printf("]}\n");
}

static void print_text(const struct topwords *top, size_t topic)
{
    const char *word;
    printf("%4zu %5.2f%% ", topic, 100.0 * (double)top->totals[topic] / (double)top->n_tokens);
    for (size_t i = 0; (word = topwords_at(top, topic, i)) != NULL; i++)
        printf(" %s", word);
    putchar('\n');
}

void topwords_print(const struct topwords *top, bool json)
{
    for (size_t topic = 0; topic < top->n_topics; topic++)
        (json ? print_json : print_text)(top, topic);
}

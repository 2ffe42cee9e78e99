/* lda_files - a topic model as files of a folder. See lda_files.h. */
#include "lda/lda_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/input.h"
#include "common/outputs.h"
#include "common/vectors.h"
#include "lda/topwords.h"

enum { BLOCK = 256 };

/* ---- Writing --------------------------------------------------------------------------------- */

static bool write_facts(struct outputs *outputs, const struct lda_facts *facts)
{
    struct outfile *out = outputs_add(outputs, "model.txt");
    if (out == NULL)
        return false;
    outfile_print(out,
                  "topics %" PRIu64 "\nepochs %" PRIu64 "\ndocuments %" PRIu64 "\nwords %" PRIu64
                  "\ntokens %" PRIu64 "\nalpha %.9g\nbeta %.9g\n",
                  facts->n_topics, facts->n_epochs, facts->n_documents, facts->n_words,
                  facts->n_tokens, facts->alpha, facts->beta);
    return true;
}

static void add_row(struct outfile *out, const int32_t *counts, size_t n, float *row)
{
    for (size_t i = 0; i < n; i++)
        row[i] = (float)counts[i];
    vectors_add(out, VECTORS_NPY, NULL, row, n);
}

/* `counts` has room for a block of rows, `row` for one. */
static bool write_word_rows(struct outfile *out, const struct lda_model *model, int32_t *counts,
                            float *row)
{
    uint64_t keys[BLOCK];
    size_t n_topics = model->facts.n_topics;
    vectors_begin(out, VECTORS_NPY, model->facts.n_words, n_topics);
    for (uint64_t first = 0, n; first < model->facts.n_words; first += n) {
        n = model->facts.n_words - first < BLOCK ? model->facts.n_words - first : BLOCK;
        for (uint64_t i = 0; i < n; i++)
            keys[i] = first + i;
        if (!counts_get(model->rows, model->worker, keys, n, counts))
            return false;
        for (uint64_t i = 0; i < n; i++)
            add_row(out, counts + i * n_topics, n_topics, row);
    }
    return true;
}

static void write_document_rows(struct outfile *out, const struct lda_model *model, int32_t *counts,
                                float *row)
{
    const uint64_t *first = model->bags->first_token;
    size_t n_topics = model->facts.n_topics;
    vectors_begin(out, VECTORS_NPY, model->facts.n_documents, n_topics);
    for (uint64_t document = 0; document < model->facts.n_documents; document++) {
        memset(counts, 0, n_topics * sizeof *counts);
        for (uint64_t i = first[document]; i < first[document + 1]; i++)
            counts[model->assignments[i]]++;
        add_row(out, counts, n_topics, row);
    }
}

static bool write_counts(struct outputs *outputs, const struct lda_model *model)
{
    struct outfile *words = outputs_add(outputs, "words.npy");
    struct outfile *documents = words != NULL ? outputs_add(outputs, "documents.npy") : NULL;
    size_t n_topics = model->facts.n_topics;
    if (documents == NULL)
        return false;
    int32_t *counts = malloc(BLOCK * n_topics * sizeof *counts);
    float *row = malloc(n_topics * sizeof *row);
    bool ok = counts != NULL && row != NULL ? write_word_rows(words, model, counts, row)
                                            : task_fail_memory("the model's files");
    if (ok)
        write_document_rows(documents, model, counts, row);
    free(counts);
    free(row);
    return ok;
}

static bool write_assignments(struct outputs *outputs, const struct lda_model *model)
{
    struct outfile *out = outputs_add(outputs, "assignments.npy");
    if (out == NULL)
        return false;
    vectors_begin(out, VECTORS_NPY, model->facts.n_tokens, 1);
    for (uint64_t i = 0; i < model->facts.n_tokens; i++) {
        float topic = (float)model->assignments[i];
        vectors_add(out, VECTORS_NPY, NULL, &topic, 1);
    }
    return true;
}

static bool write_words(struct outputs *outputs, const struct names *words)
{
    struct outfile *out = outputs_add(outputs, "words.txt");
    for (uint32_t i = 0; out != NULL && i < words->n; i++)
        outfile_print(out, "%s\n", names_at(words, i));
    return out != NULL;
}

static bool write_topics(struct outputs *outputs, const struct lda_model *model)
{
    struct topwords top;
    struct outfile *out = outputs_add(outputs, "topics.txt");
    bool ok = out != NULL &&
              topwords_find(&top, model->rows, model->worker, &model->bags->words, model->n_top);
    for (size_t topic = 0; ok && topic < top.n_topics; topic++) {
        const char *word;
        for (size_t i = 0; (word = topwords_at(&top, topic, i)) != NULL; i++)
            outfile_print(out, "%s%s", i > 0 ? " " : "", word);
        outfile_print(out, "\n");
    }
    if (out != NULL)
        topwords_fini(&top);
    return ok;
}

bool lda_files_write(const char *folder, const struct lda_model *model)
{
    struct outputs outputs;
    if (!outputs_open(&outputs, folder))
        return false;
    if (write_facts(&outputs, &model->facts) && write_words(&outputs, &model->bags->words) &&
        write_counts(&outputs, model) && write_topics(&outputs, model) &&
        write_assignments(&outputs, model))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static char *path_of(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) >= 0)
        return path;
    task_fail_memory("the name of a file");
    return NULL;
}

/* One line of model.txt. */
static bool read_fact(struct input *input, char *line, struct lda_facts *facts, unsigned *seen)
{
    static const char *const names[] = {"topics", "epochs", "documents", "words",
                                        "tokens", "alpha",  "beta"};
    uint64_t *const whole[] = {&facts->n_topics, &facts->n_epochs, &facts->n_documents,
                               &facts->n_words, &facts->n_tokens};
    double *const real[] = {&facts->alpha, &facts->beta};
    char *words[2] = {0};
    size_t i = 0, n = sizeof names / sizeof *names, n_whole = sizeof whole / sizeof *whole;
    if (input_fields(line, " ", words, 2) != 2)
        return input_fail(input, "expected a name and a value");
    while (i < n && strcmp(words[0], names[i]) != 0)
        i++;
    if (i == n)
        return input_fail(input, "unknown name '%s'; is this a model of 'tern train lda'?", words[0]);
    *seen |= 1u << i;
    return i < n_whole ? input_whole(input, words[1], whole[i])
                       : input_real(input, words[1], real[i - n_whole]);
}

bool lda_files_read_facts(const char *folder, struct lda_facts *facts)
{
    struct input input;
    enum input_result result = INPUT_FAILED;
    char *path = path_of(folder, "model.txt"), *line;
    size_t length;
    unsigned seen = 0;
    *facts = (struct lda_facts){0};
    bool ok = path != NULL && input_open(&input, path);
    free(path);
    if (!ok)
        return false;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        ok = read_fact(&input, line, facts, &seen);
    ok = ok && result == INPUT_END &&
         (seen == 127 || task_fail("%s does not describe a topic model", input.path));
    input_close(&input);
    return ok;
}

bool lda_files_check_words(const char *folder, const struct names *words)
{
    struct names own = {0};
    char *path = path_of(folder, "words.txt");
    bool ok = path != NULL && names_read(&own, path);
    uint32_t i = 0;
    while (ok && i < own.n && i < words->n && strcmp(names_at(&own, i), names_at(words, i)) == 0)
        i++;
    if (ok && (i < own.n || i < words->n))
        ok = task_fail("%s:%u: the words are not those of the data: the model was made from other "
                       "documents",
                       path, i + 1);
    names_fini(&own);
    free(path);
    return ok;
}

static bool read_topics(struct npy *npy, const struct lda_facts *facts, uint64_t first, uint64_t n,
                        uint16_t *topics)
{
    float block[BLOCK];
    if (npy->n_rows != facts->n_tokens || npy->n_columns != 1)
        return task_fail("%s does not have the %" PRIu64 " topics that model.txt tells of",
                         npy->path, facts->n_tokens);
    if (fseeko(npy->file, (off_t)(first * sizeof *block), SEEK_CUR) != 0)
        return task_fail("cannot read %s: %s", npy->path, strerror(errno));
    for (uint64_t done = 0, step; done < n; done += step) {
        step = n - done < BLOCK ? n - done : BLOCK;
        if (!npy_read(npy, step, block))
            return false;
        for (uint64_t i = 0; i < step; i++) {
            if (!(block[i] >= 0 && block[i] < (float)facts->n_topics))
                return task_fail("%s has %g in row %" PRIu64 ", which is no topic", npy->path,
                                 (double)block[i], first + done + i);
            topics[done + i] = (uint16_t)block[i];
        }
    }
    return true;
}

bool lda_files_read_assignments(const char *folder, const struct lda_facts *facts, uint64_t first,
                                uint64_t n, uint16_t *topics)
{
    struct npy npy;
    char *path = path_of(folder, "assignments.npy");
    bool ok = path != NULL && npy_open(&npy, path);
    free(path);
    if (!ok)
        return false;
    ok = read_topics(&npy, facts, first, n, topics);
    npy_close(&npy);
    return ok;
}

/* lda_files - a topic model as files of a folder. See lda_files.h. */
#include "lda/lda_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/modelfile.h"
#include "common/outputs.h"
#include "common/vectors.h"
#include "lda/topwords.h"

enum { BLOCK = 256 };

/* ---- Writing --------------------------------------------------------------------------------- */

/* The lines of model.txt. */
enum { N_LINES = 7 };

static void list_lines(struct lda_info *info, struct model_line lines[N_LINES])
{
    const struct model_line all[N_LINES] = {
        {"topics", MODEL_WHOLE, .value = &info->n_topics},
        {"epochs", MODEL_WHOLE, .value = &info->n_epochs},
        {"documents", MODEL_WHOLE, .value = &info->n_documents},
        {"words", MODEL_WHOLE, .value = &info->n_words},
        {"tokens", MODEL_WHOLE, .value = &info->n_tokens},
        {"alpha", MODEL_REAL, .value = &info->alpha},
        {"beta", MODEL_REAL, .value = &info->beta},
    };
    memcpy(lines, all, sizeof all);
}

static bool write_info(struct outputs *outputs, const struct lda_model *model)
{
    struct lda_info copy = model->info;
    struct model_line lines[N_LINES];
    list_lines(&copy, lines);
    return modelfile_write(outputs, "lda", lines, N_LINES, model->settings);
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
    size_t n_topics = model->info.n_topics;
    vectors_begin(out, VECTORS_NPY, model->info.n_words, n_topics);
    for (uint64_t first = 0, n; first < model->info.n_words; first += n) {
        n = model->info.n_words - first < BLOCK ? model->info.n_words - first : BLOCK;
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
    size_t n_topics = model->info.n_topics;
    vectors_begin(out, VECTORS_NPY, model->info.n_documents, n_topics);
    for (uint32_t document = 0; document < model->info.n_documents; document++) {
        const uint32_t position = bags_position(model->bags, document);
        memset(counts, 0, n_topics * sizeof *counts);
        for (uint64_t i = first[position]; i < first[position + 1]; i++)
            counts[model->assignments[i]]++;
        add_row(out, counts, n_topics, row);
    }
}

static bool write_counts(struct outputs *outputs, const struct lda_model *model)
{
    struct outfile *words = outputs_add(outputs, "words.npy");
    struct outfile *documents = words != NULL ? outputs_add(outputs, "documents.npy") : NULL;
    size_t n_topics = model->info.n_topics;
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
    const uint64_t *first = model->bags->first_token;
    vectors_begin(out, VECTORS_NPY, model->info.n_tokens, 1);
    for (uint32_t document = 0; document < model->info.n_documents; document++) {
        const uint32_t position = bags_position(model->bags, document);
        for (uint64_t i = first[position]; i < first[position + 1]; i++) {
            float topic = (float)model->assignments[i];
            vectors_add(out, VECTORS_NPY, NULL, &topic, 1);
        }
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
    if (write_info(&outputs, model) && write_words(&outputs, &model->bags->words) &&
        write_counts(&outputs, model) && write_topics(&outputs, model) &&
        write_assignments(&outputs, model))
        return outputs_commit(&outputs);
    outputs_discard(&outputs);
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool lda_files_read_info(const char *folder, struct lda_info *info)
{
    struct model_line lines[N_LINES];
    *info = (struct lda_info){0};
    list_lines(info, lines);
    return modelfile_read(folder, "lda", lines, N_LINES);
}

static bool read_topics(struct npy *npy, const struct lda_info *info, uint64_t first, uint64_t n,
                        uint16_t *topics)
{
    float block[BLOCK];
    if (npy->n_rows != info->n_tokens || npy->n_columns != 1)
        return task_fail("%s does not have the %" PRIu64 " topics that model.txt tells of",
                         npy->path, info->n_tokens);
    if (fseeko(npy->file, (off_t)(first * sizeof *block), SEEK_CUR) != 0)
        return task_fail("cannot read %s: %s", npy->path, strerror(errno));
    for (uint64_t done = 0, step; done < n; done += step) {
        step = n - done < BLOCK ? n - done : BLOCK;
        if (!npy_read(npy, step, block))
            return false;
        for (uint64_t i = 0; i < step; i++) {
            if (!(block[i] >= 0 && block[i] < (float)info->n_topics))
                return task_fail("%s has %g in row %" PRIu64 ", which is no topic", npy->path,
                                 (double)block[i], first + done + i);
            topics[done + i] = (uint16_t)block[i];
        }
    }
    return true;
}

bool lda_files_read_assignments(const char *folder, const struct lda_info *info, uint64_t first,
                                uint64_t n, uint16_t *topics)
{
    struct npy npy;
    char *path = model_path(folder, "assignments", ".npy");
    bool ok = path != NULL && npy_open(&npy, path);
    free(path);
    if (!ok)
        return false;
    ok = read_topics(&npy, info, first, n, topics);
    npy_close(&npy);
    return ok;
}

/* prediction - see prediction.h. */
#include "common/prediction.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool prediction_init(struct prediction *prediction, enum loss_kind loss, bool json, bool margins)
{
    *prediction = (struct prediction){.loss = loss, .json = json, .margins = margins};
    return scores_init(&prediction->scores);
}

void prediction_fini(struct prediction *prediction)
{
    scores_fini(&prediction->scores);
}

bool prediction_read(const char *path, const struct examples_options *reading,
                     prediction_answer *answer, void *context)
{
    struct examples_source source;
    struct examples_chunk chunk = {0};
    struct examples list = {0};
    if (!examples_open(&source, strcmp(path, "-") == 0 ? "/dev/stdin" : path, reading))
        return false;
    bool ok = true;
    do {
        examples_clear(&list);
        ok = examples_take(&source, &chunk) && examples_parse(&source, &chunk, &list) &&
             answer(context, &list);
    } while (ok && chunk.n_bytes > 0);
    examples_close(&source);
    examples_chunk_fini(&chunk);
    examples_fini(&list);
    return ok;
}

void prediction_add(struct prediction *prediction, const struct examples *list, size_t row,
                    double margin)
{
    const bool is_margin = prediction->margins || prediction->loss == LOSS_SQUARED;
    if (!isnan(list->labels[row])) {
        scores_add(&prediction->scores, margin, (double)list->labels[row],
                   (double)list->weights[row]);
        prediction->n_labelled++;
    }
    if (!prediction->json)
        printf("%.6g\n", is_margin ? margin : loss_probability(margin));
}

void prediction_end(const struct prediction *prediction)
{
    const struct scores *scores = &prediction->scores;
    if (!prediction->json)
        return;
    printf("{\"examples\":%.0f", prediction->n_labelled);
    if (prediction->n_labelled > 0 && prediction->loss == LOSS_SQUARED)
        printf(",\"rmse\":%.6f", scores_rmse(scores));
    else if (prediction->n_labelled > 0) {
        double auc = scores_auc(scores);
        printf(",\"log_loss\":%.6f,\"accuracy\":%.6f", scores_log_loss(scores),
               scores_accuracy(scores));
        if (isfinite(auc))
            printf(",\"auc\":%.6f", auc);
    }
    printf("}\n");
}

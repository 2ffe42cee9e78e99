/* report - what training prints. See report.h. */
#include "common/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/quoted.h"

enum { MAX_COLUMNS = 79, EPOCH_WIDTH = 9, SECONDS_WIDTH = 9, RATE_WIDTH = 13, LOSS_WIDTH = 9 };

double report_ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int measure_width(const struct train_measure *measure)
{
    int n = (int)strlen(measure->title) + 2;
    return n > 9 ? n : 9;
}

/* How many measures have a column. */
static size_t count_columns(const struct train_task *task)
{
    int used = EPOCH_WIDTH + SECONDS_WIDTH + RATE_WIDTH + LOSS_WIDTH;
    size_t n = 0;
    while (task->evaluate != NULL && n < task->n_measures && !task->measures[n].is_detail &&
           (used += measure_width(&task->measures[n])) <= MAX_COLUMNS)
        n++;
    return n;
}

static void print_heading(const struct train_task *task)
{
    char rate[32];
    snprintf(rate, sizeof rate, "%s/s", task->unit);
    fprintf(stderr, "%*s%*s%*s%*s", EPOCH_WIDTH, "epoch", SECONDS_WIDTH, "seconds", RATE_WIDTH,
            rate, LOSS_WIDTH, "loss");
    for (size_t i = 0; i < count_columns(task); i++)
        fprintf(stderr, "%*s", measure_width(&task->measures[i]), task->measures[i].title);
    fputc('\n', stderr);
}

static void print_row(const struct train *train, const struct train_task *task,
                      const struct report_epoch *epoch)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64 "/%" PRId64, epoch->number,
             train->options->n_epochs);
    fprintf(stderr, "%*s%*.2f%*.0f%*.4f", EPOCH_WIDTH, number, SECONDS_WIDTH, epoch->seconds,
            RATE_WIDTH, report_ratio(epoch->sums.n_examples, epoch->seconds), LOSS_WIDTH,
            epoch->sums.loss);
    for (size_t i = 0; i < count_columns(task); i++) {
        int width = measure_width(&task->measures[i]);
        if (epoch->quality.is_measured)
            fprintf(stderr, "%*.4f", width, epoch->quality.values[i]);
        else
            fprintf(stderr, "%*s", width, "-");
    }
    fputc('\n', stderr);
}

void report_measures(const struct train_task *task, const struct train_quality *quality, char *text,
                     size_t size)
{
    text[0] = '\0';
    for (size_t i = 0, used = 0; quality->is_measured && i < task->n_measures && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s %.4f", i > 0 ? ", " : "",
                                 task->measures[i].title, quality->values[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void report_json_measures(const struct train_task *task, const struct train_quality *quality)
{
    for (size_t i = 0; i < task->n_measures; i++) {
        printf("%s\"%s\":", i > 0 ? "," : "", task->measures[i].name);
        if (quality->is_measured)
            printf("%.6f", quality->values[i]);
        else
            printf("null");
    }
}

static void print_json_job(const struct train *train, const struct train_task *task)
{
    const struct train_options *options = train->options;
    printf("{\"task\":\"%s\",\"version\":\"%s\",\"seed\":%" PRId64 ",\"nodes\":%u,\"threads\":%zu,"
           "\"measure\":",
           options->task, tern_version(), options->seed, train->n_nodes, train->n_threads);
    if (task->evaluate != NULL)
        printf("\"%s\"", task->measures[0].name);
    else
        printf("null");
    printf(",\"options\":%s}\n", options->json_settings != NULL ? options->json_settings : "{}");
    fflush(stdout);
}

static void print_json_epoch(const struct train *train, const struct train_task *task,
                             const struct report_epoch *epoch)
{
    const struct report_sums *sums = &epoch->sums;
    printf("{\"epoch\":%" PRId64
           ",\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"examples\":%.0f,\"loss\":%.6g,",
           epoch->number, epoch->seconds, sums->cpu_s, sums->n_examples, sums->loss);
    if (task->evaluate != NULL) {
        report_json_measures(task, &epoch->quality);
        putchar(',');
    }
    printf("\"accesses\":%.0f,\"remote_share\":%.6f,\"bytes\":%.0f,\"request_bytes\":%.0f,"
           "\"reply_bytes\":%.0f,\"memory_bytes\":%.0f,\"staleness_ms_mean\":%.3f",
           sums->accesses, report_ratio(sums->remote, sums->accesses), report_bytes(sums),
           sums->requests, sums->replies, sums->memory,
           report_ratio(sums->staleness_ms, sums->refreshes));
    for (size_t i = 0; i < train->n_nodes * train->n_threads; i++)
        printf("%s%.3f", i == 0 ? ",\"waited\":[" : ",", epoch->waits[i]);
    printf("]}\n");
    fflush(stdout);
}

/* ---- The whole ------------------------------------------------------------------------------- */

void report_begin(const struct train *train, const struct train_task *task)
{
    const struct train_options *options = train->options;
    if (!train_speaks(train))
        return;
    if (options->json) {
        print_json_job(train, task);
        return;
    }
    if (train->n_epochs_done < options->n_epochs)
        print_heading(task);
}

void report_epoch(const struct train *train, const struct train_task *task,
                  const struct report_epoch *epoch)
{
    if (train_speaks(train) && train->options->json)
        print_json_epoch(train, task, epoch);
    else if (train_speaks(train))
        print_row(train, task, epoch);
}

void report_best(const struct train *train, const struct train_task *task, int64_t epoch,
                 const struct train_quality *best)
{
    if (!train_speaks(train) || train->options->json || !best->is_measured)
        return;
    if (epoch != train->n_epochs_done)
        fprintf(stderr, "best: epoch %" PRId64 ", %s %.4f%s\n", epoch, task->measures[0].title,
                best->values[0],
                train->options->out != NULL ? "; this is the model that was kept" : "");
    for (size_t i = count_columns(task); i < task->n_measures; i++)
        fprintf(stderr, "  %s %.4f\n", task->measures[i].title, best->values[i]);
}

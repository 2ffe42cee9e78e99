/* epochs - the loop of training: epochs, evaluation, saving, ending. See train.h. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/checkpoints.h"
#include "common/interrupt.h"
#include "common/report.h"
#include "common/traffic.h"

/* ---- One epoch ------------------------------------------------------------------------------- */

struct epoch {
    struct train *train;
    const struct train_task *task;
    void *model;
    int64_t number; /* from 1 */
};

static bool out_of_time(const struct train *train)
{
    double limit_s = train->options->time_limit_s;
    return limit_s > 0 && seconds_now() - train->started_s >= limit_s;
}

static void advance_to(struct tern_worker *worker, uint64_t clock)
{
    uint64_t now = 0;
    (void)tern_worker_clock(worker, &now);
    for (; now < clock; now++)
        (void)tern_worker_advance(worker, NULL);
}

void train_keep_clock(struct train *train, size_t thread)
{
    const uint64_t n_clocks = (uint64_t)train->options->n_clocks;
    if (train->stragglers != NULL)
        straggler_lag(&train->stragglers[thread], train->workers[thread]);
    const uint64_t share = train->progress.phase.n_total / train->n_threads;
    uint64_t n_done =
        atomic_load_explicit(&train->progress.slots[thread].n_examples, memory_order_relaxed);
    uint64_t n_passed = share > 0 ? n_done * n_clocks / share : 0;
    /* The last one is over with the epoch: threads have about as many examples, not exactly. */
    if (n_passed > n_clocks - 1)
        n_passed = n_clocks - 1;
    advance_to(train->workers[thread], train->epoch_clock + n_passed);
}

static bool work(void *context, size_t thread)
{
    struct epoch *epoch = context;
    struct train *train = epoch->train;
    if (train->stragglers != NULL)
        straggler_begin(&train->stragglers[thread], train->workers[thread]);
    bool ok = epoch->task->epoch(epoch->model, train, thread, epoch->number);
    if (train->workers == NULL)
        return ok;
    const int64_t n_clocks = train->options->n_clocks;
    if (n_clocks > 0)
        advance_to(train->workers[thread], train->epoch_clock + (uint64_t)n_clocks);
    /* Others may have more batches; under bounded policies they would wait for this one's clock. */
    if (n_clocks == 0 || !ok)
        (void)tern_worker_rest(train->workers[thread]);
    return ok;
}

static void tick(void *context, bool failed)
{
    struct train *train = ((struct epoch *)context)->train;
    if (failed || out_of_time(train))
        atomic_store_explicit(&train->stopping, true, memory_order_relaxed);
    train_tick(train);
}

/* Evaluations from this epoch on. */
static double count_evaluations(const struct epoch *epoch)
{
    const struct train_options *options = epoch->train->options;
    int64_t every = options->eval_every, last = options->n_epochs;
    if (epoch->task->evaluate == NULL)
        return 0;
    return (double)(last / every - (epoch->number - 1) / every + (last % every != 0));
}

static struct progress_phase describe_phase(const struct epoch *epoch)
{
    const struct train *train = epoch->train;
    const struct train_options *options = train->options;
    struct progress_phase phase = {
        .unit = epoch->task->unit,
        .n_total = epoch->task->n_examples(epoch->model),
        .n_all = train->n_epoch_examples,
        .n_later = (double)(options->n_epochs - epoch->number),
        .later_s = train->evaluation_s * count_evaluations(epoch),
        .time_limit_s = options->time_limit_s > 0 ? train->started_s + options->time_limit_s : 0};
    snprintf(phase.title, sizeof phase.title, "epoch %" PRId64 "/%" PRId64, epoch->number,
             options->n_epochs);
    return phase;
}

static bool run_epoch(struct epoch *epoch)
{
    struct train *train = epoch->train;
    const struct progress_phase phase = describe_phase(epoch);
    if (epoch->task->begin != NULL && !train_agree(train, epoch->task->begin(epoch->model, train)))
        return false;
    progress_begin(&train->progress, &phase);
    bool ok = team_run(train->n_threads, work, tick, epoch);
    train->epoch_clock += (uint64_t)train->options->n_clocks;
    /* An epoch may be over before the first tick. */
    if (out_of_time(train))
        atomic_store_explicit(&train->stopping, true, memory_order_relaxed);
    progress_end(&train->progress);
    return train_agree(train, ok) &&
           (epoch->task->end == NULL || train_agree(train, epoch->task->end(epoch->model, train)));
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* What this node's tables have counted so far. */
static void count_accesses(const struct train *train, struct report_sums *sums)
{
    for (size_t i = 0; i < train->n_params; i++) {
        struct tern_table_stats stats = {.struct_size = sizeof stats};
        if (train->params[i].table == NULL || tern_table_get_stats(train->params[i].table, &stats))
            continue;
        sums->accesses += (double)(stats.pulled_keys + stats.pushed_keys);
        sums->remote += (double)stats.remote_keys;
        sums->requests += (double)stats.request_bytes;
        sums->replies += (double)stats.reply_bytes;
        sums->rounds += (double)stats.sent_bytes;
        sums->memory += train->self == 0 ? (double)stats.memory_bytes : 0;
        sums->refreshes += (double)stats.values_received;
        sums->staleness_ms += stats.staleness_ms_mean * (double)stats.values_received;
    }
}

/* What all nodes have done in an epoch, for which this one took cpu_s; `before` is count_accesses() before it. */
static bool add_up(struct train *train, const struct report_sums *before, double cpu_s,
                   struct report_sums *sums)
{
    uint64_t n_examples;
    *sums = (struct report_sums){.stopping = atomic_load(&train->stopping) || out_of_time(train),
                                 .cpu_s = cpu_s};
    progress_sum(&train->progress, &n_examples, &sums->loss);
    sums->n_examples = (double)n_examples;
    count_accesses(train, sums);
    sums->accesses -= before->accesses;
    sums->remote -= before->remote;
    sums->requests -= before->requests;
    sums->replies -= before->replies;
    sums->rounds -= before->rounds;
    if (!train_sum(train, sizeof *sums / sizeof(double), (double *)sums))
        return false;
    sums->loss = report_ratio(sums->loss, sums->n_examples);
    return true;
}

/* The share of an epoch that each worker of each node has waited for others, as policies with bounds make it
 * do; NULL after task_fail(). The caller frees it. */
static double *share_waits(struct train *train, double seconds)
{
    const size_t n = train->n_nodes * train->n_threads;
    double *shares = calloc(n + 1, sizeof *shares);
    if (shares == NULL) {
        task_fail("no memory for the figures of an epoch");
        return NULL;
    }
    for (size_t i = 0; train->workers != NULL && i < train->n_threads; i++) {
        struct tern_worker_stats stats = {.struct_size = sizeof stats};
        if (tern_worker_get_stats(train->workers[i], &stats) == TERN_OK)
            shares[train->self * train->n_threads + i] =
                report_ratio(stats.waited_s - train->waited_s[i], seconds);
        train->waited_s[i] = stats.waited_s;
    }
    if (train_sum(train, n, shares))
        return shares;
    free(shares);
    return NULL;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* What is known across epochs. */
struct course {
    struct train_quality best;
    int64_t best_epoch;
    int64_t n_since_best; /* evaluations */
    bool is_stuck;        /* as many as the patience allows */
    bool over;
    double accesses, remote, bytes; /* of all epochs */
    struct traffic traffic;
    struct report_sums before; /* what was counted when the epoch began */
};

static bool check_loss(const struct epoch *epoch, const struct report_sums *sums)
{
    return isfinite(sums->loss) || task_fail("the loss of epoch %" PRId64
                                             " is not a finite number; a smaller --rate may help",
                                             epoch->number);
}

/* Whether the model is the best so far. */
static bool improves(struct course *course, const struct epoch *epoch,
                     const struct train_quality *quality)
{
    double value = quality->values[0], best = course->best.values[0];
    bool better =
        !course->best.is_measured || (epoch->task->lower_is_better ? value < best : value > best);
    course->n_since_best = better ? 0 : course->n_since_best + 1;
    if (better) {
        course->best = *quality;
        course->best_epoch = epoch->number;
    }
    return better;
}

/* Sets what a signal that ends the program says: what was saved, and how to go on. */
static void prepare_farewell(const struct train *train)
{
    const char *out = train->options->out;
    char text[PATH_MAX * 2 + 256];
    if (!train_speaks(train))
        return;
    if (train->written_epoch > 0)
        snprintf(text, sizeof text,
                 "tern: interrupted; the checkpoint after epoch %" PRId64
                 " is in %s\nTo go on from there, give the same command with --resume %s",
                 train->written_epoch, train->options->checkpoints, train->options->checkpoints);
    else if (out == NULL)
        snprintf(text, sizeof text, "tern: interrupted; nothing was saved: there is no --out");
    else if (!train->has_saved)
        snprintf(text, sizeof text, "tern: interrupted; nothing was saved to %s yet", out);
    else
        snprintf(text, sizeof text,
                 "tern: interrupted; the model after epoch %" PRId64
                 " is in %s\nTo go on from there, give the same command with --resume %s",
                 train->saved_epoch, out, out);
    interrupt_say(text);
}

static bool save(struct epoch *epoch)
{
    struct train *train = epoch->train;
    if (train->options->out == NULL)
        return true;
    if (epoch->task->gather != NULL &&
        !train_agree(train, epoch->task->gather(epoch->model, train)))
        return false;
    train->has_saved =
        train_agree(train, train->self != 0 || epoch->task->save(epoch->model, train));
    train->saved_epoch = epoch->number;
    prepare_farewell(train);
    return train->has_saved;
}

bool train_evaluate(struct train *train, train_evaluate_function *evaluate, void *model,
                    struct train_quality *quality)
{
    uint32_t n_present;
    do {
        n_present = train->n_present;
        if (!train_agree(train, evaluate(model, train, quality)))
            return false;
    } while (train->n_present < n_present);
    return true;
}

/* Shares out the data among the nodes that are left. */
static bool share_out(struct epoch *epoch)
{
    struct train *train = epoch->train;
    if (train->n_sharing == train->n_present)
        return true;
    train->n_sharing = train->n_present;
    if (!train_agree(train, epoch->task->share_out(epoch->model, train)))
        return false;
    train->n_epoch_examples = (double)epoch->task->n_examples(epoch->model);
    return train_sum(train, 1, &train->n_epoch_examples);
}

/* The part of a node that is given up meanwhile is missing, so that the others measure again. */
static bool evaluate(struct epoch *epoch, struct train_quality *quality)
{
    struct train *train = epoch->train;
    double started_s = seconds_now();
    do {
        if (!share_out(epoch) ||
            !train_agree(train, epoch->task->evaluate(epoch->model, train, quality)))
            return false;
    } while (train->n_sharing > train->n_present);
    train->evaluation_s = seconds_now() - started_s;
    quality->is_measured = true;
    return true;
}

static bool judge(struct epoch *epoch, struct course *course, struct train_quality *quality)
{
    const struct train_options *options = epoch->train->options;
    bool measured = epoch->task->evaluate != NULL;
    if (measured && !evaluate(epoch, quality))
        return false;
    bool better = !measured || improves(course, epoch, quality);
    course->is_stuck = options->patience > 0 && course->n_since_best >= options->patience;
    course->over |= course->is_stuck || epoch->train->is_converged;
    return !better || (!measured && !course->over) || save(epoch);
}

/* ---- Checkpoints ------------------------------------------------------------------------------ */

/* Takes a checkpoint if one is due. The one before it was written while the epochs since were trained. */
static bool keep(struct epoch *epoch, const struct course *course)
{
    struct train *train = epoch->train;
    /* An epoch that was cut short cannot be gone on with. */
    if (!checkpoints_is_due(train) || atomic_load(&train->stopping))
        return true;
    struct checkpoint_mark mark = {.bytes = sizeof mark,
                                   .digest = train->digest,
                                   .n_epochs_done = train->n_epochs_done,
                                   .best_epoch = course->best_epoch,
                                   .n_since_best = course->n_since_best,
                                   .saved_epoch = train->has_saved ? train->saved_epoch : 0,
                                   .is_measured = course->best.is_measured};
    memcpy(mark.best, course->best.values, sizeof mark.best);
    snprintf(mark.task, sizeof mark.task, "%s", train->options->task);
    if (train->has_saved && realpath(train->options->out, mark.out) == NULL)
        mark.saved_epoch = 0;
    if (!train_quiesce(train) || !checkpoints_finish(train) ||
        !checkpoints_write(train, epoch->task, epoch->model, &mark))
        return false;
    prepare_farewell(train);
    return true;
}

/* What was known when the checkpoint was taken that training goes on from. */
static void recall(const struct train *train, struct course *course)
{
    const struct checkpoint_mark *mark = train->mark;
    if (train_speaks(train) && !train->options->json)
        fprintf(stderr, "resumed from a checkpoint after epoch %" PRId64 "\n",
                train->n_epochs_done);
    if (train->options->out != NULL && !train->has_saved)
        return;
    course->best_epoch = mark->best_epoch;
    course->n_since_best = mark->n_since_best;
    course->best.is_measured = mark->is_measured != 0;
    memcpy(course->best.values, mark->best, sizeof mark->best);
}

static void count_course(struct course *course, const struct report_sums *sums)
{
    course->accesses += sums->accesses;
    course->remote += sums->remote;
    course->bytes += report_bytes(sums);
}

/* Called before something that all nodes do together: none may begin the epoch before the others have counted. */
static void begin_counting(const struct train *train, struct course *course)
{
    course->before = (struct report_sums){0};
    count_accesses(train, &course->before);
    traffic_begin(train, &course->traffic);
}

/* Set by SIGUSR1, which Slurm sends before it takes a host away if it is told to: this node leaves after the epoch. Not node 0, which
 * coordinates. */
static volatile sig_atomic_t leaves;

static void note_signal(int number)
{
    (void)number;
    leaves = 1;
}

static bool one_epoch(struct epoch *epoch, struct course *course)
{
    struct train *train = epoch->train;
    struct report_epoch report = {.number = epoch->number};
    const double started_s = seconds_now(), started_cpu_s = seconds_of_cpu();
    if (!share_out(epoch) || !run_epoch(epoch) || (leaves && !train_leave(train)))
        return false;
    report.seconds = seconds_now() - started_s;
    const double cpu_s = seconds_of_cpu() - started_cpu_s;
    /* With clocks of their own workers go on as they are, unless the model is looked at. */
    const bool rests = train->options->n_clocks == 0;
    if (rests && !train_quiesce(train))
        return false;
    traffic_end(train, &course->traffic);
    if (!add_up(train, &course->before, cpu_s, &report.sums) ||
        !train_agree(train, check_loss(epoch, &report.sums)))
        return false;
    train->n_epochs_done = epoch->number;
    count_course(course, &report.sums);
    course->over = report.sums.stopping > 0 || epoch->number >= train->options->n_epochs;
    bool due = course->over || epoch->number % train->options->eval_every == 0;
    if (due && ((!rests && !train_quiesce(train)) || !judge(epoch, course, &report.quality)))
        return false;
    begin_counting(train, course);
    double *waits = share_waits(train, report.seconds);
    report.waits = waits;
    if (waits != NULL)
        report_epoch(train, epoch->task, &report);
    free(waits);
    return waits != NULL && keep(epoch, course);
}

/* How much the nodes had to send each other. */
static void print_traffic(const struct train *train, const struct course *course)
{
    if (train_speaks(train) && !train->options->json && train->n_nodes > 1 && course->accesses > 0)
        fprintf(stderr, "%.0f accesses to parameters, %.3f%% of them local; %.0f MB sent\n",
                course->accesses, 100 * (1 - course->remote / course->accesses),
                course->bytes / 1e6);
}

/* A model that was resumed is the best until one is better, so --out gets it first. So does a model that is
 * not to be trained at all. */
static bool judge_first(struct epoch *epoch, struct course *course)
{
    const struct train *train = epoch->train;
    struct train_quality quality = {0};
    const bool is_resumed = train->options->resume != NULL;
    if (train->mark != NULL)
        recall(train, course);
    if (!course->over && (!is_resumed || train->mark != NULL))
        return true;
    if (!judge(epoch, course, &quality))
        return false;
    char text[1024];
    report_measures(epoch->task, &quality, text, sizeof text);
    if (train_speaks(train) && !train->options->json)
        fprintf(stderr, "%s after epoch %" PRId64 "%s%s\n", is_resumed ? "resumed" : "ended",
                epoch->number, text[0] != '\0' ? ": " : "", text);
    return true;
}

/* A model that was resumed may have seen all epochs before. */
static void say_done(const struct train *train)
{
    const struct train_options *options = train->options;
    if (options->resume != NULL && train_speaks(train) && !options->json)
        fprintf(stderr,
                "the model in %s has seen %" PRId64 " epochs already, so there are none left of "
                "--epochs %" PRId64 "; a larger number goes on with it\n",
                options->resume, train->n_epochs_done, options->n_epochs);
}

static void print_end(const struct train *train, const struct train_task *task,
                      const struct course *course)
{
    if (course->is_stuck && train_speaks(train) && !train->options->json)
        fprintf(stderr, "ended early: no better for %" PRId64 " evaluation%s (--patience)\n",
                course->n_since_best, course->n_since_best == 1 ? "" : "s");
    report_best(train, task, course->best_epoch, &course->best);
    print_traffic(train, course);
}

bool train_loop(struct train *train, const struct train_task *task, void *model)
{
    struct course course = {.over = train->n_epochs_done >= train->options->n_epochs};
    struct epoch before = {train, task, model, train->n_epochs_done};
    if (train->options->backups > 0 && task->share_out == NULL)
        return task_fail(
            "--backups is for models whose data can be shared out anew: kge, wordvec, mf, "
            "fm, and linear with --solver online");
    train->n_epoch_examples = (double)task->n_examples(model);
    begin_counting(train, &course);
    if (!train_sum(train, 1, &train->n_epoch_examples) || !train_quiesce(train))
        return false;
    prepare_farewell(train);
    if (train->options->backups > 0 && train->self > 0)
        signal(SIGUSR1, note_signal);
    interrupt_begin();
    bool ok = judge_first(&before, &course);
    if (ok && course.over)
        say_done(train);
    if (ok)
        report_begin(train, task);
    while (ok && !course.over) {
        struct epoch epoch = {train, task, model, train->n_epochs_done + 1};
        ok = one_epoch(&epoch, &course);
    }
    ok = ok && checkpoints_finish(train) && traffic_report(train, &course.traffic);
    interrupt_say("");
    interrupt_end();
    if (ok)
        print_end(train, task, &course);
    return ok;
}

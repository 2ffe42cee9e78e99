/* progress - how far an epoch or an evaluation is. See progress.h. */
#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/sentence.h"

enum { BAR_WIDTH = 16, USUAL_COLUMNS = 80, LINE_BYTES = 256 };

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double seconds_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double seconds_of_cpu(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

bool progress_init(struct progress *progress, size_t n_threads, bool show_bar)
{
    *progress = (struct progress){.show_bar = show_bar, .n_threads = n_threads};
    progress->slots = aligned_alloc(64, n_threads * sizeof *progress->slots);
    if (progress->slots == NULL)
        return task_fail_memory("the threads");
    memset(progress->slots, 0, n_threads * sizeof *progress->slots);
    return true;
}

void progress_fini(struct progress *progress)
{
    free(progress->slots);
    progress->slots = NULL;
}

void progress_begin(struct progress *progress, const struct progress_phase *phase)
{
    progress->phase = *phase;
    progress->n_phases++;
    progress->started_s = seconds_now();
    for (size_t i = 0; i < progress->n_threads; i++) {
        atomic_store_explicit(&progress->slots[i].n_examples, 0, memory_order_relaxed);
        atomic_store_explicit(&progress->slots[i].loss, 0, memory_order_relaxed);
    }
}

void progress_sum(const struct progress *progress, uint64_t *n_examples, double *loss)
{
    *n_examples = 0;
    *loss = 0;
    for (size_t i = 0; i < progress->n_threads; i++) {
        struct progress_slot *slot = &progress->slots[i];
        *n_examples += atomic_load_explicit(&slot->n_examples, memory_order_relaxed);
        *loss += atomic_load_explicit(&slot->loss, memory_order_relaxed);
    }
}

/* What fits into one line of the terminal: a bar that goes on in the next one cannot be drawn over. */
static int free_columns(void)
{
    struct winsize size = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        size.ws_col = USUAL_COLUMNS;
    return size.ws_col - 1;
}

void print_duration(double seconds, char *text, size_t size)
{
    unsigned long s = seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 1000000000;
    if (s < 60)
        snprintf(text, size, "%lu s", s);
    else if (s < 3600)
        snprintf(text, size, "%lu min %lu s", s / 60, s % 60);
    else
        snprintf(text, size, "%lu h %lu min", s / 3600, s / 60 % 60);
}

/* Until the job ends; below 0 if nobody knows. */
static double seconds_left(const struct progress_phase *phase, double seconds, double share)
{
    double whole = seconds / share;
    double left = whole - seconds + phase->n_later * whole + phase->later_s;
    double limit = phase->time_limit_s - seconds_now();
    if (phase->n_later < 0)
        left = -1;
    if (phase->time_limit_s > 0 && (left < 0 || limit < left))
        left = limit > 0 ? limit : 0;
    return left;
}

/* Rate, loss and time left, behind the bar. `n` is what was done in so many seconds, by all nodes if they
 * are known. */
static void describe(const struct progress *progress, double n, double seconds, double share,
                     char *text, size_t size)
{
    const struct progress_phase *phase = &progress->phase;
    uint64_t n_own;
    double loss, left = seconds_left(phase, seconds, share);
    char duration[32];
    progress_sum(progress, &n_own, &loss);
    int used = snprintf(text, size, "  %.0f %s/s", n / seconds, phase->unit);
    if (loss != 0 && n_own > 0)
        used += snprintf(text + used, size - (size_t)used, "  loss %.4f", loss / (double)n_own);
    print_duration(left, duration, sizeof duration);
    if (left >= 0)
        snprintf(text + used, size - (size_t)used, "  %s left", duration);
}

void progress_draw(struct progress *progress)
{
    static const char full[BAR_WIDTH + 1] = "################";
    const struct progress_phase *phase = &progress->phase;
    char line[LINE_BYTES];
    uint64_t n_own;
    double loss;
    if (!progress->show_bar)
        return;
    progress_sum(progress, &n_own, &loss);
    double n = (double)n_own, total = (double)phase->n_total;
    if (progress->others != NULL && phase->n_all > 0) {
        n += progress->others(progress->context);
        total = phase->n_all;
    }
    double seconds = seconds_now() - progress->started_s, share = total > 0 ? n / total : 0;
    share = share < 1 ? share : 1;
    int filled = (int)(share * BAR_WIDTH);
    int used = snprintf(line, sizeof line, "%s [%.*s%*s] %3.0f%%", phase->title, filled, full,
                        BAR_WIDTH - filled, "", 100 * share);
    if (n > 0)
        describe(progress, n, seconds, share, line + used, sizeof line - (size_t)used);
    fprintf(stderr, "\r\033[K%.*s", free_columns(), line);
    fflush(stderr);
    progress->bar_is_shown = true;
}

void progress_end(struct progress *progress)
{
    progress_draw(progress);
    progress_erase(progress);
}

void progress_erase(struct progress *progress)
{
    if (progress->bar_is_shown)
        fputs("\r\033[K", stderr);
    progress->bar_is_shown = false;
}

/* progress - how far an epoch is. See progress.h. */
#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "common/sentence.h"

enum { BAR_WIDTH = 24, USUAL_COLUMNS = 80 };

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
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

void progress_begin(struct progress *progress, const char *title, const char *unit,
                    uint64_t n_total)
{
    snprintf(progress->title, sizeof progress->title, "%s", title);
    progress->unit = unit;
    progress->n_total = n_total;
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

void progress_draw(struct progress *progress)
{
    static const char full[BAR_WIDTH + 1] = "########################";
    char line[256];
    uint64_t n;
    double loss;
    if (!progress->show_bar)
        return;
    progress_sum(progress, &n, &loss);
    double seconds = seconds_now() - progress->started_s;
    double share = progress->n_total > 0 ? (double)n / (double)progress->n_total : 0;
    share = share < 1 ? share : 1;
    int filled = (int)(share * BAR_WIDTH);
    int used = snprintf(line, sizeof line, "%s [%.*s%*s] %3.0f%%", progress->title, filled, full,
                        BAR_WIDTH - filled, "", 100 * share);
    if (n > 0)
        snprintf(line + used, sizeof line - (size_t)used, "  %.0f %s/s  loss %.4f  %.0f s left",
                 (double)n / seconds, progress->unit, loss / (double)n,
                 seconds * (1 - share) / share);
    fprintf(stderr, "\r\033[K%.*s", free_columns(), line);
    fflush(stderr);
    progress->bar_is_shown = true;
}

void progress_erase(struct progress *progress)
{
    if (progress->bar_is_shown)
        fputs("\r\033[K", stderr);
    progress->bar_is_shown = false;
}

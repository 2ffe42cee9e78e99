/* steps - see steps.h. */
#include "steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static bool asked;

const struct option steps_option[STEPS_N_OPTIONS] = {
    {"progress", OPTION_FLAG, &asked,
     .help = "show progress on standard error also when it is not a terminal"},
};

static struct {
    size_t n_steps, n_begun;
    double begin_s, drawn_s;
    bool is_drawn; /* a line is on the terminal */
} steps;

enum { LINE_MAX_COLUMNS = 79 };
static const double REDRAW_S = 0.2;
static const double REPRINT_S = 2; /* not on a terminal */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool steps_are_shown(void)
{
    return asked || isatty(STDERR_FILENO);
}

void steps_begin(size_t n_steps)
{
    steps.n_steps = n_steps;
    steps.n_begun = 0;
    steps.begin_s = now_s();
    steps.drawn_s = 0;
}

/* Draws a line for n_done steps; `number` is what it counts. */
__attribute__((format(printf, 3, 0))) static void draw(size_t number, size_t n_done,
                                                       const char *format, va_list args)
{
    char step[128], line[256];
    double passed_s = now_s() - steps.begin_s;
    vsnprintf(step, sizeof step, format, args);
    int n = snprintf(line, sizeof line, "%zu of %zu: %s (%.0f s", number, steps.n_steps, step,
                     passed_s);
    if (n_done > 0 && n_done < steps.n_steps)
        n += snprintf(line + n, sizeof line - (size_t)n, ", about %.0f s left",
                      passed_s / (double)n_done * (double)(steps.n_steps - n_done));
    snprintf(line + n, sizeof line - (size_t)n, ")");
    bool on_terminal = isatty(STDERR_FILENO);
    fprintf(stderr, on_terminal ? "\r\033[K%.*s" : "%.*s\n", LINE_MAX_COLUMNS, line);
    fflush(stderr);
    steps.is_drawn = on_terminal;
    steps.drawn_s = now_s();
}

__attribute__((format(printf, 3, 4))) static void draw_words(size_t number, size_t n_done,
                                                             const char *format, ...)
{
    va_list args;
    va_start(args, format);
    draw(number, n_done, format, args);
    va_end(args);
}

void steps_prepare(const char *doing)
{
    if (steps_are_shown())
        draw_words(steps.n_begun + 1, steps.n_begun, "%s", doing);
}

void steps_next(const char *format, ...)
{
    size_t n_done = steps.n_begun++;
    if (!steps_are_shown())
        return;
    va_list args;
    va_start(args, format);
    draw(n_done + 1, n_done, format, args);
    va_end(args);
}

void steps_at(size_t n_done, const char *format, ...)
{
    if (!steps_are_shown() ||
        now_s() < steps.drawn_s + (isatty(STDERR_FILENO) ? REDRAW_S : REPRINT_S))
        return;
    va_list args;
    va_start(args, format);
    draw(n_done, n_done, format, args);
    va_end(args);
}

void steps_end(void)
{
    if (steps.is_drawn)
        fprintf(stderr, "\r\033[K");
    steps.is_drawn = false;
}

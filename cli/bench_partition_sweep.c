/*
 * bench_partition_sweep - Parsa with other numbers of blocks and initial blocks (Figures 9.7 and 9.8 of Li's thesis), and `auto`
 * with several threads and nodes (Figure 9.9). See bench_partition.h.
 *
 * Every partition is a separate process, or several nodes, so its time and memory are its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_partition.h"
#include "bench_train.h"
#include "command.h"
#include "quantile.h"

enum { PATH_BYTES = 1024, NUMBER_BYTES = 24, MAX_WORDS = 32, N_POINTS = 16 };

static const double limit_s = 3600; /* of one partition */

/* One way to partition. */
struct point {
    const char *method;
    int blocks, initial, nodes, threads;
};

static const struct point points[N_POINTS] = {
    {"parsa", 1, 0, 1, 1},  {"parsa", 4, 0, 1, 1},  {"parsa", 4, 1, 1, 1},  {"parsa", 4, 4, 1, 1},
    {"parsa", 16, 0, 1, 1}, {"parsa", 16, 1, 1, 1}, {"parsa", 16, 4, 1, 1}, {"parsa", 16, 16, 1, 1},
    {"parsa", 64, 0, 1, 1}, {"parsa", 64, 1, 1, 1}, {"parsa", 64, 8, 1, 1}, {"parsa", 64, 64, 1, 1},
    {"auto", 0, 8, 1, 1},   {"auto", 0, 8, 1, 2},   {"auto", 0, 8, 2, 1},   {"auto", 0, 8, 4, 1},
};

struct measured {
    double pairs, remote, seconds, cpu_s, peak_mib;
};

/* Partitions once; false after an error message. */
static bool run_point(const struct partition_sweep *sweep, const struct point *point, int64_t seed,
                      struct measured *measured)
{
    char numbers[6][NUMBER_BYTES], program[PATH_BYTES], *text = NULL;
    const int64_t values[6] = {sweep->n_parts, point->blocks,  point->initial,
                               point->nodes,   point->threads, seed};
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0) {
        complain("cannot find the command tern");
        return false;
    }
    program[n] = '\0';
    for (size_t i = 0; i < 6; i++)
        snprintf(numbers[i], NUMBER_BYTES, "%" PRId64, values[i]);
    char *words[MAX_WORDS] = {"tern",
                              "run",
                              "-n",
                              numbers[3],
                              "--no-prefix",
                              "--",
                              program,
                              "partition",
                              "--json",
                              "--method",
                              (char *)point->method,
                              "--parts",
                              numbers[0],
                              "--blocks",
                              numbers[1],
                              "--initial",
                              numbers[2],
                              "--threads",
                              numbers[4],
                              "--seed",
                              numbers[5],
                              (char *)sweep->data};
    if (!training_output(words, limit_s, &text))
        return false;
    *measured = (struct measured){.pairs = training_number(text, "remote_pairs"),
                                  .remote = training_number(text, "remote_share"),
                                  .seconds = training_number(text, "partition_s"),
                                  .cpu_s = training_number(text, "cpu_s"),
                                  .peak_mib = training_number(text, "peak_mib")};
    free(text);
    return true;
}

/* The medians of a point over the seeds. */
static bool measure_point(const struct partition_sweep *sweep, const struct point *point,
                          struct measured *medians)
{
    enum { FIGURES = sizeof(struct measured) / sizeof(double) };
    double all[FIGURES][PARTITION_MAX_REPEATS], *const figures = (double *)medians;
    for (int64_t i = 0; i < sweep->n_repeats; i++) {
        if (!run_point(sweep, point, sweep->seed + i, medians))
            return false;
        for (size_t f = 0; f < FIGURES; f++)
            all[f][i] = figures[f];
    }
    for (size_t f = 0; f < FIGURES; f++)
        figures[f] = median(all[f], (size_t)sweep->n_repeats);
    return true;
}

static void print_point(const struct partition_sweep *sweep, const struct point *point,
                        const struct measured *measured, const struct measured *first)
{
    printf(sweep->json
               ? "{\"bench\": \"partition\", \"sweep\": \"%s\", \"parts\": %u, \"blocks\": %d, "
                 "\"initial\": %d, \"nodes\": %d, \"threads\": %d, \"remote_pairs\": %.0f, "
                 "\"pairs_of_first\": %.4f, \"remote_share\": %.6f, \"seconds\": %.4f, "
                 "\"speedup\": %.4f, \"cpu_s\": %.4f, \"peak_mib\": %.1f}\n"
               : "%-6s %5u %6d %7d %5d %7d %9.0f %8.3f %7.4f %8.3f %7.2f %7.3f %6.0f\n",
           point->method, sweep->n_parts, point->blocks, point->initial, point->nodes,
           point->threads, measured->pairs, measured->pairs / first->pairs, measured->remote,
           measured->seconds, first->seconds / measured->seconds, measured->cpu_s,
           measured->peak_mib);
    (void)flush_output();
}

int partition_sweep(const struct partition_sweep *sweep)
{
    struct measured measured, first = {0};
    if (!sweep->json)
        printf("method parts blocks initial nodes threads     pairs of first   share  seconds "
               "speedup   cpu s    MiB\n");
    for (size_t i = 0; i < N_POINTS; i++) {
        if (!measure_point(sweep, &points[i], &measured))
            return EXIT_FAILED;
        /* Each method is compared with its own first line. */
        if (i == 0 || strcmp(points[i].method, points[i - 1].method) != 0)
            first = measured;
        print_point(sweep, &points[i], &measured, &first);
    }
    return EXIT_OK;
}

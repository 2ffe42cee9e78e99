/* bench_compare - see bench_compare.h. */
#include "bench_compare.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "quantile.h"
#include "series.h"

/* ---- Figures --------------------------------------------------------------------------------- */

static double quality_of(const struct training_epoch *epoch)
{
    return epoch->figures[EPOCH_QUALITY];
}

static double sum_of(const struct training *run, enum epoch_figure figure)
{
    double sum = 0;
    for (size_t i = 0; i < run->n_epochs; i++)
        sum += run->epochs[i].figures[figure];
    return sum;
}

static double seconds_per_epoch(const struct training *run)
{
    return sum_of(run, EPOCH_SECONDS) / (double)run->n_epochs;
}

static double cpu_per_epoch(const struct training *run)
{
    return sum_of(run, EPOCH_CPU_SECONDS) / (double)run->n_epochs;
}

static double goal_of(const struct comparison *comparison)
{
    const struct way *plain = &comparison->ways[0];
    bool lower = comparison->lower_is_better;
    double best = (double)NAN;
    for (size_t r = 0; r < comparison->n_repeats; r++)
        for (size_t i = 0; i < plain->runs[r].n_epochs; i++) {
            double quality = quality_of(&plain->runs[r].epochs[i]);
            best = lower ? fmin(best, quality) : fmax(best, quality);
        }
    return lower ? best / 0.9 : best * 0.9;
}

/* Seconds of training until the goal; infinity if it was not reached. */
static double seconds_to(const struct training *run, bool lower, double goal)
{
    double seconds = 0;
    for (size_t i = 0; i < run->n_epochs; i++) {
        double quality = quality_of(&run->epochs[i]);
        seconds += run->epochs[i].figures[EPOCH_SECONDS];
        if (lower ? quality <= goal : quality >= goal)
            return seconds;
    }
    return HUGE_VAL;
}

static void sum_up_epochs(const struct way *way, size_t n_repeats, struct way_figures *figures)
{
    figures->n_epochs = SIZE_MAX;
    for (size_t r = 0; r < n_repeats; r++)
        if (way->runs[r].n_epochs < figures->n_epochs)
            figures->n_epochs = way->runs[r].n_epochs;
    for (size_t i = 0; i < figures->n_epochs; i++)
        for (size_t f = 0; f < EPOCH_N_FIGURES; f++) {
            double values[COMPARISON_MAX_REPEATS];
            for (size_t r = 0; r < n_repeats; r++)
                values[r] = way->runs[r].epochs[i].figures[f];
            figures->epochs[i].figures[f] = median(values, n_repeats);
        }
}

static double remote_share_of(const struct training *run)
{
    double remote = 0, accesses = sum_of(run, EPOCH_ACCESSES);
    for (size_t i = 0; i < run->n_epochs; i++)
        remote +=
            run->epochs[i].figures[EPOCH_REMOTE_SHARE] * run->epochs[i].figures[EPOCH_ACCESSES];
    return accesses > 0 ? remote / accesses : 0;
}

void comparison_sum_up(const struct comparison *comparison, const struct way *base,
                       const struct way *way, struct way_figures *figures)
{
    size_t n = comparison->n_repeats;
    double seconds[COMPARISON_MAX_REPEATS], speed[COMPARISON_MAX_REPEATS],
        cpu_speed[COMPARISON_MAX_REPEATS], to_goal[COMPARISON_MAX_REPEATS],
        remote[COMPARISON_MAX_REPEATS];
    for (size_t r = 0; r < n; r++) {
        seconds[r] = seconds_per_epoch(&way->runs[r]);
        speed[r] = seconds_per_epoch(&base->runs[r]) / seconds[r];
        cpu_speed[r] = cpu_per_epoch(&base->runs[r]) / cpu_per_epoch(&way->runs[r]);
        to_goal[r] = seconds_to(&way->runs[r], comparison->lower_is_better, comparison->goal);
        remote[r] = remote_share_of(&way->runs[r]);
    }
    figures->seconds = median(seconds, n);
    figures->speed = median(speed, n);
    figures->cpu_speed = median(cpu_speed, n);
    figures->speed_min = speed[0];
    figures->speed_max = speed[n - 1];
    figures->seconds_to_goal = median(to_goal, n);
    figures->remote_share = median(remote, n);
    sum_up_epochs(way, n, figures);
    figures->bytes = 0;
    for (size_t i = 0; i < figures->n_epochs; i++)
        figures->bytes += figures->epochs[i].figures[EPOCH_BYTES] / (double)figures->n_epochs;
}

/* ---- Without a test -------------------------------------------------------------------------- */

/* A training may be told to measure not after every epoch. */
static bool has_quality(const struct comparison *comparison)
{
    const struct training *run = &comparison->ways[0].runs[0];
    for (size_t i = 0; i < run->n_epochs; i++)
        if (!isnan(quality_of(&run->epochs[i])))
            return true;
    return false;
}

static void judge_by_loss(struct comparison *comparison)
{
    comparison->measure = "loss";
    comparison->lower_is_better = true;
    for (size_t i = 0; i < comparison->n_ways; i++)
        for (size_t r = 0; r < comparison->n_repeats; r++) {
            struct training *run = &comparison->ways[i].runs[r];
            for (size_t k = 0; k < run->n_epochs; k++)
                run->epochs[k].figures[EPOCH_QUALITY] = run->epochs[k].figures[EPOCH_LOSS];
        }
}

void comparison_judge(struct comparison *comparison)
{
    if (!has_quality(comparison))
        judge_by_loss(comparison);
    comparison->goal = goal_of(comparison);
}

/* ---- Printing -------------------------------------------------------------------------------- */

void print_json_number(int n_decimals, double value)
{
    if (isfinite(value))
        printf("%.*f", n_decimals, value);
    else
        printf("null");
}

static void print_json_epochs(const struct way_figures *figures, const char *name,
                              enum epoch_figure figure, int n_decimals)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < figures->n_epochs; i++) {
        printf("%s", i > 0 ? "," : "");
        print_json_number(n_decimals, figures->epochs[i].figures[figure]);
    }
    printf("]");
}

static void print_json(const struct comparison *comparison, const struct way *way,
                       const struct way_figures *figures)
{
    printf("{\"bench\":\"task\",\"task\":\"%s\",\"system\":\"%s\",\"nodes\":%zu,\"threads\":%zu,"
           "\"epochs\":%zu,\"repeats\":%zu,\"seconds_per_epoch\":%.4f,\"speed\":%.4f,"
           "\"speed_min\":%.4f,\"speed_max\":%.4f,\"cpu_speed\":%.4f,\"remote_share\":%.7f,"
           "\"measure\":\"%s\","
           "\"seconds_to_90\":",
           comparison->task, way->system, way->is_cluster ? comparison->n_workers : 1,
           way->is_cluster ? 1 : comparison->n_workers, figures->n_epochs, comparison->n_repeats,
           figures->seconds, figures->speed, figures->speed_min, figures->speed_max,
           figures->cpu_speed, figures->remote_share, comparison->measure);
    print_json_number(4, figures->seconds_to_goal);
    print_json_epochs(figures, "epoch_quality", EPOCH_QUALITY, 6);
    print_json_epochs(figures, "epoch_seconds", EPOCH_SECONDS, 4);
    print_json_epochs(figures, "epoch_bytes", EPOCH_BYTES, 0);
    print_json_epochs(figures, "epoch_remote_share", EPOCH_REMOTE_SHARE, 6);
    print_json_epochs(figures, "epoch_staleness_ms", EPOCH_STALENESS_MS, 3);
    printf("}\n");
}

static void print_row(const struct way *way, const struct way_figures *figures)
{
    printf("  %-18s %7.3f %5.2f %5.2f..%-5.2f %5.2f", way->system, figures->seconds, figures->speed,
           figures->speed_min, figures->speed_max, figures->cpu_speed);
    if (isfinite(figures->seconds_to_goal))
        printf(" %7.2f", figures->seconds_to_goal);
    else
        printf(" %7s", "never");
    printf(" %8.6f %8.1f\n", figures->remote_share, figures->bytes / 1e6);
    double quality[TRAINING_MAX_EPOCHS];
    for (size_t i = 0; i < figures->n_epochs; i++)
        quality[i] = quality_of(&figures->epochs[i]);
    series_print("by epoch:", 10, quality, figures->n_epochs, 4);
}

static void print_heading(const struct comparison *comparison)
{
    printf("tern train %s: plain and one-node with %zu threads, the others on %zu nodes\n"
           "with one each; medians of %zu. Below each row: the quality after each epoch.\n"
           "90 %% of the best quality of plain is a %s of %.4f.\n\n",
           comparison->task, comparison->n_workers, comparison->n_workers, comparison->n_repeats,
           comparison->measure, comparison->goal);
    printf("  %-18s %7s %5s %12s %5s %7s %8s %8s\n", "system", "s/epoch", "speed", "spread", "CPU",
           "to 90 %", "remote", "MB/epoch");
}

void comparison_print(struct comparison *comparison, bool json)
{
    comparison_judge(comparison);
    if (!json)
        print_heading(comparison);
    for (size_t i = 0; i < comparison->n_ways; i++) {
        static struct way_figures figures; /* too large for the stack */
        const struct way *way = &comparison->ways[i];
        comparison_sum_up(comparison, &comparison->ways[0], way, &figures);
        if (json)
            print_json(comparison, way, &figures);
        else
            print_row(way, &figures);
    }
}

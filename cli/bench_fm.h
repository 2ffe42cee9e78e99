/*
 * bench_fm - the figures of tern bench fm, for its picture.
 */
#ifndef CLI_BENCH_FM_H
#define CLI_BENCH_FM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FM_N_SETTINGS = 4, FM_MAX_POINTS = 64 };

/* How a model adapts its memory. */
enum fm_setting {
    FM_LINEAR,    /* no embeddings: logistic regression */
    FM_FIXED,     /* an embedding for every feature */
    FM_THRESHOLD, /* for frequent features */
    FM_SHRUNK,    /* for frequent features whose weight is not 0 */
};

/* One training. */
struct fm_point {
    enum fm_setting setting;
    int64_t n_dims, n_nodes;
    double seconds;  /* the median of its epochs */
    double rate;     /* rows per second */
    double log_loss; /* the lowest of its epochs, on the test rows */
    double bytes;    /* sent in an epoch, the mean */
    double entries;  /* numbers of embeddings in use */
    double value;    /* what the figure shows */
};

/* What a figure shows. */
struct fm_figure {
    const char *name, *title, *unit;
    bool over_nodes; /* otherwise over dimensions */
    bool on_cluster; /* over dimensions, with --nodes nodes */
};

extern const char *const fm_setting_names[FM_N_SETTINGS];

/* Draws a line for each setting; false after a complaint. */
bool bench_fm_draw(const char *path, const struct fm_figure *figure, const struct fm_point *points,
                   size_t n);

#endif

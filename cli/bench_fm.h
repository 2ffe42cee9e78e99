/*
 * bench_fm - the figures of tern bench fm, for its picture.
 */
#ifndef CLI_BENCH_FM_H
#define CLI_BENCH_FM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FM_N_SETTINGS = 4,
    FM_MAX_POINTS = 64,
    FM_PLAIN_BYTES = 4, /* of a number that no filter rounds */
};

/* What the points of a line differ in. */
enum fm_axis { FM_OVER_DIMS, FM_OVER_NODES, FM_OVER_BYTES };

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
    int64_t n_bytes; /* of a number in messages: fewer than FM_PLAIN_BYTES by a filter */
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
    enum fm_axis axis;
    bool on_cluster; /* with --nodes nodes that share no memory */
};

extern const char *const fm_setting_names[FM_N_SETTINGS];

/* Draws a line for each setting; false after a complaint. */
bool bench_fm_draw(const char *path, const struct fm_figure *figure, const struct fm_point *points,
                   size_t n);

#endif

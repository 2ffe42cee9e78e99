/*
 * onednn - convolutions of f32 by oneDNN 2, where the library was built with it. onednn.c is the only file that knows its
 * interface, which changes with version 3.
 *
 * oneDNN wants images and weights in orders of its own. Some images at a time, a chunk, are brought into that order in
 * scratch, so few that they stay in the second cache. The size of a chunk depends on the shape alone, so outputs and the
 * gradients of data have the same bits whatever the number of threads; the gradient of the weights is one sum per part.
 * Shapes that oneDNN cannot do, and f64, are left to the loops of op_convolution.c.
 */
#ifndef ND_ONEDNN_H
#define ND_ONEDNN_H

#include "nd/window.h"

enum onednn_kind { ONEDNN_OUTPUT, ONEDNN_DATA, ONEDNN_WEIGHT };

struct onednn_shape {
    int64_t images, channels, filters;
    struct window window;
};

/* The scratch of one part; 0: oneDNN does not do this one. Any thread. */
size_t onednn_scratch(enum onednn_kind kind, const struct onednn_shape *shape);

/* Where onednn_scratch was not 0: data, weights and bias; the output's gradient and weights; the output's gradient and
 * data. Fails with TERN_NO_MEMORY if oneDNN does. */
enum tern_status onednn_convolve(enum onednn_kind kind, const struct onednn_shape *shape,
                                 const struct call *call);

/* "oneDNN" or "plain". */
const char *onednn_name(void);

#endif

/*
 * window - the windows of convolutions and pooling: kernels of two dimensions that move over the last two dimensions of
 * images (images x channels x height x width).
 *
 * window_attributes, first in the table of an operator, fill lists 0 to 2: the kernel's height and width, its steps (1 if
 * not given) and the zeros around an image (0 if not given). Pure functions.
 */
#ifndef ND_WINDOW_H
#define ND_WINDOW_H

#include "nd/op.h"

#define WINDOW_ATTRIBUTES                                         \
    {.name = "kernel", .kind = ATTRIBUTE_LIST, .required = true}, \
        {.name = "stride", .kind = ATTRIBUTE_LIST},               \
    {                                                             \
        .name = "pad", .kind = ATTRIBUTE_LIST                     \
    }

struct window {
    int64_t kernel[2], stride[2], pad[2];
    int64_t in[2], out[2]; /* height and width of an image, and the places of the window */
};

/* Reads the attributes for images of height in[0] and width in[1]. Fails if the window does not fit into them. */
enum tern_status window_read(const struct attributes *attributes, const int64_t *in,
                             struct window *window);

/* Along axis 0 or 1: the places first .. end - 1 of the window where its element `at` is inside the image. */
void window_inside(const struct window *window, int axis, int64_t at, int64_t *first, int64_t *end);

#endif

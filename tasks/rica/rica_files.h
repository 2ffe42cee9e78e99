/* rica_files - the examples and the model of RICA: model.txt, filters.npy and filters.png. See rica.h. */
#ifndef TASKS_RICA_FILES_H
#define TASKS_RICA_FILES_H

#include <stdint.h>

#include "rica/rica_step.h"

struct rica_info {
    uint64_t n_epochs, n_filters, n_pixels;
};

/* Reads an array of NumPy, f4, a row for each example. The mean of an example is taken off it, and all are divided by the root
 * of their mean square. */
bool rica_files_read(const char *path, struct rica_data *data);

/* `filters` are n_filters x n_pixels. */
bool rica_files_write(const char *folder, const struct rica_info *info, const char *settings,
                      const double *filters, size_t width);
bool rica_files_resume(const char *folder, struct rica_info *info, double *filters);

/* The width of an image of so many pixels: the wanted one, or for 0 its root or, if it has none, all. */
size_t rica_width(size_t n_pixels, size_t wanted);

#endif

/* series - many numbers of one row, on as many lines of 80 columns as they take. */
#ifndef CLI_SERIES_H
#define CLI_SERIES_H

#include <stddef.h>

/* Prints the name in `width` columns after four blanks, then the numbers with so many decimals; those that are
 * NAN are left out. */
void series_print(const char *name, int width, const double *values, size_t n, int n_decimals);

#endif

/* links - see links.h. */
#include "partition/links.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/input.h"
#include "common/sentence.h"

/* Reads a row of the matrix. */
static bool read_row(const struct input *input, const char *line, uint32_t n_parts, double *row)
{
    static const char separators[] = " \t,;";
    uint32_t n = 0;
    for (const char *at = line + strspn(line, separators); *at != '\0'; n++) {
        char *end;
        const double cost = strtod(at, &end);
        if (end == at || (*end != '\0' && strchr(separators, *end) == NULL) || !isfinite(cost) ||
            cost < 0)
            return input_fail(input, "'%.30s' is not the cost of a link, a number from 0 on", at);
        if (n < n_parts)
            row[n] = cost;
        at = end + strspn(end, separators);
    }
    return n == n_parts || input_fail(input,
                                      "the line has %" PRIu32 " cost%s, but a matrix for %" PRIu32
                                      " parts has %" PRIu32 " in each line",
                                      n, n == 1 ? "" : "s", n_parts, n_parts);
}

static bool read_matrix(struct input *input, uint32_t n_parts, double *costs)
{
    enum input_result result = INPUT_LINE;
    uint32_t n = 0;
    char *line;
    size_t length;
    bool ok = true;
    while (ok && (result = input_line(input, &line, &length)) == INPUT_LINE) {
        if (line[0] == '\0' || line[0] == '#')
            continue;
        ok = (n < n_parts || input_fail(input,
                                        "there are more lines than the %" PRIu32
                                        " parts; the matrix is not square",
                                        n_parts)) &&
             read_row(input, line, n_parts, costs + (size_t)n * n_parts);
        n++;
    }
    return ok && result == INPUT_END &&
           (n == n_parts || task_fail("%s has %" PRIu32 " lines of costs, but there are %" PRIu32
                                      " parts; the matrix is not square",
                                      input->path, n, n_parts));
}

bool links_read(const char *path, uint32_t n_parts, double **costs)
{
    struct input input;
    *costs = malloc((size_t)n_parts * n_parts * sizeof **costs);
    if (*costs == NULL)
        return task_fail_memory("the costs of links");
    if (!input_open(&input, path))
        return false;
    bool ok = read_matrix(&input, n_parts, *costs);
    input_close(&input);
    return ok;
}

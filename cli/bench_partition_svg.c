/* bench_partition_svg - the map of tern bench partition --train. See bench_partition.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_partition.h"
#include "command.h"

enum { CELL = 34, GAP = 40, TOP = 46, LEFT = 20 };

static double most_bytes(const struct partition_map *maps, size_t n)
{
    double most = 1;
    for (size_t m = 0; m < n; m++)
        for (uint32_t i = 0; i < maps[m].n_nodes; i++)
            for (uint32_t j = 0; j < maps[m].n_nodes; j++)
                most = maps[m].bytes[i][j] > most ? maps[m].bytes[i][j] : most;
    return most;
}

/* The darker a cell, the more bytes. */
static void draw_map(FILE *file, const struct partition_map *map, double most, double left)
{
    fprintf(file, "<text x=\"%.0f\" y=\"%d\">%s</text>\n", left, TOP - 10, map->name);
    for (uint32_t i = 0; i < map->n_nodes; i++)
        for (uint32_t j = 0; j < map->n_nodes; j++) {
            const double x = left + j * CELL, y = TOP + i * (double)CELL;
            fprintf(file,
                    "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"#24527a\" "
                    "fill-opacity=\"%.3f\" stroke=\"#999\"/>\n",
                    x, y, CELL, CELL, map->bytes[i][j] / most);
            if (i != j)
                fprintf(file, "<text x=\"%.0f\" y=\"%.0f\" font-size=\"9\">%.1f</text>\n", x + 4,
                        y + CELL - 5, map->bytes[i][j] / 1e6);
        }
}

bool partition_draw(const char *path, const struct partition_map *maps, size_t n)
{
    const double most = most_bytes(maps, n);
    const uint32_t n_nodes = n > 0 ? maps[0].n_nodes : 0;
    const double width = n_nodes * (double)CELL + GAP;
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                "<text x=\"%d\" y=\"18\">MB between nodes in an epoch of mf, by placement: user "
                "of a key (row), home of it (column)</text>\n",
                LEFT + (double)n * width + (n < 4 ? 200 : 0), TOP + n_nodes * (double)CELL + 20,
                LEFT);
        for (size_t m = 0; m < n; m++)
            draw_map(file, &maps[m], most, LEFT + (double)m * width);
        fprintf(file, "</svg>\n");
    }
    if (file == NULL || fclose(file) != 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

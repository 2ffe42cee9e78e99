/* bench_fm_svg - the picture of tern bench fm. See bench_fm.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_fm.h"
#include "command.h"

enum { WIDTH = 420, HEIGHT = 240, LEFT = 70, TOP = 34, BOTTOM = 44, KEY = 150 };

struct scale {
    double low, high;
    int64_t at[FM_MAX_POINTS]; /* dimensions or nodes, each once */
    size_t n;
};

static int64_t position_of(const struct fm_figure *figure, const struct fm_point *point)
{
    return figure->axis == FM_OVER_NODES   ? point->n_nodes
           : figure->axis == FM_OVER_BYTES ? point->n_bytes
                                           : point->n_dims;
}

/* The model without embeddings has no dimensions: it is a level line in figures over dimensions. */
static bool is_level(const struct fm_figure *figure, const struct fm_point *point)
{
    return figure->axis == FM_OVER_DIMS && point->setting == FM_LINEAR;
}

static struct scale find_scale(const struct fm_figure *figure, const struct fm_point *points,
                               size_t n)
{
    struct scale scale = {0};
    for (size_t i = 0; i < n; i++) {
        scale.low = points[i].value < scale.low ? points[i].value : scale.low;
        scale.high = points[i].value > scale.high ? points[i].value : scale.high;
        bool known = is_level(figure, &points[i]);
        for (size_t k = 0; k < scale.n; k++)
            known |= scale.at[k] == position_of(figure, &points[i]);
        if (!known)
            scale.at[scale.n++] = position_of(figure, &points[i]);
    }
    if (scale.high <= scale.low)
        scale.high = scale.low + 1;
    return scale;
}

static double x_of(const struct scale *scale, int64_t position)
{
    size_t k = 0;
    while (k + 1 < scale->n && scale->at[k] != position)
        k++;
    return LEFT + (scale->n > 1 ? (double)k / (double)(scale->n - 1) : 0) * WIDTH;
}

static double y_of(const struct scale *scale, double value)
{
    return TOP + HEIGHT * (1 - (value - scale->low) / (scale->high - scale->low));
}

static void draw_setting(FILE *file, const struct fm_figure *figure, const struct scale *scale,
                         const struct fm_point *points, size_t n, enum fm_setting setting)
{
    const int y = TOP + 10 + 16 * (int)setting;
    size_t n_drawn = 0;
    fprintf(file, "<path class=\"s%d\" d=\"", (int)setting);
    for (size_t i = 0; i < n; i++) {
        if (points[i].setting != setting)
            continue;
        if (is_level(figure, &points[i]))
            fprintf(file, "M%d %.1fh%d", LEFT, y_of(scale, points[i].value), WIDTH);
        else
            fprintf(file, "%c%.1f %.1f", n_drawn > 0 ? 'L' : 'M',
                    x_of(scale, position_of(figure, &points[i])), y_of(scale, points[i].value));
        n_drawn++;
    }
    fprintf(file, "\"/>\n");
    if (n_drawn > 0)
        fprintf(file,
                "<path class=\"s%d\" d=\"M%d %dh24\"/>\n"
                "<text class=\"small left\" x=\"%d\" y=\"%d\">%s</text>\n",
                (int)setting, LEFT + WIDTH + 16, y, LEFT + WIDTH + 46, y + 3,
                fm_setting_names[setting]);
}

static const char *const axis_names[] = {"dimensions", "nodes", "bytes of a number in messages"};

static void draw_axes(FILE *file, const struct fm_figure *figure, const struct scale *scale)
{
    fprintf(file,
            "<text x=\"%d\" y=\"18\">%s</text>\n<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n"
            "<text class=\"small\" x=\"%d\" y=\"%d\">%.4g</text>\n"
            "<text class=\"small\" x=\"%d\" y=\"%d\">%.4g</text>\n"
            "<text class=\"small\" x=\"%d\" y=\"%d\">%s</text>\n",
            LEFT, figure->title, LEFT, TOP, HEIGHT, WIDTH, LEFT / 2, TOP + 4, scale->high, LEFT / 2,
            TOP + HEIGHT + 4, scale->low, LEFT + WIDTH / 2, TOP + HEIGHT + 32,
            axis_names[figure->axis]);
    for (size_t k = 0; k < scale->n; k++)
        fprintf(file, "<text class=\"small\" x=\"%.1f\" y=\"%d\">%lld</text>\n",
                x_of(scale, scale->at[k]), TOP + HEIGHT + 16, (long long)scale->at[k]);
}

bool bench_fm_draw(const char *path, const struct fm_figure *figure, const struct fm_point *points,
                   size_t n)
{
    const struct scale scale = find_scale(figure, points, n);
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
                "<style>text{font:12px sans-serif}.small{font-size:10px;text-anchor:middle}"
                ".left{text-anchor:start}path{fill:none;stroke-width:1.5}"
                ".axis{stroke:#444;stroke-width:1}.s0{stroke:#808080}.s1{stroke:#d08030}"
                ".s2{stroke:#40a060}.s3{stroke:#2060a0}</style>\n",
                LEFT + WIDTH + KEY, TOP + HEIGHT + BOTTOM);
        draw_axes(file, figure, &scale);
        for (int setting = 0; setting < FM_N_SETTINGS; setting++)
            draw_setting(file, figure, &scale, points, n, (enum fm_setting)setting);
        fprintf(file, "</svg>\n");
    }
    if (file == NULL || fclose(file) != 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

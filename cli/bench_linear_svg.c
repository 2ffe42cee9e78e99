/* bench_linear_svg - the picture of a figure of tern bench linear: curves over two axes. See bench_linear.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench_linear.h"
#include "command.h"

enum { WIDTH = 420, HEIGHT = 240, LEFT = 70, TOP = 34, BOTTOM = 44, KEY = 190, N_COLOURS = 8 };

struct axis {
    bool is_log;
    double low, high;
};

static void widen(struct axis *axis, double value)
{
    if (!isfinite(value) || (axis->is_log && value <= 0))
        return;
    axis->low = fmin(axis->low, value);
    axis->high = fmax(axis->high, value);
}

/* The share of the axis below a value; one that is not on it is at its begin. */
static double share(const struct axis *axis, double value)
{
    if (!(axis->high > axis->low))
        return 0.5;
    if (axis->is_log)
        return value > 0 ? log(value / axis->low) / log(axis->high / axis->low) : 0;
    return (value - axis->low) / (axis->high - axis->low);
}

static void draw_curve(FILE *file, const struct axis axes[2], const struct curve *curve,
                       size_t number)
{
    const size_t colour = number % N_COLOURS;
    const int y = TOP + 10 + 16 * (int)number;
    fprintf(file, "<path class=\"s%zu\" d=\"", colour);
    for (size_t i = 0; i < curve->n; i++)
        fprintf(file, "%c%.1f %.1f", i == 0 ? 'M' : 'L',
                LEFT + WIDTH * share(&axes[0], curve->x[i]),
                TOP + HEIGHT * (1 - share(&axes[1], curve->y[i])));
    fprintf(file,
            "\"/>\n<path class=\"s%zu\" d=\"M%d %dh24\"/>\n"
            "<text class=\"small left\" x=\"%d\" y=\"%d\">%s</text>\n",
            colour, LEFT + WIDTH + 16, y, LEFT + WIDTH + 46, y + 3, curve->name);
}

static void draw_axes(FILE *file, const struct linear_figure *figure, const struct axis axes[2])
{
    const int bottom = TOP + HEIGHT;
    fprintf(file,
            "<text x=\"%d\" y=\"18\">%s</text>\n<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n"
            "<text class=\"small\" x=\"%d\" y=\"%d\">%s</text>\n",
            LEFT, figure->title, LEFT, TOP, HEIGHT, WIDTH, LEFT + WIDTH / 2, bottom + 34,
            figure->x_title);
    for (int i = 0; i < 2; i++) {
        const double value = i == 0 ? axes[0].low : axes[0].high;
        fprintf(file, "<text class=\"small\" x=\"%d\" y=\"%d\">%.3g</text>\n",
                LEFT + (i == 0 ? 0 : WIDTH), bottom + 16, value);
        fprintf(file, "<text class=\"small\" x=\"%d\" y=\"%d\">%.4g</text>\n", LEFT - 30,
                (i == 0 ? bottom : TOP) + 4, i == 0 ? axes[1].low : axes[1].high);
    }
    fprintf(file, "<text class=\"small\" transform=\"translate(%d %d) rotate(-90)\">%s</text>\n",
            LEFT - 50, TOP + HEIGHT / 2, figure->y_title);
}

bool bench_linear_draw(const char *path, const struct linear_figure *figure,
                       const struct curve *curves, size_t n)
{
    struct axis axes[2] = {{figure->log_x, (double)INFINITY, -(double)INFINITY},
                           {figure->log_y, (double)INFINITY, -(double)INFINITY}};
    for (size_t c = 0; c < n; c++)
        for (size_t i = 0; i < curves[c].n; i++) {
            widen(&axes[0], curves[c].x[i]);
            widen(&axes[1], curves[c].y[i]);
        }
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
                "<style>text{font:12px sans-serif}.small{font-size:10px;text-anchor:middle}"
                ".left{text-anchor:start}path{fill:none;stroke-width:1.5}"
                ".axis{stroke:#444;stroke-width:1}.s0{stroke:#2060a0}.s1{stroke:#40a060}"
                ".s2{stroke:#d08030}.s3{stroke:#a03060}.s4{stroke:#808080}.s5{stroke:#703090}"
                ".s6{stroke:#20a0a0}.s7{stroke:#c0a020}</style>\n",
                LEFT + WIDTH + KEY, TOP + HEIGHT + BOTTOM);
        draw_axes(file, figure, axes);
        for (size_t c = 0, number = 0; c < n; c++)
            if (curves[c].n > 0)
                draw_curve(file, axes, &curves[c], number++);
        fprintf(file, "</svg>\n");
    }
    if (file == NULL || fclose(file) != 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

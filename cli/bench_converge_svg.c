/* bench_converge_svg - the picture of tern bench converge. See bench_converge.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_converge.h"
#include "command.h"

enum { PANEL = 340, HEIGHT = 240, LEFT = 56, TOP = 34, GAP = 30, BOTTOM = 44, KEY = 90 };

/* The part of the objective that is shown: from the best to what all have reached after a quarter. */
struct scale {
    double low, high, longest_s;
    size_t n_epochs;
};

static double objective(const struct converge_run *run, size_t epoch)
{
    return run->training.epochs[epoch].figures[EPOCH_LOSS];
}

static struct scale find_scale(const struct converge_run *runs, size_t n)
{
    struct scale scale = {.low = objective(runs, 0), .high = objective(runs, 0)};
    scale.n_epochs = runs[0].training.n_epochs;
    double reached = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t n_epochs = runs[i].training.n_epochs;
        double seconds = converge_seconds(&runs[i], n_epochs - 1);
        double quarter = objective(&runs[i], n_epochs / 4);
        for (size_t k = 0; k < n_epochs; k++)
            scale.low = objective(&runs[i], k) < scale.low ? objective(&runs[i], k) : scale.low;
        reached = quarter > reached ? quarter : reached;
        scale.longest_s = seconds > scale.longest_s ? seconds : scale.longest_s;
    }
    if (reached > scale.low)
        scale.high = reached;
    return scale;
}

static double height_of(const struct scale *scale, double value)
{
    double part = (value - scale->low) / (scale->high - scale->low);
    return TOP + HEIGHT * (1 - (part < 1.2 ? part : 1.2));
}

/* One run: over clocks, or over seconds. */
static void draw_run(FILE *file, const struct converge_run *run, const struct scale *scale, int x,
                     bool over_seconds, size_t number)
{
    fprintf(file, "<path class=\"%s\" stroke-dasharray=\"%zu\" clip-path=\"url(#panel%d)\" d=\"",
            run->policy, number / 2 ? 8 - 2 * (number / 2) : 0, over_seconds);
    for (size_t i = 0; i < run->training.n_epochs; i++) {
        double part = over_seconds ? converge_seconds(run, i) / scale->longest_s
                                   : (double)(i + 1) / (double)scale->n_epochs;
        fprintf(file, "%c%.1f %.1f", i ? 'L' : 'M', x + part * PANEL,
                height_of(scale, objective(run, i)));
    }
    fprintf(file, "\"/>\n");
}

static void draw_panel(FILE *file, const struct converge_run *runs, size_t n,
                       const struct scale *scale, int x, bool over_seconds, double most)
{
    fprintf(
        file,
        "<clipPath id=\"panel%d\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n"
        "<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n"
        "<text class=\"small\" x=\"%d\" y=\"%d\">%s</text>\n"
        "<text class=\"small\" x=\"%d\" y=\"%d\">%.3g</text>\n",
        over_seconds, x, TOP, PANEL, HEIGHT + 1, x, TOP, HEIGHT, PANEL, x + PANEL / 2,
        TOP + HEIGHT + 30, over_seconds ? "seconds" : "clocks", x + PANEL, TOP + HEIGHT + 14, most);
    for (size_t i = 0; i < n; i++)
        draw_run(file, &runs[i], scale, x, over_seconds, i);
}

static void draw_key(FILE *file, const struct converge_run *runs, size_t n, int x)
{
    for (size_t i = 0; i < n; i++) {
        int y = TOP + 10 + 16 * (int)i;
        fprintf(file,
                "<path class=\"%s\" stroke-dasharray=\"%zu\" d=\"M%d %dh24\"/>\n"
                "<text class=\"small left\" x=\"%d\" y=\"%d\">%s:%lld</text>\n",
                runs[i].policy, i / 2 ? 8 - 2 * (i / 2) : 0, x, y, x + 30, y + 3, runs[i].policy,
                (long long)runs[i].bound);
    }
}

bool converge_draw(const char *path, const struct converge_run *runs, size_t n, int64_t n_clocks)
{
    const struct scale scale = find_scale(runs, n);
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        fprintf(
            file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
            "<style>text{font:12px sans-serif}.small{font-size:10px;text-anchor:middle}"
            ".left{text-anchor:start}path{fill:none;stroke-width:1.5}"
            ".axis{stroke:#444;stroke-width:1}.ssp{stroke:#d08030}.essp{stroke:#2060a0}</style>\n"
            "<text x=\"%d\" y=\"18\">Objective of training</text>\n"
            "<text class=\"small\" x=\"%d\" y=\"%d\">%.4g</text>\n"
            "<text class=\"small\" x=\"%d\" y=\"%d\">%.4g</text>\n",
            LEFT + 2 * (PANEL + GAP) + KEY, TOP + HEIGHT + BOTTOM, LEFT, LEFT / 2, TOP + 4,
            scale.high, LEFT / 2, TOP + HEIGHT + 4, scale.low);
        draw_panel(file, runs, n, &scale, LEFT, false,
                   (double)(int64_t)scale.n_epochs * (double)n_clocks);
        draw_panel(file, runs, n, &scale, LEFT + PANEL + GAP, true, scale.longest_s);
        draw_key(file, runs, n, LEFT + 2 * (PANEL + GAP));
        fprintf(file, "</svg>\n");
    }
    if (file == NULL || fclose(file) != 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

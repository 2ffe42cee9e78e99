/* bench_stale_svg - the picture of tern bench stale. See bench_stale.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bench_stale.h"
#include "command.h"

enum { PANEL = 190, HEIGHT = 150, LEFT = 44, TOP = 34, GAP = 26, BOTTOM = 46 };

/* A panel has the runs of one bound: for each differential a bar per policy. */
static void draw_panel(FILE *file, const struct stale_run *runs, size_t n, int x)
{
    int64_t bound = runs[0].bound;
    double width = (double)PANEL / (double)(bound + 1), bar = width * 0.8 / (double)n;
    fprintf(file, "<text x=\"%d\" y=\"%d\">s = %lld</text>\n", x, TOP - 8, (long long)bound);
    fprintf(file, "<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n", x, TOP, HEIGHT, PANEL);
    for (int64_t step = 0; step <= bound; step++) {
        /* The oldest is on the left, as in the paper. */
        double at = x + (double)(bound - step) * width;
        for (size_t i = 0; i < n; i++) {
            double height = runs[i].shares[step] * HEIGHT;
            fprintf(file,
                    "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                    runs[i].policy, at + width * 0.1 + bar * (double)i,
                    (double)(TOP + HEIGHT) - height, bar, height);
        }
        if (bound < 5 || step % 2 == 0)
            fprintf(file, "<text class=\"small\" x=\"%.1f\" y=\"%d\">-%lld</text>\n",
                    at + width / 2, TOP + HEIGHT + 14, (long long)step + 1);
    }
    for (size_t i = 0; i < n; i++)
        fprintf(file, "<text class=\"small left %s\" x=\"%d\" y=\"%d\">%s: mean %.2f</text>\n",
                runs[i].policy, x, TOP + HEIGHT + 28 + 12 * (int)i, runs[i].policy, runs[i].mean);
}

/* The last panel: for each run the time for which a worker computes, and on it that for which it communicates. */
static void draw_times(FILE *file, const struct stale_run *runs, size_t n, int x)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        const double sum = runs[i].compute_s + runs[i].communicate_s;
        most = sum > most ? sum : most;
    }
    const double width = (double)PANEL / (double)n, scale = most > 0 ? HEIGHT / most : 0;
    fprintf(file, "<text x=\"%d\" y=\"%d\">seconds of a worker: %.2f</text>\n", x, TOP - 8, most);
    fprintf(file, "<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n", x, TOP, HEIGHT, PANEL);
    for (size_t i = 0; i < n; i++) {
        const double at = x + width * ((double)i + 0.15), base = TOP + HEIGHT;
        const double compute = runs[i].compute_s * scale;
        const double communicate = runs[i].communicate_s * scale;
        fprintf(file,
                "<rect class=\"compute\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n"
                "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n"
                "<text class=\"small\" x=\"%.1f\" y=\"%d\">%lld</text>\n",
                at, base - compute, width * 0.7, compute, runs[i].policy, at,
                base - compute - communicate, width * 0.7, communicate, at + width * 0.35,
                TOP + HEIGHT + 14, (long long)runs[i].bound);
    }
    fprintf(file,
            "<text class=\"small left\" x=\"%d\" y=\"%d\">by s: computation (grey),</text>\n"
            "<text class=\"small left\" x=\"%d\" y=\"%d\">communication under ssp, essp</text>\n",
            x, TOP + HEIGHT + 28, x, TOP + HEIGHT + 40);
}

static size_t count_same(const struct stale_run *runs, size_t n)
{
    size_t same = 1;
    while (same < n && runs[same].bound == runs[0].bound)
        same++;
    return same;
}

bool stale_draw(const char *path, const struct stale_run *runs, size_t n)
{
    FILE *file = fopen(path, "w");
    int n_panels = 1;
    for (size_t i = 0; i < n; i += count_same(runs + i, n - i))
        n_panels++;
    if (file != NULL) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
                "<style>text{font:12px sans-serif}.small{font-size:10px;text-anchor:middle}"
                ".left{text-anchor:start}.axis{fill:none;stroke:#444}"
                ".ssp{fill:#d08030}.essp{fill:#2060a0}.compute{fill:#aaa}</style>\n"
                "<text x=\"%d\" y=\"14\">Share of keys read by clock differential</text>\n"
                "<text class=\"small\" x=\"%d\" y=\"%d\">100%%</text>\n"
                "<text class=\"small\" x=\"%d\" y=\"%d\">0</text>\n",
                LEFT + n_panels * (PANEL + GAP), TOP + HEIGHT + BOTTOM, LEFT, LEFT / 2, TOP + 4,
                LEFT / 2, TOP + HEIGHT + 4);
        int x = LEFT;
        for (size_t i = 0, same; i < n; i += same, x += PANEL + GAP) {
            same = count_same(runs + i, n - i);
            draw_panel(file, runs + i, same, x);
        }
        draw_times(file, runs, n, x);
        fprintf(file, "</svg>\n");
    }
    if (file == NULL || fclose(file) != 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

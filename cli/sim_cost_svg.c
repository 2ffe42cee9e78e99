/* sim_cost_svg - the picture of tern sim --cost. See sim_cost.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "sim_cost.h"

enum { WIDTH = 330, HEIGHT = 220, LEFT = 50, TOP = 34, GAP = 60, BOTTOM = 58, N_PARTS = 4 };

static const char *const parts[N_PARTS] = {"steps", "rounds", "transfer", "waits"};

static double place(double value, double most, int size)
{
    return most > 1 ? log(value > 1 ? value : 1) / log(most) * size : 0;
}

/* Speed-up over nodes, both on logarithmic axes, beside as many as there are nodes. */
static void draw_speedup(FILE *file, const struct cost_row *rows, size_t n, double most)
{
    const int base = TOP + HEIGHT;
    fprintf(file, "<text x=\"%d\" y=\"%d\">speed-up over nodes</text>\n", LEFT, TOP - 12);
    fprintf(file, "<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n", LEFT, TOP, HEIGHT, WIDTH);
    fprintf(file, "<path class=\"ideal\" d=\"M%d %dL%d %d\"/>\n", LEFT, base, LEFT + WIDTH, TOP);
    for (double mark = 1; mark <= most; mark *= 10)
        fprintf(file,
                "<text class=\"small\" x=\"%.1f\" y=\"%d\">%.0f</text>\n"
                "<text class=\"small\" x=\"%d\" y=\"%.1f\">%.0f</text>\n",
                LEFT + place(mark, most, WIDTH), base + 14, mark, LEFT - 18,
                base - place(mark, most, HEIGHT) + 4, mark);
    fprintf(file, "<path class=\"line\" d=\"");
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%c%.1f %.1f", i ? 'L' : 'M',
                LEFT + place((double)rows[i].n_nodes, most, WIDTH),
                base - place(rows[i].speedup, most, HEIGHT));
    fprintf(file, "\"/>\n");
    for (size_t i = 0; i < n; i++)
        fprintf(file,
                "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>%lld nodes: %.1f, "
                "limit: %s</title></circle>\n",
                LEFT + place((double)rows[i].n_nodes, most, WIDTH),
                base - place(rows[i].speedup, most, HEIGHT), (long long)rows[i].n_nodes,
                rows[i].speedup, rows[i].limit);
    fprintf(file,
            "<text class=\"small left\" x=\"%d\" y=\"%d\">nodes; the grey line is a speed-up of as "
            "many</text>\n",
            LEFT, base + 30);
}

/* A bar for each number of nodes: where the time of a step goes. */
static void draw_times(FILE *file, const struct cost_row *rows, size_t n)
{
    const int x = LEFT + WIDTH + GAP, base = TOP + HEIGHT;
    const double width = (double)WIDTH / (double)n;
    fprintf(file, "<text x=\"%d\" y=\"%d\">where the time of a step goes</text>\n", x, TOP - 12);
    fprintf(file, "<path class=\"axis\" d=\"M%d %dv%dh%d\"/>\n", x, TOP, HEIGHT, WIDTH);
    for (size_t i = 0; i < n; i++) {
        const struct tern_sim_prediction *of = &rows[i].prediction;
        const double ns[N_PARTS] = {of->step_ns, of->rounds_ns, of->transfer_ns, of->wait_ns};
        const double sum = ns[0] + ns[1] + ns[2] + ns[3];
        const double at = x + width * ((double)i + 0.1);
        double from = base;
        for (int k = 0; k < N_PARTS; k++) {
            const double height = sum > 0 ? ns[k] / sum * HEIGHT : 0;
            from -= height;
            fprintf(file,
                    "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                    parts[k], at, from, width * 0.8, height);
        }
        fprintf(file,
                "<text class=\"small\" x=\"%.1f\" y=\"%d\">%lld</text>\n"
                "<text class=\"small\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                at + width * 0.4, base + 14, (long long)rows[i].n_nodes, at + width * 0.4,
                base + 28, rows[i].limit);
    }
    for (int k = 0; k < N_PARTS; k++)
        fprintf(file,
                "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"10\" height=\"10\"/>\n"
                "<text class=\"small left\" x=\"%d\" y=\"%d\">%s</text>\n",
                parts[k], x + 80 * k, base + 38, x + 80 * k + 14, base + 47, parts[k]);
}

bool sim_cost_draw(const char *path, const struct cost_row *rows, size_t n)
{
    FILE *file = fopen(path, "w");
    double most = 10;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, (double)rows[i].n_nodes);
    if (file != NULL) {
        fprintf(file,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
                "<style>text{font:12px sans-serif}.small{font-size:10px;text-anchor:middle}"
                ".left{text-anchor:start}.axis{fill:none;stroke:#444}.ideal{stroke:#aaa}"
                ".line{fill:none;stroke:#2060a0;stroke-width:2}.dot{fill:#2060a0}"
                ".steps{fill:#aaa}.rounds{fill:#2060a0}.transfer{fill:#d08030}"
                ".waits{fill:#a03030}</style>\n",
                LEFT + 2 * WIDTH + GAP + 20, TOP + HEIGHT + BOTTOM);
        draw_speedup(file, rows, n, most);
        draw_times(file, rows, n);
        fprintf(file, "</svg>\n");
    }
    if (file == NULL || fclose(file) != 0) {
        complain("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

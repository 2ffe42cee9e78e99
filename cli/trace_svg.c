/*
 * trace_svg - draws traces in the manner of Figure 15 of AdaPM (Renz-Wieland et al., VLDB 2023): a band
 * for each key, in it a row for each node; a dark bar while the node has the main copy, a light one while
 * it has a replica, and a line below while it wants the key.
 *
 * A span narrower than `hair` is drawn that wide, and bars that touch are merged, so that the size of a picture
 * is bounded however long the trace is. Colours follow the viewer, light or dark.
 */
#include <inttypes.h>
#include <math.h>

#include "trace.h"

enum {
    WIDTH = 960,
    LEFT = 78, /* where time begins, and WIDTH - RIGHT where it ends */
    RIGHT = 16,
    TOP = 44, /* below the legend */
    TITLE = 20,
    ROW = 13,
    BAND_GAP = 8,
    AXIS = 36,
    AIMED_TICKS = 8
};

static const double hair = 0.6; /* the least width of a bar */

/* Simple rules first, for viewers that know no media queries; browsers also apply the dark ones. */
static const char style[] =
    "<style>\n"
    "text{font:11px system-ui,sans-serif;fill:#24292f}.dim{fill:#6e7781}.key{font-weight:600}\n"
    ".paper{fill:#fff}.track{fill:#f1f3f5}.grid{stroke:#d8dee4;fill:none}\n"
    ".main{fill:#1f6fb4}.replica{fill:#a6cbeb}.intent{fill:#d9730d}\n"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#8b949e}.paper{fill:#0d1117}"
    ".track{fill:#161b22}.grid{stroke:#30363d}.main{fill:#58a6ff}.replica{fill:#1f4c7d}"
    ".intent{fill:#f0883e}}\n"
    "</style>\n";

static const struct {
    const char *name, *legend;
    double top, height; /* in the row */
} layers[N_LAYERS] = {
    [LAYER_MAIN] = {"main", "main copy", 1, 7},
    [LAYER_REPLICA] = {"replica", "replica", 1, 7},
    [LAYER_INTENT] = {"intent", "the node wants the key (active intent)", 9, 2},
};

/* ---- Coordinates ------------------------------------------------------------------------------------- */

static double seconds(const struct traces *traces)
{
    return (double)(traces->end_ns - traces->begin_ns) / 1e9;
}

static double x_of(const struct traces *traces, uint64_t time_ns)
{
    double all = (double)(traces->end_ns - traces->begin_ns);
    double part = all > 0 ? (double)(time_ns - traces->begin_ns) / all : 0;
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double band_height(const struct traces *traces)
{
    return TITLE + ROW * (double)traces->n_files + BAND_GAP;
}

static double row_y(const struct traces *traces, double band_y, uint32_t node)
{
    size_t i = 0;
    while (traces->files[i].node != node)
        i++;
    return band_y + TITLE + ROW * (double)i;
}

/* ---- Bars --------------------------------------------------------------------------------------- */

/* A bar that is being put together out of spans that touch. */
struct bar {
    double from, to, y, height;
};

static void put_bar(const struct bar *bar, FILE *out)
{
    double width = fmax(bar->to - bar->from, hair);
    fprintf(out, "M%.1f %gh%.1fv%gh-%.1fz", bar->from, bar->y, width, bar->height, width);
}

/* All bars of one layer of a key, as one path. */
static void draw_layer(const struct traces *traces, const struct span *spans, size_t n,
                       enum trace_layer layer, double band_y, FILE *out)
{
    struct bar bar = {0};
    bool is_open = false;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].layer != layer)
            continue;
        double from = x_of(traces, spans[i].begin_ns), to = x_of(traces, spans[i].end_ns);
        double y = row_y(traces, band_y, spans[i].node) + layers[layer].top;
        if (is_open && bar.y == y && from <= fmax(bar.to, bar.from + hair)) {
            bar.to = fmax(bar.to, to);
            continue;
        }
        if (is_open)
            put_bar(&bar, out);
        else
            fprintf(out, "<path class=\"%s\" d=\"", layers[layer].name);
        bar = (struct bar){from, to, y, layers[layer].height};
        is_open = true;
    }
    if (is_open) {
        put_bar(&bar, out);
        fputs("\"/>\n", out);
    }
}

static void draw_band(const struct traces *traces, uint64_t key, double y, FILE *out)
{
    size_t n;
    const struct span *spans = traces_of_key(traces, key, &n);
    fprintf(out, "<text class=\"key\" x=\"%d\" y=\"%g\">key %" PRIu64 "</text>\n", LEFT, y + 14,
            key);
    for (size_t i = 0; i < traces->n_files; i++) {
        double at = y + TITLE + ROW * (double)i;
        fprintf(out, "<rect class=\"track\" x=\"%d\" y=\"%g\" width=\"%d\" height=\"7\"/>", LEFT,
                at + layers[LAYER_MAIN].top, WIDTH - LEFT - RIGHT);
        fprintf(out,
                "<text class=\"dim\" x=\"%d\" y=\"%g\" text-anchor=\"end\">node %" PRIu32
                "</text>\n",
                LEFT - 8, at + 9, traces->files[i].node);
    }
    for (int layer = 0; layer < N_LAYERS; layer++)
        draw_layer(traces, spans, n, (enum trace_layer)layer, y, out);
}

/* ---- Axis and labels -------------------------------------------------------------------------------- */

/* A name in a text of XML. */
static void put_escaped(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        default:
            fputc((unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text, out);
        }
    }
}

static void draw_legend(const struct traces *traces, FILE *out)
{
    fprintf(out, "<text class=\"key\" x=\"%d\" y=\"18\">Table ", LEFT);
    put_escaped(traces->table, out);
    fprintf(out, ": %zu node%s, %.4g s</text>\n", traces->n_files, traces->n_files == 1 ? "" : "s",
            seconds(traces));
    static const int places[N_LAYERS] = {0, 96, 176};
    for (int i = 0; i < N_LAYERS; i++) {
        int x = LEFT + places[i];
        fprintf(out,
                "<rect class=\"%s\" x=\"%d\" y=\"%g\" width=\"16\" height=\"%g\"/>"
                "<text class=\"dim\" x=\"%d\" y=\"36\">%s</text>\n",
                layers[i].name, x, 32 - layers[i].height / 2, layers[i].height, x + 22,
                layers[i].legend);
    }
}

/* The distance of marks on the axis: 1, 2 or 5 times a power of ten. */
static double tick_step(double all)
{
    double rough = all / AIMED_TICKS, power = pow(10, floor(log10(rough)));
    double times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void draw_axis(const struct traces *traces, double bottom, FILE *out)
{
    double all = seconds(traces);
    const char *unit = all >= 1 ? "s" : all >= 1e-3 ? "ms" : "us";
    double scale = all >= 1 ? 1 : all >= 1e-3 ? 1e3 : 1e6;
    double step = all > 0 ? tick_step(all) : 1;
    for (int i = 0; i * step <= all; i++) {
        double x = LEFT + (all > 0 ? i * step / all : 0) * (WIDTH - LEFT - RIGHT);
        fprintf(out,
                "<path class=\"grid\" d=\"M%.1f %dV%g\"/>"
                "<text class=\"dim\" x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%.6g %s</text>\n",
                x, TOP, bottom + 4, x, bottom + 18, i * step * scale, unit);
    }
}

void traces_draw(const struct traces *traces, size_t n_keys, FILE *out)
{
    double bottom = TOP + band_height(traces) * (double)n_keys, height = bottom + AXIS;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%g\" "
            "viewBox=\"0 0 %d %g\">\n%s<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n",
            WIDTH, height, WIDTH, height, style);
    draw_legend(traces, out);
    draw_axis(traces, bottom, out);
    for (size_t i = 0; i < n_keys; i++)
        draw_band(traces, traces->keys[i], TOP + band_height(traces) * (double)i, out);
    fputs("</svg>\n", out);
}

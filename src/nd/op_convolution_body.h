/* op_convolution_body - the loops of op_convolution.c for one type. The includer defines REAL and NAME(x). */

/* Elements first .. end - 1 of a row of places read an image's row from `from` on; the others see the zeros around it. */
static void NAME(unfold_row)(const struct window *w, int64_t first, int64_t end, const REAL *from,
                             REAL *to)
{
    for (int64_t x = 0; x < first; x++)
        to[x] = 0;
    if (w->stride[1] == 1)
        memcpy(to + first, from + first, (size_t)(end - first) * sizeof *to);
    else
        for (int64_t x = first; x < end; x++)
            to[x] = from[x * w->stride[1]];
    for (int64_t x = end; x < w->out[1]; x++)
        to[x] = 0;
}

CLONES static void NAME(fold_row)(const struct window *w, int64_t first, int64_t end,
                                  const REAL *from, REAL *to)
{
    for (int64_t x = first; x < end; x++)
        to[x * w->stride[1]] += from[x];
}

/* Zeros the places of n rows that see the zeros around an image. */
static void NAME(clear_edges)(const struct window *w, int64_t n, int64_t first, int64_t end,
                              REAL *rows)
{
    for (int64_t y = 0; y < n; y++, rows += w->out[1]) {
        for (int64_t x = 0; x < first; x++)
            rows[x] = 0;
        for (int64_t x = end; x < w->out[1]; x++)
            rows[x] = 0;
    }
}

/* Where element k of the window lies in the rows of a tile: rows begin .. end - 1 of them are inside of the image, and the
 * first of those reads the row `row`. */
struct NAME(reach) {
    int64_t begin, end, row, first, last; /* places first .. last - 1 of a row are inside */
    bool is_plane;                        /* rows follow each other in the image as in the matrix */
};

static struct NAME(reach) NAME(reach_of)(const struct window *w, const struct tile *tile, int64_t k)
{
    const int64_t ky = k / w->kernel[1], kx = k % w->kernel[1];
    struct NAME(reach)
        r = {.is_plane = w->stride[0] == 1 && w->stride[1] == 1 && w->in[1] == w->out[1]};
    int64_t first, end;
    window_inside(w, 0, ky, &first, &end);
    r.begin = first < tile->y ? 0 : first - tile->y;
    r.end = end < tile->y ? 0 : end - tile->y;
    r.begin = r.begin < tile->rows ? r.begin : tile->rows;
    r.end = r.end < tile->rows ? r.end : tile->rows;
    r.row = (tile->y + r.begin) * w->stride[0] - w->pad[0] + ky;
    window_inside(w, 1, kx, &r.first, &r.last);
    return r;
}

/* Writes the windows of a tile into the columns of a matrix, or adds them back to the images. */
static void NAME(unfold)(const struct convolution *c, const struct tile *tile, const REAL *images,
                         REAL *columns)
{
    const struct window *w = &c->window;
    const int64_t width = w->out[1];
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
            const struct NAME(reach) r = NAME(reach_of)(w, tile, k);
            const int64_t n = r.end - r.begin, shift = k % w->kernel[1] - w->pad[1];
            for (int64_t i = tile->first; i < tile->first + tile->n;
                 i++, columns += tile->rows * width) {
                const REAL *from = images +
                                   ((i * c->all_channels + channel) * w->in[0] + r.row) * w->in[1] +
                                   shift;
                REAL *to = columns + r.begin * width;
                memset(columns, 0, (size_t)(r.begin * width) * sizeof *columns);
                if (r.is_plane && n > 0) {
                    memcpy(to + r.first, from + r.first,
                           (size_t)((n - 1) * width + r.last - r.first) * sizeof *to);
                    NAME(clear_edges)(w, n, r.first, r.last, to);
                }
                for (int64_t y = 0; y < n && !r.is_plane; y++)
                    NAME(unfold_row)
                (w, r.first, r.last, from + y * w->stride[0] * w->in[1], to + y * width);
                memset(columns + r.end * width, 0,
                       (size_t)((tile->rows - r.end) * width) * sizeof *columns);
            }
        }
}

/* The matrix is not needed afterwards. */
CLONES static void NAME(fold)(const struct convolution *c, const struct tile *tile, REAL *columns,
                              REAL *images)
{
    const struct window *w = &c->window;
    const int64_t width = w->out[1];
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
            const struct NAME(reach) r = NAME(reach_of)(w, tile, k);
            const int64_t n = r.end - r.begin, shift = k % w->kernel[1] - w->pad[1];
            for (int64_t i = tile->first; i < tile->first + tile->n;
                 i++, columns += tile->rows * width) {
                REAL *to = images +
                           ((i * c->all_channels + channel) * w->in[0] + r.row) * w->in[1] + shift;
                REAL *from = columns + r.begin * width;
                if (r.is_plane && n > 0) {
                    NAME(clear_edges)(w, n, r.first, r.last, from);
                    const int64_t end = (n - 1) * width + r.last;
                    for (int64_t x = r.first; x < end; x++)
                        to[x] += from[x];
                }
                for (int64_t y = 0; y < n && !r.is_plane; y++)
                    NAME(fold_row)
                (w, r.first, r.last, from + y * width, to + y * w->stride[0] * w->in[1]);
            }
        }
}

/* Where the outputs of a filter in one image of the tile begin. */
static int64_t NAME(place)(const struct convolution *c, const struct tile *tile, int64_t filter,
                           int64_t image)
{
    return ((tile->first + image) * c->filters + filter) * c->places + tile->y * c->window.out[1];
}

/* Moves a tile between the images of the output and a matrix with a row per filter. */
static void NAME(gather)(const struct convolution *c, const struct tile *tile, const REAL *out,
                         REAL *matrix)
{
    const int64_t n = tile->columns / tile->n;
    for (int64_t f = 0; f < c->filters; f++)
        for (int64_t i = 0; i < tile->n; i++, matrix += n)
            memcpy(matrix, out + NAME(place)(c, tile, f, i), (size_t)n * sizeof *matrix);
}

CLONES static void NAME(scatter)(const struct convolution *c, const struct tile *tile,
                                 const REAL *matrix, const REAL *bias, REAL *out)
{
    const int64_t n = tile->columns / tile->n;
    for (int64_t f = 0; f < c->filters; f++)
        for (int64_t i = 0; i < tile->n; i++, matrix += n) {
            REAL *to = out + NAME(place)(c, tile, f, i);
            for (int64_t k = 0; k < n; k++)
                to[k] = matrix[k] + bias[f];
        }
}

static void NAME(convolve)(const struct convolution *c, const struct call *call)
{
    REAL *matrix = (REAL *)((char *)call->scratch + GEMM_SCRATCH_BYTES);
    for (struct tile tile = {0}; tile_next(c, &tile);) {
        REAL *columns = matrix + c->filters * tile.columns;
        NAME(unfold)(c, &tile, call->in[0].data, columns);
        gemm(&(struct gemm){.type = call->out.spec.type,
                            .m = c->filters,
                            .n = tile.columns,
                            .k = c->depth,
                            .a = call->in[1].data,
                            .b = columns,
                            .c = matrix,
                            .scratch = call->scratch});
        NAME(scatter)(c, &tile, matrix, call->in[2].data, call->out.data);
    }
}

static void NAME(convolve_data)(const struct convolution *c, const struct call *call)
{
    REAL *matrix = (REAL *)((char *)call->scratch + GEMM_SCRATCH_BYTES);
    memset(call->out.data, 0,
           (size_t)(c->images * c->channels * c->window.in[0] * c->window.in[1]) * sizeof *matrix);
    for (struct tile tile = {0}; tile_next(c, &tile);) {
        REAL *columns = matrix + c->filters * tile.columns;
        NAME(gather)(c, &tile, call->in[0].data, matrix);
        gemm(&(struct gemm){.type = call->out.spec.type,
                            .transpose_a = true,
                            .m = c->depth,
                            .n = tile.columns,
                            .k = c->filters,
                            .a = call->in[1].data,
                            .b = matrix,
                            .c = columns,
                            .scratch = call->scratch});
        NAME(fold)(c, &tile, columns, call->out.data);
    }
}

static void NAME(convolve_weight)(const struct convolution *c, const struct call *call)
{
    REAL *matrix = (REAL *)((char *)call->scratch + GEMM_SCRATCH_BYTES);
    bool adds = false;
    for (struct tile tile = {0}; tile_next(c, &tile); adds = true) {
        REAL *columns = matrix + c->filters * tile.columns;
        NAME(gather)(c, &tile, call->in[0].data, matrix);
        NAME(unfold)(c, &tile, call->in[1].data, columns);
        gemm(&(struct gemm){.type = call->out.spec.type,
                            .transpose_b = true,
                            .adds = adds,
                            .m = c->filters,
                            .n = c->depth,
                            .row_c = c->depth / c->channels * c->all_channels,
                            .k = tile.columns,
                            .a = matrix,
                            .b = columns,
                            .c = call->out.data,
                            .scratch = call->scratch});
    }
}

#undef REAL
#undef NAME

/* op_convolution_body - the loops of op_convolution.c for one type. The includer defines REAL and NAME(x). */

/* One row of places: element `kx` of the window reads the row `from` of an image. */
static void NAME(unfold_row)(const struct window *w, int64_t kx, const REAL *from, REAL *to)
{
    int64_t first, end;
    window_inside(w, 1, kx, &first, &end);
    for (int64_t x = 0; x < first; x++)
        to[x] = 0;
    from += kx - w->pad[1];
    if (w->stride[1] == 1)
        memcpy(to + first, from + first, (size_t)(end - first) * sizeof *to);
    else
        for (int64_t x = first; x < end; x++)
            to[x] = from[x * w->stride[1]];
    for (int64_t x = end; x < w->out[1]; x++)
        to[x] = 0;
}

static void NAME(fold_row)(const struct window *w, int64_t kx, const REAL *from, REAL *to)
{
    int64_t first, end;
    window_inside(w, 1, kx, &first, &end);
    to += kx - w->pad[1];
    for (int64_t x = first; x < end; x++)
        to[x * w->stride[1]] += from[x];
}

/* Writes the windows of a tile into the columns of a matrix, or adds them back to the images. */
static void NAME(unfold)(const struct convolution *c, const struct tile *tile, const REAL *images,
                         REAL *columns)
{
    const struct window *w = &c->window;
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++)
            for (int64_t i = tile->first; i < tile->first + tile->n; i++) {
                const REAL *plane = images + (i * c->channels + channel) * w->in[0] * w->in[1];
                for (int64_t y = tile->y; y < tile->y + tile->rows; y++, columns += w->out[1]) {
                    const int64_t row = y * w->stride[0] - w->pad[0] + k / w->kernel[1];
                    if (row < 0 || row >= w->in[0])
                        memset(columns, 0, (size_t)w->out[1] * sizeof *columns);
                    else
                        NAME(unfold_row)(w, k % w->kernel[1], plane + row * w->in[1], columns);
                }
            }
}

static void NAME(fold)(const struct convolution *c, const struct tile *tile, const REAL *columns,
                       REAL *images)
{
    const struct window *w = &c->window;
    for (int64_t channel = 0; channel < c->channels; channel++)
        for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++)
            for (int64_t i = tile->first; i < tile->first + tile->n; i++) {
                REAL *plane = images + (i * c->channels + channel) * w->in[0] * w->in[1];
                for (int64_t y = tile->y; y < tile->y + tile->rows; y++, columns += w->out[1]) {
                    const int64_t row = y * w->stride[0] - w->pad[0] + k / w->kernel[1];
                    if (row >= 0 && row < w->in[0])
                        NAME(fold_row)(w, k % w->kernel[1], columns, plane + row * w->in[1]);
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

static void NAME(scatter)(const struct convolution *c, const struct tile *tile, const REAL *matrix,
                          const REAL *bias, REAL *out)
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
    memset(call->out.data, 0, spec_bytes(&call->out.spec));
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
                            .k = tile.columns,
                            .a = matrix,
                            .b = columns,
                            .c = call->out.data,
                            .scratch = call->scratch});
    }
}

#undef REAL
#undef NAME

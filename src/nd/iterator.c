/*
 * iterator - batches of rows of two arrays, data and labels, and the loops that train and test a module with them.
 *
 * The order of an epoch is a function of the seed and the number of the epoch, and the position one number: so a saved
 * state continues to the bit. Batches are gathered into two arrays of the iterator, which wait for their last use.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "base/status.h"
#include "nd/array.h"
#include "nd/module.h"

enum { AHEAD_MAX = 16 };

/* Ids in columns of the data that are signalled ahead. */
struct ahead {
    struct tern_embedding *embedding;
    int64_t first, n_columns;
    uint32_t batches;
    uint64_t until; /* batches of this epoch before it have been signalled */
};

struct tern_iterator {
    struct handle handle;
    struct tern_iterator_options options;
    struct tern_array *from[2]; /* data and labels; its own handles */
    struct tern_array *batch[2];
    uint64_t n_rows; /* of this part */
    uint64_t *order; /* rows of the arrays */
    uint64_t epoch, position;
    struct ahead ahead[AHEAD_MAX];
    uint32_t n_ahead;
    int64_t *ids; /* room for those of a batch */
};

#define CHECK(iterator)                                                 \
    do {                                                                \
        const struct handle *given = (const struct handle *)(iterator); \
        if (!handle_is(given, HANDLE_ITERATOR))                         \
            return handle_refuse(given, HANDLE_ITERATOR);               \
    } while (0)

/* The order of the present epoch: this part's rows, shuffled by Fisher and Yates if there is a seed. */
static void make_order(struct tern_iterator *iterator)
{
    const struct tern_iterator_options *o = &iterator->options;
    for (uint64_t i = 0; i < iterator->n_rows; i++)
        iterator->order[i] = o->part + i * o->n_parts;
    if (!o->seed)
        return;
    const uint64_t stream = rand_at(hash_u64(o->seed), iterator->epoch);
    for (uint64_t i = iterator->n_rows; i > 1; i--) {
        const uint64_t k = rand_below(rand_at(stream, i), i), row = iterator->order[i - 1];
        iterator->order[i - 1] = iterator->order[k];
        iterator->order[k] = row;
    }
}

static void destroy(struct tern_iterator *iterator)
{
    for (unsigned i = 0; i < 2; i++) {
        if (iterator->from[i])
            (void)tern_array_close(iterator->from[i]);
        if (iterator->batch[i])
            (void)tern_array_close(iterator->batch[i]);
    }
    free(iterator->order);
    free(iterator->ids);
}

/* A handle of its own of an array without gaps, and a batch of its rows. */
static enum tern_status take(struct tern_iterator *iterator, unsigned i, struct tern_array *array)
{
    struct tern_nd_shape shape;
    enum tern_status status = tern_array_shape(array, &shape);
    if (!status && shape.n_dims < 1)
        status = fail(TERN_INVALID, "an array without dimensions has no rows");
    if (!status &&
        tern_array_reshape(array, (uint32_t)shape.n_dims, shape.dims, &iterator->from[i]))
        status = tern_array_apply("copy", NULL, &array, 1, &iterator->from[i]);
    if (status)
        return status;
    const struct tern_iterator_options *o = &iterator->options;
    if (!i && (o->flips || o->crops) &&
        (shape.n_dims < 3 || o->crops >= shape.dims[shape.n_dims - 1] ||
         o->crops >= shape.dims[shape.n_dims - 2]))
        return fail(TERN_INVALID, "rows are flipped and cropped if they have a height and a width "
                                  "that are larger than the crop");
    if (i && (uint64_t)shape.dims[0] != iterator->n_rows)
        return fail(TERN_MISMATCH, "there are %llu rows of data and %lld labels",
                    (unsigned long long)iterator->n_rows, (long long)shape.dims[0]);
    iterator->n_rows = (uint64_t)shape.dims[0];
    shape.dims[0] = iterator->options.batch;
    return tern_array_new(&shape, NULL, &iterator->batch[i]);
}

static enum tern_status check_options(const struct tern_iterator_options *options)
{
    if (!options || options->struct_size != sizeof *options || !options->batch ||
        (options->n_parts && options->part >= options->n_parts))
        return fail(
            TERN_INVALID,
            "the options of an iterator need their struct_size, a batch of at least 1 and a part "
            "below n_parts");
    return TERN_OK;
}

enum tern_status tern_iterator_open(struct tern_array *data, struct tern_array *labels,
                                    const struct tern_iterator_options *options,
                                    struct tern_iterator **iterator)
{
    enum tern_status status =
        iterator ? check_options(options) : fail(TERN_INVALID, "the result is NULL");
    if (status)
        return status;
    struct tern_iterator *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "there is no memory for an iterator");
    made->options = *options;
    if (!made->options.n_parts)
        made->options.n_parts = 1;
    status = take(made, 0, data);
    if (!status)
        status = take(made, 1, labels);
    if (!status && made->options.part >= made->n_rows)
        status = fail(TERN_INVALID, "part %u has no rows", made->options.part);
    if (!status) {
        made->n_rows = (made->n_rows - 1 - made->options.part) / made->options.n_parts + 1;
        made->order = malloc(made->n_rows * sizeof *made->order);
        if (!made->order)
            status = fail(TERN_NO_MEMORY, "there is no memory for the order of %llu rows",
                          (unsigned long long)made->n_rows);
    }
    if (!status && made->options.drop_last && made->n_rows < made->options.batch)
        status = fail(TERN_INVALID,
                      "there are fewer rows than a batch has, and the last batch is dropped");
    if (status) {
        destroy(made);
        free(made);
        return status;
    }
    make_order(made);
    handle_init(&made->handle, HANDLE_ITERATOR);
    *iterator = made;
    return TERN_OK;
}

enum tern_status tern_iterator_close(struct tern_iterator *iterator)
{
    CHECK(iterator);
    destroy(iterator);
    handle_close(&iterator->handle);
    return TERN_OK;
}

/* How an image of a batch is changed: drawn from the seed, the epoch and its row. */
struct change {
    bool flip;
    int64_t down, right;
};

static struct change change_of(const struct tern_iterator *iterator, uint64_t row)
{
    const struct tern_iterator_options *o = &iterator->options;
    const uint64_t stream = rand_at(rand_at(hash_u64(~o->seed), iterator->epoch), row);
    const uint64_t width = 2 * (uint64_t)o->crops + 1;
    return (struct change){.flip = o->flips && rand_below(rand_at(stream, 0), 2),
                           .down = (int64_t)rand_below(rand_at(stream, 1), width) - o->crops,
                           .right = (int64_t)rand_below(rand_at(stream, 2), width) - o->crops};
}

/* Copies the planes of a row, moved and mirrored. */
static void copy_changed(const struct spec *spec, struct change change, const char *from, char *to)
{
    const int64_t height = spec->dims[spec->n_dims - 2], width = spec->dims[spec->n_dims - 1],
                  bytes = (int64_t)spec_type_bytes(spec->type),
                  lines = (int64_t)spec_count(spec) / spec->dims[0] / width;
    for (int64_t i = 0; i < lines; i++, to += width * bytes) {
        const int64_t y = i % height + change.down;
        const char *line = from + (i + change.down) * width * bytes;
        for (int64_t x = 0; x < width; x++) {
            const int64_t at = (change.flip ? width - 1 - x : x) + change.right;
            if (y < 0 || y >= height || at < 0 || at >= width)
                memset(to + x * bytes, 0, (size_t)bytes);
            else
                memcpy(to + x * bytes, line + at * bytes, (size_t)bytes);
        }
    }
}

/* Copies the rows of a batch; what is behind the last row is the first ones again. */
static enum tern_status gather(struct tern_iterator *iterator, unsigned which)
{
    void *from, *to;
    int64_t strides[TERN_ND_MAX_DIMS];
    struct tern_nd_shape shape;
    enum tern_status status = tern_array_data(iterator->from[which], &from, strides);
    if (!status)
        status = tern_array_data(iterator->batch[which], &to, NULL);
    if (!status)
        status = tern_array_shape(iterator->from[which], &shape);
    if (status)
        return status;
    const size_t bytes = (size_t)strides[0] * spec_type_bytes(shape.type);
    struct spec spec = {.type = shape.type, .n_dims = shape.n_dims};
    memcpy(spec.dims, shape.dims, sizeof spec.dims);
    for (uint64_t i = 0; i < iterator->options.batch; i++) {
        const uint64_t row = iterator->order[(iterator->position + i) % iterator->n_rows];
        const char *image = (const char *)from + row * bytes;
        if (!which && (iterator->options.flips || iterator->options.crops))
            copy_changed(&spec, change_of(iterator, row), image, (char *)to + i * bytes);
        else
            memcpy((char *)to + i * bytes, image, bytes);
    }
    return TERN_OK;
}

/* ---- Looking ahead ------------------------------------------------------------------------------- */

enum tern_status tern_iterator_look_ahead(struct tern_iterator *iterator,
                                          struct tern_embedding *embedding, uint32_t first,
                                          uint32_t n_columns, uint32_t batches)
{
    CHECK(iterator);
    EMBEDDING_CHECK(embedding);
    struct tern_nd_shape shape;
    enum tern_status status = tern_array_shape(iterator->from[0], &shape);
    int64_t columns = 1;
    for (int i = 1; i < shape.n_dims && !status; i++)
        columns *= shape.dims[i];
    if (!status && (shape.type != TERN_ND_I64 || !n_columns || !batches ||
                    first + (int64_t)n_columns > columns))
        status = fail(TERN_INVALID,
                      "the ids must be columns of data of type i64 with %lld columns, and at least "
                      "one batch ahead",
                      (long long)columns);
    if (!status && iterator->n_ahead == AHEAD_MAX)
        status = fail(TERN_LIMIT, "an iterator looks ahead for at most %d embeddings", AHEAD_MAX);
    if (status)
        return status;
    if (!iterator->ids)
        iterator->ids = malloc(iterator->options.batch * (size_t)columns * sizeof *iterator->ids);
    if (!iterator->ids)
        return fail(TERN_NO_MEMORY, "there is no memory for the ids of a batch");
    iterator->ahead[iterator->n_ahead++] = (struct ahead){
        .embedding = embedding, .first = first, .n_columns = n_columns, .batches = batches};
    return TERN_OK;
}

/* Signals the ids of batch `number` of the epoch. */
static enum tern_status signal_batch(struct tern_iterator *iterator, const struct ahead *ahead,
                                     uint64_t number, uint64_t now)
{
    void *from;
    int64_t strides[TERN_ND_MAX_DIMS];
    size_t n = 0;
    enum tern_status status = tern_array_data(iterator->from[0], &from, strides);
    for (uint64_t i = 0; i < iterator->options.batch && !status; i++) {
        const uint64_t row =
            iterator->order[(number * iterator->options.batch + i) % iterator->n_rows];
        const int64_t *ids = (const int64_t *)from + (int64_t)row * strides[0] + ahead->first;
        for (int64_t k = 0; k < ahead->n_columns; k++)
            iterator->ids[n++] = ids[k];
    }
    return status ? status : embedding_intend(ahead->embedding, iterator->ids, n, number - now);
}

/* Signals what the next batches read, up to the end of the epoch. */
static enum tern_status look_ahead(struct tern_iterator *iterator)
{
    const uint64_t batch = iterator->options.batch, now = iterator->position / batch;
    const uint64_t n_batches = (iterator->n_rows + batch - 1) / batch;
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; i < iterator->n_ahead && !status; i++) {
        struct ahead *ahead = &iterator->ahead[i];
        const uint64_t last = now + ahead->batches < n_batches ? now + ahead->batches : n_batches;
        for (ahead->until = ahead->until < now ? now : ahead->until; ahead->until < last && !status;
             ahead->until++)
            status = signal_batch(iterator, ahead, ahead->until, now);
    }
    return status;
}

/* What was signalled belongs to another order. */
static void forget_ahead(struct tern_iterator *iterator)
{
    for (uint32_t i = 0; i < iterator->n_ahead; i++)
        iterator->ahead[i].until = 0;
}

enum tern_status tern_iterator_next(struct tern_iterator *iterator, struct tern_array **data,
                                    struct tern_array **labels, uint32_t *n)
{
    CHECK(iterator);
    if (!data || !labels || !n)
        return fail(TERN_INVALID, "a result is NULL");
    const uint64_t left = iterator->n_rows - iterator->position;
    const uint32_t batch = iterator->options.batch;
    if (!left || (iterator->options.drop_last && left < batch)) {
        *n = 0;
        iterator->position = 0;
        iterator->epoch++;
        make_order(iterator);
        forget_ahead(iterator);
        return TERN_OK;
    }
    enum tern_status status = look_ahead(iterator);
    if (!status)
        status = gather(iterator, 0);
    if (!status)
        status = gather(iterator, 1);
    if (status)
        return status;
    *n = left < batch ? (uint32_t)left : batch;
    iterator->position += *n;
    *data = iterator->batch[0];
    *labels = iterator->batch[1];
    return TERN_OK;
}

enum tern_status tern_iterator_tell(struct tern_iterator *iterator, uint64_t *epoch,
                                    uint64_t *position)
{
    CHECK(iterator);
    if (!epoch || !position)
        return fail(TERN_INVALID, "a result is NULL");
    *epoch = iterator->epoch;
    *position = iterator->position;
    return TERN_OK;
}

enum tern_status tern_iterator_seek(struct tern_iterator *iterator, uint64_t epoch,
                                    uint64_t position)
{
    CHECK(iterator);
    if (position > iterator->n_rows)
        return fail(TERN_RANGE, "the iterator has %llu rows, not %llu",
                    (unsigned long long)iterator->n_rows, (unsigned long long)position);
    iterator->epoch = epoch;
    iterator->position = position;
    make_order(iterator);
    forget_ahead(iterator);
    return TERN_OK;
}

/* ---- Training and testing ------------------------------------------------------------------------ */

enum tern_status tern_module_fit(struct tern_module *module, struct tern_iterator *iterator)
{
    MODULE_CHECK(module);
    CHECK(iterator);
    struct tern_array *inputs[2];
    uint32_t n = 0;
    enum tern_status status;
    while (!(status = tern_iterator_next(iterator, &inputs[0], &inputs[1], &n)) && n) {
        status = tern_module_forward(module, true, inputs, 2);
        if (!status)
            status = tern_module_backward(module);
        if (!status)
            status = tern_module_update(module);
        if (status)
            return status;
    }
    /* A failure of the last steps shall be told now. */
    for (uint32_t i = 0; i < module->n_parameters && !status; i++)
        status = nd_engine_wait(&module->parameters[i].storage->variable);
    return status;
}

/* Counts right answers among n rows of probabilities, and adds up the cross entropy. */
static enum tern_status count_right(struct tern_module *module, struct tern_array *labels,
                                    uint32_t n, uint64_t *n_right, double *loss)
{
    const struct spec *spec = &module->output.spec;
    struct tern_array *output = NULL, *as_numbers = NULL, *as_labels = NULL;
    void *numbers = NULL, *answers = NULL;
    if (spec->n_dims != 2)
        return fail(TERN_INVALID,
                    "a score needs an output of two dimensions, rows of probabilities");
    enum tern_status status = tern_module_output(module, &output);
    if (!status)
        status = tern_array_apply("cast", "type=f64", &output, 1, &as_numbers);
    if (!status)
        status = tern_array_apply("cast", "type=i64", &labels, 1, &as_labels);
    if (!status)
        status = tern_array_data(as_numbers, &numbers, NULL);
    if (!status)
        status = tern_array_data(as_labels, &answers, NULL);
    for (uint32_t i = 0; i < n && !status; i++) {
        const double *row = (const double *)numbers + i * spec->dims[1];
        const int64_t label = ((const int64_t *)answers)[i];
        int64_t best = 0;
        if (label < 0 || label >= spec->dims[1]) {
            status = fail(TERN_RANGE, "label %lld at place %u is not in 0 .. %lld",
                          (long long)label, i, (long long)spec->dims[1] - 1);
            break;
        }
        for (int64_t k = 1; k < spec->dims[1]; k++)
            best = row[k] > row[best] ? k : best;
        *n_right += best == label;
        *loss -= log(row[label] > 1e-30 ? row[label] : 1e-30);
    }
    struct tern_array *all[] = {output, as_numbers, as_labels};
    for (unsigned i = 0; i < 3; i++)
        if (all[i])
            (void)tern_array_close(all[i]);
    return status;
}

enum tern_status tern_module_score(struct tern_module *module, struct tern_iterator *iterator,
                                   double *accuracy, double *loss)
{
    MODULE_CHECK(module);
    CHECK(iterator);
    struct tern_array *inputs[2];
    uint32_t n = 0;
    uint64_t n_right = 0, n_rows = 0;
    double sum = 0;
    enum tern_status status;
    while (!(status = tern_iterator_next(iterator, &inputs[0], &inputs[1], &n)) && n) {
        status = tern_module_forward(module, false, inputs, 2);
        if (!status)
            status = count_right(module, inputs[1], n, &n_right, &sum);
        if (status)
            return status;
        n_rows += n;
    }
    if (!status && accuracy)
        *accuracy = (double)n_right / (double)n_rows;
    if (!status && loss)
        *loss = sum / (double)n_rows;
    return status;
}

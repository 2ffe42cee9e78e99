/* format - see format.h: IDX, npy, CIFAR-10 and text. */
#include "nd/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* ---- IDX: 0, 0, type, dimensions; each dimension as a big-endian u32; elements ------------------- */

static uint32_t get_be(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The elements must fill the rest of the bytes. */
static enum tern_status check_size(const struct elements *elements, size_t n)
{
    enum tern_status status = spec_check(&elements->spec);
    if (!status && spec_bytes(&elements->spec) != n - elements->offset)
        status = fail(TERN_INVALID, "the file has %zu bytes of elements, and its header says %zu",
                      n - elements->offset, spec_bytes(&elements->spec));
    return status;
}

enum tern_status format_idx(const uint8_t *bytes, size_t n, struct elements *elements)
{
    static const struct {
        uint8_t code;
        enum tern_nd_type type;
    } types[] = {{0x08, TERN_ND_U8}, {0x0c, TERN_ND_I32}, {0x0d, TERN_ND_F32}, {0x0e, TERN_ND_F64}};
    if (n < 4 || bytes[0] || bytes[1])
        return fail(TERN_INVALID,
                    "the file is not in the IDX format: it does not begin with two zeros");
    *elements = (struct elements){.spec.n_dims = -1, .is_big_endian = true};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].code == bytes[2]) {
            elements->spec.type = types[i].type;
            elements->spec.n_dims = bytes[3];
        }
    }
    if (elements->spec.n_dims < 0 || elements->spec.n_dims > SPEC_DIMS ||
        n < 4 + 4 * (size_t)bytes[3])
        return fail(
            TERN_INVALID,
            "the IDX file is cut off, or has a type (%u) or a number of dimensions (%u) that is "
            "not supported",
            bytes[2], bytes[3]);
    for (int i = 0; i < elements->spec.n_dims; i++)
        elements->spec.dims[i] = get_be(bytes + 4 + 4 * i);
    elements->offset = 4 + 4 * (size_t)bytes[3];
    return check_size(elements, n);
}

/* ---- CIFAR-10 ------------------------------------------------------------------------------------ */

enum tern_status format_cifar(const uint8_t *bytes, size_t n, size_t *n_images)
{
    const size_t record = 1 + FORMAT_CIFAR_IMAGE;
    if (!n || n % record)
        return fail(
            TERN_INVALID,
            "the file has %zu bytes, which is no multiple of %zu, a label and an image of CIFAR-10",
            n, record);
    for (size_t i = 0; i < n; i += record)
        if (bytes[i] > 9)
            return fail(TERN_INVALID,
                        "image %zu of the file has the label %u, which is not in 0 .. 9",
                        i / record, bytes[i]);
    *n_images = n / record;
    return TERN_OK;
}

/* ---- npy: a magic, a version, the length of a header, the header as a Python dict, elements ------ */

/* Behind `'key':` and blanks in the header; NULL if it is not there. */
static const char *find_key(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, " ");
    if (*at++ != ':')
        return NULL;
    return at + strspn(at, " ");
}

static bool read_shape(const char *at, struct spec *spec)
{
    if (!at || *at++ != '(')
        return false;
    for (;;) {
        at += strspn(at, " ,");
        if (*at == ')')
            return true;
        char *end;
        const unsigned long long n = strtoull(at, &end, 10);
        if (end == at || n > INT64_MAX || spec->n_dims == SPEC_DIMS || *at == '-')
            return false;
        spec->dims[spec->n_dims++] = (int64_t)n;
        at = end;
    }
}

static enum tern_status read_header(const char *header, struct spec *spec)
{
    static const struct {
        const char *code;
        enum tern_nd_type type;
    } types[] = {{"'<f4'", TERN_ND_F32}, {"'<f8'", TERN_ND_F64}, {"'<i4'", TERN_ND_I32},
                 {"'<i8'", TERN_ND_I64}, {"'|u1'", TERN_ND_U8},  {"'|b1'", TERN_ND_U8}};
    const char *type = find_key(header, "'descr'"), *order = find_key(header, "'fortran_order'");
    bool known = false;
    *spec = (struct spec){0};
    for (size_t i = 0; type && i < sizeof types / sizeof types[0]; i++) {
        if (!strncmp(type, types[i].code, strlen(types[i].code))) {
            spec->type = types[i].type;
            known = true;
        }
    }
    if (!known)
        return fail(TERN_INVALID,
                    "the npy file has a type other than <f4, <f8, <i4, <i8, |u1 and |b1");
    if (!order || strncmp(order, "False", 5) != 0)
        return fail(TERN_INVALID, "the npy file is in Fortran's order, which is not supported");
    if (!read_shape(find_key(header, "'shape'"), spec))
        return fail(TERN_INVALID, "the npy file has no shape of at most %d dimensions", SPEC_DIMS);
    return TERN_OK;
}

enum tern_status format_npy(const uint8_t *bytes, size_t n, struct elements *elements)
{
    if (n < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3 ||
        (bytes[6] > 1 && n < 12))
        return fail(TERN_INVALID, "the file is not in the npy format, version 1 to 3");
    const size_t prefix = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1)
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    char header[4096];
    if (length >= sizeof header || length > n - prefix)
        return fail(TERN_INVALID,
                    "the header of the npy file is cut off or longer than 4095 bytes");
    memcpy(header, bytes + prefix, length);
    header[length] = 0;
    *elements = (struct elements){.offset = prefix + length};
    enum tern_status status = read_header(header, &elements->spec);
    return status ? status : check_size(elements, n);
}

/* ---- Text ---------------------------------------------------------------------------------------- */

/* A line of text, copied so that it ends in 0. */
struct line {
    char *text;
    size_t number;
};

/* Reads the number at *at; false if there is none. */
static bool read_number(const char **at, float *number)
{
    char *end;
    *number = strtof(*at, &end);
    if (end == *at)
        return false;
    *at = end;
    return true;
}

/* Appends the numbers of a row; *n gets how many. False: what is there is no number, or memory ran out. */
static bool read_row(const char *at, struct buffer *numbers, int64_t *n)
{
    static const char separators[] = ",; \t\r";
    *n = 0;
    for (at += strspn(at, separators); *at; at += strspn(at, separators)) {
        float number;
        if (!read_number(&at, &number) || !buffer_append(numbers, &number, sizeof number))
            return false;
        ++*n;
    }
    return true;
}

/* Calls `row` with each line that is not blank. */
static enum tern_status each_line(const char *text, size_t n,
                                  enum tern_status (*row)(void *context, struct line line),
                                  void *context)
{
    enum tern_status status = TERN_OK;
    struct buffer copy = {0};
    for (size_t number = 1; n && !status; number++) {
        const char *end = memchr(text, '\n', n);
        const size_t length = end ? (size_t)(end - text) : n;
        copy.begin = copy.end = 0;
        if (!buffer_append(&copy, text, length) || !buffer_append(&copy, "", 1))
            status = fail(TERN_NO_MEMORY, "there is no memory for a line of %zu bytes", length);
        else if (strspn((char *)copy.bytes, " \t\r") != length)
            status = row(context, (struct line){(char *)copy.bytes, number});
        text += length + (end != NULL);
        n -= length + (end != NULL);
    }
    buffer_free(&copy);
    return status;
}

struct table {
    struct spec *spec;
    struct buffer *numbers, *labels;
    int64_t n_columns, n_rows;
};

static enum tern_status csv_row(void *context, struct line line)
{
    struct table *table = context;
    int64_t n;
    const size_t before = table->numbers->end;
    if (!read_row(line.text, table->numbers, &n)) {
        /* A heading. */
        table->numbers->end = before;
        return line.number == 1
                   ? TERN_OK
                   : fail(TERN_INVALID, "line %zu has something that is no number", line.number);
    }
    if (table->n_rows && n != table->n_columns)
        return fail(TERN_INVALID, "line %zu has %lld numbers, the first row %lld", line.number,
                    (long long)n, (long long)table->n_columns);
    table->n_columns = n;
    table->n_rows++;
    return TERN_OK;
}

enum tern_status format_csv(const char *text, size_t n, struct spec *spec, struct buffer *numbers)
{
    struct table table = {.spec = spec, .numbers = numbers};
    enum tern_status status = each_line(text, n, csv_row, &table);
    if (!status && !table.n_rows)
        status = fail(TERN_INVALID, "the text has no row of numbers");
    *spec =
        (struct spec){.type = TERN_ND_F32, .n_dims = 2, .dims = {table.n_rows, table.n_columns}};
    return status ? status : spec_check(spec);
}

/* Reads " index:value"; false at the end of the line or if it is wrong, which *wrong says. */
static bool read_pair(const char **at, int64_t *index, float *value, bool *wrong)
{
    *at += strspn(*at, " \t\r");
    if (!**at || **at == '#')
        return false;
    char *end;
    const long long number = strtoll(*at, &end, 10);
    *wrong = end == *at || *end != ':' || number < 1 || number > FORMAT_MAX_COLUMNS;
    if (*wrong)
        return false;
    *index = number - 1;
    *at = end + 1;
    *wrong = !read_number(at, value);
    return !*wrong;
}

/* The first time for the number of columns, then for the values. */
static enum tern_status libsvm_row(void *context, struct line line)
{
    struct table *table = context;
    const char *at = line.text + strspn(line.text, " \t\r");
    float label, value;
    int64_t index;
    bool wrong = *at != '#' && !read_number(&at, &label);
    if (*at == '#')
        return TERN_OK;
    if (!wrong && table->labels && !buffer_append(table->labels, &label, sizeof label))
        return fail(TERN_NO_MEMORY, "there is no memory for the labels");
    float *row = table->labels
                     ? (float *)buffer_head(table->numbers) + table->n_rows * table->n_columns
                     : NULL;
    while (!wrong && read_pair(&at, &index, &value, &wrong)) {
        if (row)
            row[index] = value;
        else if (index >= table->n_columns)
            table->n_columns = index + 1;
    }
    table->n_rows++;
    return wrong
               ? fail(
                     TERN_INVALID,
                     "line %zu is not of the form label index:value ..., with indices from 1 to %d",
                     line.number, FORMAT_MAX_COLUMNS)
               : TERN_OK;
}

enum tern_status format_libsvm(const char *text, size_t n, struct spec *spec,
                               struct buffer *numbers, struct buffer *labels)
{
    struct table table = {.numbers = numbers};
    enum tern_status status = each_line(text, n, libsvm_row, &table);
    if (!status && (!table.n_rows || !table.n_columns))
        status = fail(TERN_INVALID, "the text has no examples");
    *spec =
        (struct spec){.type = TERN_ND_F32, .n_dims = 2, .dims = {table.n_rows, table.n_columns}};
    if (!status)
        status = spec_check(spec);
    if (status)
        return status;
    uint8_t *room = buffer_reserve(numbers, spec_bytes(spec));
    if (!room)
        return fail(TERN_NO_MEMORY, "there is no memory for %zu bytes of examples",
                    spec_bytes(spec));
    memset(room, 0, spec_bytes(spec));
    numbers->end += spec_bytes(spec);
    table.labels = labels;
    table.n_rows = 0;
    return each_line(text, n, libsvm_row, &table);
}

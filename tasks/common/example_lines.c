/* example_lines - numbers, and lines of libsvm, libffm and Vowpal Wabbit. See example_lines.h. */
#include "common/example_lines.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/sentence.h"

enum {
    SHOWN_BYTES = 40,
    NAME_MAX_BYTES = 1024,
    MAX_RUN = 16
}; /* of a field that is wrong; of a feature's name */

bool example_fail(const struct example_line *line, const char *format, ...)
{
    char sentence[512];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    return task_fail("%s:%llu: %s", line->path, (unsigned long long)line->number, sentence);
}

uint64_t examples_hash(const char *text, size_t length, uint64_t seed)
{
    return XXH3_64bits_withSeed(text, length, seed);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_spaces(const char *at, const char *end)
{
    while (at < end && is_space(*at))
        at++;
    return at;
}

static const char *token_end(const char *at, const char *end)
{
    while (at < end && !is_space(*at))
        at++;
    return at;
}

/* How much of a token to show. */
static int shown(const char *at, const char *end)
{
    return end - at < SHOWN_BYTES ? (int)(end - at) : SHOWN_BYTES;
}

bool example_name(const struct example_line *line, const struct example_piece *pieces, size_t n)
{
    char name[NAME_MAX_BYTES];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t room = sizeof name - length;
        const size_t taken = pieces[i].length < room ? pieces[i].length : room;
        memcpy(name + length, pieces[i].text, taken);
        length += taken;
    }
    return line->options->namer(line->options->namer_context,
                                line->out->keys[line->out->n_features - 1], name, length);
}

/* ---- Numbers ---------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool example_whole(const char **at, const char *end, uint64_t *number)
{
    const char *from = *at;
    uint64_t value = 0;
    for (; from < end && is_digit(*from); from++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*from - '0'), &value))
            return false;
    if (from == *at)
        return false;
    *number = value;
    *at = from;
    return true;
}

/* A decimal number: (-1)^sign * mantissa * 10^exponent, exactly, unless digits were left out. */
struct decimal {
    bool is_negative, is_exact;
    uint64_t mantissa;
    int exponent;
};

static const char *read_digits(const char *at, const char *end, bool is_fraction,
                               struct decimal *decimal)
{
    for (; at < end && is_digit(*at); at++) {
        if (decimal->mantissa >= UINT64_C(1) << 53) {
            decimal->is_exact = false;
            continue;
        }
        decimal->mantissa = 10 * decimal->mantissa + (uint64_t)(*at - '0');
        decimal->exponent -= is_fraction;
    }
    return at;
}

/* The part behind e; a letter that no digits follow is not taken for one. */
static const char *read_exponent(const char *at, const char *end, struct decimal *decimal)
{
    enum { MAX_EXPONENT = 100000 };
    const char *from = at + 1;
    if (at == end || (*at != 'e' && *at != 'E'))
        return at;
    bool is_negative = from < end && *from == '-';
    from += from < end && (*from == '-' || *from == '+');
    if (from == end || !is_digit(*from))
        return at;
    int exponent = 0;
    for (; from < end && is_digit(*from); from++)
        exponent = exponent < MAX_EXPONENT ? 10 * exponent + (*from - '0') : exponent;
    decimal->exponent += is_negative ? -exponent : exponent;
    return from;
}

/* What the library makes of a number that has too many digits for the fast way. */
static double convert(const char *at, const char *end)
{
    char text[512];
    size_t length = (size_t)(end - at) < sizeof text ? (size_t)(end - at) : sizeof text - 1;
    memcpy(text, at, length);
    text[length] = '\0';
    return strtod(text, NULL);
}

bool example_real(const char **at, const char *end, double *number)
{
    /* A double holds these powers and mantissas below 2^53 exactly, so one operation rounds once. */
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    enum { MAX_POWER = sizeof powers / sizeof *powers - 1 };
    struct decimal decimal = {.is_exact = true};
    const char *from = *at;
    decimal.is_negative = from < end && *from == '-';
    from += from < end && (*from == '-' || *from == '+');
    const char *whole = from, *dot = read_digits(from, end, false, &decimal);
    from = dot;
    if (from < end && *from == '.')
        from = read_digits(from + 1, end, true, &decimal);
    if (from - whole == (dot < end && *dot == '.' ? 1 : 0))
        return false;
    from = read_exponent(from, end, &decimal);
    double value;
    if (!decimal.is_exact || decimal.mantissa > UINT64_C(1) << 53 || decimal.exponent > MAX_POWER ||
        decimal.exponent < -MAX_POWER)
        value = fabs(convert(*at, from));
    else
        value = decimal.exponent < 0 ? (double)decimal.mantissa / powers[-decimal.exponent]
                                     : (double)decimal.mantissa * powers[decimal.exponent];
    if (!(value <= (double)FLT_MAX))
        return false;
    *number = decimal.is_negative ? -value : value;
    *at = from;
    return true;
}

/* ---- libsvm and libffm ------------------------------------------------------------------------ */

/* "label" or "label:weight". */
static bool read_label(const struct example_line *line, const char *at, const char *end,
                       double *label, double *weight)
{
    const char *from = at;
    *weight = 1;
    if (example_real(&at, end, label) &&
        (at == end ||
         (*at++ == ':' && example_real(&at, end, weight) && at == end && *weight >= 0)))
        return true;
    return example_fail(line, "'%.*s' is no label: it must be a number, or number:weight",
                        shown(from, end), from);
}

static bool is_query(const char *at, const char *end)
{
    return end - at >= 4 && memcmp(at, "qid:", 4) == 0;
}

/* "index:value", or "field:index:value". */
static bool read_pair(const struct example_line *line, const char *at, const char *end,
                      bool has_field)
{
    const char *from = at;
    uint64_t field = 0, index;
    double value;
    bool ok = !has_field ||
              (example_whole(&at, end, &field) && at < end && *at++ == ':' && field <= UINT32_MAX);
    if (!ok || !example_whole(&at, end, &index) || at == end || *at++ != ':' ||
        !example_real(&at, end, &value) || at != end)
        return example_fail(line,
                            "'%.*s' is no feature: it must be %sindex:value, an index below "
                            "2^64 and a finite value",
                            shown(from, end), from, has_field ? "field:" : "");
    if (index < line->options->first_index)
        return example_fail(line, "the index %llu is below the first index, which is %llu",
                            (unsigned long long)index,
                            (unsigned long long)line->options->first_index);
    return example_add(line, index, value, (uint32_t)field);
}

static bool read_pairs(const struct example_line *line, const char *at, const char *end,
                       bool has_field)
{
    double label, weight;
    const char *comment = memchr(at, '#', (size_t)(end - at));
    end = comment != NULL ? comment : end;
    at = skip_spaces(at, end);
    if (at == end)
        return true;
    const char *stop = token_end(at, end);
    if (!read_label(line, at, stop, &label, &weight))
        return false;
    for (at = skip_spaces(stop, end); at < end; at = skip_spaces(stop, end)) {
        stop = token_end(at, end);
        if (!is_query(at, stop) && !read_pair(line, at, stop, has_field))
            return false;
    }
    return example_end(line, label, weight);
}

bool example_libsvm(const struct example_line *line, const char *at, const char *end)
{
    return read_pairs(line, at, end, false);
}

bool example_libffm(const struct example_line *line, const char *at, const char *end)
{
    return read_pairs(line, at, end, true);
}

/* ---- Vowpal Wabbit ---------------------------------------------------------------------------- */

/* Label and importance, which may be absent, and a tag, which begins with ' or ends at the bar. */
static bool read_head(const struct example_line *line, const char *at, const char *bar,
                      double *label, double *weight)
{
    double numbers[3] = {(double)NAN, 1, 0};
    size_t n = 0;
    for (at = skip_spaces(at, bar); at < bar; at = skip_spaces(at, bar)) {
        const char *from = at, *stop = token_end(at, bar);
        at = stop;
        if (*from == '\'' || (stop == bar && n > 0))
            continue;
        if (n == 3 || !example_real(&from, stop, &numbers[n]) || from != stop ||
            (n == 1 && numbers[1] < 0)) {
            if (stop == bar)
                continue;
            return example_fail(line, "'%.*s' is no label or importance", shown(from, stop), from);
        }
        n++;
    }
    *label = numbers[0];
    *weight = numbers[1];
    return true;
}

/* The name before a colon, and the number behind it, which is 1 where there is none. */
static bool read_name(const struct example_line *line, const char *at, const char *end,
                      const char **name_end, double *value)
{
    const char *colon = memchr(at, ':', (size_t)(end - at)), *from = colon + 1;
    *value = 1;
    *name_end = colon != NULL ? colon : end;
    if (colon != NULL && (!example_real(&from, end, value) || from != end))
        return example_fail(line, "'%.*s' does not end with a finite number", shown(at, end), at);
    return true;
}

/* A name of digits alone counts from the namespace on, as an index; others are hashed. */
static uint64_t key_in(uint64_t space, const char *at, const char *end)
{
    const char *from = at;
    uint64_t number;
    if (example_whole(&from, end, &number) && from == end)
        return space + number;
    return examples_hash(at, (size_t)(end - at), space);
}

/* Names of a namespace, for the namer: those of `at .. end`, behind the name of the namespace. */
struct names_text {
    struct example_piece space; /* empty: the namespace without a name */
    const char *at, *end;
};

/* Names the feature that was added last: a run of n names from `at` on, without their values. */
static bool name_run(const struct example_line *line, const struct names_text *text, const char *at,
                     size_t n)
{
    struct example_piece pieces[2 * MAX_RUN + 2];
    size_t used = 0;
    if (line->options->namer == NULL)
        return true;
    if (text->space.length > 0)
        pieces[used++] = text->space;
    for (size_t i = 0; i < n && i < MAX_RUN; i++) {
        const char *stop = token_end(at, text->end);
        const char *colon = memchr(at, ':', (size_t)(stop - at));
        if (used > 0)
            pieces[used++] = (struct example_piece){"^", 1};
        pieces[used++] = (struct example_piece){at, (size_t)((colon != NULL ? colon : stop) - at)};
        at = skip_spaces(stop, text->end);
    }
    return example_name(line, pieces, used);
}

/* Adds runs of 2, 3 ... names that follow each other. */
static bool add_runs(const struct example_line *line, const struct names_text *text, size_t first,
                     uint32_t field)
{
    static const uint64_t FACTOR = UINT64_C(0x9e3779b97f4a7c15);
    struct examples *out = line->out;
    const size_t n = out->n_features - first;
    for (size_t length = 2; length <= line->options->n_grams; length++) {
        const char *at = text->at;
        for (size_t i = 0; i + length <= n; i++) {
            uint64_t key = out->keys[first + i];
            for (size_t j = 1; j < length; j++)
                key = (key + 1) * FACTOR + out->keys[first + i + j];
            if (!example_add(line, key, 1, field) || !name_run(line, text, at, length))
                return false;
            if (line->options->namer != NULL)
                at = skip_spaces(token_end(at, text->end), text->end);
        }
    }
    return true;
}

/* What stands between two bars: a namespace, unless a blank follows the bar, and names. */
static bool read_namespace(const struct example_line *line, const char *at, const char *end)
{
    uint64_t space = 0;
    uint32_t field = ' ';
    double scale = 1, value;
    struct names_text text = {.end = end};
    const size_t first = line->out->n_features;
    const char *name_end, *stop = token_end(at, end);
    if (stop > at) {
        if (!read_name(line, at, stop, &name_end, &scale))
            return false;
        text.space = (struct example_piece){at, (size_t)(name_end - at)};
        space = examples_hash(at, (size_t)(name_end - at), 0);
        field = (unsigned char)*at;
    }
    text.at = skip_spaces(stop, end);
    for (at = text.at; at < end; at = skip_spaces(stop, end)) {
        stop = token_end(at, end);
        if (!read_name(line, at, stop, &name_end, &value) ||
            !example_add(line, key_in(space, at, name_end), scale * value, field) ||
            !name_run(line, &text, at, 1))
            return false;
    }
    return add_runs(line, &text, first, field);
}

bool example_vw(const struct example_line *line, const char *at, const char *end)
{
    double label = (double)NAN, weight = 1;
    if (skip_spaces(at, end) == end)
        return true;
    const char *bar = memchr(at, '|', (size_t)(end - at));
    if (bar == NULL)
        return example_fail(line, "there is no | before the features");
    if (!read_head(line, at, bar, &label, &weight))
        return false;
    while (bar < end) {
        at = bar + 1;
        bar = memchr(at, '|', (size_t)(end - at));
        bar = bar != NULL ? bar : end;
        if (!read_namespace(line, at, bar))
            return false;
    }
    return example_end(line, label, weight);
}

/* ---- Which format ----------------------------------------------------------------------------- */

static size_t count(const char *at, const char *end, char c)
{
    size_t n = 0;
    for (; at < end; at++)
        n += *at == c;
    return n;
}

/* How many colons the first feature has; 1 when there is no feature. */
static size_t colons_of_pair(const char *at, const char *end)
{
    at = skip_spaces(token_end(skip_spaces(at, end), end), end);
    const char *stop = token_end(at, end);
    while (at < end && is_query(at, stop)) {
        at = skip_spaces(stop, end);
        stop = token_end(at, end);
    }
    return at == end || *at == '#' ? 1 : count(at, stop, ':');
}

enum examples_format example_detect(const char *at, const char *end)
{
    enum { CRITEO_TABS = 39 };
    const char *from = at;
    double label;
    bool begins_with_number = example_real(&from, end, &label);
    if (begins_with_number && count(at, end, '\t') == CRITEO_TABS && *from == '\t')
        return EXAMPLES_CRITEO;
    if (count(at, end, '|') > 0)
        return EXAMPLES_VW;
    if (begins_with_number && colons_of_pair(at, end) == 1)
        return EXAMPLES_LIBSVM;
    if (begins_with_number && colons_of_pair(at, end) == 2)
        return EXAMPLES_LIBFFM;
    if (begins_with_number || *at == '#')
        return EXAMPLES_LIBSVM;
    return count(at, end, '\t') > 0 ? EXAMPLES_TSV : EXAMPLES_CSV;
}

/*
 * pack - see pack.h.
 *
 * The first byte of a section is its kind and its form. A section whose items are not as long as its kind and the table
 * say is VERBATIM: keys, and behind them the rest of each item as it is. So a kind that this file does not know travels
 * as well, only longer.
 */
#include "wire/pack.h"

#include <string.h>

#include "wire/frame.h"
#include "wire/number.h"
#include "wire/section.h"

enum { SLACK_BYTES = 64 }; /* over which the last numbers may scribble */

enum form {
    FORM_SAME = 0x20, /* all items have the location of the first */
    FORM_RAW = 0x40,  /* keys have 8 bytes each */
    FORM_VERBATIM =
        0x80, /* a number follows the count: bytes of an item without its key, divided by 8 */
    FORM_KINDS = 0x20,
};

_Static_assert((int)SECTION_KINDS <= (int)FORM_KINDS, "a kind and its form share a byte");

/* What items of a kind have behind their key. */
struct layout {
    bool has_location;
    size_t value_bytes, state_bytes;
    size_t item_bytes; /* unpacked; 0: there is no such layout */
};

static struct layout layout_of(const struct pack_shape *shape, unsigned kind)
{
    struct layout layout = {0};
    switch (kind) {
    case SECTION_MAINS:
        layout.state_bytes = shape->state_bytes;
        layout.value_bytes = shape->value_bytes;
        layout.has_location = true;
        break;
    case SECTION_COPIES:
        layout.value_bytes = shape->value_bytes;
        layout.has_location = true;
        break;
    case SECTION_DELTAS:
    case SECTION_VALUES:
        layout.value_bytes = shape->value_bytes;
        break;
    case SECTION_LOCATED:
    case SECTION_AWAY_DELTAS:
    case SECTION_AWAY_ASKS:
        layout.has_location = true;
        break;
    case SECTION_ASKS:
    case SECTION_FETCHES:
    case SECTION_ENDS:
    case SECTION_DROPPED:
        break;
    default:
        return layout;
    }
    layout.item_bytes = 8 + 8 * (size_t)layout.has_location + section_padded(layout.value_bytes) +
                        section_padded(layout.state_bytes);
    return layout;
}

/* ---- Packing ------------------------------------------------------------------------------------- */

/* Differences, unless 8 bytes for each key are fewer. */
static uint8_t *put_keys(const struct section *section, uint8_t *out, uint8_t *form)
{
    uint8_t *const begin = out;
    uint64_t previous = 0;
    for (uint32_t i = 0; i < section->count; i++) {
        const uint64_t key = section_get(section->items + i * section->item_bytes);
        out = number_put(number_fold(key - previous), out);
        previous = key;
    }
    if ((size_t)(out - begin) <= 8 * (size_t)section->count)
        return out;
    *form |= FORM_RAW;
    for (uint32_t i = 0; i < section->count; i++)
        put_u64(begin + 8 * (size_t)i, section_get(section->items + i * section->item_bytes));
    return begin + 8 * (size_t)section->count;
}

static uint8_t *put_locations(const struct section *section, uint8_t *out, uint8_t *form)
{
    const uint8_t *at = section->items + 8;
    bool same = section->count > 0;
    for (uint32_t i = 1; same && i < section->count; i++)
        same = section_get(at + i * section->item_bytes) == section_get(at);
    *form |= same ? FORM_SAME : 0;
    uint64_t previous = 0;
    for (uint32_t i = 0; i < (same ? 1 : section->count); i++, at += section->item_bytes) {
        out = number_put(number_fold(section_get(at) - previous), out);
        previous = section_get(at);
    }
    return out;
}

/* One part of all items, which are `stride` apart, without what pads it. */
static uint8_t *put_column(const uint8_t *from, uint32_t count, size_t stride, size_t bytes,
                           uint8_t *out)
{
    for (uint32_t i = 0; i < count; i++, from += stride, out += bytes)
        memcpy(out, from, bytes);
    return out;
}

/* Whether the values of a section are filtered. */
static bool is_filtered(const struct pack_shape *shape, const struct section *section)
{
    const struct layout layout = layout_of(shape, section->kind);
    return shape->filters && filters_rows(shape->filters) && layout.value_bytes &&
           section->item_bytes == layout.item_bytes;
}

/* The scratch that the filters need for a section. */
static size_t scratch_bytes(const struct pack_shape *shape, const struct section *section)
{
    const size_t n = section->count, bytes = shape->value_bytes;
    return is_filtered(shape, section) ? n * bytes + filter_max_bytes(n, bytes) +
                                             filter_scratch_bytes(shape->filters, n, bytes)
                                       : 0;
}

/* Values as a number, how many bytes they take, and these. */
static uint8_t *put_filtered(const struct pack_shape *shape, const uint8_t *from, uint32_t count,
                             size_t stride, uint8_t *scratch, struct filter_saved *saved,
                             uint8_t *out)
{
    uint8_t *const coded = put_column(from, count, stride, shape->value_bytes, scratch);
    uint8_t *const more = coded + filter_max_bytes(count, shape->value_bytes);
    const size_t bytes =
        filter_encode_exact(shape->filters, &shape->rows, scratch, count, coded, more, saved);
    out = number_put(bytes, out);
    memcpy(out, coded, bytes);
    return out + bytes;
}

/* Numbers that are often the two largest, which stand for "none": these become the smallest. */
static uint8_t *put_words(const uint8_t *item, size_t bytes, uint8_t *out)
{
    for (size_t i = 0; i < bytes / 8; i++)
        out = number_put(section_get(item + 8 * i) + 2, out);
    return out;
}

static uint8_t *pack(const struct pack_shape *shape, const struct section *section,
                     uint8_t *scratch, struct filter_saved *saved, uint8_t *out)
{
    const struct layout layout = layout_of(shape, section->kind);
    uint8_t *const head = out++;
    uint8_t form = 0;
    out = number_put(section->count, out);
    if (section->kind == SECTION_CLOCKS && section->count == 1) {
        *head = (uint8_t)section->kind;
        return put_words(section->items, section->item_bytes,
                         number_put(section->item_bytes / 8, out));
    }
    const bool verbatim = section->item_bytes != layout.item_bytes;
    if (verbatim) {
        form |= FORM_VERBATIM;
        out = number_put((section->item_bytes - 8) / 8, out);
    }
    out = put_keys(section, out, &form);
    const uint8_t *part = section->items + 8;
    if (verbatim) {
        out = put_column(part, section->count, section->item_bytes, section->item_bytes - 8, out);
    } else {
        if (layout.has_location)
            out = put_locations(section, out, &form);
        part += 8 * (size_t)layout.has_location;
        out = is_filtered(shape, section)
                  ? put_filtered(shape, part, section->count, section->item_bytes, scratch, saved,
                                 out)
                  : put_column(part, section->count, section->item_bytes, layout.value_bytes, out);
        part += section_padded(layout.value_bytes);
        out = put_column(part, section->count, section->item_bytes, layout.state_bytes, out);
    }
    *head = (uint8_t)(section->kind | form);
    return out;
}

bool pack_sections(const struct pack_shape *shape, const uint8_t *plain, size_t bytes,
                   struct buffer *out)
{
    struct section section;
    struct filter_saved saved = {0};
    size_t next = 0, most = 0;
    bool wrong;
    while (shape->filters && section_next(plain, bytes, &next, &section, &wrong))
        most = scratch_bytes(shape, &section) > most ? scratch_bytes(shape, &section) : most;
    /* Keys may take 10 bytes before they are found to be shorter raw; an item has at least 8. */
    const size_t room = bytes + bytes / 4 + SLACK_BYTES;
    uint8_t *at = buffer_reserve(out, room + most);
    if (!at)
        return false;
    uint8_t *const begin = at;
    next = 0;
    while (section_next(plain, bytes, &next, &section, &wrong))
        at = pack(shape, &section, begin + room, &saved, at);
    out->end += (size_t)(at - begin);
    if (shape->counts)
        filter_count(shape->counts, &saved);
    return true;
}

/* ---- Unpacking ----------------------------------------------------------------------------------- */

/* Bytes that are read, and whether they made sense so far. */
struct reader {
    const uint8_t *at, *end;
    bool wrong;
};

static uint64_t get(struct reader *reader)
{
    uint64_t number = 0;
    const uint8_t *next = reader->wrong ? NULL : number_get(reader->at, reader->end, &number);
    reader->wrong = !next;
    if (next)
        reader->at = next;
    return next ? number : 0;
}

/* The next n bytes; NULL if there are not as many. */
static const uint8_t *get_bytes(struct reader *reader, size_t n)
{
    reader->wrong |= n > (size_t)(reader->end - reader->at);
    const uint8_t *bytes = reader->at;
    reader->at += reader->wrong ? 0 : n;
    return reader->wrong ? NULL : bytes;
}

static void get_keys(struct reader *reader, const struct section *section, bool raw, uint8_t *items)
{
    const uint8_t *bytes = raw ? get_bytes(reader, 8 * (size_t)section->count) : NULL;
    uint64_t key = 0;
    for (uint32_t i = 0; !reader->wrong && i < section->count; i++) {
        key = raw ? get_u64(bytes + 8 * (size_t)i) : key + number_unfold(get(reader));
        section_put(items + i * section->item_bytes, key);
    }
}

static void get_locations(struct reader *reader, const struct section *section, bool same,
                          uint8_t *items)
{
    uint64_t location = 0;
    for (uint32_t i = 0; !reader->wrong && i < section->count; i++) {
        if (i == 0 || !same)
            location += number_unfold(get(reader));
        section_put(items + i * section->item_bytes, location);
    }
}

/* A part of all items, with the zeros that pad it. */
static void get_column(struct reader *reader, const struct section *section, size_t bytes,
                       uint8_t *items)
{
    const uint8_t *from = get_bytes(reader, section->count * bytes);
    const size_t padding = section_padded(bytes) - bytes;
    for (uint32_t i = 0; from && bytes && i < section->count; i++) {
        memcpy(items, from, bytes);
        memset(items + bytes, 0, padding);
        from += bytes;
        items += section->item_bytes;
    }
}

/* The values of all items, as put_filtered wrote them, with the zeros that pad them. */
static void get_filtered(struct reader *reader, const struct pack_shape *shape,
                         const struct section *section, uint8_t *scratch, uint8_t *items)
{
    const uint64_t bytes = get(reader);
    const uint8_t *coded = get_bytes(reader, bytes);
    uint8_t *const more = scratch + section->count * shape->value_bytes;
    reader->wrong |= !coded || !filter_decode(shape->filters, &shape->rows, coded, bytes,
                                              section->count, more, scratch);
    struct reader rows = {.at = scratch, .end = more, .wrong = reader->wrong};
    get_column(&rows, section, shape->value_bytes, items);
}

/* Reads what is in front of the keys. */
static struct section get_head(struct reader *reader, const struct pack_shape *shape,
                               unsigned *form)
{
    const uint8_t *head = get_bytes(reader, 1);
    const unsigned kind = head ? *head % FORM_KINDS : 0;
    struct section section = {.kind = (enum section_kind)kind};
    *form = head ? *head & ~(FORM_KINDS - 1U) : 0;
    const uint64_t count = get(reader);
    uint64_t words = 0;
    const size_t usual_bytes = layout_of(shape, kind).item_bytes;
    section.item_bytes = usual_bytes;
    if (kind == SECTION_CLOCKS && count == 1 && !*form) {
        words = get(reader);
        section.item_bytes = 8 * words;
    } else if (*form & FORM_VERBATIM) {
        words = get(reader) + 1;
        section.item_bytes = 8 * words;
        reader->wrong |= section.item_bytes == usual_bytes; /* no sender writes these verbatim */
    }
    section.count = (uint32_t)count;
    reader->wrong |= kind < SECTION_DELTAS || kind >= SECTION_KINDS || !count ||
                     count > FRAME_MAX_KEYS || words > FRAME_MAX_BODY_BYTES / 8 ||
                     section.item_bytes < 8;
    return section;
}

static void unpack(struct reader *reader, const struct pack_shape *shape,
                   const struct section *section, unsigned form, uint8_t *scratch, uint8_t *items)
{
    const struct layout layout = layout_of(shape, section->kind);
    if (section->kind == SECTION_CLOCKS && !form && section->count == 1) {
        for (size_t i = 0; !reader->wrong && i < section->item_bytes / 8; i++)
            section_put(items + 8 * i, get(reader) - 2);
        return;
    }
    get_keys(reader, section, form & FORM_RAW, items);
    if (form & FORM_VERBATIM) {
        get_column(reader, section, section->item_bytes - 8, items + 8);
        return;
    }
    items += 8;
    if (layout.has_location) {
        get_locations(reader, section, form & FORM_SAME, items);
        items += 8;
    }
    if (is_filtered(shape, section))
        get_filtered(reader, shape, section, scratch, items);
    else
        get_column(reader, section, layout.value_bytes, items);
    get_column(reader, section, layout.state_bytes, items + section_padded(layout.value_bytes));
}

enum tern_status unpack_sections(const struct pack_shape *shape, const uint8_t *in, size_t bytes,
                                 struct buffer *out)
{
    struct reader reader = {.at = in, .end = in + bytes};
    size_t left = FRAME_MAX_BODY_BYTES;
    while (reader.at != reader.end && !reader.wrong) {
        unsigned form;
        const struct section section = get_head(&reader, shape, &form);
        /* No memory is reserved for more than the bytes can hold: a key takes one at least. */
        reader.wrong |= section.count > (size_t)(reader.end - reader.at) ||
                        SECTION_HEADER_BYTES > left ||
                        section.count * section.item_bytes > left - SECTION_HEADER_BYTES;
        if (reader.wrong)
            break;
        const size_t size = SECTION_HEADER_BYTES + section.count * section.item_bytes;
        uint8_t *to = buffer_reserve(out, size + scratch_bytes(shape, &section));
        if (!to)
            return fail(TERN_NO_MEMORY, "no memory for the message of a round");
        section_write(to, section.kind, section.count, section.item_bytes);
        unpack(&reader, shape, &section, form, to + size, to + SECTION_HEADER_BYTES);
        out->end += size;
        left -= size;
    }
    if (reader.wrong || reader.at != reader.end)
        return fail(TERN_INVALID, "the message of a round cannot be unpacked");
    return TERN_OK;
}

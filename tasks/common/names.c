/* names - strings numbered in the order they are met. See names.h. */
#include "common/names.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/input.h"
#include "common/sentence.h"

enum { FIRST_SLOTS = 1024 };

void names_fini(struct names *names)
{
    free(names->start);
    free(names->text);
    free(names->slots);
    *names = (struct names){0};
}

const char *names_at(const struct names *names, uint32_t number)
{
    return names->text + names->start[number];
}

static bool equals(const struct names *names, uint32_t number, const char *text, size_t length)
{
    const char *own = names_at(names, number);
    uint64_t end = number + 1 < names->n ? names->start[number + 1] : names->text_bytes;
    return end - names->start[number] - 1 == length && memcmp(own, text, length) == 0;
}

/* The slot that has the string, or the free one where it belongs. */
static uint32_t *find_slot(const struct names *names, const char *text, size_t length)
{
    uint32_t mask = names->n_slots - 1;
    uint32_t at = (uint32_t)XXH3_64bits(text, length) & mask;
    while (names->slots[at] != NAMES_NONE && !equals(names, names->slots[at], text, length))
        at = (at + 1) & mask;
    return &names->slots[at];
}

uint32_t names_find(const struct names *names, const char *text, size_t length)
{
    return names->n_slots > 0 ? *find_slot(names, text, length) : NAMES_NONE;
}

static bool grow_slots(struct names *names)
{
    uint32_t n_slots = names->n_slots > 0 ? 2 * names->n_slots : FIRST_SLOTS;
    uint32_t *slots = malloc(n_slots * sizeof *slots);
    if (slots == NULL)
        return false;
    memset(slots, 0xff, n_slots * sizeof *slots);
    free(names->slots);
    names->slots = slots;
    names->n_slots = n_slots;
    for (uint32_t i = 0; i < names->n; i++) {
        uint64_t end = i + 1 < names->n ? names->start[i + 1] : names->text_bytes;
        *find_slot(names, names_at(names, i), end - names->start[i] - 1) = i;
    }
    return true;
}

static bool grow_start(struct names *names)
{
    uint32_t capacity = names->capacity > 0 ? 2 * names->capacity : FIRST_SLOTS / 2;
    uint64_t *start = realloc(names->start, capacity * sizeof *start);
    if (start == NULL)
        return false;
    names->start = start;
    names->capacity = capacity;
    return true;
}

static bool grow_text(struct names *names, size_t length)
{
    size_t capacity = 2 * (names->text_bytes + length + 1);
    char *text = realloc(names->text, capacity);
    if (text == NULL)
        return false;
    names->text = text;
    names->text_capacity = capacity;
    return true;
}

static bool reserve(struct names *names, size_t length)
{
    return (names->n < names->n_slots / 2 || grow_slots(names)) &&
           (names->n < names->capacity || grow_start(names)) &&
           (names->text_bytes + length < names->text_capacity || grow_text(names, length));
}

bool names_add(struct names *names, const char *text, size_t length, uint32_t *number)
{
    *number = names_find(names, text, length);
    if (*number != NAMES_NONE)
        return true;
    if (names->n == (uint32_t)1 << 30)
        return task_fail("there are more than %u names", names->n);
    if (!reserve(names, length))
        return task_fail_memory("the names");
    uint32_t *slot = find_slot(names, text, length);
    names->start[names->n] = names->text_bytes;
    memcpy(names->text + names->text_bytes, text, length);
    names->text[names->text_bytes + length] = '\0';
    names->text_bytes += length + 1;
    *number = *slot = names->n++;
    return true;
}

uint64_t names_digest(const struct names *names, uint64_t seed)
{
    return XXH3_64bits_withSeed(names->text, names->text_bytes, seed);
}

const char *names_flaw(const char *name, size_t length)
{
    if (memchr(name, '\0', length) != NULL)
        return "a NUL character";
    return memchr(name, '\r', length) != NULL ? "a carriage return (CR)" : NULL;
}

static bool read_name(struct input *input, struct names *names, const char *name, size_t length)
{
    uint32_t number = 0, expected = names->n;
    const char *flaw = names_flaw(name, length);
    if (flaw != NULL)
        return input_fail(input, "the name has %s in it; a line is a name and ends with LF or CRLF",
                          flaw);
    return names_add(names, name, length, &number) &&
           (number == expected || input_fail(input, "'%s' stands here a second time", name));
}

bool names_read(struct names *names, const char *path)
{
    struct input input;
    char *line;
    size_t length;
    enum input_result result = INPUT_FAILED;
    if (!input_open(&input, path))
        return false;
    bool ok = true;
    while (ok && (result = input_line(&input, &line, &length)) == INPUT_LINE)
        ok = read_name(&input, names, line, length);
    ok = ok && result == INPUT_END;
    input_close(&input);
    return ok;
}

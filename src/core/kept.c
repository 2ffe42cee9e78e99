/* kept - see kept.h. */
#include "core/kept.h"

#include <stdlib.h>
#include <string.h>

#include "wire/bytes.h"

enum { CHUNK_BYTES = 64 << 10 };

struct kept_rows *kept_find(struct kept_rows *list, uint32_t arc)
{
    while (list && list->arc != arc)
        list = list->next;
    return list;
}

struct kept_rows *kept_need(struct kept_rows **list, uint32_t arc, const struct kept_shape *shape)
{
    struct kept_rows *kept = kept_find(*list, arc);
    if (kept || !(kept = calloc(1, sizeof *kept)))
        return kept;
    *kept = (struct kept_rows){
        .next = *list, .arc = arc, .first = shape->first, .n_direct = shape->n_direct};
    *list = kept;
    return kept;
}

void kept_drop(struct kept_rows **list, uint32_t arc)
{
    while (*list && (*list)->arc != arc)
        list = &(*list)->next;
    struct kept_rows *kept = *list;
    if (!kept)
        return;
    *list = kept->next;
    for (size_t i = 0; i < kept->n_chunks; i++)
        free(kept->chunks[i]);
    free(kept->chunks);
    free(kept->direct);
    keymap_free(&kept->places);
    free(kept->last);
    free(kept);
}

static bool reserve_index(struct kept_rows *kept)
{
    if (!kept->n_direct)
        return keymap_reserve(&kept->places, kept->n_expected);
    if (!kept->direct)
        kept->direct = calloc(kept->n_direct, sizeof *kept->direct);
    return kept->direct;
}

static bool reserve_chunks(struct kept_rows *kept)
{
    const size_t n = (kept->n + kept->n_expected + kept->n_per_chunk - 1) / kept->n_per_chunk;
    if (n > kept->max_chunks) {
        const size_t max = 2 * kept->max_chunks > n ? 2 * kept->max_chunks : n;
        char **chunks = realloc(kept->chunks, max * sizeof *chunks);
        if (!chunks)
            return false;
        kept->chunks = chunks;
        kept->max_chunks = max;
    }
    while (kept->n_chunks < n) {
        char *chunk = malloc(kept->n_per_chunk * kept->row_bytes);
        if (!chunk)
            return false;
        kept->chunks[kept->n_chunks++] = chunk;
    }
    return true;
}

bool kept_reserve(struct kept_rows *kept, size_t row_bytes)
{
    kept->row_bytes = row_bytes;
    kept->n_per_chunk = row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
    if (kept->n_expected > kept->max_last) {
        uint32_t *last = realloc(kept->last, kept->n_expected * sizeof *last);
        if (!last)
            return false;
        kept->last = last;
        kept->max_last = kept->n_expected;
    }
    return !kept->n_expected || (reserve_index(kept) && reserve_chunks(kept));
}

static uint32_t find_place(const struct kept_rows *kept, uint64_t key)
{
    return kept->n_direct ? kept->direct[key - kept->first] : keymap_get(&kept->places, key);
}

void kept_put(struct kept_rows *kept, const void *row)
{
    const uint64_t key = get_u64(row);
    uint32_t place = find_place(kept, key);
    if (!place) {
        place = (uint32_t)++kept->n;
        if (kept->n_direct)
            kept->direct[key - kept->first] = place;
        else
            keymap_set(&kept->places, key, place);
    }
    kept->last[kept->n_last++] = place - 1;
    memcpy((char *)kept_row(kept, place - 1), row, kept->row_bytes);
}

/* ---- Records ------------------------------------------------------------------------------------ */

static struct record *find_record(const struct records *records, const struct record *like)
{
    for (size_t i = 0; i < records->n; i++) {
        struct record *record = &records->list[i];
        if (record->lane == like->lane && record->node == like->node && record->arc == like->arc &&
            record->incarnation == like->incarnation)
            return record;
    }
    return NULL;
}

bool records_reserve(struct records *records, const struct record *record)
{
    struct record *found = find_record(records, record);
    if (!found) {
        if (records->n == records->max) {
            const size_t max = 2 * records->max + 16;
            struct record *list = realloc(records->list, max * sizeof *list);
            if (!list)
                return false;
            records->list = list;
            records->max = max;
        }
        found = &records->list[records->n++];
        *found = *record;
        found->void_numbers = NULL;
        found->executed = found->n_void = found->max_void = 0;
    }
    if (record->n_void <= found->max_void)
        return true;
    uint64_t *numbers = realloc(found->void_numbers, record->n_void * sizeof *numbers);
    if (!numbers)
        return false;
    found->void_numbers = numbers;
    found->max_void = record->n_void;
    return true;
}

void records_put(struct records *records, const struct record *record, const uint8_t *numbers)
{
    struct record *found = find_record(records, record);
    found->executed = record->executed;
    found->n_void = record->n_void;
    for (uint32_t i = 0; i < record->n_void; i++)
        found->void_numbers[i] = get_u64(numbers + 8 * (size_t)i);
}

void records_fini(struct records *records)
{
    for (size_t i = 0; i < records->n; i++)
        free(records->list[i].void_numbers);
    free(records->list);
}

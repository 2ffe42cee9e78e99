/* intents - see intents.h. */
#include "core/intents.h"

#include <stdlib.h>
#include <string.h>

#include "core/defect.h"

enum { CHUNK_BYTES = 1 << 16 };

struct intent_chunk {
    _Atomic(struct intent_chunk *) next;
    _Atomic size_t used; /* bytes of intents that the rounds may read */
    size_t room;
    size_t n_open; /* intents read and not ended; the rounds' */
    bool is_left;  /* by the rounds: all its intents were read */
    _Alignas(8) unsigned char bytes[];
};

static struct intent_chunk *new_chunk(size_t room)
{
    struct intent_chunk *chunk = malloc(sizeof *chunk + room);
    if (!chunk)
        return NULL;
    atomic_init(&chunk->next, NULL);
    atomic_init(&chunk->used, 0);
    chunk->room = room;
    chunk->n_open = 0;
    chunk->is_left = false;
    return chunk;
}

struct intents *intents_new(void)
{
    struct intents *intents = calloc(1, sizeof *intents);
    struct intent_chunk *chunk = new_chunk(CHUNK_BYTES);
    if (!intents || !chunk) {
        free(intents);
        free(chunk);
        return NULL;
    }
    intents->head = intents->tail = chunk;
    return intents;
}

static void end_intent(struct intent *intent)
{
    struct intent_chunk *chunk = intent->chunk;
    if (--chunk->n_open == 0 && chunk->is_left)
        free(chunk);
}

static void end_all(struct intent_heap *heap)
{
    for (size_t i = 0; i < heap->n; i++)
        end_intent(heap->places[i].intent);
    free(heap->places);
}

void intents_free(struct intents *intents)
{
    end_all(&intents->waiting);
    end_all(&intents->active);
    for (struct intent_chunk *chunk = intents->head, *next; chunk; chunk = next) {
        next = atomic_load_explicit(&chunk->next, memory_order_relaxed);
        free(chunk);
    }
    free(intents);
}

bool intents_add(struct intents *intents, enum intent_kind kind, uint16_t table,
                 uint32_t generation, const uint64_t *keys, size_t n, uint64_t start, uint64_t end)
{
    size_t bytes = sizeof(struct intent) + n * sizeof *keys;
    struct intent_chunk *chunk = intents->tail;
    size_t used = atomic_load_explicit(&chunk->used, memory_order_relaxed);
    if (chunk->room - used < bytes) {
        struct intent_chunk *fresh = new_chunk(bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes);
        if (!fresh)
            return false;
        /* Release: partner of the acquire in read_intent; nothing is added to the old chunk again. */
        atomic_store_explicit(&chunk->next, fresh, memory_order_release);
        intents->tail = chunk = fresh;
        used = 0;
    }
    struct intent *intent = (struct intent *)(chunk->bytes + used);
    *intent = (struct intent){.chunk = chunk,
                              .start = start,
                              .end = end,
                              .n = (uint32_t)n,
                              .table = table,
                              .kind = (uint8_t)kind,
                              .generation = generation};
    if (n)
        memcpy(intent->keys, keys, n * sizeof *keys);
    /* Release: partner of the acquire in read_intent; the intent is complete. */
    atomic_store_explicit(&chunk->used, used + bytes, memory_order_release);
    return true;
}

/* The next intent the worker has added; NULL if there is none. It is read when n_read is raised. */
static struct intent *next_intent(struct intents *intents)
{
    for (;;) {
        struct intent_chunk *chunk = intents->head;
        /* `next` first: once it is there, `used` is final. */
        struct intent_chunk *next = atomic_load_explicit(&chunk->next, memory_order_acquire);
        size_t used = atomic_load_explicit(&chunk->used, memory_order_acquire);
        if (intents->n_read < used)
            return (struct intent *)(chunk->bytes + intents->n_read);
        if (!next)
            return NULL;
        intents->head = next;
        intents->n_read = 0;
        chunk->is_left = true;
        if (chunk->n_open == 0)
            free(chunk);
    }
}

static bool heap_add(struct intent_heap *heap, uint64_t clock, struct intent *intent)
{
    if (heap->n == heap->max) {
        size_t max = heap->max ? 2 * heap->max : 64;
        struct intent_place *places = realloc(heap->places, max * sizeof *places);
        if (!places)
            return false;
        heap->places = places;
        heap->max = max;
    }
    size_t at = heap->n++;
    for (; at && heap->places[(at - 1) / 2].clock > clock; at = (at - 1) / 2)
        heap->places[at] = heap->places[(at - 1) / 2];
    heap->places[at] = (struct intent_place){clock, intent};
    return true;
}

static struct intent *heap_take(struct intent_heap *heap)
{
    struct intent *taken = heap->places[0].intent;
    struct intent_place last = heap->places[--heap->n];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->n)
            break;
        child += child + 1 < heap->n && heap->places[child + 1].clock < heap->places[child].clock;
        if (heap->places[child].clock >= last.clock)
            break;
        heap->places[at] = heap->places[child];
        at = child;
    }
    heap->places[at] = last;
    return taken;
}

static uint64_t heap_first(const struct intent_heap *heap)
{
    return heap->n ? heap->places[0].clock : UINT64_MAX;
}

/* Takes up what the worker has added. */
static bool read_intents(struct intents *intents, uint64_t clock, intents_visit *begin,
                         void *context)
{
    struct intent *intent;
    while ((intent = next_intent(intents))) {
        size_t bytes = sizeof *intent + intent->n * sizeof intent->keys[0];
        bool is_done = intent->kind == INTENT_HERE || intent->end <= clock;
        if (!is_done && !heap_add(&intents->waiting,
                                  intent->kind == INTENT_AT_ONCE ? 0 : intent->start, intent))
            return false;
        if (intent->kind == INTENT_HERE)
            begin(context, intent);
        intents->n_read += bytes;
        if (intent->kind == INTENT_TIMED)
            intents->last_start = intent->start;
        intent->chunk->n_open += !is_done;
    }
    return true;
}

/* Notes how far ahead of its clock the worker signals what it intends. */
static void note_ahead(struct intents *intents, uint64_t clock)
{
    const uint64_t last = intents->last_start;
    intents->ahead_ns = UINT64_MAX;
    if (intents->waiting.n && last > clock)
        intents->ahead_ns = timing_duration_ns(&intents->timing, last - clock);
}

bool intents_round(struct intents *intents, uint64_t now_ns, uint64_t horizon_ns,
                   intents_visit *begin, intents_visit *end, void *context)
{
    /* A worker that is closed has reached all its ends. Acquire: partner of the release at its close. */
    bool is_over = atomic_load_explicit(&intents->is_over, memory_order_acquire);
    uint64_t clock =
        is_over ? UINT64_MAX : atomic_load_explicit(&intents->clock, memory_order_relaxed);
    uint64_t until = is_over ? 0 : timing_round(&intents->timing, clock, now_ns, horizon_ns);
    if (defect(DEFECT_ACTS_LATE) && !is_over)
        until = clock + 1;
    /* Relaxed: a hint. */
    atomic_store_explicit(&intents->until, until, memory_order_relaxed);
    bool complete = read_intents(intents, clock, begin, context);
    note_ahead(intents, clock);
    while (complete && heap_first(&intents->waiting) < until) {
        struct intent *intent = intents->waiting.places[0].intent;
        if (intent->end <= clock) {
            end_intent(heap_take(&intents->waiting));
            continue;
        }
        complete = heap_add(&intents->active, intent->end, intent);
        if (complete) {
            heap_take(&intents->waiting);
            begin(context, intent);
        }
    }
    while (intents->active.n && heap_first(&intents->active) <= clock &&
           !(is_over && defect(DEFECT_CLOSE_KEEPS_INTENTS))) {
        struct intent *intent = heap_take(&intents->active);
        end(context, intent);
        end_intent(intent);
    }
    return complete;
}

bool intents_are_open(const struct intents *intents)
{
    return intents->waiting.n || intents->active.n;
}

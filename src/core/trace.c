/* trace - see trace.h. */
#include "core/trace.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_EVENTS = 1024 };

bool trace_init(struct trace *trace)
{
    *trace = (struct trace){.ring = malloc(TRACE_RING * sizeof *trace->ring)};
    return trace->ring;
}

void trace_fini(struct trace *trace)
{
    if (trace->recording && trace->recording->release)
        trace->recording->release(trace->recording);
    free(trace->ring);
    *trace = (struct trace){0};
}

size_t trace_last(const struct trace *trace, uint64_t key, struct trace_event *events, size_t most)
{
    size_t n = 0;
    uint64_t kept = trace->n < TRACE_RING ? trace->n : TRACE_RING;
    for (uint64_t i = 1; i <= kept && n < most; i++) {
        const struct trace_event *event = &trace->ring[(trace->n - i) % TRACE_RING];
        if (event->key == key)
            events[n++] = *event;
    }
    return n;
}

/* ---- Recordings --------------------------------------------------------------------------------- */

static void choose(struct recording *recording, uint64_t key)
{
    uint64_t bit = recording_bit(key);
    recording->filter[bit / 64] |= UINT64_C(1) << bit % 64;
    keymap_set(&recording->keys, key, 1);
}

bool recording_init(struct recording *recording, const uint64_t *keys, size_t n)
{
    if (!keymap_reserve(&recording->keys, n))
        return false;
    for (size_t i = 0; i < n; i++)
        choose(recording, keys[i]);
    return true;
}

void recording_fini(struct recording *recording)
{
    keymap_free(&recording->keys);
    free(recording->events.events);
    recording->events = (struct trace_events){0};
}

void recording_add(struct recording *recording, const struct trace_event *event)
{
    struct trace_events *list = &recording->events;
    if (!keymap_get(&recording->keys, event->key))
        return;
    if (list->n == list->max) {
        size_t max = list->max ? 2 * list->max : FIRST_EVENTS;
        struct trace_event *events = realloc(list->events, max * sizeof *events);
        if (!events) {
            recording->n_lost++;
            return;
        }
        list->events = events;
        list->max = max;
    }
    list->events[list->n++] = *event;
}

void recording_take(struct recording *recording, struct trace_events *events)
{
    struct trace_events taken = recording->events;
    events->n = 0;
    recording->events = *events;
    *events = taken;
}

/* ---- Lines -------------------------------------------------------------------------------------- */

/* What a line of a trace file says happened; NULL: it has no line. */
static const char *word_of(enum trace_kind kind)
{
    switch (kind) {
    case TRACE_MAIN_CAME:
        return "main";
    case TRACE_REPLICA_MADE:
        return "replica";
    case TRACE_MAIN_LEFT:
    case TRACE_REPLICA_ENDED:
        return "none";
    case TRACE_INTENT_BEGAN:
        return "intent";
    case TRACE_INTENT_ENDED:
        return "idle";
    case TRACE_OTHER_WANTS:
    case TRACE_OTHER_LEAVES:
        break;
    }
    return NULL;
}

/* Writes a number and a blank, and returns the place after them. (A tenth of what snprintf takes: all
 * keys of a table may be traced.) */
static char *put_number(char *out, uint64_t number)
{
    char digits[20];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + number % 10);
    while (number /= 10);
    while (n)
        *out++ = digits[--n];
    *out++ = ' ';
    return out;
}

size_t trace_line(const struct trace_event *event, uint32_t self, char line[TRACE_LINE])
{
    const char *word = word_of((enum trace_kind)event->kind);
    if (!word)
        return 0;
    char *out = put_number(put_number(put_number(line, event->time_ns), self), event->key);
    size_t n = strlen(word);
    memcpy(out, word, n);
    out[n] = '\n';
    return (size_t)(out - line) + n + 1;
}

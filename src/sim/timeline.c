/* timeline - see timeline.h. */
#include "sim/timeline.h"

#include <stdlib.h>
#include <string.h>

enum { PACKET_BYTES = 1448, HEADER_BYTES = 66 };

bool timeline_init(struct timeline *timeline, const struct tern_sim_workload *workload)
{
    *timeline = (struct timeline){.workload = workload};
    timeline->links = calloc(workload->n_nodes, sizeof *timeline->links);
    return timeline->links;
}

void timeline_fini(struct timeline *timeline)
{
    for (size_t i = 0; i < timeline->n; i++)
        free(timeline->heap[i].letter);
    free(timeline->heap);
    free(timeline->links);
}

/* ---- Events ----------------------------------------------------------------------------------- */

static bool comes_before(const struct timeline_event *a, const struct timeline_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void add(struct timeline *timeline, struct timeline_event event)
{
    if (timeline->n == timeline->max) {
        const size_t max = timeline->max ? 2 * timeline->max : 1024;
        struct timeline_event *grown = realloc(timeline->heap, max * sizeof *grown);
        if (!grown) {
            free(event.letter);
            timeline->no_memory = true;
            return;
        }
        timeline->heap = grown;
        timeline->max = max;
    }
    event.order = timeline->n_planned++;
    struct timeline_event *heap = timeline->heap;
    size_t at = timeline->n++;
    for (; at > 0 && comes_before(&event, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = event;
}

bool timeline_next(struct timeline *timeline, struct timeline_event *event)
{
    if (!timeline->n || timeline->no_memory)
        return false;
    struct timeline_event *heap = timeline->heap;
    *event = heap[0];
    const struct timeline_event last = heap[--timeline->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < timeline->n; at = child) {
        child += child + 1 < timeline->n && comes_before(&heap[child + 1], &heap[child]);
        if (!comes_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    timeline->now_ns = event->at_ns;
    timeline->n_events++;
    return true;
}

void timeline_plan(struct timeline *timeline, uint32_t node, uint32_t generation, uint64_t at_ns)
{
    add(timeline, (struct timeline_event){.at_ns = at_ns, .node = node, .generation = generation});
}

/* ---- Links ------------------------------------------------------------------------------------ */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void timeline_send(struct timeline *timeline, const struct letter *head, const uint8_t *bytes,
                   uint64_t at_ns)
{
    struct letter *letter = malloc(sizeof *letter + head->n);
    if (!letter) {
        timeline->no_memory = true;
        return;
    }
    *letter = *head;
    memcpy(letter->bytes, bytes, head->n);
    const size_t n_packets = (head->n + PACKET_BYTES - 1) / PACKET_BYTES;
    const uint64_t takes_ns =
        (uint64_t)((double)(head->n + n_packets * HEADER_BYTES) * timeline->workload->ns_per_byte);
    struct timeline_link *from = &timeline->links[head->from], *to = &timeline->links[head->to];
    from->sent_ns = later(from->sent_ns, at_ns) + takes_ns;
    to->received_ns =
        later(from->sent_ns + timeline->workload->delay_ns, to->received_ns + takes_ns);
    from->busy_ns[0] += takes_ns;
    to->busy_ns[1] += takes_ns;
    add(timeline,
        (struct timeline_event){.at_ns = to->received_ns, .letter = letter, .node = head->to});
}

/* ---- Cores ------------------------------------------------------------------------------------ */

/* The turns of the nodes that share a core. */
struct turns {
    uint64_t cycle_ns, begin_ns; /* of all of them; and when the node's begins in that */
    uint64_t in_cycle_ns;
};

/* False: the node has its core for itself. */
static bool find_turns(const struct timeline *timeline, uint32_t node, uint64_t at_ns,
                       struct turns *turns)
{
    const struct tern_sim_workload *workload = timeline->workload;
    const uint32_t n_cores = workload->n_cores, n_nodes = workload->n_nodes;
    if (!n_cores || n_nodes <= n_cores)
        return false;
    const uint32_t core = node % n_cores, n_turns = (n_nodes - core + n_cores - 1) / n_cores;
    turns->cycle_ns = n_turns * workload->slice_ns;
    turns->begin_ns = node / n_cores * workload->slice_ns;
    turns->in_cycle_ns = (at_ns + core * workload->slice_ns * 5 / 8) % turns->cycle_ns;
    return true;
}

bool timeline_has_core(const struct timeline *timeline, uint32_t node, uint64_t at_ns,
                       uint64_t *since_ns)
{
    struct turns turns;
    if (!find_turns(timeline, node, at_ns, &turns))
        return true;
    const uint64_t end_ns = turns.begin_ns + timeline->workload->slice_ns;
    if (turns.in_cycle_ns >= turns.begin_ns && turns.in_cycle_ns < end_ns)
        return true;
    const uint64_t for_ns = turns.in_cycle_ns >= end_ns
                                ? turns.in_cycle_ns - end_ns
                                : turns.in_cycle_ns + turns.cycle_ns - end_ns;
    *since_ns = at_ns > for_ns ? at_ns - for_ns : 0;
    return false;
}

uint64_t timeline_done_ns(const struct timeline *timeline, uint32_t node, uint64_t at_ns,
                          uint64_t work_ns)
{
    const uint64_t slice_ns = timeline->workload->slice_ns;
    struct turns turns;
    while (find_turns(timeline, node, at_ns, &turns)) {
        if (turns.in_cycle_ns < turns.begin_ns) {
            at_ns += turns.begin_ns - turns.in_cycle_ns;
            continue;
        }
        if (turns.in_cycle_ns >= turns.begin_ns + slice_ns) {
            at_ns += turns.cycle_ns - turns.in_cycle_ns;
            continue;
        }
        const uint64_t left_ns = turns.begin_ns + slice_ns - turns.in_cycle_ns;
        if (work_ns <= left_ns)
            break;
        at_ns += left_ns;
        work_ns -= left_ns;
    }
    return at_ns + work_ns;
}

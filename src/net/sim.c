/*
 * sim - see sim.h.
 *
 * All that will happen is in one heap, ordered by time and, at equal times, by the order in which it
 * was put there. What a pause or a cut holds up goes back into the heap with the time at which that
 * ends and keeps its place in that order, so that bytes of one direction never overtake each other.
 */
#include "net/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"

#define US UINT64_C(1000)

enum {
    LEAST_DELAY_US = 20, /* of a link */
    SPREAD_DELAY_US = 180,
    SLOW_DELAY_US = 20000, /* at most, of a piece on a slow link */
    NOTICE_US = 30000,     /* at most, until an end notices that its connection is broken */
    RECOVERY_US = 30000,   /* at most, until a connection carries on after a cut */
    MAX_PIECES = 4,
};

enum kind { ACCEPT, PIECE, HANG_UP, TIMER };

struct item {
    uint64_t at_ns, order;
    enum kind kind;
    uint32_t node; /* whom it concerns */
    uint32_t life; /* of the node, for timers */
    struct end *end;
    uint64_t tag; /* of a timer; of a piece: its number in its direction */
    uint8_t *bytes;
    size_t n_bytes;
};

struct end {
    struct sim_end public;
    uint32_t id;
    struct end *peer;
    struct end *next; /* of all */
    /* The direction that begins here. */
    uint64_t n_written, n_arrived; /* pieces */
    uint64_t lost_from;            /* pieces from this number on are lost */
    uint64_t last_at_ns;           /* no piece may come before */
    uint64_t held_ns;              /* until when everything from here is held up */
    bool told;                     /* SIM_CLOSED is under way to this end */
};

struct sim {
    uint64_t seed, n_drawn;
    uint32_t n_nodes, n_ends;
    uint64_t now_ns, n_events, n_items, trace, healed_ns;
    struct item *heap;
    size_t n_heap, max_heap;
    struct end *ends;
    uint64_t *paused_ns; /* by node: until when */
    uint32_t *lives;     /* by node: how often it was killed */
    bool *silent;        /* by node: see sim_silence */
    bool never_refuses;
    uint64_t *cut_ns; /* by from * n_nodes + to: until when */
    uint64_t *slow_ns;
    uint64_t fired[SIM_FAULTS];
    uint8_t *bytes; /* of the event taken last */
    bool no_memory;
};

struct sim *sim_new(uint64_t seed, uint32_t n_nodes)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (!sim)
        return NULL;
    const size_t n_links = (size_t)n_nodes * n_nodes;
    sim->seed = hash_u64(seed + UINT64_C(0x73696d756c617465));
    sim->n_nodes = n_nodes;
    sim->paused_ns = calloc(n_nodes, sizeof *sim->paused_ns);
    sim->lives = calloc(n_nodes, sizeof *sim->lives);
    sim->silent = calloc(n_nodes, sizeof *sim->silent);
    sim->cut_ns = calloc(n_links, sizeof *sim->cut_ns);
    sim->slow_ns = calloc(n_links, sizeof *sim->slow_ns);
    if (sim->paused_ns && sim->lives && sim->silent && sim->cut_ns && sim->slow_ns)
        return sim;
    sim_free(sim);
    return NULL;
}

void sim_free(struct sim *sim)
{
    for (size_t i = 0; i < sim->n_heap; i++)
        free(sim->heap[i].bytes);
    for (struct end *end = sim->ends, *next; end; end = next) {
        next = end->next;
        free(end);
    }
    free(sim->bytes);
    free(sim->heap);
    free(sim->paused_ns);
    free(sim->silent);
    free(sim->lives);
    free(sim->cut_ns);
    free(sim->slow_ns);
    free(sim);
}

uint64_t sim_now_ns(const struct sim *sim)
{
    return sim->now_ns;
}

uint64_t sim_n_events(const struct sim *sim)
{
    return sim->n_events;
}

uint64_t sim_random(struct sim *sim)
{
    return rand_at(sim->seed, sim->n_drawn++);
}

static uint64_t below(struct sim *sim, uint64_t n)
{
    return rand_below(sim_random(sim), n);
}

uint64_t sim_trace(const struct sim *sim)
{
    return sim->trace;
}

void sim_note(struct sim *sim, uint64_t what)
{
    sim->trace = hash_u64(sim->trace * UINT64_C(0x9e3779b97f4a7c15) + what);
}

/* ---- The heap --------------------------------------------------------------------------------- */

static bool comes_before(const struct item *a, const struct item *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_push(struct sim *sim, struct item item)
{
    if (sim->n_heap == sim->max_heap) {
        size_t max = sim->max_heap ? 2 * sim->max_heap : 256;
        struct item *heap = realloc(sim->heap, max * sizeof *heap);
        if (!heap) {
            free(item.bytes);
            sim->no_memory = true;
            return;
        }
        sim->heap = heap;
        sim->max_heap = max;
    }
    size_t at = sim->n_heap++;
    for (; at > 0 && comes_before(&item, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = item;
}

static struct item heap_pop(struct sim *sim)
{
    const struct item first = sim->heap[0], last = sim->heap[--sim->n_heap];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= sim->n_heap)
            break;
        if (child + 1 < sim->n_heap && comes_before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!comes_before(&sim->heap[child], &last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

static void plan(struct sim *sim, struct item item)
{
    item.order = sim->n_items++;
    heap_push(sim, item);
}

/* ---- Connections ------------------------------------------------------------------------------ */

static uint64_t *link_from(const struct sim *sim, uint64_t *links, const struct end *end)
{
    return &links[end->public.node * sim->n_nodes + end->peer->public.node];
}

/* When something sent now arrives at the other end: not before what was sent earlier. */
static uint64_t arrival_ns(struct sim *sim, struct end *from)
{
    uint64_t link = (uint64_t)from->public.node * sim->n_nodes + from->peer->public.node;
    uint64_t base =
        LEAST_DELAY_US * US + rand_below(rand_at(~sim->seed, link), SPREAD_DELAY_US * US);
    uint64_t at_ns = sim->now_ns + base + below(sim, base);
    if (sim->now_ns < *link_from(sim, sim->slow_ns, from)) {
        at_ns += below(sim, SLOW_DELAY_US * US);
        sim->fired[SIM_DELAY]++;
    }
    if (at_ns < from->last_at_ns)
        at_ns = from->last_at_ns;
    from->last_at_ns = at_ns;
    return at_ns;
}

static struct end *end_new(struct sim *sim, uint32_t node)
{
    struct end *end = calloc(1, sizeof *end);
    if (!end) {
        sim->no_memory = true;
        return NULL;
    }
    end->public.node = node;
    end->public.open = true;
    end->id = sim->n_ends++;
    end->lost_from = UINT64_MAX;
    end->next = sim->ends;
    sim->ends = end;
    return end;
}

struct sim_end *sim_connect(struct sim *sim, uint32_t from, uint32_t to)
{
    struct end *here = end_new(sim, from), *there = here ? end_new(sim, to) : NULL;
    if (!there)
        return NULL;
    here->peer = there;
    there->peer = here;
    here->n_written = 1; /* the call itself is the first piece */
    plan(sim, (struct item){arrival_ns(sim, here), 0, ACCEPT, to, 0, there, 0, NULL, 0});
    return &here->public;
}

static void write_piece(struct sim *sim, struct end *end, const uint8_t *bytes, size_t n)
{
    uint64_t at_ns = arrival_ns(sim, end), number = end->n_written++;
    if (number >= end->lost_from)
        return;
    uint8_t *copy = malloc(n);
    if (!copy) {
        sim->no_memory = true;
        return;
    }
    memcpy(copy, bytes, n);
    plan(sim,
         (struct item){at_ns, 0, PIECE, end->peer->public.node, 0, end->peer, number, copy, n});
}

void sim_write(struct sim *sim, struct sim_end *public, const void *bytes, size_t n)
{
    struct end *end = (struct end *)public;
    const uint8_t *at = bytes;
    size_t n_cuts = below(sim, 4) ? 0 : below(sim, MAX_PIECES);
    for (; n_cuts > 0 && n > 1; n_cuts--) {
        size_t piece = 1 + below(sim, n - 1);
        write_piece(sim, end, at, piece);
        at += piece;
        n -= piece;
    }
    if (n > 0)
        write_piece(sim, end, at, n);
}

/* Tells an end that its connection is over. `travels`: as bytes do, from the other end. */
static void hang_up(struct sim *sim, struct end *end, uint64_t at_ns, bool travels)
{
    if (end->told)
        return;
    end->told = true;
    plan(sim, (struct item){at_ns, 0, HANG_UP, end->public.node, 0, end, travels, NULL, 0});
}

/* Loses a random tail of what is under way from this end. */
static void lose_tail(struct sim *sim, struct end *end)
{
    uint64_t from = end->n_arrived + below(sim, end->n_written - end->n_arrived + 1);
    if (from < end->lost_from)
        end->lost_from = from;
}

void sim_close(struct sim *sim, struct sim_end *public)
{
    struct end *end = (struct end *)public;
    if (!public->open)
        return;
    public->open = false;
    if (below(sim, 2))
        lose_tail(sim, end);
    hang_up(sim, end->peer, arrival_ns(sim, end), true);
}

void sim_kill(struct sim *sim, uint32_t node)
{
    for (struct end *end = sim->ends; end; end = end->next) {
        if (end->public.node != node || !end->public.open)
            continue;
        sim_close(sim, &end->public);
        /* Never earlier than what a cut holds up already, which would be overtaken. */
        uint64_t held_ns = sim->now_ns + below(sim, RECOVERY_US * US);
        if (end->held_ns < held_ns)
            end->held_ns = held_ns;
    }
    sim->lives[node]++;
}

void sim_silence(struct sim *sim, uint32_t node)
{
    sim->silent[node] = true;
}

bool sim_listens(const struct sim *sim, uint32_t from, uint32_t to)
{
    const uint64_t cut_ns = sim->cut_ns[from * sim->n_nodes + to];
    return !sim->silent[to] && (sim->never_refuses || cut_ns <= sim->now_ns || cut_ns % 2);
}

void sim_never_refuse(struct sim *sim)
{
    sim->never_refuses = true;
}

void sim_timer(struct sim *sim, uint32_t node, uint64_t after_ns, uint64_t tag)
{
    plan(sim, (struct item){sim->now_ns + after_ns, 0, TIMER, node, sim->lives[node], NULL, tag,
                            NULL, 0});
}

/* ---- Faults ----------------------------------------------------------------------------------- */

static void extend(struct sim *sim, uint64_t *until_ns, uint64_t for_ns)
{
    uint64_t end_ns = sim->now_ns + for_ns;
    if (*until_ns < end_ns)
        *until_ns = end_ns;
    if (sim->healed_ns < end_ns)
        sim->healed_ns = end_ns;
}

static bool may_break(const struct end *end)
{
    return end->public.open && end->peer->public.open && !end->told && !end->peer->told;
}

/* Breaks a connection; if there is one with something under way, such a one. */
static void strike_break(struct sim *sim)
{
    uint64_t n[2] = {0, 0};
    for (const struct end *end = sim->ends; end; end = end->next)
        if (may_break(end))
            n[end->n_arrived < end->n_written]++;
    bool busy = n[1] > 0;
    if (!n[busy])
        return;
    uint64_t chosen = below(sim, n[busy]);
    struct end *end = sim->ends;
    for (;; end = end->next)
        if (may_break(end) && busy == (end->n_arrived < end->n_written) && chosen-- == 0)
            break;
    sim->fired[SIM_BREAK]++;
    lose_tail(sim, end);
    lose_tail(sim, end->peer);
    hang_up(sim, end, sim->now_ns + below(sim, NOTICE_US * US), false);
    hang_up(sim, end->peer, sim->now_ns + below(sim, NOTICE_US * US), false);
    end->lost_from = end->lost_from < end->n_written ? end->lost_from : end->n_written;
    end->peer->lost_from =
        end->peer->lost_from < end->peer->n_written ? end->peer->lost_from : end->peer->n_written;
}

void sim_cut(struct sim *sim, uint32_t a, uint32_t b, uint64_t for_ns)
{
    extend(sim, &sim->cut_ns[a * sim->n_nodes + b], for_ns);
    extend(sim, &sim->cut_ns[b * sim->n_nodes + a], for_ns);
}

/* Cuts the nodes into two sides. One time in four only one direction is cut. */
static void strike_partition(struct sim *sim, uint64_t for_ns)
{
    uint64_t sides = sim_random(sim);
    bool one_way = below(sim, 4) == 0;
    for (uint32_t a = 0; a < sim->n_nodes; a++)
        for (uint32_t b = 0; b < sim->n_nodes; b++)
            if ((sides >> a % 64 & 1) == 0 && (sides >> b % 64 & 1) == 1) {
                extend(sim, &sim->cut_ns[a * sim->n_nodes + b], for_ns);
                if (!one_way)
                    extend(sim, &sim->cut_ns[b * sim->n_nodes + a], for_ns);
            }
}

void sim_strike(struct sim *sim, enum sim_fault fault, uint64_t longest_ns)
{
    uint64_t for_ns = 1 + below(sim, longest_ns);
    switch (fault) {
    case SIM_DELAY:
        extend(sim, &sim->slow_ns[below(sim, (uint64_t)sim->n_nodes * sim->n_nodes)], for_ns);
        break;
    case SIM_BREAK:
        strike_break(sim);
        break;
    case SIM_PAUSE:
        extend(sim, &sim->paused_ns[below(sim, sim->n_nodes)], for_ns);
        break;
    case SIM_PARTITION:
    case SIM_FAULTS:
        strike_partition(sim, for_ns);
        break;
    }
}

void sim_pause(struct sim *sim, uint32_t node, uint64_t for_ns)
{
    extend(sim, &sim->paused_ns[node], for_ns);
}

uint64_t sim_n_fired(const struct sim *sim, enum sim_fault fault)
{
    return sim->fired[fault];
}

uint64_t sim_healed_ns(const struct sim *sim)
{
    return sim->healed_ns;
}

/* ---- Events ----------------------------------------------------------------------------------- */

/* When a cut lets an item through that comes now. After it ends, every connection takes a moment of
 * its own to recover, so that a newer one may be the faster. */
static uint64_t passes_cut_ns(struct sim *sim, const struct item *item)
{
    bool travels =
        item->kind == ACCEPT || item->kind == PIECE || (item->kind == HANG_UP && item->tag);
    if (!travels)
        return 0;
    struct end *from = item->end->peer;
    uint64_t cut_ns = *link_from(sim, sim->cut_ns, from);
    if (cut_ns > item->at_ns)
        cut_ns += rand_below(rand_at(sim->seed ^ cut_ns, from->id), RECOVERY_US * US);
    if (cut_ns > item->at_ns && cut_ns > from->held_ns)
        from->held_ns = cut_ns;
    return from->held_ns;
}

/* Whether a pause or a cut holds the item up; then it is put back for later. */
static bool is_held_up(struct sim *sim, const struct item *item)
{
    uint64_t pause_ns = sim->paused_ns[item->node], cut_ns = passes_cut_ns(sim, item);
    struct item later = *item;
    later.at_ns = pause_ns > cut_ns ? pause_ns : cut_ns;
    if (later.at_ns <= item->at_ns)
        return false;
    if (pause_ns > cut_ns)
        sim->fired[SIM_PAUSE]++;
    else if (*link_from(sim, sim->cut_ns, item->end->peer) > item->at_ns)
        sim->fired[SIM_PARTITION]++;
    heap_push(sim, later);
    return true;
}

/* Whether an item that has come has still somebody to come to. */
static bool arrives(struct sim *sim, const struct item *item)
{
    if (item->kind == TIMER)
        return item->life == sim->lives[item->node];
    struct end *end = item->end;
    if (item->kind == ACCEPT || item->kind == PIECE) {
        /* What is lost may come in another order, before what is not: a node that is killed while it pauses does not
         * pause any more. */
        if (item->tag >= end->peer->lost_from)
            return false;
        assert(item->tag == end->peer->n_arrived);
        end->peer->n_arrived++;
    }
    return end->public.open;
}

static uint64_t hash_bytes(const uint8_t *bytes, size_t n)
{
    uint64_t hash = n;
    for (; n >= 8; n -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 29;
    }
    for (; n > 0; n--, bytes++)
        hash = (hash ^ *bytes) * UINT64_C(0x9fb21c651e98df25);
    return hash_u64(hash);
}

static void note_item(struct sim *sim, const struct item *item)
{
    sim_note(sim, item->at_ns);
    sim_note(sim, (uint64_t)item->kind << 32 | item->node);
    sim_note(sim, item->end ? item->end->id : item->tag);
    if (item->n_bytes)
        sim_note(sim, hash_bytes(item->bytes, item->n_bytes));
}

bool sim_next(struct sim *sim, struct sim_event *event)
{
    static const enum sim_what whats[] = {
        [ACCEPT] = SIM_ACCEPTED, [PIECE] = SIM_BYTES, [HANG_UP] = SIM_CLOSED, [TIMER] = SIM_TIMER};
    free(sim->bytes);
    sim->bytes = NULL;
    while (sim->n_heap > 0 && !sim->no_memory) {
        struct item item = heap_pop(sim);
        if (is_held_up(sim, &item))
            continue;
        if (!arrives(sim, &item)) {
            free(item.bytes);
            continue;
        }
        sim->now_ns = item.at_ns;
        sim->n_events++;
        note_item(sim, &item);
        if (item.kind == HANG_UP)
            item.end->public.open = false;
        sim->bytes = item.bytes;
        *event =
            (struct sim_event){whats[item.kind], item.node,    item.end ? &item.end->public : NULL,
                               item.bytes,       item.n_bytes, item.kind == TIMER ? item.tag : 0};
        return true;
    }
    return false;
}

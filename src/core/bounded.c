/* bounded - the side that has replicas; bounded_home.c is the other, bounded_view.c what a death changes. See bounded.h. */
#include "core/bounded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/backup.h"
#include "core/bounded_peer.h"
#include "core/defect.h"

enum { ROUND_BYTES = 1 << 20 };

/* ---- Making and ending -------------------------------------------------------------------------- */

static bool make_peers(struct bounded *bounded)
{
    bounded->peers = calloc(view_capacity(bounded->view), sizeof *bounded->peers);
    view_each_while (i, bounded->view, bounded->peers) {
        struct bounded_peer *peer = &bounded->peers[i];
        peer->slowest = peer->heard.worker = peer->heard.own = NO_WORKER;
        peer->heard.node = i;
    }
    return bounded->peers;
}

/* A clock for each node of the view; numbers that are of no node rest. */
static bool init_clocks(struct min_clock *clocks, const struct view *view, uint64_t value)
{
    if (!min_clock_init(clocks, view_capacity(view), CLOCK_RESTS))
        return false;
    view_each (i, view)
        min_clock_set(clocks, i, value);
    return true;
}

/* What counts later than it is heard, with backups. */
static bool init_heard(struct heard_clocks *heard, const struct core_table *table,
                       const struct view *view)
{
    if (!table->backup)
        return true;
    heard->clocks = malloc(view_capacity(view) * sizeof *heard->clocks);
    for (uint32_t i = 0; heard->clocks && i < view_capacity(view); i++)
        heard->clocks[i] = CLOCK_RESTS;
    return heard->clocks;
}

struct bounded *bounded_new(struct core *core, struct core_table *table)
{
    struct bounded *made = calloc(1, sizeof *made);
    struct store *store = &table->store;
    if (!made)
        return NULL;
    *made = (struct bounded){.core = core,
                             .table = table,
                             .store = store,
                             .policy = table->policy,
                             .round_bytes = ROUND_BYTES,
                             .view = core->view};
    uint64_t unheard = defect(DEFECT_MINIMUM_OF_HEARD) ? CLOCK_RESTS : 0;
    if (make_peers(made) && init_clocks(&made->nodes, core->view, unheard) &&
        init_clocks(&made->seen, core->view, CLOCK_RESTS) &&
        init_clocks(&made->valid, core->view, 0) && init_heard(&made->last, table, core->view) &&
        init_heard(&made->waiting, table, core->view) &&
        buffer_reserve(&made->values, store->value_bytes)) {
        view_each_while (i, core->view, table->backup)
            made->last.clocks[i] = unheard;
        return made;
    }
    bounded_free(made);
    return NULL;
}

void bounded_free(struct bounded *bounded)
{
    if (!bounded)
        return;
    for (uint32_t i = 0; bounded->peers && i < view_capacity(bounded->view); i++) {
        struct bounded_peer *peer = &bounded->peers[i];
        free(peer->changed.keys);
        free(peer->wanted.keys);
        free(peer->asked.bits.words);
        free(peer->missing.bits.words);
        free(peer->registered.words);
        buffer_free(&peer->last.items);
        keymap_free(&peer->last.at);
    }
    free(bounded->peers);
    min_clock_fini(&bounded->nodes);
    min_clock_fini(&bounded->seen);
    min_clock_fini(&bounded->valid);
    free(bounded->last.clocks);
    free(bounded->waiting.clocks);
    free(bounded->taken.keys);
    buffer_free(&bounded->values);
    free(bounded);
}

/* ---- Reading ------------------------------------------------------------------------------------ */

_Atomic uint64_t *bounded_age(const struct store *store, uint64_t key)
{
    struct entry *entry;
    if (key - store->home.begin < store->n_natural)
        return &store_facts(store, store_natural_slot(store, key))->age;
    uint64_t word = store_look(store, key, &entry);
    return entry_has_row(word) ? &store_facts(store, entry_slot(word))->age : NULL;
}

uint64_t bounded_needs(const struct bounded *bounded, uint64_t clock)
{
    uint64_t s = bounded->policy->clocks + defect(DEFECT_BOUND_OFF_BY_ONE);
    return is_by_value(bounded) || clock < s ? 0 : clock - s;
}

/* The clock to which a read is complete: of this node's workers and of all others. */
static uint64_t complete_to(const struct bounded *bounded, uint64_t here)
{
    /* Acquire: partner of the release in bounded_raise, after the values were put in place. */
    uint64_t valid_to = atomic_load_explicit(&bounded->valid_to, memory_order_acquire);
    return valid_to < here ? valid_to : here;
}

bool bounded_may_read(const struct bounded *bounded, uint64_t clock, uint64_t here)
{
    return bounded_needs(bounded, clock) <= complete_to(bounded, here);
}

size_t bounded_check(const struct bounded *bounded, uint64_t clock, uint64_t here,
                     const uint64_t *keys, size_t n, uint32_t *stale, uint32_t ages[BOUNDED_STEPS])
{
    const struct store *store = bounded->store;
    const uint64_t needs = bounded_needs(bounded, clock);
    const uint64_t valid_to = complete_to(bounded, here);
    size_t n_stale = 0;
    for (size_t i = 0; i < n; i++) {
        const _Atomic uint64_t *age_at = bounded_age(store, keys[i]);
        /* Acquire: partner of the release in take_value. */
        uint64_t age = age_at ? atomic_load_explicit(age_at, memory_order_acquire) : 0;
        if (age <= needs || valid_to < needs) {
            stale[n_stale++] = (uint32_t)i;
            continue;
        }
        uint64_t as_of = age - 1 < valid_to ? age - 1 : valid_to;
        uint64_t behind = clock > as_of ? clock - as_of : 0;
        ages[behind < BOUNDED_STEPS ? behind : BOUNDED_STEPS - 1]++;
    }
    return n_stale;
}

/* ---- Bounds by value ---------------------------------------------------------------------------- */

static double largest(enum tern_type type, const void *elements, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double x = type == TERN_F32   ? (double)((const float *)elements)[i]
                   : type == TERN_F64 ? ((const double *)elements)[i]
                   : type == TERN_I32 ? (double)((const int32_t *)elements)[i]
                                      : (double)((const int64_t *)elements)[i];
        /* A NaN counts as large: !(x <= most) also holds for it. */
        if (!(fabs(x) <= most))
            most = isnan(x) ? (double)INFINITY : fabs(x);
    }
    return most;
}

struct sized_key {
    uint64_t key;
    double size;
};

static int compare_sized(const void *a, const void *b)
{
    const struct sized_key *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

double bounded_size(const struct store *store, const uint64_t *keys, size_t n, const void *updates)
{
    struct sized_key sized[BOUNDED_BLOCK];
    for (size_t i = 0; i < n; i++)
        sized[i] = (struct sized_key){
            keys[i],
            largest(store->type, (const char *)updates + i * store->value_bytes, store->length)};
    /* A key that is there more than once changes by the sum. */
    qsort(sized, n, sizeof *sized, compare_sized);
    double most = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum = i && sized[i].key == sized[i - 1].key ? sum + sized[i].size : sized[i].size;
        most = sum > most ? sum : most;
    }
    return most;
}

void bounded_pushed(struct bounded *bounded, struct unseen *unseen, double size)
{
    /* It is read by a write of what it was: this comes before or after the write of begin_epoch. If before,
     * the marks of the rows are seen there and collected in that epoch; if after, the next one is read
     * here. So what is counted to an epoch is collected in it, or before. */
    uint64_t epoch = atomic_fetch_add_explicit(&bounded->begun, 0, memory_order_acq_rel) + 1;
    uint64_t ended = atomic_load_explicit(&bounded->ended, memory_order_acquire);
    int which = unseen->epochs[0] == epoch || unseen->epochs[1] != epoch
                    ? unseen->epochs[0] != epoch && unseen->epochs[0] > ended
                    : 1;
    if (unseen->epochs[which] != epoch)
        unseen->sums[which] = 0;
    unseen->epochs[which] = epoch;
    unseen->sums[which] += size;
}

bool bounded_may_go_on(const struct bounded *bounded, const struct unseen *unseen, uint64_t clock,
                       double size)
{
    uint64_t ended = atomic_load_explicit(&bounded->ended, memory_order_acquire);
    double sum = 0, bound = bounded->policy->value;
    for (int i = 0; i < 2; i++)
        sum += unseen->epochs[i] > ended ? unseen->sums[i] : 0;
    if (bounded->policy->shrinks)
        bound /= sqrt(1 + (double)clock);
    return sum + size <= bound || (size > 0 && sum <= 0);
}

/* ---- What there is to say ----------------------------------------------------------------------- */

bool key_list_add(struct key_list *list, uint64_t key)
{
    if (list->n == list->max) {
        size_t max = list->max ? 2 * list->max : 64;
        uint64_t *keys = realloc(list->keys, max * sizeof *keys);
        if (!keys)
            return false;
        list->keys = keys;
        list->max = max;
    }
    list->keys[list->n++] = key;
    return true;
}

enum tern_status bounded_want(struct bounded *bounded, const uint64_t *keys,
                              const uint32_t *positions, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t key = keys[positions[i]];
        uint32_t home = home_of(bounded, key);
        if (home == bounded->core->node) {
            /* The main copy is always as recent as the table clock, once it has a row. */
            enum tern_status status = backup_check_lost(bounded->table, &key, 1);
            if (!status)
                status = store_create(bounded->store, key);
            if (status)
                return status;
            atomic_store_explicit(bounded_age(bounded->store, key), AGE_CURRENT,
                                  memory_order_release);
        } else if (!bounded->peers[home].is_closed) {
            struct bounded_peer *peer = &bounded->peers[home];
            _Atomic uint64_t *age = bounded_age(bounded->store, key);
            if (is_eager(bounded) && age && atomic_load_explicit(age, memory_order_relaxed))
                continue;
            peer->holds = true;
            if (defect(DEFECT_AGE_WITHOUT_FETCH) && age && !is_eager(bounded))
                atomic_store_explicit(age, peer->heard.clock + 1, memory_order_relaxed);
            else if (!key_list_add(&peer->wanted, key))
                return no_memory_for(bounded);
        } else {
            return fail(TERN_CLOSED, "node %u has closed table '%s'", (unsigned)home,
                        bounded->store->name);
        }
    }
    return TERN_OK;
}

/* Notes that the row in a slot was changed here. */
static bool note_changed(struct bounded *bounded, uint32_t slot, bool *merged)
{
    uint64_t key = store_key_of(bounded->store, slot);
    uint32_t home = home_of(bounded, key);
    if (home != bounded->core->node)
        return bounded->peers[home].is_closed || key_list_add(&bounded->peers[home].changed, key);
    *merged = true;
    struct table_backup *backup = bounded->table->backup;
    return home_changed(bounded, slot, home) &&
           (!backup || buffer_append(&backup->shards[0].urgent, &key, sizeof key));
}

static enum tern_status collect(struct bounded *bounded)
{
    struct store *store = bounded->store;
    size_t n_words = store_mark_words(store);
    bool merged = false;
    uint64_t bits;
    struct marks *marks = store_marks_for_rounds(store, 0);
    for (size_t i = 0; (bits = marks_take(marks, &i, n_words)) != 0; i++) {
        for (; bits; bits &= bits - 1)
            if (!note_changed(bounded, (uint32_t)(64 * i + (size_t)__builtin_ctzll(bits)),
                              &merged)) {
                /* Nothing is lost: what was not noted is marked again. */
                marks_put(marks, i, bits);
                return no_memory_for(bounded);
            }
    }
    if (merged)
        home_merged(bounded);
    return TERN_OK;
}

/* Begins an epoch: what is collected from now on, until it is seen, belongs to the next. */
static void begin_epoch(struct bounded *bounded)
{
    bounded->epoch = ++bounded->n_epochs;
    atomic_exchange_explicit(&bounded->begun, bounded->epoch, memory_order_acq_rel);
}

static void set_targets(struct bounded *bounded)
{
    view_each (i, bounded->view) {
        struct bounded_peer *peer = &bounded->peers[i];
        peer->target = peer->changed.n ? UINT64_MAX : peer->merged;
    }
    bounded->peers[bounded->core->node].target = bounded->standing.merges;
}

/* Ends the present epoch if all of it is seen. */
void end_epoch(struct bounded *bounded)
{
    if (!bounded->epoch)
        return;
    view_each (i, bounded->view) {
        const struct bounded_peer *peer = &bounded->peers[i];
        const struct standing *standing =
            i == bounded->core->node ? &bounded->standing : &peer->heard;
        if (!peer->is_closed && peer->target > standing->stable)
            return;
    }
    /* Release: partner of the acquire of workers that look whether they may go on. */
    atomic_store_explicit(&bounded->ended, bounded->epoch, memory_order_release);
    bounded->epoch = 0;
}

static bool has_left_over(const struct bounded *bounded)
{
    bool found = false;
    view_each_while (i, bounded->view, !found)
        found = bounded->peers[i].changed.n;
    return found;
}

enum tern_status bounded_take(struct bounded *bounded, struct node_clock now)
{
    if (has_left_over(bounded))
        return TERN_OK;
    bool begins = is_by_value(bounded) && !bounded->epoch;
    if (begins)
        begin_epoch(bounded);
    if (defect(DEFECT_CLOCK_BEFORE_MARKS))
        home_heard(bounded, bounded->core->node, &now);
    enum tern_status status = TERN_OK;
    if (!defect(DEFECT_CLOCK_BEFORE_MARKS) || now.clock == bounded->now.clock)
        status = collect(bounded);
    if (begins)
        set_targets(bounded);
    if (status)
        return status;
    bounded->now = now;
    home_heard(bounded, bounded->core->node, &now);
    (void)bounded_make_safe(bounded);
    end_epoch(bounded);
    return TERN_OK;
}

/* Whether this node's clock, which follows the changes, is news to a peer. */
static bool has_clock_for(const struct bounded *bounded, const struct bounded_peer *peer)
{
    if (is_by_value(bounded))
        return false;
    return bounded->now.clock != peer->said.clock ||
           (bounded->now.clock == CLOCK_RESTS && bounded->now.highest != peer->said.highest);
}

/* Whether a peer waits to hear how this home stands. */
static bool has_standing_for(const struct bounded *bounded, uint32_t node)
{
    const struct standing *told = &bounded->peers[node].told;
    if (is_eager(bounded) && home_has_push(bounded, node))
        return true;
    return is_by_value(bounded) ? bounded->standing.stable > told->stable
                                : !is_eager(bounded) && home_clock_for(bounded, node) > told->clock;
}

static bool has_reason(const struct bounded *bounded, uint32_t node)
{
    const struct bounded_peer *peer = &bounded->peers[node];
    if (node == bounded->core->node || peer->is_closed)
        return false;
    return peer->changed.n || peer->wanted.n || peer->owes || peer->inquires || peer->greets ||
           has_clock_for(bounded, peer) || has_standing_for(bounded, node);
}

/* Rows on their way may lack the changes of the last question, which are kept until the next. */
static bool is_crossed(const struct bounded_peer *peer)
{
    return peer->n_got < peer->n_under && !defect(DEFECT_PUSH_OVERTAKEN);
}

void count_unsettled(struct bounded *bounded)
{
    bounded->n_unsettled = 0;
    for (uint32_t i = 0; i < view_capacity(bounded->view); i++)
        bounded->n_unsettled += bounded->peers[i].asks && !view_is_present(bounded->view, i);
}

/* What comes from a node may lack changes that are under way to it on the lane of one that was given up. */
static bool awaits_former(const struct bounded *bounded, uint32_t node)
{
    bool awaits = false;
    if (!bounded->n_unsettled)
        return false;
    for (uint32_t i = 0; !awaits && i < view_capacity(bounded->view); i++)
        awaits = i != node && bounded->peers[i].asks && view_home(bounded->view, i) == node;
    return awaits;
}

bool bounded_has_request(const struct bounded *bounded, uint32_t node)
{
    return has_reason(bounded, node) && !is_crossed(&bounded->peers[node]) &&
           !awaits_former(bounded, node);
}

bool bounded_is_busy(const struct bounded *bounded)
{
    bool busy = false;
    view_each_while (i, bounded->view, !busy)
        busy = has_reason(bounded, i);
    return busy;
}

bool bounded_has_asked(const struct bounded *bounded)
{
    bool has_asked = true;
    view_each_while (i, bounded->view, has_asked)
        has_asked = !bounded->peers[i].wanted.n;
    return has_asked;
}

/* ---- Questions ---------------------------------------------------------------------------------- */

uint8_t *standing_write(uint8_t *out, const struct standing *standing)
{
    const uint64_t words[STANDING_WORDS] = {standing->clock,  standing->node,   standing->worker,
                                            standing->merges, standing->stable, standing->peak,
                                            standing->own};
    for (int i = 0; i < STANDING_WORDS; i++, out += 8)
        section_put(out, words[i]);
    return out;
}

struct standing standing_read(const uint8_t *in)
{
    return (struct standing){.clock = section_get(in),
                             .node = (uint32_t)section_get(in + 8),
                             .worker = (uint32_t)section_get(in + 16),
                             .merges = section_get(in + 24),
                             .stable = section_get(in + 32),
                             .peak = section_get(in + 40),
                             .own = (uint32_t)section_get(in + 48)};
}

/* Keeps the changes of a question. */
static bool keep_sent(struct sent_changes *last, const uint8_t *items, size_t bytes)
{
    last->items.begin = last->items.end = 0;
    keymap_free(&last->at);
    return buffer_append(&last->items, items, bytes);
}

/* Takes the changes of some rows and writes them. */
static uint8_t *write_changes(struct bounded *bounded, struct bounded_peer *peer, uint8_t *out)
{
    struct store *store = bounded->store;
    const size_t item_bytes = row_bytes(bounded), most = rows_per_body(bounded);
    const bool has_changes = peer->changed.n;
    uint8_t *header = out;
    uint32_t n = 0;
    out += SECTION_HEADER_BYTES;
    while (peer->changed.n && n < most) {
        uint64_t key = peer->changed.keys[--peer->changed.n];
        memset(out + item_bytes - 8, 0, 8);
        if (!store_take_delta(store, key, out + 8))
            continue;
        if (defect(DEFECT_LOST_AT_CLOCK) && !n && has_clock_for(bounded, peer))
            continue;
        section_put(out, key);
        out += item_bytes;
        n++;
    }
    /* Also if they have come to nothing: it is known then that they are merged. */
    peer->sends = (has_changes || peer->greets) && !peer->changed.n;
    bounded->counts.deltas_sent += n;
    section_write(header, SECTION_DELTAS, n, item_bytes);
    return n ? out : header;
}

/* Writes the rows that the other node is to get, if it is time; *left: not all of them fitted. */
static uint8_t *write_pushed(struct bounded *bounded, uint32_t node, uint8_t *out, bool *left)
{
    struct bounded_peer *peer = &bounded->peers[node];
    *left = false;
    if (!is_eager(bounded) || !home_has_push(bounded, node))
        return out;
    uint8_t *end = home_write_rows(bounded, &peer->missing, out);
    peer->pushes = end > out;
    peer->n_pushed += peer->pushes;
    *left = peer->missing.n > 0;
    peer->flushes &= *left;
    return end;
}

static uint8_t *write_wanted(struct bounded *bounded, struct bounded_peer *peer, uint8_t *out)
{
    size_t most = rows_per_body(bounded);
    uint32_t n = (uint32_t)(peer->wanted.n < most ? peer->wanted.n : most);
    if (!n)
        return out;
    section_write(out, SECTION_ASKS, n, 8);
    out += SECTION_HEADER_BYTES;
    for (uint32_t i = 0; i < n; i++, out += 8)
        section_put(out, peer->wanted.keys[--peer->wanted.n]);
    return out;
}

static uint8_t *write_clocks(struct bounded *bounded, uint32_t node, bool left, uint8_t *out)
{
    struct bounded_peer *peer = &bounded->peers[node];
    bool says = !is_by_value(bounded) && (!peer->changed.n || defect(DEFECT_CLOCK_BEFORE_CHANGES));
    if (says)
        peer->said = bounded->now;
    peer->knows_rest |= peer->said.clock == CLOCK_RESTS;
    const uint64_t words[QUESTION_WORDS] = {
        [QUESTION_CLOCK] = says ? bounded->now.clock : NOT_SAID,
        [QUESTION_HIGHEST] = bounded->now.highest,
        [QUESTION_SLOWEST] = bounded->now.slowest,
        [QUESTION_SERVED] = peer->n_served,
        [QUESTION_LEFT] = left,
        [QUESTION_INQUIRES] = peer->inquires,
        [QUESTION_EPOCH] = view_epoch(bounded->view),
    };
    section_write(out, SECTION_CLOCKS, 1, 8 * (QUESTION_WORDS + STANDING_WORDS));
    out += SECTION_HEADER_BYTES;
    for (int i = 0; i < QUESTION_WORDS; i++, out += 8)
        section_put(out, words[i]);
    home_tell(bounded, node);
    if (!left)
        peer->pushed = peer->told.clock;
    return standing_write(out, &peer->told);
}

enum tern_status bounded_request(struct bounded *bounded, uint32_t node, struct buffer *body)
{
    struct bounded_peer *peer = &bounded->peers[node];
    const size_t most = rows_per_body(bounded), rows_bytes = most * row_bytes(bounded);
    bool left;
    body->begin = body->end = 0;
    peer->last.items.begin = peer->last.items.end = 0;
    uint8_t *out =
        buffer_reserve(body, 4 * SECTION_HEADER_BYTES + 2 * rows_bytes + 8 * most +
                                 row_bytes(bounded) + 8 * (QUESTION_WORDS + STANDING_WORDS));
    if (!out || (is_eager(bounded) && !buffer_reserve(&peer->last.items, rows_bytes)))
        return no_memory_for(bounded);
    uint8_t *begin = out;
    out = write_changes(bounded, peer, out);
    if (is_eager(bounded) && out > begin)
        (void)keep_sent(&peer->last, begin + SECTION_HEADER_BYTES,
                        (size_t)(out - begin) - SECTION_HEADER_BYTES);
    out = write_pushed(bounded, node, out, &left);
    out = write_wanted(bounded, peer, out);
    out = write_clocks(bounded, node, left, out);
    body->end += (size_t)(out - begin);
    peer->inquires = false;
    peer->n_asked++;
    peer->asks = true;
    peer->asked_epoch = view_epoch(bounded->view);
    bounded->counts.questions++;
    bounded->counts.bytes_sent += FRAME_HEADER_BYTES + (size_t)(out - begin);
    return TERN_OK;
}

/* ---- Answers ------------------------------------------------------------------------------------ */

void bounded_raise(struct bounded *bounded, uint32_t home, uint64_t clock)
{
    if (bounded->valid.values[home] != CLOCK_RESTS && clock <= bounded->valid.values[home])
        return;
    min_clock_set(&bounded->valid, home, clock);
    /* Release: partner of the acquire in bounded_check. */
    atomic_store_explicit(&bounded->valid_to, bounded->valid.lowest, memory_order_release);
}

void bounded_hear(struct bounded *bounded, uint32_t home, const struct standing *standing)
{
    struct bounded_peer *peer = &bounded->peers[home];
    struct standing *heard = &peer->heard;
    /* Questions and answers come on two ways, so an older one may come later. */
    if (standing->clock >= heard->clock) {
        heard->clock = standing->clock;
        heard->node = standing->node;
        heard->worker = standing->worker;
    }
    if (standing->merges > heard->merges)
        heard->merges = standing->merges;
    if (standing->stable > heard->stable)
        heard->stable = standing->stable;
    if (standing->peak > heard->peak)
        heard->peak = standing->peak;
    heard->own = standing->own;
    if (!is_eager(bounded) || !peer->holds)
        bounded_raise(bounded, home, peer->heard.clock);
    end_epoch(bounded);
}

/* Takes over a value, and then its age. */
static enum tern_status take_value(struct bounded *bounded, uint64_t key, const uint8_t *value,
                                   uint64_t age)
{
    struct store *store = bounded->store;
    enum tern_status status = TERN_OK;
    if (defect(DEFECT_VALUE_OVERWRITES) && !store_create(store, key))
        store_set_one(store, key, value);
    else
        status = store_refresh(store, key, value);
    if (!status)
        atomic_store_explicit(bounded_age(store, key), age, memory_order_release);
    return status;
}

/* Makes the map of the changes in the last question; false when memory runs out. */
static bool map_sent(struct sent_changes *last, size_t item_bytes)
{
    const uint8_t *items = buffer_head(&last->items);
    const size_t n = buffer_size(&last->items) / item_bytes;
    if (last->at.n == n)
        return true;
    if (!keymap_reserve(&last->at, n))
        return false;
    for (size_t i = 0; i < n; i++)
        keymap_set(&last->at, section_get(items + i * item_bytes), (uint32_t)i + 1);
    return true;
}

/* What the last question has changed of a key; NULL if nothing. */
static const uint8_t *find_sent(const struct sent_changes *last, uint64_t key, size_t item_bytes)
{
    const uint32_t at = keymap_get(&last->at, key);
    return at ? buffer_head(&last->items) + (at - 1) * item_bytes + 8 : NULL;
}

enum tern_status bounded_take_pushed(struct bounded *bounded, uint32_t home,
                                     const struct section *section, uint64_t n_served)
{
    struct bounded_peer *peer = &bounded->peers[home];
    struct store *store = bounded->store;
    struct sent_changes *last = &peer->last;
    uint8_t *sum = buffer_head(&bounded->values);
    const bool lacks =
        n_served < peer->n_asked && buffer_size(&last->items) > 0 && !defect(DEFECT_CROSSED_LOST);
    enum tern_status status = TERN_OK;
    if (lacks && !map_sent(last, section->item_bytes))
        return no_memory_for(bounded);
    for (uint32_t i = 0; !status && i < section->count; i++) {
        const uint8_t *item = section->items + i * section->item_bytes, *value = item + 8;
        const uint64_t key = section_get(item);
        const uint8_t *own = lacks ? find_sent(last, key, section->item_bytes) : NULL;
        if (own) {
            memcpy(sum, value, store->value_bytes);
            store->kernel->add[store->type](sum, own, store->length);
            value = sum;
        }
        status = take_value(bounded, key, value, AGE_CURRENT);
    }
    bounded->counts.values_received += section->count;
    return status;
}

/* Checks an answer as a whole; *clocks is where its last section has its item. */
static bool is_answer(const struct bounded *bounded, uint32_t node, const uint8_t *body,
                      size_t bytes, const uint8_t **clocks)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    *clocks = NULL;
    while (section_next(body, bytes, &at, &section, &wrong)) {
        if (section.kind == SECTION_CLOCKS && section.count == 1 &&
            section.item_bytes == 8 * ANSWER_WORDS)
            *clocks = section.items;
        else if (section.kind != SECTION_VALUES || section.item_bytes != row_bytes(bounded))
            return false;
        for (uint32_t i = 0; section.kind == SECTION_VALUES && i < section.count; i++) {
            uint64_t key = section_get(section.items + i * section.item_bytes);
            if (key > bounded->store->last_key || home_of(bounded, key) != node)
                return false;
        }
    }
    return !wrong && *clocks;
}

/* Whether the first value of a key that was asked for comes after a later one, which came with the clock. */
static bool is_overtaken(const struct bounded *bounded, uint64_t key)
{
    const _Atomic uint64_t *age = bounded_age(bounded->store, key);
    return is_eager(bounded) && age && atomic_load_explicit(age, memory_order_relaxed) &&
           !defect(DEFECT_FIRST_VALUE_LATE);
}

/* Takes over the values of an answer; their number. */
static enum tern_status take_values(struct bounded *bounded, const uint8_t *body, size_t bytes,
                                    uint64_t age, size_t *n)
{
    struct section section;
    size_t at = 0;
    bool wrong;
    enum tern_status status = TERN_OK;
    *n = 0;
    while (!status && section_next(body, bytes, &at, &section, &wrong)) {
        if (section.kind != SECTION_VALUES)
            continue;
        *n += section.count;
        for (uint32_t i = 0; !status && i < section.count; i++) {
            const uint8_t *item = section.items + i * section.item_bytes;
            if (!is_overtaken(bounded, section_get(item)))
                status = take_value(bounded, section_get(item), item + 8, age);
        }
    }
    return status;
}

enum tern_status bounded_answer(struct bounded *bounded, uint32_t node, const struct frame *answer,
                                const uint8_t *body)
{
    struct bounded_peer *peer = &bounded->peers[node];
    const uint8_t *clocks;
    if (answer->kind != FRAME_ROUND_REPLY || answer->keys_bytes ||
        !is_answer(bounded, node, body, answer->body_bytes, &clocks))
        return fail(TERN_PEER, "node %u answered a round of table '%s' with what makes no sense",
                    (unsigned)node, bounded->store->name);
    struct standing standing = standing_read(clocks);
    const bool is_of_era = peer->asked_epoch == view_epoch(bounded->view);
    uint64_t age = is_eager(bounded) ? AGE_CURRENT : standing.clock + 1;
    size_t n_values;
    enum tern_status status = take_values(bounded, body, answer->body_bytes, age, &n_values);
    if (status)
        return status;
    bounded->counts.values_received += n_values;
    bounded->counts.bytes_received += FRAME_HEADER_BYTES + answer->body_bytes;
    peer->asks = false;
    if (is_of_era)
        peer->knows_rest = peer->said.clock == CLOCK_RESTS;
    peer->owes = answer->fields.round_reply.left;
    if (peer->sends && is_of_era) {
        peer->merged = standing.merges;
        if (bounded->epoch && peer->target == UINT64_MAX)
            peer->target = standing.merges;
        peer->greets = false;
    }
    peer->sends = false;
    /* What it told under an earlier view is not about all keys that it has now. */
    if (answer->epoch < view_epoch(bounded->view) && !defect(DEFECT_ERA_IGNORED))
        standing.clock = 0;
    if (is_eager(bounded) && buffer_size(&peer->last.items))
        peer->n_under = section_get(clocks + (size_t)8 * STANDING_WORDS);
    /* As if the next question had been asked at once. */
    if (defect(DEFECT_PUSH_OVERTAKEN))
        buffer_consume(&peer->last.items, buffer_size(&peer->last.items));
    home_pushed(bounded, node);
    if (!peer->owes && !is_eager(bounded))
        bounded_raise(bounded, node, standing.clock);
    bounded_hear(bounded, node, &standing);
    return TERN_OK;
}

/* ---- Between rounds ------------------------------------------------------------------------------ */

void bounded_forget_peer(struct bounded *bounded, uint32_t node)
{
    struct bounded_peer *peer = &bounded->peers[node];
    peer->is_closed = true;
    peer->asks = peer->greets = peer->is_behind = false;
    peer->owes = peer->inquires = peer->pushes = peer->flushes = false;
    peer->n_under = peer->n_got;
    peer->changed.n = peer->wanted.n = 0;
    count_unsettled(bounded);
    bounded_raise(bounded, node, CLOCK_RESTS);
    home_forget(bounded, node);
    end_epoch(bounded);
}

void bounded_inquire(struct bounded *bounded)
{
    view_each (i, bounded->view)
        bounded->peers[i].inquires = true;
}

void bounded_settle(struct bounded *bounded)
{
    struct store *store = bounded->store;
    view_each_while (i, bounded->view, is_eager(bounded))
        bounded->peers[i].flushes = true;
    if (is_eager(bounded))
        return;
    bounded_inquire(bounded);
    uint64_t n_slots = 64 * store_mark_words(store);
    for (uint64_t slot = 0; slot < n_slots && slabs_has(&store->facts, (uint32_t)slot); slot++)
        atomic_store_explicit(&store_facts(store, (uint32_t)slot)->age, 0, memory_order_relaxed);
}

struct standing bounded_slowest(struct bounded *bounded)
{
    const uint32_t self = bounded->core->node, home = min_clock_slowest(&bounded->valid);
    struct standing standing = !view_has(bounded->view, home) || home == self
                                   ? bounded->standing
                                   : bounded->peers[home].heard;
    if (!view_has(bounded->view, standing.node) || standing.node == self ||
        standing.worker == NO_WORKER)
        return standing;
    /* Another worker of that node may be the slowest since; the node itself knows. */
    const uint32_t own = bounded->peers[standing.node].heard.own;
    if (own != NO_WORKER)
        standing.worker = own;
    return standing;
}

bool bounded_is_awaited(const struct bounded *bounded)
{
    bool awaited = true;
    view_each (i, bounded->view)
        awaited &= !bounded->peers[i].knows_rest || bounded->peers[i].is_closed;
    return awaited;
}

static uint64_t higher(uint64_t a, uint64_t b)
{
    return b != CLOCK_RESTS && b > a ? b : a;
}

uint64_t bounded_highest(const struct bounded *bounded)
{
    uint64_t highest = higher(bounded->standing.peak, bounded->now.clock);
    highest = higher(highest, bounded->standing.clock);
    view_each (i, bounded->view) {
        highest = higher(highest, bounded->peers[i].heard.peak);
        highest = higher(highest, bounded->peers[i].said.clock);
    }
    return highest;
}

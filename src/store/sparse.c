/* sparse - see sparse.h. */
#include "store/sparse.h"

#include "base/pages.h"
#include "base/rand.h"

enum {
    FIRST_BITS = SPARSE_STRIPE_BITS + 2, /* two pairs of lines for each stripe */
    NO_LINES_BITS = 2
};

static uintptr_t array_of(const struct index_line *lines, unsigned bits)
{
    return (uintptr_t)lines | (64 - bits);
}

/* log2 of the lines of all stripes together. */
static unsigned bits_of(uintptr_t array)
{
    return 64 - (unsigned)(array & 63);
}

static bool is_none(uintptr_t array)
{
    return bits_of(array) == NO_LINES_BITS;
}

/* The lines of one stripe. */
static uint64_t n_lines(uintptr_t array)
{
    return is_none(array) ? 0 : UINT64_C(1) << (bits_of(array) - SPARSE_STRIPE_BITS);
}

static struct index_line *first_line(uintptr_t array, unsigned stripe)
{
    return sparse_line_of(array, (uint64_t)stripe << (64 - SPARSE_STRIPE_BITS));
}

static unsigned stripe_of(uint64_t hash)
{
    return (unsigned)(hash >> (64 - SPARSE_STRIPE_BITS));
}

/* The i-th line in which a key may be: its own, the buddy, then the pairs that follow in the stripe,
 * where the first comes after the last. */
static struct index_line *line_at(uintptr_t array, uint64_t hash, uint64_t i)
{
    struct index_line *line = sparse_line_of(array, hash);
    if (i < 2)
        return i ? sparse_buddy(line) : line;
    struct index_line *first = first_line(array, stripe_of(hash));
    uint64_t pair = (uint64_t)(line - first) & ~UINT64_C(1);
    return first + ((pair + i) & (n_lines(array) - 1));
}

/* An odd number above 2^63 that is a fraction of 2^64 with random partial quotients of 1 to 4: multiples of it are spread
 * evenly. */
static uint64_t make_multiplier(uint64_t seed)
{
    if (!seed)
        return UINT64_C(0x9e3779b97f4a7c15); /* the golden ratio, whose quotients are all 1 */
    uint64_t p = 0, q = 1, last_p = 1, last_q = 0;
    for (uint64_t i = 0; q < UINT64_C(1) << 60; i++) {
        const uint64_t quotient = i ? 1 + rand_below(rand_at(seed, i), 4) : 1;
        const uint64_t next_p = quotient * p + last_p, next_q = quotient * q + last_q;
        last_p = p, last_q = q;
        p = next_p, q = next_q;
    }
    return (uint64_t)(((unsigned __int128)p << 64) / q) | 1;
}

/* Before its first array a stripe has two pairs of lines. The first pair has a key that belongs in the second, and the
 * other way round: 1, since its hash is the multiplier, and 0. */
void sparse_init(struct sparse *sparse, uint64_t seed, bool reuses)
{
    *sparse = (struct sparse){.multiplier = make_multiplier(seed), .reuses = reuses};
    for (size_t i = 0; i < 2 * SPARSE_CELLS; i++)
        atomic_init(&sparse->none[i / SPARSE_CELLS].keys[i % SPARSE_CELLS], 1);
    for (int i = 0; i < SPARSE_STRIPES; i++)
        atomic_init(&sparse->arrays[i], array_of(sparse->none, NO_LINES_BITS) - (uintptr_t)sparse);
}

void sparse_init_shared(struct sparse *sparse, struct index_line *room, unsigned room_bits,
                        uint64_t seed, bool reuses, bool is_gated)
{
    sparse_init(sparse, seed, reuses);
    sparse->is_gated = is_gated;
    sparse->room_bits = room_bits;
    sparse->room = (uintptr_t)room - (uintptr_t)sparse;
}

/* Sizes up to 2^bits lines, of which each has as many as all smaller ones together, and one. */
size_t sparse_room_bytes(unsigned room_bits, bool reuses)
{
    return ((reuses ? 4 : 2) * sizeof(struct index_line)) << room_bits;
}

unsigned sparse_bits_for(uint64_t n_keys)
{
    /* Three of four cells are used at most; stripes may differ by half. */
    unsigned bits = FIRST_BITS;
    while (UINT64_C(2) << bits < n_keys)
        bits++;
    return bits;
}

void sparse_fini(struct sparse *sparse)
{
    for (unsigned bits = 0; bits < SPARSE_SIZES; bits++)
        for (unsigned bank = 0; bank < 2; bank++)
            pages_free(sparse->lines[bank][bits], sizeof(struct index_line) << bits);
}

struct entry *sparse_search(const struct sparse *sparse, uint64_t key)
{
    uint64_t hash = sparse_hash(sparse, key);
    uintptr_t array, now = sparse_array(sparse, stripe_of(hash));
    do {
        array = now;
        struct index_line *line;
        uint64_t i = 0;
        do {
            line = line_at(array, hash, i++);
            unsigned match = sparse_match(line, key);
            if (match)
                return sparse_matched(line, match);
        } while (entry_read(&line->entries[SPARSE_CELLS - 1]));
        now = sparse_array(sparse, stripe_of(hash));
    } while (now != array);
    return NULL;
}

/* Puts a key into the first free cell for it; nobody else writes to the array. `again`: it may have one already. */
static struct entry *put_new(const struct sparse *sparse, uintptr_t array, uint64_t key,
                             uint64_t word, bool again)
{
    uint64_t hash = sparse_hash(sparse, key), i = 0;
    struct index_line *line = line_at(array, hash, 0);
    while (atomic_load_explicit(&line->entries[i % SPARSE_CELLS].word, memory_order_relaxed)) {
        if (again && line->keys[i % SPARSE_CELLS] == key && !fault(FAULT_CELL_MOVED_TWICE))
            return &line->entries[i % SPARSE_CELLS];
        if (++i % SPARSE_CELLS == 0)
            line = line_at(array, hash, i / SPARSE_CELLS);
    }
    struct entry *entry = &line->entries[i % SPARSE_CELLS];
    atomic_store_explicit(&line->keys[i % SPARSE_CELLS], key, memory_order_relaxed);
    fault_point();
    /* Release: whoever sees the word sees the key. */
    atomic_store_explicit(&entry->word, word, memory_order_release);
    return entry;
}

static struct entry *put(const struct sparse *sparse, uintptr_t array, uint64_t key, uint64_t word)
{
    return put_new(sparse, array, key, word, false);
}

/* Moves a cell of a gated index, if it has a key and was not moved. Only a dead process can have latched its entry. */
static void move_gated(const struct sparse *sparse, struct index_line *line, unsigned i,
                       uintptr_t to, bool again)
{
    struct entry *entry = &line->entries[i];
    const uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed) & ~ENTRY_LATCHED;
    if (!word || entry_state(word) == ENTRY_MOVED)
        return;
    put_new(sparse, to, atomic_load_explicit(&line->keys[i], memory_order_relaxed), word, again);
    fault_point();
    entry_release(entry, word, ENTRY_MOVED, 0);
    fault_point();
}

/* Counts the cells of a stripe that have words; others, into which a dead process may have put a key, have none. */
static uint64_t tidy(uintptr_t array, unsigned stripe)
{
    struct index_line *line = first_line(array, stripe), *end = line + n_lines(array);
    uint64_t n = 0;
    for (; line < end; line++)
        for (unsigned i = 0; i < SPARSE_CELLS; i++) {
            const bool has_word =
                atomic_load_explicit(&line->entries[i].word, memory_order_relaxed);
            n += has_word;
            if (!has_word && line->keys[i] && !fault(FAULT_KEY_WITHOUT_WORD))
                atomic_store_explicit(&line->keys[i], 0, memory_order_relaxed);
        }
    return n;
}

/* Whether the cell of a key need not be moved: its row was removed, or is at the key's home, as for all keys of which nothing is
 * known (evict.h). Key 0 keeps the very first cell. */
static bool is_left_behind(const struct sparse *sparse, uint64_t key, uint64_t word)
{
    const enum entry_state state = entry_state(word);
    return sparse->reuses && (state == ENTRY_NONE || state == ENTRY_ELSEWHERE) && key;
}

/* Moves the cells of a stripe to an array that is not yet published, and counts them; false if a wait was given up. */
static bool move_cells(const struct sparse *sparse, uintptr_t from, uintptr_t to, unsigned stripe,
                       uint64_t *n_moved, struct watch *watch)
{
    struct index_line *line = first_line(from, stripe), *end = line + n_lines(from);
    for (; line < end; line++) {
        for (unsigned i = 0; i < SPARSE_CELLS; i++) {
            struct entry *entry = &line->entries[i];
            uint64_t word;
            if (!atomic_load_explicit(&entry->word, memory_order_relaxed))
                break;
            if (!entry_latch(entry, watch, &word))
                return false;
            if (fault(FAULT_CELL_NOT_MARKED) && i == 0) {
                entry_release_same(entry, word);
                continue;
            }
            const uint64_t key = atomic_load_explicit(&line->keys[i], memory_order_relaxed);
            if (!is_left_behind(sparse, key, word)) {
                put(sparse, to, key, word);
                ++*n_moved;
            }
            fault_point();
            entry_release(entry, word, ENTRY_MOVED, 0);
        }
    }
    return true;
}

/* The lines of a size for all stripes, of the first array or the second; NULL when memory runs out. */
static struct index_line *lines_of_size(struct sparse *sparse, unsigned bits, unsigned bank)
{
    if (sparse->room_bits)
        return bits <= sparse->room_bits
                   ? (struct index_line *)((uintptr_t)sparse + sparse->room) +
                         ((uint64_t)bank << (sparse->room_bits + 1)) + (UINT64_C(1) << bits)
                   : NULL;
    latch_take(&sparse->latch, RANK_INDEX, NULL);
    if (!sparse->lines[bank][bits])
        sparse->lines[bank][bits] = pages_new(sizeof(struct index_line) << bits);
    struct index_line *lines = sparse->lines[bank][bits];
    latch_release(&sparse->latch, RANK_INDEX);
    return lines;
}

/* Looks whether all stripes have the same array by now. Acquire: what each of them has published is what
 * sparse_uniform's reader gets to see. If the wait is given up it stays as it was: readers check what they find. So two
 * that look at the same time need no latch to be right, and a gated index has none. */
static void note_uniform(struct sparse *sparse, struct watch *watch)
{
    if (!sparse->is_gated && !latch_take(&sparse->latch, RANK_INDEX, watch))
        return;
    uintptr_t uniform = atomic_load_explicit(&sparse->arrays[0], memory_order_acquire);
    for (int i = 1; i < SPARSE_STRIPES; i++)
        if (atomic_load_explicit(&sparse->arrays[i], memory_order_acquire) != uniform)
            uniform = 0;
    atomic_store_explicit(&sparse->uniform, uniform, memory_order_release);
    if (!sparse->is_gated)
        latch_release(&sparse->latch, RANK_INDEX);
}

/* Gives the memory of an old array back. */
static void drop(const struct sparse *sparse, void *lines, size_t bytes)
{
    if (sparse->room_bits)
        pages_drop_shared(lines, bytes);
    else
        pages_drop(lines, bytes);
}

bool sparse_take(struct sparse *sparse, uint64_t bytes, uint64_t limit_bytes)
{
    uint64_t taken = atomic_load_explicit(&sparse->bytes, memory_order_relaxed);
    do {
        if (bytes > limit_bytes || taken > limit_bytes - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&sparse->bytes, &taken, taken + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Moves the cells of a stripe to the array that it grows to, unless they were, and publishes that. The caller holds the gate;
 * `again`: a process that is gone had begun. */
static void grow_gated(struct sparse *sparse, unsigned stripe, bool again)
{
    struct stripe *growing = &sparse->stripes[stripe];
    const uintptr_t array = sparse_array(sparse, stripe);
    const uintptr_t to = atomic_load_explicit(&growing->grows_to, memory_order_relaxed);
    const uintptr_t new = (uintptr_t)sparse + to;
    struct index_line *line = first_line(array, stripe), *end = line + n_lines(array);
    for (; array != new &&line < end; line++)
        for (unsigned i = 0; i < SPARSE_CELLS; i++)
            move_gated(sparse, line, i, new, again);
    if (array != new) {
        if (is_none(array) && stripe == sparse_stripe(sparse, 0))
            put_new(sparse, new, 0, ENTRY_SEQUENCE, again);
        fault_point();
        growing->n_keys = tidy(new, stripe);
        /* Release: partner of the acquire in sparse_line and sparse_search; the new cells are complete. */
        atomic_store_explicit(&sparse->arrays[stripe], to, memory_order_release);
        fault_point();
    }
    note_uniform(sparse, NULL);
    fault_point();
    atomic_store_explicit(&growing->grows_to, 0, memory_order_release);
    if (array != new && !is_none(array))
        drop(sparse, first_line(array, stripe), n_lines(array) * sizeof(struct index_line));
}

void sparse_mend(struct sparse *sparse, unsigned stripe)
{
    if (sparse->stripes[stripe].grows_to && !fault(FAULT_GROWTH_UNFINISHED))
        grow_gated(sparse, stripe, true);
    sparse->stripes[stripe].n_keys = tidy(sparse_array(sparse, stripe), stripe);
}

/* Moves the cells of a stripe, whose latch the caller holds, to the lines of 2^bits, which are zero, and publishes them.
 * False if a wait was given up: what was moved is in the new array, which is never published then. */
static bool move_stripe(struct sparse *sparse, unsigned stripe, struct index_line *lines,
                        unsigned bits, struct watch *watch)
{
    const uintptr_t array = sparse_array(sparse, stripe), new = array_of(lines, bits);
    if (sparse->is_gated) {
        atomic_store_explicit(&sparse->stripes[stripe].grows_to, new - (uintptr_t)sparse,
                              memory_order_release);
        grow_gated(sparse, stripe, false);
        return true;
    }
    struct latch_stripe *latch =
        &sparse->latch_stripes[stripe >> (SPARSE_STRIPE_BITS - LATCH_STRIPE_BITS)];
    if (!stripe_latch(latch, watch))
        return false;
    if (fault(FAULT_GROWN_EARLY))
        atomic_store_explicit(&sparse->arrays[stripe], new - (uintptr_t)sparse,
                              memory_order_release);
    uint64_t n_moved = 0;
    const bool moved = move_cells(sparse, array, new, stripe, &n_moved, watch);
    fault_point();
    if (moved) {
        if (is_none(array) && stripe == stripe_of(sparse_hash(sparse, 0))) {
            put(sparse, new, 0, ENTRY_SEQUENCE);
            n_moved++;
        }
        sparse->stripes[stripe].n_keys = n_moved;
        /* Release: partner of the acquire in sparse_line and sparse_search; the new cells are complete. */
        atomic_store_explicit(&sparse->arrays[stripe], new - (uintptr_t)sparse,
                              memory_order_release);
    }
    stripe_release(latch);
    if (!moved)
        return false;
    note_uniform(sparse, watch);
    if (!is_none(array))
        drop(sparse, first_line(array, stripe), n_lines(array) * sizeof(struct index_line));
    return true;
}

/* Moves the stripe into an array of twice the size; false also for want of memory. */
static bool grow(struct sparse *sparse, unsigned stripe, uint64_t limit_bytes, struct watch *watch)
{
    uintptr_t array = sparse_array(sparse, stripe);
    unsigned bits = is_none(array) ? FIRST_BITS : bits_of(array) + 1;
    uint64_t more = (n_lines(array_of(NULL, bits)) - n_lines(array)) * sizeof(struct index_line);
    if (!sparse_take(sparse, more, limit_bytes))
        return false;
    struct index_line *lines = lines_of_size(sparse, bits, 0);
    if (lines && move_stripe(sparse, stripe, lines, bits, watch))
        return true;
    atomic_fetch_sub_explicit(&sparse->bytes, more, memory_order_relaxed);
    return false;
}

/* The cells of a stripe without a row, as of now. */
static uint64_t count_left_behind(const struct sparse *sparse, unsigned stripe)
{
    uintptr_t array = sparse_array(sparse, stripe);
    const struct index_line *line = first_line(array, stripe), *end = line + n_lines(array);
    uint64_t n = 0;
    for (; line < end; line++)
        for (unsigned i = 0; i < SPARSE_CELLS; i++) {
            const uint64_t word = entry_read(&line->entries[i]);
            n += word && is_left_behind(sparse, line->keys[i], word);
        }
    return n;
}

/* Makes the lines of a stripe, which were in use before, zero again. */
static void clear(struct index_line *line, uint64_t n)
{
    for (; n; n--, line++)
        for (unsigned i = 0; i < SPARSE_CELLS; i++) {
            if (atomic_load_explicit(&line->entries[i].word, memory_order_relaxed))
                atomic_store_explicit(&line->entries[i].word, 0, memory_order_relaxed);
            if (atomic_load_explicit(&line->keys[i], memory_order_relaxed))
                atomic_store_explicit(&line->keys[i], 0, memory_order_relaxed);
        }
}

/* Moves the stripe into the other array of its size, without the cells that have no row; false as with `grow`. */
static bool rebuild(struct sparse *sparse, unsigned stripe, struct watch *watch)
{
    const uintptr_t array = sparse_array(sparse, stripe);
    const unsigned bits = bits_of(array);
    const struct index_line *first = lines_of_size(sparse, bits, 0);
    const bool is_first = (uintptr_t)first == (array & ~(uintptr_t)63);
    struct index_line *lines = lines_of_size(sparse, bits, is_first);
    if (!lines)
        return false;
    if (!fault(FAULT_REBUILD_UNSEEN))
        atomic_fetch_add_explicit(&sparse->n_rebuilt, 1, memory_order_seq_cst);
    /* Whoever sees what is written from here on sees that something was rebuilt (sparse_is_as_before). */
    atomic_thread_fence(memory_order_release);
    clear(first_line(array_of(lines, bits), stripe), n_lines(array));
    return move_stripe(sparse, stripe, lines, bits, watch);
}

/* Makes room in a full stripe, whose latch the caller holds. */
static bool make_room(struct sparse *sparse, unsigned stripe, uint64_t limit_bytes,
                      struct watch *watch)
{
    /* An attempt that was given up has left cells in the new array: once a process is lost, nothing grows any more. */
    if (watch && watch_lost(watch))
        return false;
    const uint64_t n_cells = n_lines(sparse_array(sparse, stripe)) * SPARSE_CELLS;
    const uint64_t n = sparse->reuses ? count_left_behind(sparse, stripe) : 0;
    if (n && n >= n_cells / 8)
        return rebuild(sparse, stripe, watch);
    return grow(sparse, stripe, limit_bytes, watch) ||
           (n && n >= n_cells / 32 && rebuild(sparse, stripe, watch));
}

static bool is_full(const struct sparse *sparse, unsigned stripe)
{
    uintptr_t array = sparse_array(sparse, stripe);
    return sparse->stripes[stripe].n_keys >= n_lines(array) * SPARSE_CELLS / 4 * 3;
}

struct entry *sparse_insert(struct sparse *sparse, uint64_t key, uint64_t limit_bytes,
                            struct watch *watch)
{
    unsigned stripe = stripe_of(sparse_hash(sparse, key));
    const bool latches = !sparse->is_gated && !fault(FAULT_INDEX_UNLATCHED);
    if (latches && !latch_take(&sparse->stripes[stripe].latch, RANK_INDEX_STRIPE, watch))
        return NULL;
    struct entry *entry = sparse_search(sparse, key);
    fault_point();
    const bool grows = !entry && is_full(sparse, stripe);
    /* What is without a row may have one before it is left behind. */
    while (!entry && is_full(sparse, stripe) && make_room(sparse, stripe, limit_bytes, watch))
        entry = sparse_search(sparse, key); /* key 0 has come with the first array */
    if (!entry && !is_full(sparse, stripe)) {
        entry = put(sparse, sparse_array(sparse, stripe), key, ENTRY_SEQUENCE);
        fault_point();
        sparse->stripes[stripe].n_keys++;
    }
    if (latches && !(grows && fault(FAULT_STRIPE_KEPT)))
        latch_release(&sparse->stripes[stripe].latch, RANK_INDEX_STRIPE);
    return entry;
}

uint64_t sparse_lines(const struct sparse *sparse, unsigned stripe)
{
    return n_lines(sparse_array(sparse, stripe));
}

bool sparse_visit_lines(struct sparse *sparse, unsigned stripe, uint64_t first, uint64_t n,
                        void (*visit)(void *, uint64_t key, uint64_t word), void *context,
                        struct watch *watch)
{
    const bool latches = !sparse->is_gated;
    if (latches && !latch_take(&sparse->stripes[stripe].latch, RANK_INDEX_STRIPE, watch))
        return false;
    uintptr_t array = sparse_array(sparse, stripe);
    const uint64_t all = n_lines(array), end = n < all && first < all - n ? first + n : all;
    for (struct index_line *lines = first_line(array, stripe); first < end; first++) {
        for (unsigned i = 0; i < SPARSE_CELLS; i++) {
            uint64_t word = entry_read(&lines[first].entries[i]);
            if (word)
                visit(context, atomic_load_explicit(&lines[first].keys[i], memory_order_relaxed),
                      word);
        }
    }
    if (latches)
        latch_release(&sparse->stripes[stripe].latch, RANK_INDEX_STRIPE);
    return true;
}

void sparse_visit(struct sparse *sparse, void (*visit)(void *, uint64_t key, uint64_t word),
                  void *context, struct watch *watch)
{
    for (unsigned stripe = 0; stripe < SPARSE_STRIPES; stripe++)
        if (!sparse_visit_lines(sparse, stripe, 0, UINT64_MAX, visit, context, watch))
            return;
}

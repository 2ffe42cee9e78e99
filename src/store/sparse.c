/* sparse - see sparse.h. */
#include "store/sparse.h"

#include <errno.h>

#include "base/pages.h"

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

/* Before its first array a stripe has two pairs of lines. The first pair has a key that belongs in the second, and the
 * other way round: 1 and 0. */
static void init(struct sparse *sparse, const pthread_mutexattr_t *kind)
{
    *sparse = (struct sparse){0};
    for (size_t i = 0; i < 2 * SPARSE_CELLS; i++)
        atomic_init(&sparse->none[i / SPARSE_CELLS].keys[i % SPARSE_CELLS], 1);
    pthread_mutex_init(&sparse->lock, kind);
    for (int i = 0; i < SPARSE_STRIPES; i++) {
        atomic_init(&sparse->arrays[i],
                    array_of(sparse->none, NO_LINES_BITS) - (uintptr_t)sparse);
        pthread_mutex_init(&sparse->stripes[i].lock, kind);
    }
}

void sparse_init(struct sparse *sparse)
{
    init(sparse, NULL);
}

void sparse_init_common(struct sparse *sparse, struct index_line *room, unsigned room_bits)
{
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    init(sparse, &kind);
    pthread_mutexattr_destroy(&kind);
    sparse->room_bits = room_bits;
    sparse->room = (uintptr_t)room - (uintptr_t)sparse;
}

/* Sizes up to 2^bits lines, of which each has as many as all smaller ones together, and one. */
size_t sparse_room_bytes(unsigned room_bits)
{
    return (2 * sizeof(struct index_line)) << room_bits;
}

unsigned sparse_bits_for(uint64_t n_keys)
{
    /* Three of four cells are used at most; stripes may differ by half. */
    unsigned bits = FIRST_BITS;
    while (UINT64_C(2) << bits < n_keys)
        bits++;
    return bits;
}

/* Whether a lock was taken, from its owner if that is dead. */
static bool is_taken(int outcome, pthread_mutex_t *lock)
{
    if (outcome == EOWNERDEAD)
        pthread_mutex_consistent(lock);
    return outcome == 0 || outcome == EOWNERDEAD;
}

static void take(pthread_mutex_t *lock)
{
    (void)is_taken(pthread_mutex_lock(lock), lock);
}

void sparse_fini(struct sparse *sparse)
{
    for (unsigned bits = 0; bits < SPARSE_SIZES; bits++)
        pages_free(sparse->lines[bits], sizeof(struct index_line) << bits);
    for (int i = 0; i < SPARSE_STRIPES; i++)
        pthread_mutex_destroy(&sparse->stripes[i].lock);
    pthread_mutex_destroy(&sparse->lock);
}

struct entry *sparse_search(const struct sparse *sparse, uint64_t key)
{
    uint64_t hash = sparse_hash(key);
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

/* Puts a key into the first free cell for it; nobody else writes to the array. */
static struct entry *put(uintptr_t array, uint64_t key, uint64_t word)
{
    uint64_t hash = sparse_hash(key), i = 0;
    struct index_line *line = line_at(array, hash, 0);
    while (atomic_load_explicit(&line->entries[i % SPARSE_CELLS].word, memory_order_relaxed))
        if (++i % SPARSE_CELLS == 0)
            line = line_at(array, hash, i / SPARSE_CELLS);
    struct entry *entry = &line->entries[i % SPARSE_CELLS];
    atomic_store_explicit(&line->keys[i % SPARSE_CELLS], key, memory_order_relaxed);
    /* Release: whoever sees the word sees the key. */
    atomic_store_explicit(&entry->word, word, memory_order_release);
    return entry;
}

/* Moves the cells of a stripe to an array that is not yet published. */
static void move_cells(uintptr_t from, uintptr_t to, unsigned stripe)
{
    struct index_line *line = first_line(from, stripe), *end = line + n_lines(from);
    for (; line < end; line++) {
        for (unsigned i = 0; i < SPARSE_CELLS; i++) {
            struct entry *entry = &line->entries[i];
            uint64_t seen = atomic_load_explicit(&entry->word, memory_order_relaxed);
            if (!seen)
                break;
            if (entry_state(seen) == ENTRY_MOVED)
                continue;
            uint64_t word = entry_latch(entry);
            put(to, atomic_load_explicit(&line->keys[i], memory_order_relaxed), word);
            entry_release(entry, word, ENTRY_MOVED, 0);
        }
    }
}

/* The lines of a size for all stripes; NULL when memory is used up. */
static struct index_line *lines_of_size(struct sparse *sparse, unsigned bits)
{
    if (sparse->room_bits)
        return bits <= sparse->room_bits
                   ? (struct index_line *)((uintptr_t)sparse + sparse->room) + (UINT64_C(1) << bits)
                   : NULL;
    pthread_mutex_lock(&sparse->lock);
    if (!sparse->lines[bits])
        sparse->lines[bits] = pages_new(sizeof(struct index_line) << bits);
    struct index_line *lines = sparse->lines[bits];
    pthread_mutex_unlock(&sparse->lock);
    return lines;
}

/* Looks whether all stripes have the same array by now. Acquire: what each of them has published is what
 * sparse_common's reader gets to see. */
static void note_common(struct sparse *sparse)
{
    take(&sparse->lock);
    uintptr_t common = atomic_load_explicit(&sparse->arrays[0], memory_order_acquire);
    for (int i = 1; i < SPARSE_STRIPES; i++)
        if (atomic_load_explicit(&sparse->arrays[i], memory_order_acquire) != common)
            common = 0;
    atomic_store_explicit(&sparse->common, common, memory_order_release);
    pthread_mutex_unlock(&sparse->lock);
}

/* Gives the memory of an old array back. */
static void drop(const struct sparse *sparse, void *lines, size_t bytes)
{
    if (sparse->room_bits)
        pages_drop_common(lines, bytes);
    else
        pages_drop(lines, bytes);
}

/* Moves the stripe into an array of twice the size. The caller holds the stripe's lock. Who died here may have moved a
 * part, or be found to have put one key twice: the first counts. */
static bool grow(struct sparse *sparse, unsigned stripe, uint64_t limit_bytes)
{
    uintptr_t array = sparse_array(sparse, stripe);
    unsigned bits = is_none(array) ? FIRST_BITS : bits_of(array) + 1;
    uint64_t old_bytes = n_lines(array) * sizeof(struct index_line);
    uint64_t more = n_lines(array_of(NULL, bits)) * sizeof(struct index_line) - old_bytes;
    if (atomic_load_explicit(&sparse->bytes, memory_order_relaxed) + more > limit_bytes)
        return false;
    struct index_line *lines = lines_of_size(sparse, bits);
    if (!lines)
        return false;
    atomic_fetch_add_explicit(&sparse->bytes, more, memory_order_relaxed);

    uintptr_t grown = array_of(lines, bits);
    struct area *area = &sparse->areas[stripe >> (SPARSE_STRIPE_BITS - AREA_BITS)];
    area_latch(area);
    sparse->stripes[stripe].grows = true;
    move_cells(array, grown, stripe);
    if (is_none(array) && stripe == stripe_of(sparse_hash(0))) {
        put(grown, 0, ENTRY_SEQUENCE);
        sparse->stripes[stripe].n_keys++;
    }
    /* Release: partner of the acquire in sparse_place and sparse_search; the new cells are complete. */
    atomic_store_explicit(&sparse->arrays[stripe], grown - (uintptr_t)sparse, memory_order_release);
    sparse->stripes[stripe].grows = false;
    area_release(area);
    note_common(sparse);
    if (old_bytes)
        drop(sparse, first_line(array, stripe), old_bytes);
    return true;
}

static bool is_full(const struct sparse *sparse, unsigned stripe)
{
    uintptr_t array = sparse_array(sparse, stripe);
    return sparse->stripes[stripe].n_keys >= n_lines(array) * SPARSE_CELLS / 4 * 3;
}

struct entry *sparse_insert(struct sparse *sparse, uint64_t key, uint64_t limit_bytes)
{
    unsigned stripe = stripe_of(sparse_hash(key));
    take(&sparse->stripes[stripe].lock);
    if (__builtin_expect(sparse->stripes[stripe].grows, 0))
        grow(sparse, stripe, UINT64_MAX);
    struct entry *entry = sparse_search(sparse, key);
    if (!entry && is_full(sparse, stripe) && grow(sparse, stripe, limit_bytes))
        entry = sparse_search(sparse, key); /* key 0 has come with the first array */
    if (!entry && !is_full(sparse, stripe)) {
        entry = put(sparse_array(sparse, stripe), key, ENTRY_SEQUENCE);
        sparse->stripes[stripe].n_keys++;
    }
    pthread_mutex_unlock(&sparse->stripes[stripe].lock);
    return entry;
}

void sparse_mend(struct sparse *sparse)
{
    for (unsigned stripe = 0; stripe < SPARSE_STRIPES; stripe++) {
        pthread_mutex_t *lock = &sparse->stripes[stripe].lock;
        if (!is_taken(pthread_mutex_trylock(lock), lock))
            continue; /* who has it does the same */
        if (sparse->stripes[stripe].grows)
            grow(sparse, stripe, UINT64_MAX);
        pthread_mutex_unlock(lock);
    }
}

void sparse_visit(struct sparse *sparse, void (*visit)(void *, uint64_t key, uint64_t word),
                  void *context)
{
    for (unsigned stripe = 0; stripe < SPARSE_STRIPES; stripe++) {
        take(&sparse->stripes[stripe].lock);
        uintptr_t array = sparse_array(sparse, stripe);
        struct index_line *line = first_line(array, stripe), *end = line + n_lines(array);
        for (; line < end; line++) {
            for (unsigned i = 0; i < SPARSE_CELLS; i++) {
                uint64_t word = entry_read(&line->entries[i]);
                if (word)
                    visit(context, atomic_load_explicit(&line->keys[i], memory_order_relaxed),
                          word);
            }
        }
        pthread_mutex_unlock(&sparse->stripes[stripe].lock);
    }
}

void sparse_visit_entries(const struct sparse *sparse, void (*visit)(void *, struct entry *entry),
                          void *context)
{
    for (unsigned stripe = 0; stripe < SPARSE_STRIPES; stripe++) {
        uintptr_t array = sparse_array(sparse, stripe);
        struct index_line *line = first_line(array, stripe), *end = line + n_lines(array);
        for (; line < end; line++)
            for (unsigned i = 0; i < SPARSE_CELLS; i++)
                visit(context, &line->entries[i]);
    }
}

/* neighbours - see neighbours.h. */
#include "node/neighbours.h"

#include <stdlib.h>

#include "base/segment.h"
#include "node/node.h"

void neighbours_init(struct neighbours *neighbours, uint32_t n_nodes)
{
    *neighbours = (struct neighbours){.n_nodes = n_nodes};
    pthread_mutex_init(&neighbours->lock, NULL);
}

static void piece_free(struct piece *piece)
{
    segment_free(piece->memory);
    free(piece);
}

void neighbours_fini(struct neighbours *neighbours)
{
    for (struct piece *piece = neighbours->pieces, *next; piece; piece = next) {
        next = piece->next;
        piece_free(piece);
    }
    pthread_mutex_destroy(&neighbours->lock);
}

/* Puts a piece, which is new at this node, on the list. */
static void add(struct neighbours *neighbours, struct piece *piece)
{
    atomic_fetch_add(&piece->memory->n_nodes, 1);
    piece->next = neighbours->pieces;
    neighbours->pieces = piece;
}

struct piece *neighbours_offer(struct neighbours *neighbours,
                               const struct tern_table_options *options)
{
    struct piece *piece = calloc(1, sizeof *piece);
    void *memory;
    if (!piece || segment_new(common_bytes(options), &memory, &piece->name)) {
        free(piece);
        return NULL;
    }
    piece->memory = memory;
    common_format(memory, options);
    pthread_mutex_lock(&neighbours->lock);
    add(neighbours, piece);
    pthread_mutex_unlock(&neighbours->lock);
    return piece;
}

/* Ends a piece of the list. */
static void drop(struct neighbours *neighbours, struct piece *piece)
{
    struct piece **place = &neighbours->pieces;
    while (*place != piece)
        place = &(*place)->next;
    *place = piece->next;
    piece_free(piece);
}

static enum tern_status attach(struct neighbours *neighbours, uint64_t name,
                               const struct tern_table_options *options, struct piece **piece)
{
    struct piece *made = calloc(1, sizeof *made);
    if (!made)
        return fail(TERN_NO_MEMORY, "no memory to open a table");
    void *memory;
    enum tern_status status = segment_attach(name, common_bytes(options), &memory);
    if (status) {
        free(made);
        return status;
    }
    made->memory = memory;
    made->name = name;
    add(neighbours, made);
    *piece = made;
    return TERN_OK;
}

enum tern_status neighbours_take(struct neighbours *neighbours, struct piece *offered, uint64_t name,
                                 const struct tern_table_options *options, struct piece **piece)
{
    enum tern_status status = TERN_OK;
    pthread_mutex_lock(&neighbours->lock);
    if (offered && offered->name != name)
        drop(neighbours, offered);
    struct piece *found = neighbours->pieces;
    while (found && found->name != name)
        found = found->next;
    if (!found && name)
        status = attach(neighbours, name, options, &found);
    if (!status)
        *piece = found;
    pthread_mutex_unlock(&neighbours->lock);
    return status;
}

void neighbours_use(struct neighbours *neighbours, struct piece *piece, struct tern_table *table)
{
    if (!piece)
        return;
    pthread_mutex_lock(&neighbours->lock);
    piece->table = table;
    pthread_mutex_unlock(&neighbours->lock);
}

/* Ends pieces that nobody will ask this node for. */
static void drop_old(struct neighbours *neighbours)
{
    for (struct piece *piece = neighbours->pieces, *next; piece; piece = next) {
        next = piece->next;
        if (!piece->table && atomic_load(&piece->memory->n_nodes) >= neighbours->n_nodes)
            drop(neighbours, piece);
    }
}

void neighbours_leave(struct neighbours *neighbours, struct piece *piece)
{
    if (!piece)
        return;
    pthread_mutex_lock(&neighbours->lock);
    piece->table = NULL;
    piece->looks = false;
    drop_old(neighbours);
    pthread_mutex_unlock(&neighbours->lock);
}

void neighbours_find_stuck(struct neighbours *neighbours)
{
    pthread_mutex_lock(&neighbours->lock);
    for (struct piece *piece = neighbours->pieces; piece; piece = piece->next) {
        struct tern_table *table = piece->table;
        if (!table)
            continue;
        piece->n_stuck = common_find_stuck(&table->core.store, piece->stuck, MOST_STUCK);
        piece->looks = true;
        atomic_store_explicit(&table->n_straight, 0, memory_order_relaxed);
    }
    pthread_mutex_unlock(&neighbours->lock);
}

void neighbours_free_stuck(struct neighbours *neighbours)
{
    pthread_mutex_lock(&neighbours->lock);
    for (struct piece *piece = neighbours->pieces; piece; piece = piece->next) {
        if (!piece->looks)
            continue;
        common_free_stuck(piece->stuck, piece->n_stuck);
        if (piece->table->core.store.index == TERN_SPARSE)
            sparse_mend(&piece->memory->sparse);
        piece->looks = false;
    }
    pthread_mutex_unlock(&neighbours->lock);
}

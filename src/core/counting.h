/*
 * counting - what client, server and workers ask of a technique whose rows count their updates, because a read of a replica
 * is checked against the count of its main copy (graph.h is the one there is).
 *
 * A PULL of such a table has the flag FRAME_COUNTED if a replica of one of its keys is at the sender. It then carries a number
 * for each key: 0, or 1 + twice the count of the sender's replica, plus 1 if the replica must lack no update at all. The answer
 * has a bit for each key, whether its value follows; a number for each: its count, or, if the value does not follow, how many
 * updates the replica lacks; and the values. A PUSH or SET with the flag is answered with a number for each key: twice its count
 * after the write; or, if the write was executed before, twice its present count plus 1.
 *
 * Any thread may call anything here.
 */
#ifndef CORE_COUNTING_H
#define CORE_COUNTING_H

#include "core/client.h"

/* What is known of a key of a pull. */
struct counted {
    uint64_t
        count; /* updates in the value that the caller gets; of a key that was asked for: in the replica */
    double frequency;
    uint32_t replica; /* its number at this node, from 1; 0: none */
    bool is_known;    /* `count` means something */
    bool is_strict;   /* the replica must lack no update */
    bool is_current;  /* the value lacked none when the key's home looked */
};

struct counting {
    /* ---- The node that has the main copy ---- */

    /* Makes sure that the n keys, as far as they are at home here, can be written. */
    enum tern_status (*reserve)(struct core_table *table, const uint64_t *keys, size_t n);
    /* A push or set to a key at home here that has a row, after `reserve`. Returns the number that is answered to it; 0, and nothing
     * is done, if the key has come home since. */
    uint64_t (*write)(struct core_table *table, enum frame_kind kind, uint64_t key,
                      const void *value);
    /* The number that is answered to a write of a key that was executed before. */
    uint64_t (*written)(const struct core_table *table, uint64_t key);
    /* The answer to a PULL with counts: bits and numbers to `body`, *head bytes, and behind them *n_rows values. The body has
     * room for all there can be. */
    enum tern_status (*serve)(struct core_table *table, const uint64_t *keys, uint32_t n,
                              struct slice asked, uint8_t *body, size_t *head, size_t *n_rows);

    /* ---- Backups (backup.h) ---- */

    /* Copies a row whose main copy is here; returns its count, to be kept beside it. */
    uint64_t (*copy)(struct core_table *table, uint64_t key, char *value, char *state);
    /* A key whose row is taken over has this count; false when memory runs out. */
    bool (*adopt)(struct core_table *table, uint64_t key, uint64_t count);
    /* All keys of an arc are taken over, with the epoch of the next view: what others have read may have updates that died, so
     * nothing they have is among the counts from now on. */
    void (*take_over)(struct core_table *table, uint32_t arc, uint32_t epoch);

    /* ---- The node that uses the keys ---- */

    bool (*has_replica)(const struct core_table *table, uint64_t key);
    /* Of a pull of n keys at the positions `away`: reads replicas that need no check. Returns how many positions are left. */
    size_t (*read_unchecked)(const struct core_table *table, const uint64_t *keys, uint32_t *away,
                             size_t n, char *values);
    /* A pull was started (client_start), as part of a call on n_call keys: sets op->counted, unless none of the operation's
     * keys has a replica here. */
    void (*begin)(const struct core_table *table, struct op *op, size_t n_call);
    /* Writes the numbers of n keys of the operation from `first` on; returns where they end. */
    uint8_t *(*ask)(const struct core_table *table, struct op *op, size_t first, size_t n,
                    uint8_t *out);
    /* Takes the numbers of an answer, with the bits in front; `rows` are the values, *n_rows of them. False if they make no
     * sense. With `rows` NULL it only finds *head and *n_rows. */
    bool (*take)(const struct core_table *table, struct op *op, size_t first, size_t n,
                 struct slice answer, size_t *head, size_t *n_rows, const uint8_t *rows);
    /* All is answered: moves the keys whose replicas are too old beside others to the end of the operation. Returns where they
     * begin; op->n: the pull is done. */
    size_t (*finish)(const struct core_table *table, struct op *op);
    /* The keys of the operation from `first` on, in any order, are asked for again. */
    void (*again)(const struct core_table *table, struct op *op, size_t first);
    /* A write of keys of the operation from `first` on was confirmed, with these numbers; false if they make no sense. */
    bool (*confirm)(const struct core_table *table, const struct op *op, size_t first, size_t n,
                    struct slice answer);
};

#endif

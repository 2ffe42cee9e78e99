/*
 * kernel - the numeric loops of Tern, one set per instruction set.
 *
 * body.h holds each loop once; scalar.c, avx2.c, avx512.c and neon.c compile it for their machine.
 * scalar.c is the reference, compiled without vectorisation. All loops are elementwise and use
 * operations that IEEE 754 defines exactly (no fused multiply-add, see -ffp-contract=off), so every
 * set gives the same bits; tests/unit/kernel proves it.
 *
 * They have their arguments to themselves; the copies that do not are in racy.h.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/tern.h"

/* What an optimiser's loop may need: `p` are its parameters in the order of tern.h's functions. */
typedef void kernel_update(const double *p, size_t n, void *value, void *state, const void *update);

struct kernel {
    const char *name;
    unsigned vector_bytes; /* the widest racy copy (racy.h) this machine should use */
    /* to[i] += from[i] for n elements of a type; integers wrap around. */
    void (*add[TERN_I64 + 1])(void *to, const void *from, size_t n);
    /* delta[i] = value[i] - base[i], base[i] = value[i]; whether any delta is not zero. */
    bool (*take[TERN_I64 + 1])(void *delta, void *base, void *value, size_t n);
    /* value[i] = theirs[i] + (value[i] - base[i]), base[i] = theirs[i]. */
    void (*rebase[TERN_I64 + 1])(void *value, void *base, const void *theirs, size_t n);
    /* Optimisers for [0] f32 and [1] f64; state is laid out as n elements of each array in turn. */
    kernel_update *sgd[2];
    kernel_update *momentum[2]; /* state: m */
    kernel_update *adagrad[2];  /* state: s */
    kernel_update *adam[2];     /* state: m, v, then t (1 element) */
    kernel_update *ftrl[2];     /* state: z, n */
};

/* The set for this machine, chosen at the first call: the widest it has, or TERN_KERNEL's. */
const struct kernel *kernel_get(void);

/* Fails if TERN_KERNEL names a set that this machine does not have. */
enum tern_status kernel_check(void);

/* All sets this machine can run, scalar first, for the tests; NULL past the last. */
const struct kernel *kernel_at(size_t i);

#endif

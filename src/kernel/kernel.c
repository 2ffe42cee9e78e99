/*
 * kernel - the choice of the set of loops for this machine; see kernel.h.
 *
 * The choice depends on the machine and the environment alone, so threads that make it at the same
 * time make the same one, and the sets are constants: a relaxed pointer is all there is to share.
 */
#include "kernel/kernel.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "kernel/sets.h"

/* In ascending width. A machine that has one has all before it. */
static const struct kernel *const sets[] = {
    &kernel_scalar,
#if defined(__x86_64__)
    &kernel_avx2,
    &kernel_avx512,
#elif defined(__aarch64__)
    &kernel_neon,
#endif
};

static const struct fixed *const fixed_sets[] = {
    &fixed_scalar,
#if defined(__x86_64__)
    &fixed_avx2,
    &fixed_avx512,
#elif defined(__aarch64__)
    &fixed_neon,
#endif
};

static size_t n_usable(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2"))
        return 1;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
        return 2;
#endif
    return sizeof sets / sizeof sets[0];
}

/* The set that TERN_KERNEL names; NULL if it is not set, or this machine has no such set. */
static const struct kernel *named(const char *name)
{
    const size_t n = n_usable();
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(name, sets[i]->name) == 0)
            return sets[i];
    return NULL;
}

static const struct kernel *choose(void)
{
    const struct kernel *kernel = named(getenv("TERN_KERNEL"));
    return kernel ? kernel : sets[n_usable() - 1];
}

enum tern_status kernel_check(void)
{
    const char *name = getenv("TERN_KERNEL");
    if (!name || named(name))
        return TERN_OK;
    char names[64] = "";
    for (size_t i = 0, n = n_usable(); i < n; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 sets[i]->name);
    return fail(TERN_INVALID, "TERN_KERNEL is '%.40s', but this machine has: %s", name, names);
}

const struct kernel *kernel_get(void)
{
    static const struct kernel *_Atomic chosen;
    const struct kernel *kernel = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (__builtin_expect(!kernel, 0)) {
        kernel = choose();
        atomic_store_explicit(&chosen, kernel, memory_order_relaxed);
    }
    return kernel;
}

const struct kernel *kernel_at(size_t i)
{
    return i < n_usable() ? sets[i] : NULL;
}

const struct fixed *fixed_get(void)
{
    const struct kernel *kernel = kernel_get();
    size_t i = 0;
    while (sets[i] != kernel)
        i++;
    return fixed_sets[i];
}

const struct fixed *fixed_at(size_t i)
{
    return i < n_usable() ? fixed_sets[i] : NULL;
}

const char *tern_kernel_name(void)
{
    return kernel_get()->name;
}

/* slabs - see slabs.h. */
#include "store/slabs.h"

#include "base/pages.h"

enum { CACHE_LINE_BYTES = 64 };

size_t slabs_stride(size_t bytes, size_t element_bytes)
{
    for (size_t align = CACHE_LINE_BYTES; align > element_bytes; align /= 2) {
        size_t stride = (bytes + align - 1) / align * align;
        if (stride - bytes <= bytes / 20)
            return stride;
    }
    return bytes;
}

bool slabs_init(struct slabs *slabs, size_t stride)
{
    *slabs = (struct slabs){.stride = stride};
    if (!stride)
        return true;
    slabs->shift = slabs_shift(stride);
    slabs->mask = (UINT32_C(1) << slabs->shift) - 1;
    /* More slabs than the machine has memory for are never needed. */
    uint64_t by_memory = pages_machine_bytes() / (stride << slabs->shift) + 2;
    uint64_t by_number = (UINT64_C(1) << 32) >> slabs->shift;
    slabs->max_slabs = by_memory < by_number ? by_memory : by_number;
    slabs->directory = pages_new_growing(slabs->max_slabs * sizeof slabs->directory[0]);
    return slabs->directory != NULL;
}

void slabs_fini(struct slabs *slabs)
{
    for (size_t i = 0; i < slabs->n_runs; i++)
        pages_free(slabs->runs[i].pages, slabs->runs[i].bytes);
    pages_free(slabs->directory, slabs->max_slabs * sizeof slabs->directory[0]);
}

/* Adds the next n slabs, whose memory is there; false if there would be too many. */
static bool add_slabs(struct slabs *slabs, char *memory, size_t n)
{
    size_t slab_bytes = slabs->stride << slabs->shift;
    if (n > slabs->max_slabs - slabs->n_slabs)
        return false;
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&slabs->directory[slabs->n_slabs++], memory + i * slab_bytes,
                              memory_order_release);
    return true;
}

/* Maps the next run: n slabs. */
static bool add_run(struct slabs *slabs, size_t n)
{
    size_t bytes = n * (slabs->stride << slabs->shift);
    char *pages = n <= slabs->max_slabs - slabs->n_slabs ? pages_new(bytes) : NULL;
    if (!pages)
        return false;
    slabs->runs[slabs->n_runs].pages = pages;
    slabs->runs[slabs->n_runs++].bytes = bytes;
    return add_slabs(slabs, pages, n);
}

/* The slabs that n slots, at least one, need. */
static size_t slabs_for(unsigned shift, uint64_t n_slots)
{
    return ((n_slots - 1) >> shift) + 1;
}

bool slabs_reserve(struct slabs *slabs, uint64_t n_slots)
{
    return !slabs->stride || add_run(slabs, slabs_for(slabs->shift, n_slots));
}

uint64_t slabs_bytes(size_t stride, uint64_t n_slots)
{
    if (!stride)
        return 0;
    unsigned shift = slabs_shift(stride);
    return (uint64_t)slabs_for(shift, n_slots) * (stride << shift);
}

bool slabs_adopt(struct slabs *slabs, uint64_t n_slots, void *memory)
{
    return !slabs->stride || add_slabs(slabs, memory, slabs_for(slabs->shift, n_slots));
}

bool slabs_add(struct slabs *slabs, uint64_t slot)
{
    while (slabs->stride && slabs->n_slabs <= slot >> slabs->shift) {
        size_t left = slabs->max_slabs - slabs->n_slabs;
        size_t n = (size_t)1 << slabs->n_runs;
        if (!left || !add_run(slabs, n < left ? n : left))
            return false;
    }
    return true;
}

/* loader - prepares a worker's batches ahead of their use. See loader.h. */
#include "common/loader.h"

void loader_init(struct loader *loader, void *ring, size_t batch_bytes, size_t ahead,
                 loader_prepare *prepare, void *context)
{
    *loader = (struct loader){.prepare = prepare,
                              .context = context,
                              .ring = ring,
                              .batch_bytes = batch_bytes,
                              .n_ring = ahead + 1};
}

static void *batch_at(struct loader *loader, uint64_t number)
{
    return loader->ring + number % loader->n_ring * loader->batch_bytes;
}

bool loader_fill(struct loader *loader)
{
    while (loader->n_prepared < loader->n_taken + loader->n_ring) {
        if (!loader->prepare(loader->context, batch_at(loader, loader->n_prepared),
                             loader->n_prepared))
            return false;
        loader->n_prepared++;
    }
    return true;
}

void *loader_next(struct loader *loader)
{
    return loader_fill(loader) ? batch_at(loader, loader->n_taken++) : NULL;
}

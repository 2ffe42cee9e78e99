/* negatives - where wrong answers come from. See negatives.h. */
#include "kge/negatives.h"

bool negatives_open(struct negatives *negatives, const struct params *entities,
                    enum tern_conformity conformity, uint64_t seed)
{
    const struct tern_target target = {
        .struct_size = sizeof target, .end = entities->n_keys, .seed = seed};
    *negatives = (struct negatives){.n_entities = entities->n_keys};
    return entities->table == NULL ||
           !tern_dist_open(entities->table, &target, conformity, &negatives->dist) ||
           task_fail_tern("cannot sample entities");
}

bool negatives_close(struct negatives *negatives)
{
    return negatives->dist == NULL || !tern_dist_close(negatives->dist) ||
           task_fail_tern("cannot end the samples of entities");
}

bool negatives_order(const struct negatives *negatives, struct tern_worker *worker, size_t n,
                     uint64_t *order)
{
    return negatives->dist == NULL || !tern_sample_prepare(worker, negatives->dist, n, order) ||
           task_fail_tern("cannot sample entities");
}

bool negatives_receive(const struct negatives *negatives, struct tern_worker *worker,
                       uint64_t order, struct rng *rng, size_t n, uint64_t *keys)
{
    if (negatives->dist != NULL)
        return !tern_sample_pull(worker, order, n, keys, NULL) ||
               task_fail_tern("cannot sample entities");
    for (size_t i = 0; i < n; i++)
        keys[i] = rng_below(rng, negatives->n_entities);
    return true;
}

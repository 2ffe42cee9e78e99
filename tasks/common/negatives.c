/* negatives - keys of wrong answers. See negatives.h. */
#include "common/negatives.h"

const char *const negatives_levels[] = {"conform", "bounded", "long-term", "non-conform", NULL};

bool negatives_open(struct negatives *negatives, const struct params *params,
                    const struct tern_target *target, enum tern_conformity conformity)
{
    *negatives = (struct negatives){0};
    return params->table == NULL ||
           !tern_dist_open(params->table, target, conformity, &negatives->dist) ||
           task_fail_tern("cannot sample negatives");
}

bool negatives_close(struct negatives *negatives)
{
    return negatives->dist == NULL || !tern_dist_close(negatives->dist) ||
           task_fail_tern("cannot end the samples of negatives");
}

bool negatives_order(const struct negatives *negatives, struct tern_worker *worker, size_t n,
                     uint64_t *order)
{
    return negatives->dist == NULL || !tern_sample_prepare(worker, negatives->dist, n, order) ||
           task_fail_tern("cannot sample negatives");
}

bool negatives_cancel(const struct negatives *negatives, struct tern_worker *worker, uint64_t order)
{
    return negatives->dist == NULL || !tern_sample_end(worker, order) ||
           task_fail_tern("cannot sample negatives");
}

bool negatives_receive(struct tern_worker *worker, uint64_t order, size_t n, uint64_t *keys)
{
    return !tern_sample_pull(worker, order, n, keys, NULL) ||
           task_fail_tern("cannot sample negatives");
}

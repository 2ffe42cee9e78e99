/* traffic - the bytes between each two nodes. See traffic.h. */
#include "common/traffic.h"

#include <stdio.h>
#include <stdlib.h>

/* What the tables have served to a node so far. */
static double served_to(const struct train *train, uint32_t node)
{
    double sum = 0;
    for (size_t i = 0; i < train->n_params; i++) {
        uint64_t bytes = 0;
        if (train->params[i].table != NULL)
            (void)tern_table_get_served(train->params[i].table, node, &bytes);
        sum += (double)bytes;
    }
    return sum;
}

static uint32_t count_nodes(const struct train *train)
{
    return train->n_nodes > 1 && train->n_nodes <= TRAFFIC_MAX_NODES ? train->n_nodes : 0;
}

void traffic_begin(const struct train *train, struct traffic *traffic)
{
    for (uint32_t node = 0; node < count_nodes(train); node++)
        traffic->before[node] = served_to(train, node);
}

void traffic_end(const struct train *train, struct traffic *traffic)
{
    for (uint32_t node = 0; node < count_nodes(train); node++)
        traffic->served[node] += served_to(train, node) - traffic->before[node];
}

static void print(size_t n, const double *all)
{
    printf("{\"traffic\":[");
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            printf("%s%s%.0f%s", i > 0 && j == 0 ? "," : "", j == 0 ? "[" : ",", all[i * n + j],
                   j + 1 == n ? "]" : "");
    printf("]}\n");
}

bool traffic_report(struct train *train, const struct traffic *traffic)
{
    const size_t n = count_nodes(train);
    double sum = 0;
    if (n == 0 || !train->options->json)
        return true;
    double *all = calloc(n * n, sizeof *all);
    bool ok = train_agree(train, all != NULL || task_fail_memory("the traffic"));
    for (size_t i = 0; ok && i < n; i++)
        all[i * n + train->self] = traffic->served[i];
    ok = ok && train_sum(train, n * n, all);
    for (size_t i = 0; ok && i < n * n; i++)
        sum += all[i];
    if (ok && sum > 0 && train_speaks(train))
        print(n, all);
    free(all);
    return ok;
}

/*
 * tern bench - the figures the project claims, each beside a baseline measured in the same run.
 */
#include "command.h"

static const struct command benches[] = {
    {"local", "pulls and pushes of one node against a raw loop on a plain array",
     bench_local_command},
    {"net", "pulls and pushes between two nodes against a raw connection", bench_net_command},
    {"loop", "a training loop without a model on a cluster against one process",
     bench_loop_command},
    {"manage", "one workload under each policy against one process", bench_manage_command},
    {"scale", "speed-up of a task over the number of nodes", bench_scale_command},
    {"fm", "factorization machines that adapt their memory, beside fixed ones", bench_fm_command},
    {"linear", "sparse linear models, beside liblinear and scikit-learn", bench_linear_command},
    {"idle", "CPU time of a cluster with nothing to do", bench_idle_command},
    {"intent", "time and memory of signalling intent", bench_intent_command},
    {"partition", "all methods of partitioning against METIS", bench_partition_command},
    {"sample", "sampling keys, and a mix of direct and sampled accesses", bench_sample_command},
    {"stale", "age of the values that workers read under ssp and essp", bench_stale_command},
    {"survive", "what backups cost, and the wait after a node is killed", bench_survive_command},
    {"nd", "arrays and networks beside OpenBLAS, a loop in C and unplanned memory",
     bench_nd_command},
    {"converge", "how fast a model learns under ssp and essp", bench_converge_command},
    {"task", "training on plain arrays, on one node, and under each policy", bench_task_command},
};

static const struct command_set bench_set = {
    .program = "tern bench",
    .about = "Measures a part of Tern and a baseline in the same run, and reports their ratio.",
    .commands = benches,
    .n_commands = sizeof benches / sizeof *benches,
};

int bench_command(int argc, char **argv)
{
    return command_dispatch(&bench_set, argc, argv);
}

/*
 * tern bench - the figures the project claims, each beside a baseline measured in the same run.
 */
#include "command.h"

static const struct command benches[] = {
    {"local", "pulls and pushes of one node against a raw loop on a plain array",
     bench_local_command},
    {"net", "pulls and pushes between two nodes against a raw connection", bench_net_command},
    {"manage", "one workload under each policy against a single node", bench_manage_command},
    {"idle", "processor time of a cluster with nothing to do", bench_idle_command},
    {"intent", "time and memory it takes to signal intent", bench_intent_command},
    {"sample", "drawing keys, and a mix of direct and sampled accesses on two nodes",
     bench_sample_command},
    {"stale", "how old what workers read is, under policies with bounded reads",
     bench_stale_command},
    {"converge", "how a model learns under policies with bounded reads", bench_converge_command},
    {"task", "training of a model on plain arrays, on one node, and under each policy",
     bench_task_command},
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

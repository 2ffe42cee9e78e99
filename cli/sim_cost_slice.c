/* sim_cost_slice - how processes of this machine share a core. See sim_cost.h. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "quantile.h"
#include "sim_cost.h"

#define MEASURED_NS UINT64_C(400000000)
#define GAP_NS UINT64_C(200000)      /* that is no interrupt */
#define DEFAULT_NS UINT64_C(3000000) /* if they did not meet */

enum { MAX_SLICES = 4096 };

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* Whether this process, and its children, are on one core from now on. */
static bool stay_on_one(cpu_set_t *before)
{
    cpu_set_t one;
    size_t core = 0;
    if (sched_getaffinity(0, sizeof *before, before))
        return false;
    while (!CPU_ISSET(core, before))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

/* The median time between two gaps, while another process also wants the core. */
static uint64_t watch(void)
{
    static double slices[MAX_SLICES];
    size_t n = 0;
    const uint64_t begin_ns = now_ns();
    uint64_t last_ns = begin_ns, since_ns = begin_ns;
    while (last_ns < begin_ns + MEASURED_NS && n < MAX_SLICES) {
        const uint64_t at_ns = now_ns();
        if (at_ns > last_ns + GAP_NS) {
            slices[n++] = (double)(last_ns - since_ns);
            since_ns = at_ns;
        }
        last_ns = at_ns;
    }
    return n > 2 ? (uint64_t)median(slices, n) : DEFAULT_NS;
}

uint64_t sim_cost_slice_ns(void)
{
    cpu_set_t before;
    if (!stay_on_one(&before)) {
        complain("cannot stay on one core: %s", strerror(errno));
        return 0;
    }
    const pid_t other = fork();
    if (other == 0)
        for (;;)
            (void)now_ns();
    if (other < 0) {
        complain("cannot fork: %s", strerror(errno));
        return 0;
    }
    const uint64_t slice_ns = watch();
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    sched_setaffinity(0, sizeof before, &before);
    return slice_ns > GAP_NS ? slice_ns : GAP_NS;
}

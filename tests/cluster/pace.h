/* pace - how long the programs of tests/cluster wait: TEST_PACE, which tests/cli/lib.sh measures, times the usual. */
#ifndef CLUSTER_PACE_H
#define CLUSTER_PACE_H

#include <stdlib.h>
#include <unistd.h>

static inline unsigned paced(unsigned seconds)
{
    const char *pace = getenv("TEST_PACE");
    const unsigned factor = pace ? (unsigned)strtoul(pace, NULL, 10) : 1;
    return seconds * (factor > 0 ? factor : 1);
}

/* The process is ended by SIGALRM if it takes longer than so many paced seconds. */
static inline void hang_after(unsigned seconds)
{
    alarm(paced(seconds));
}

#endif

/* leave - a node that says "ready", waits for SIGUSR1 and closes, for tests of how a cluster ends. */
#include <pthread.h>
#include <signal.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

int main(void)
{
    struct tern_node *node;
    sigset_t wanted;
    int signal;
    hang_after(200);
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &wanted, NULL);
    check(tern_node_open(NULL, &node));
    printf("ready\n");
    fflush(stdout);
    sigwait(&wanted, &signal);
    check(tern_node_close(node));
    return 0;
}

/* bench_cluster - see bench_cluster.h. */
#include "bench_cluster.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "certificate.h"
#include "command.h"

const char *const transport_names[] = {"tcp", "unix", "tls", NULL};

enum { PARENT_MAX_BYTES = 64 }; /* socket paths are short */

static bool make_folder(struct cluster *cluster)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0' || strlen(parent) > PARENT_MAX_BYTES)
        parent = "/tmp";
    snprintf(cluster->folder, sizeof cluster->folder, "%s/tern-XXXXXX", parent);
    if (mkdtemp(cluster->folder) != NULL)
        return true;
    complain("cannot make a folder in %s: %s", parent, strerror(errno));
    return false;
}

void cluster_path(const struct cluster *cluster, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", cluster->folder, name);
}

static bool make_certificates(const struct cluster *cluster)
{
    static const char *const hosts[] = {"127.0.0.1"};
    struct credential *authority = credential_new_authority("bench", 1);
    struct credential *node =
        authority != NULL ? credential_new_node(authority, "node", hosts, 1, 1) : NULL;
    bool made = node != NULL && credential_write(authority, cluster->folder, "ca") &&
                credential_write(node, cluster->folder, "node");
    credential_free(node);
    credential_free(authority);
    return made;
}

/* Reserves a free port with a socket that is bound but does not listen, so that node 0 can still listen there. */
static bool hold_port(struct cluster *cluster)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cluster->port_holder = fd;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &n_bytes) != 0) {
        complain("cannot find a free port: %s", strerror(errno));
        return false;
    }
    snprintf(cluster->coordinator, sizeof cluster->coordinator, "127.0.0.1:%u",
             ntohs(address.sin_port));
    return true;
}

static bool prepare(struct cluster *cluster)
{
    if (cluster->links.relay > 0)
        snprintf(cluster->coordinator, sizeof cluster->coordinator, "%s", LINK_COORDINATOR);
    else if (cluster->transport == TRANSPORT_UNIX)
        snprintf(cluster->coordinator, sizeof cluster->coordinator, "unix:%s/node",
                 cluster->folder);
    else if (!hold_port(cluster))
        return false;
    return cluster->transport != TRANSPORT_TLS || make_certificates(cluster);
}

/* Opens a cluster whose transport, number of nodes and links are set. */
static bool open_prepared(struct cluster *cluster)
{
    cluster->port_holder = -1;
    if (sched_getaffinity(0, sizeof cluster->cores, &cluster->cores) != 0)
        CPU_SET(0, &cluster->cores);
    if (cluster->transport != TRANSPORT_TCP && !make_folder(cluster))
        return false;
    if (!guard_start(&cluster->guard, cluster->folder)) {
        complain("cannot start a process: %s", strerror(errno));
        links_close(&cluster->links);
        return false;
    }
    if (token_make("bench", cluster->token) && prepare(cluster))
        return true;
    cluster_close(cluster, false);
    return false;
}

bool cluster_open(struct cluster *cluster, enum transport transport, size_t n_nodes)
{
    *cluster = (struct cluster){.transport = transport, .n_nodes = n_nodes};
    return open_prepared(cluster);
}

bool cluster_open_hosts(struct cluster *cluster, size_t n_nodes, size_t n_hosts,
                        const struct link_speed *speed)
{
    *cluster = (struct cluster){.transport = speed != NULL ? TRANSPORT_TCP : TRANSPORT_UNIX,
                                .n_nodes = n_nodes,
                                .n_hosts = n_hosts};
    return (speed == NULL || links_open(&cluster->links, n_hosts, speed)) && open_prepared(cluster);
}

bool cluster_open_linked(struct cluster *cluster, size_t n_nodes, const struct link_speed *speed)
{
    return cluster_open_hosts(cluster, n_nodes, n_nodes, speed);
}

bool cluster_fork(struct cluster *cluster, int (*run)(void *context), void *context)
{
    pid_t parent = getpid();
    fflush(stdout); /* otherwise the child would print it again */
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? run(context) : EXIT_FAILED);
    }
    if (pid < 0) {
        complain("cannot start a process: %s", strerror(errno));
        return false;
    }
    cluster->processes[cluster->n_processes++] = pid;
    return true;
}

static void set_number(const char *name, size_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", number);
    setenv(name, text, 1);
}

void cluster_enter(const struct cluster *cluster, size_t node)
{
    static const char *const files[][2] = {
        {"TERN_CERTIFICATE", "node.crt"}, {"TERN_KEY", "node.key"}, {"TERN_AUTHORITY", "ca.crt"}};
    set_number("TERN_NODE", node);
    set_number("TERN_NODES", cluster->n_nodes);
    setenv("TERN_COORDINATOR", cluster->coordinator, 1);
    setenv("TERN_TOKEN", cluster->token, 1);
    unsetenv("TERN_LISTEN");
    const size_t host = node * cluster->n_hosts / cluster->n_nodes;
    if (cluster->links.relay == 0 && cluster->n_hosts > 0)
        set_number("TERN_HOST", host);
    if (cluster->links.relay > 0 && !links_enter(&cluster->links, host))
        complain("cannot enter the network namespace of a node: %s", strerror(errno));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        cluster_path(cluster, files[i][1], path);
        if (cluster->transport == TRANSPORT_TLS)
            setenv(files[i][0], path, 1);
        else
            unsetenv(files[i][0]);
    }
}

const char *cluster_share_nothing(const char *policy)
{
    setenv("TERN_SHARE", "0", 1);
    return policy;
}

static void keep_to(pid_t process, const cpu_set_t *cores)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)process);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;)
        if (entry->d_name[0] != '.')
            sched_setaffinity((pid_t)strtol(entry->d_name, NULL, 10), sizeof *cores, cores);
    closedir(threads);
}

void cluster_share_core(const struct cluster *cluster, bool one)
{
    cpu_set_t cores = cluster->cores;
    if (one) {
        size_t first = 0;
        while (!CPU_ISSET(first, &cores))
            first++;
        CPU_ZERO(&cores);
        CPU_SET(first, &cores);
    }
    keep_to(getpid(), &cores);
    for (size_t i = 0; i < cluster->n_processes; i++)
        keep_to(cluster->processes[i], &cores);
}

bool bench_has_slow(int64_t slow, int64_t n_nodes)
{
    if (slow >= n_nodes)
        complain("--slow %lld: there are %lld nodes, from 0 on", (long long)slow,
                 (long long)n_nodes);
    return slow < n_nodes;
}

bool cluster_close(struct cluster *cluster, bool well)
{
    for (size_t i = 0; i < cluster->n_processes; i++) {
        int status = 0;
        if (!well)
            kill(cluster->processes[i], SIGKILL);
        while (waitpid(cluster->processes[i], &status, 0) < 0 && errno == EINTR)
            ;
        well = well && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK;
    }
    if (cluster->port_holder >= 0)
        close(cluster->port_holder);
    links_close(&cluster->links);
    guard_finish(&cluster->guard);
    return well;
}

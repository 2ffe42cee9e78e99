/*
 * calibrate - measures what the work of a node costs on this machine: see tern/sim.h.
 *
 * What the core does is measured in clusters that run on virtual time: of few nodes and of more, so that what a message costs and
 * what is in it, a round and the nodes it looks at, can be told apart. What a worker does in a cluster and not in one process is the
 * difference of two such runs. What sockets cost is measured with a pair of streams.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/stream.h"
#include "sim/predict.h"

/* ---- The core --------------------------------------------------------------------------------- */

/* Guesses with which time passes while the real costs are measured. */
static const struct tern_sim_costs first_guess = {{
    [TERN_COST_STEP] = 10000,
    [TERN_COST_SIGNAL] = 1,
    [TERN_COST_INTENT] = 20,
    [TERN_COST_ROUND] = 1000,
    [TERN_COST_PEER] = 20,
    [TERN_COST_CHANGE] = 50,
    [TERN_COST_MESSAGE] = 500,
    [TERN_COST_KEY] = 30,
    [TERN_COST_ROW] = 100,
    [TERN_COST_LOOK] = 300,
    [TERN_COST_TRANSFER] = 1000,
}};

enum { CALIBRATION_STEPS = 6000, CALIBRATION_NODES = 3 };
static const uint32_t n_calibrated[CALIBRATION_NODES] = {2, 6, 24};

/* Runs the workload on some nodes, with so many steps in all, and adds what was measured. */
static enum tern_status measure(const struct tern_sim_workload *workload, uint32_t n_nodes,
                                const char *policy, struct cost_samples *samples)
{
    struct tern_sim_workload one = *workload;
    struct tern_sim_prediction prediction = {0};
    one.n_nodes = n_nodes;
    one.policy = policy;
    one.n_cores = 0;
    one.costs = first_guess;
    one.n_steps = CALIBRATION_STEPS / n_nodes;
    one.n_warm_up = one.n_steps / 4;
    one.progress = NULL;
    return predict_run(&one, samples, &prediction);
}

/* What keys cost that are pulled and pushed in one process. */
static enum tern_status measure_alone(const struct tern_sim_workload *workload, double *ns)
{
    struct cost_samples samples = {0};
    struct tern_sim_costs costs = {{0}};
    struct tern_sim_workload alone = *workload;
    alone.is_sparse = false;
    const enum tern_status status = measure(&alone, 1, "static", &samples);
    cost_fit(&samples, &costs);
    *ns = costs.ns[TERN_COST_ACCESS];
    cost_samples_free(&samples);
    return status;
}

static enum tern_status measure_core(const struct tern_sim_workload *workload,
                                     struct tern_sim_costs *costs)
{
    struct cost_samples samples = {0};
    double alone_ns = 0;
    enum tern_status status = measure_alone(workload, &alone_ns);
    for (int i = 0; !status && i < CALIBRATION_NODES; i++)
        status = measure(workload, n_calibrated[i], workload->policy, &samples);
    if (!status)
        cost_fit(&samples, costs);
    cost_samples_free(&samples);
    double *access_ns = &costs->ns[TERN_COST_ACCESS];
    *access_ns = *access_ns > alone_ns ? *access_ns - alone_ns : 0;
    return status;
}

/* ---- Streams ---------------------------------------------------------------------------------- */

enum { SHORT_BYTES = 256, LONG_BYTES = 16384, N_SENT = 2000, N_LOOKS = 20000 };

struct ends {
    struct net *net;
    struct listener *listener;
    struct stream *from, *to;
    int epoll_fd;
};

/* Connects two streams of this process, each as if the other end were another process's. */
static enum tern_status connect_ends(struct ends *ends, const char *address)
{
    const uint64_t until_ns = clock_now_ns() + UINT64_C(5000000000);
    enum tern_status status = net_open(&(struct net_options){0}, &ends->net);
    if (!status)
        status = listener_open(ends->net, address, &ends->listener);
    if (!status)
        status = stream_connect(ends->net, listener_address(ends->listener), &ends->from);
    bool is_connected = false;
    while (!status && !is_connected) {
        if (!ends->to)
            ends->to = listener_accept(ends->listener);
        is_connected = stream_established(ends->from); /* each side carries the handshake on */
        is_connected &= ends->to && stream_established(ends->to);
        if (clock_now_ns() > until_ns)
            status = fail(TERN_NETWORK, "two streams at %s did not connect", address);
    }
    ends->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!status &&
        (ends->epoll_fd < 0 || epoll_ctl(ends->epoll_fd, EPOLL_CTL_ADD, stream_fd(ends->to),
                                         &(struct epoll_event){.events = EPOLLIN})))
        status = fail(TERN_NETWORK, "no descriptor to wait for streams");
    return status;
}

static void close_ends(struct ends *ends)
{
    if (ends->from)
        stream_close(ends->from);
    if (ends->to)
        stream_close(ends->to);
    if (ends->listener)
        listener_close(ends->listener);
    if (ends->net)
        net_close(ends->net);
    if (ends->epoll_fd >= 0)
        close(ends->epoll_fd);
}

/* Reads what has come, until there is no more. */
static size_t take(struct stream *stream, char *bytes, size_t n)
{
    size_t taken = 0;
    ssize_t read;
    const struct iovec part = {bytes, n};
    while ((read = stream_read(stream, &part, 1)) > 0)
        taken += (size_t)read;
    return read < 0 ? SIZE_MAX : taken;
}

/* The time to send so many bytes and to take them, the least of several blocks; 0 after a failure. */
static double sending_ns(const struct ends *ends, char *bytes, size_t n)
{
    enum { BLOCKS = 20 };
    double least_ns = 0;
    struct epoll_event event;
    for (int block = 0; block < BLOCKS; block++) {
        const uint64_t begin_ns = clock_now_ns();
        for (int i = 0; i < N_SENT / BLOCKS; i++) {
            const struct iovec part = {bytes, n};
            size_t taken = 0;
            if (stream_write(ends->from, &part, 1) != (ssize_t)n)
                return 0;
            stream_flush(ends->from);
            while (taken < n) {
                epoll_wait(ends->epoll_fd, &event, 1, 100);
                const size_t more = take(ends->to, bytes, LONG_BYTES);
                if (more == SIZE_MAX)
                    return 0;
                taken += more;
            }
        }
        const double ns = (double)(clock_now_ns() - begin_ns) / (N_SENT / BLOCKS);
        least_ns = block == 0 || ns < least_ns ? ns : least_ns;
    }
    return least_ns;
}

static double looking_ns(const struct ends *ends)
{
    struct epoll_event event;
    const uint64_t begin_ns = clock_now_ns();
    for (int i = 0; i < N_LOOKS; i++)
        epoll_wait(ends->epoll_fd, &event, 1, 0);
    return (double)(clock_now_ns() - begin_ns) / N_LOOKS;
}

/* Half of what it takes to send and take a message is each side's. */
static enum tern_status measure_ends(const struct ends *ends, struct tern_sim_costs *costs)
{
    char *bytes = calloc(1, LONG_BYTES);
    if (!bytes)
        return fail(TERN_NO_MEMORY, "no memory for measurements");
    const double short_ns = sending_ns(ends, bytes, SHORT_BYTES);
    const double long_ns = sending_ns(ends, bytes, LONG_BYTES);
    free(bytes);
    if (short_ns == 0 || long_ns == 0)
        return fail(TERN_NETWORK, "a stream of this process broke: %s", tern_error());
    const double byte_ns = (long_ns - short_ns) / (LONG_BYTES - SHORT_BYTES) / 2;
    costs->ns[TERN_COST_BYTE] = byte_ns > 0 ? byte_ns : 0;
    costs->ns[TERN_COST_TRANSFER] = short_ns / 2 - SHORT_BYTES * costs->ns[TERN_COST_BYTE];
    costs->ns[TERN_COST_LOOK] = looking_ns(ends);
    return TERN_OK;
}

static enum tern_status measure_streams(bool is_linked, struct tern_sim_costs *costs)
{
    struct ends ends = {.epoll_fd = -1};
    char folder[] = "/tmp/tern-calibrate-XXXXXX", address[64] = "127.0.0.1:0";
    if (!is_linked && !mkdtemp(folder))
        return fail(TERN_NETWORK, "no folder for a socket can be made in /tmp");
    if (!is_linked)
        snprintf(address, sizeof address, "unix:%s/socket", folder);
    enum tern_status status = connect_ends(&ends, address);
    if (!status)
        status = measure_ends(&ends, costs);
    close_ends(&ends);
    if (!is_linked) {
        unlink(address + strlen("unix:"));
        rmdir(folder);
    }
    return status;
}

enum tern_status tern_sim_calibrate(const struct tern_sim_workload *workload, bool is_linked,
                                    struct tern_sim_costs *costs)
{
    if (!workload || !costs || workload->struct_size != sizeof *workload)
        return fail(TERN_INVALID, "tern_sim_calibrate: a pointer is NULL, or struct_size is not "
                                  "sizeof the struct");
    const enum tern_status status = measure_core(workload, costs);
    return status ? status : measure_streams(is_linked, costs);
}

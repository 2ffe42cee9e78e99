/*
 * until_error - one node of a cluster in which another one is about to die: works until a call fails,
 * says when and how, and closes what it opened.
 *
 * until_error HOW [SECONDS]
 *
 *   work     pulls and pushes at random keys
 *   intend   the same, and signals intent for them ahead of time
 *   test     starts pushes and asks for their end with tern_test
 *   lazy     starts a push, does something else for SECONDS and then waits for its end; twice
 *   barrier  passes one barrier after another
 *   late     as barrier, but works for SECONDS before each
 *   copies   changes copies that are kept alike by an all-reduce and flushes them; does nothing for SECONDS before, and
 *            says "opened" when it begins
 *   latch    pushes to rows that all nodes share and whose updater is the program's own; if it is given SECONDS it dies
 *            in the updater after them, while the row is latched and half written, or stops if STOPS is set
 *   peek     as latch, but pulls the rows, and prints "torn" if it ever sees half of a push
 *   close    closes the node at once
 *   leave    ends the process without closing anything
 *   desert   ends the process while one of its threads waits at a barrier
 *
 * The variable POLICY names the policy of the table; adaptive without it. It prints "ready" when all nodes are there; then "error", the time in ns since 1970, the status and
 * the sentence of the call that failed; then "closed" with the same of tern_node_close. With SECONDS it
 * stops working after them, and "done" takes the place of "error". The exit status is 0 unless something
 * else failed than another node. A process that hangs is ended by SIGALRM.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/pace.h"

enum { KEYS = 10000, BATCH = 50, LENGTH = 4, HANGS_S = 60 };

static struct tern_node *node;
static struct tern_table *table;
static double seconds;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static void say(const char *what, enum tern_status status)
{
    printf("%s %" PRIu64 " %s %s\n", what, now_ns(CLOCK_REALTIME), tern_status_name(status),
           status ? tern_error() : "");
    fflush(stdout);
}

static void must(enum tern_status status)
{
    if (status) {
        say("broken", status);
        exit(1);
    }
}

/* One push, asked after until it is done. */
static enum tern_status push_and_test(struct tern_worker *worker, const uint64_t *keys,
                                      const int64_t *ones)
{
    uint64_t ticket;
    enum tern_status status = tern_push_start(worker, table, keys, BATCH, ones, &ticket);
    for (bool done = false; !status && !done;)
        status = tern_test(worker, ticket, &done);
    return status;
}

/* The keys of a step. */
static void draw(uint64_t step, uint64_t *keys)
{
    unsigned seed = (unsigned)getpid() * 7919u + (unsigned)step;
    for (int i = 0; i < BATCH; i++)
        keys[i] = (uint64_t)rand_r(&seed) % KEYS;
}

/* Signals intent for the keys of a later step, and goes on to the next one. */
static enum tern_status look_ahead(struct tern_worker *worker, uint64_t step)
{
    enum { AHEAD = 20 };
    uint64_t keys[BATCH];
    draw(step + AHEAD, keys);
    enum tern_status status =
        tern_intent(worker, table, keys, BATCH, step + AHEAD, step + AHEAD + 1);
    return status ? status : tern_worker_advance(worker, NULL);
}

static enum tern_status work(bool by_test, bool intends)
{
    struct tern_worker *worker;
    uint64_t keys[BATCH], begin = now_ns(CLOCK_MONOTONIC);
    int64_t ones[BATCH * LENGTH], values[BATCH * LENGTH];
    for (int i = 0; i < BATCH * LENGTH; i++)
        ones[i] = 1;
    must(tern_worker_open(node, &worker));
    enum tern_status status = TERN_OK;
    for (uint64_t step = 0;
         !status && (seconds == 0 || (double)(now_ns(CLOCK_MONOTONIC) - begin) < seconds * 1e9);
         step++) {
        draw(step, keys);
        status = by_test ? push_and_test(worker, keys, ones)
                         : tern_push(worker, table, keys, BATCH, ones);
        if (!status && !by_test)
            status = tern_pull(worker, table, keys, BATCH, values);
        if (!status && intends)
            status = look_ahead(worker, step);
    }
    say(status ? "error" : "done", status);
    must(tern_worker_close(worker));
    return status;
}

static enum tern_status wait_late(void)
{
    struct tern_worker *worker;
    uint64_t keys[BATCH], ticket;
    int64_t ones[BATCH * LENGTH] = {0};
    for (uint64_t i = 0; i < BATCH; i++)
        keys[i] = i * (KEYS / BATCH);
    must(tern_worker_open(node, &worker));
    enum tern_status status = TERN_OK;
    for (int i = 0; !status && i < 2; i++) {
        status = tern_push_start(worker, table, keys, BATCH, ones, &ticket);
        usleep((useconds_t)(seconds * 1e6));
        if (!status)
            status = tern_wait(worker, ticket);
    }
    say(status ? "error" : "done", status);
    must(tern_worker_close(worker));
    return status;
}

static enum tern_status pass_barriers(bool late)
{
    enum tern_status status = TERN_OK;
    for (int i = 0; !status && (!late || i < 3); i++) {
        if (late)
            usleep((useconds_t)(seconds * 1e6));
        status = tern_barrier(node);
    }
    say(status ? "error" : "done", status);
    return status;
}

static enum tern_status flush_copies(void)
{
    struct tern_worker *worker;
    struct tern_table *copies;
    const struct tern_table_options options = {.struct_size = sizeof options,
                                               .type = TERN_I64,
                                               .n_keys = BATCH,
                                               .length = 1,
                                               .policy = "replicate-doubling"};
    const uint64_t key = 1;
    const int64_t one = 1;
    must(tern_table_open(node, "copies", &options, &copies));
    must(tern_worker_open(node, &worker));
    say("opened", TERN_OK);
    usleep((useconds_t)(seconds * 1e6));
    enum tern_status status = TERN_OK;
    while (!status) {
        status = tern_push(worker, copies, &key, 1, &one);
        if (!status)
            status = tern_flush(worker);
    }
    say("error", status);
    must(tern_worker_close(worker));
    return status;
}

static bool dies; /* in the updater */

static void add_or_die(const struct tern_updater *updater, enum tern_type type, size_t length,
                       void *row, void *state, const void *update)
{
    (void)updater;
    (void)type;
    (void)state;
    for (size_t i = 0; i < length; i++) {
        if (dies && i == length / 2)
            raise(getenv("STOPS") ? SIGSTOP : SIGKILL);
        ((int64_t *)row)[i] += ((const int64_t *)update)[i];
    }
}

static enum tern_status use_latched(bool reads)
{
    struct tern_worker *worker;
    struct tern_table *rows;
    const struct tern_table_options options = {
        .struct_size = sizeof options,
        .type = TERN_I64,
        .n_keys = BATCH,
        .length = LENGTH,
        .updater = {.name = "add or die", .apply = add_or_die},
        .policy = "adaptive"};
    const uint64_t key = 1;
    const int64_t ones[LENGTH] = {1, 1, 1, 1};
    must(tern_table_open(node, "rows", &options, &rows));
    must(tern_worker_open(node, &worker));
    enum tern_status status = tern_barrier(node);
    const uint64_t begin = now_ns(CLOCK_MONOTONIC);
    while (!status) {
        int64_t row[LENGTH];
        dies = seconds > 0 && (double)(now_ns(CLOCK_MONOTONIC) - begin) > seconds * 1e9;
        status =
            reads ? tern_pull(worker, rows, &key, 1, row) : tern_push(worker, rows, &key, 1, ones);
        for (int i = 1; reads && !status && i < LENGTH; i++)
            if (row[i] != row[0])
                say("torn", status);
    }
    say("error", status);
    void *row;
    if (tern_pin(worker, rows, &key, 1, &row) != status)
        say("broken", status);
    must(tern_worker_close(worker));
    return status;
}

static void *wait_at_barrier(void *context)
{
    (void)context;
    tern_barrier(node);
    return NULL;
}

static void desert(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_at_barrier, NULL))
        exit(1);
    usleep(100000);
    _exit(0);
}

/* The other node did not wait until all were ready. */
static void end_early(enum tern_status status)
{
    say("error", status);
    if (node)
        say("closed", tern_node_close(node));
    exit(status == TERN_PEER ? 0 : 1);
}

static void open_all(void)
{
    const char *policy = getenv("POLICY");
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .type = TERN_I64,
                                         .n_keys = KEYS,
                                         .length = LENGTH,
                                         .policy = policy ? policy : "adaptive"};
    enum tern_status status = tern_node_open(NULL, &node);
    if (status)
        end_early(status);
    status = tern_table_open(node, "numbers", &options, &table);
    if (!status)
        status = tern_barrier(node);
    if (status)
        end_early(status);
    printf("ready\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "work";
    seconds = argc > 2 ? atof(argv[2]) : 0;
    hang_after(HANGS_S + 3 * (unsigned)seconds);
    open_all();
    enum tern_status status = TERN_OK;
    if (!strcmp(how, "work") || !strcmp(how, "test") || !strcmp(how, "intend"))
        status = work(how[0] == 't', how[0] == 'i');
    else if (!strcmp(how, "lazy"))
        status = wait_late();
    else if (!strcmp(how, "barrier") || !strcmp(how, "late"))
        status = pass_barriers(how[0] == 'l');
    else if (!strcmp(how, "copies"))
        status = flush_copies();
    else if (!strcmp(how, "latch") || !strcmp(how, "peek"))
        status = use_latched(how[0] == 'p');
    else if (!strcmp(how, "leave"))
        _exit(0);
    else if (!strcmp(how, "desert"))
        desert();
    enum tern_status closing = tern_node_close(node);
    say("closed", closing);
    return (status && status != TERN_PEER) || (closing && closing != TERN_PEER);
}

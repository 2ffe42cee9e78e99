/*
 * trace - nodes use keys of a small table, skewed as data is, with intent, while the life of the keys is
 * traced; then they ask why each key is where it is.
 *
 * trace PATH STEPS PACE_US POLICY [KEY...]
 *
 * A step takes PACE_US microseconds longer than it has to. Without KEYs all are traced. The trace begins
 * before anything moves and ends when all is quiet, so its lines are to agree with the table's
 * statistics, which are printed; and exactly one node is to say that it has the main copy of a key (or,
 * by policies static and adaptive, none: there, a key is at its home, or all share it, as all say).
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { N_KEYS = 500, BATCH = 6, AHEAD = 20, USED_FOR = 4, HANGS_S = 200 };

static struct tern_node *node;
static struct tern_table *table;
static struct tern_worker *worker;
static uint32_t self, n_nodes;
static uint64_t random_state;
static bool is_managed; /* not where keys are at home, or shared by the nodes of this host */
static int n_wrong;

static void expect(bool held, const char *what, uint64_t key)
{
    if (held)
        return;
    fprintf(stderr, "key %" PRIu64 ": %s\n", key, what);
    n_wrong++;
}

static uint64_t next_random(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 33;
}

/* Rank r, which becomes key r, is drawn about as often as 1 / (r + 1). */
static uint64_t draw(void)
{
    double unit = (double)next_random() / 2147483648.0;
    return (uint64_t)pow(N_KEYS, unit) - 1;
}

/* Draws the batches from a seed, so that what is intended is what is used later. */
static void make_batches(uint64_t *keys, size_t n_steps)
{
    random_state = 1000 + self;
    for (size_t i = 0; i < n_steps * BATCH; i++)
        keys[i] = draw();
}

static void use(const uint64_t *keys)
{
    int64_t values[BATCH], ones[BATCH];
    for (int i = 0; i < BATCH; i++)
        ones[i] = 1;
    check(tern_pull(worker, table, keys, BATCH, values));
    check(tern_push(worker, table, keys, BATCH, ones));
}

/* What tern_why says beside the work is whole, whatever the size of its room. */
static void ask_why(uint64_t key)
{
    char text[TERN_WHY_BYTES], head[40], begin[40];
    check(tern_why(table, key, text, sizeof text));
    expect(strlen(text) > sizeof head && text[strlen(text) - 1] == '\n', "why is cut", key);
    check(tern_why(table, key, head, sizeof head));
    snprintf(begin, sizeof begin, "Key %" PRIu64 " of table 'life'", key);
    expect(strncmp(head, begin, strlen(begin)) == 0, "why does not name the key", key);
}

static void work(const uint64_t *keys, size_t n_steps, unsigned pace_us)
{
    for (size_t step = 0; step < n_steps; step++) {
        size_t next = step + AHEAD;
        if (next < n_steps)
            check(tern_intent(worker, table, keys + next * BATCH, BATCH, next, next + USED_FOR));
        use(keys + step * BATCH);
        if (step % 16 == 0)
            ask_why(keys[step * BATCH]);
        check(tern_worker_advance(worker, NULL));
        if (pace_us)
            usleep(pace_us);
    }
}

/* Each key has one node that says it has the main copy, and the sum of what was pushed to all is right. */
static void check_owners(size_t n_steps)
{
    char text[TERN_WHY_BYTES];
    int64_t owners[N_KEYS], sum = 0, value;
    for (uint64_t key = 0; key < N_KEYS; key++) {
        check(tern_why(table, key, text, sizeof text));
        owners[key] = strstr(text, "The main copy is here") != NULL;
        check(tern_pull(worker, table, &key, 1, &value));
        sum += value;
    }
    check(tern_all_reduce(node, TERN_I64, N_KEYS, owners));
    for (uint64_t key = 0; key < N_KEYS; key++)
        expect(owners[key] == is_managed, "not one owner", key);
    expect(sum == (int64_t)(n_nodes * n_steps * BATCH), "a wrong sum", 0);
}

static void print_stats(void)
{
    struct tern_table_stats stats = {.struct_size = sizeof stats};
    check(tern_table_get_stats(table, &stats));
    printf("came %" PRIu64 ", left %" PRIu64 ", made %" PRIu64 ", ended %" PRIu64 ", %d wrong\n",
           stats.moved_here, stats.moved_away, stats.replicas_made, stats.replicas_ended, n_wrong);
}

static void start_trace(char **arguments, int n, const char *path)
{
    uint64_t keys[N_KEYS];
    size_t n_keys = n ? (size_t)n : N_KEYS;
    for (size_t i = 0; i < n_keys; i++)
        keys[i] = n ? strtoull(arguments[i], NULL, 10) : i;
    check(tern_trace_start(table, keys, n_keys, path));
    enum tern_status again = tern_trace_start(table, keys, n_keys, path);
    expect(again == (is_managed ? TERN_BUSY : TERN_OK), "traced twice", keys[0]);
}

/* A table that is closed while it is traced leaves a complete file, PATH-closed. */
static void close_while_traced(const char *path)
{
    char closed[256];
    uint64_t key = 7;
    snprintf(closed, sizeof closed, "%s-closed", path);
    check(tern_trace_start(table, &key, 1, closed));
    check(tern_barrier(node));
    check(tern_table_close(table));
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 5 + N_KEYS) {
        fprintf(stderr, "usage: trace PATH STEPS PACE_US POLICY [KEY...]\n");
        return 2;
    }
    hang_after(HANGS_S);
    size_t n_steps = strtoul(argv[2], NULL, 10);
    uint64_t *keys = calloc(n_steps + 1, BATCH * sizeof *keys);
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .n_keys = N_KEYS,
                                         .type = TERN_I64,
                                         .length = 1,
                                         .policy = argv[4]};
    if (!keys)
        return 1;
    const char *share = getenv("TERN_SHARE");
    is_managed = strcmp(argv[4], "static") != 0 && share && strcmp(share, "0") == 0;
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, &n_nodes));
    check(tern_table_open(node, "life", &options, &table));
    check(tern_worker_open(node, &worker));
    make_batches(keys, n_steps);
    start_trace(argv + 5, argc - 5, argv[1]);
    check(tern_barrier(node));
    work(keys, n_steps, (unsigned)strtoul(argv[3], NULL, 10));
    /* The clock goes on until the last intent is over. */
    for (int i = 0; i < USED_FOR; i++)
        check(tern_worker_advance(worker, NULL));
    check(tern_quiesce(node));
    check(tern_quiesce(node));
    check(tern_trace_stop(table));
    check(tern_trace_stop(table));
    check_owners(n_steps);
    print_stats();
    check(tern_barrier(node));
    close_while_traced(argv[1]);
    check(tern_worker_close(worker));
    check(tern_node_close(node));
    free(keys);
    return n_wrong != 0;
}

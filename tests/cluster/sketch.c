/*
 * sketch - every node counts keys in a sketch and checks after a barrier that no estimate is too low, few are far too high, and the
 * heaviest keys come with errors that cover the truth. Run by test_sketch.sh. With a path the sketch goes to a checkpoint there; or,
 * without steps, is that of a checkpoint, which another number of nodes may have written.
 *
 * sketch [policy] [steps] [conservative or ""] [path]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "cluster/hold.h"
#include "cluster/pace.h"

enum { N_KEYS = 4000, BATCH = 500, HEAVIEST = 10, HANGS_S = 200 };

static int64_t truth[N_KEYS];

static uint64_t key_of(uint64_t i)
{
    return i * UINT64_C(0x9e3779b97f4a7c15);
}

/* The truth is in a file beside the checkpoint. */
static FILE *open_truth(const char *path, const char *mode)
{
    char name[4096];
    snprintf(name, sizeof name, "%s.truth", path);
    FILE *file = fopen(name, mode);
    if (!file)
        exit(3);
    return file;
}

static void save(struct tern_node *node, const char *path, uint32_t self)
{
    check(tern_checkpoint_start(node, path, NULL, 0));
    check(tern_checkpoint_wait(node));
    if (self)
        return;
    FILE *file = open_truth(path, "w");
    fwrite(truth, sizeof *truth, N_KEYS, file);
    fclose(file);
}

static void restore(struct tern_table *table, const char *path)
{
    struct tern_checkpoint *checkpoint;
    check(tern_checkpoint_open(path, &checkpoint));
    check(tern_checkpoint_restore(table, checkpoint));
    check(tern_checkpoint_close(checkpoint));
    FILE *file = open_truth(path, "r");
    if (fread(truth, sizeof *truth, N_KEYS, file) != N_KEYS)
        exit(3);
    fclose(file);
}

static void count_keys(struct tern_worker *worker, struct tern_table *table, uint64_t n_steps,
                       uint64_t random)
{
    uint64_t keys[BATCH];
    int32_t counts[BATCH];
    for (uint64_t step = 0; step < n_steps; step++) {
        for (int i = 0; i < BATCH; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint64_t number = (random >> 33) % (1 + (random >> 20) % N_KEYS);
            keys[i] = key_of(number);
            counts[i] = 1 + i % 3 * 100;
            truth[number] += counts[i];
        }
        check(tern_push(worker, table, keys, BATCH, counts));
    }
}

int main(int argc, char **argv)
{
    const uint64_t n_steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SKETCH,
                                         .type = TERN_I32,
                                         .length = 1,
                                         .policy = argc > 1 ? argv[1] : "static",
                                         .sketch = {.epsilon = 0.002,
                                                    .delta = 0.02,
                                                    .counters = 1000,
                                                    .conservative = argc > 3 && *argv[3],
                                                    .seed = 7}};
    const char *path = argc > 4 ? argv[4] : NULL;
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    uint32_t self;
    hang_after(HANGS_S);
    check(tern_node_open(NULL, &node));
    check(tern_node_self(node, &self, NULL));
    check(tern_table_open(node, "sketch", &options, &table));
    check(tern_worker_open(node, &worker));
    count_keys(worker, table, n_steps, self + 1);
    check(tern_barrier(node));
    check(tern_all_reduce(node, TERN_I64, N_KEYS, truth));
    if (path && n_steps)
        save(node, path, self);
    else if (path)
        restore(table, path);
    check(tern_barrier(node));
    uint64_t n_low = 0, n_high = 0, n_wrong = 0, heavy[HEAVIEST];
    int64_t sum = 0, found[HEAVIEST], errors[HEAVIEST];
    for (uint64_t i = 0; i < N_KEYS; i++)
        sum += truth[i];
    for (uint64_t i = 0; i < N_KEYS; i++) {
        const uint64_t key = key_of(i);
        int32_t estimate;
        check(tern_pull(worker, table, &key, 1, &estimate));
        n_low += estimate < truth[i];
        n_high += (double)(estimate - truth[i]) > 0.002 * (double)sum;
    }
    size_t n;
    check(tern_top(worker, table, HEAVIEST, heavy, found, errors, &n));
    for (size_t i = 0; i < n; i++) {
        const uint64_t number = heavy[i] * UINT64_C(0xf1de83e19937733d); /* key_of's inverse */
        n_wrong +=
            number >= N_KEYS || found[i] < truth[number] || found[i] - errors[i] > truth[number];
    }
    n_wrong += n != HEAVIEST;
    printf("%" PRIu64 " too low, %s too high, %" PRIu64 " wrong heaviest\n", n_low,
           n_high <= N_KEYS / 50 ? "few" : "many", n_wrong);
    check(tern_worker_close(worker));
    check(tern_barrier(node));
    check(tern_node_close(node));
    return 0;
}

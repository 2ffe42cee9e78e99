/* bench_disk - see bench_disk.h. */
#include "bench_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <tern/tern.h>

#include "bench_cluster.h"
#include "bench_proc.h"
#include "command.h"

enum { CALL_KEYS = 100, GLANCE_MS = 1, MAX_NODES = 64, PATIENCE_S = 240, BLOCK_BYTES = 4 << 20 };

/* What the processes tell each other. */
struct board {
    _Atomic uint32_t n_ready, n_saved;
    atomic_bool saves, is_over;
    struct {
        _Atomic uint64_t n_done;      /* keys pushed and pulled, */
        _Atomic uint64_t n_meanwhile; /* and of these while files were written */
        _Atomic uint64_t start_ns, write_ns, copied_bytes;
    } nodes[MAX_NODES];
};

struct part {
    const struct disk_setup *setup;
    struct cluster cluster;
    struct board *board;
    uint32_t self;
    char path[PATH_MAX];
    struct tern_node *node;
    struct tern_table *table;
    struct tern_worker *worker;
    float *values;
};

/* ---- A node ----------------------------------------------------------------------------------- */

static bool open_node(struct part *part)
{
    const struct tern_table_options shape = {.struct_size = sizeof shape,
                                             .n_keys = part->setup->n_keys,
                                             .length = part->setup->length,
                                             .policy = cluster_share_nothing("static")};
    part->values = calloc(CALL_KEYS * (size_t)shape.length, sizeof *part->values);
    return part->values != NULL && tern_node_open(NULL, &part->node) == TERN_OK &&
           tern_table_open(part->node, "rows", &shape, &part->table) == TERN_OK &&
           tern_worker_open(part->node, &part->worker) == TERN_OK;
}

static bool fill(struct part *part)
{
    const uint64_t n = part->setup->n_keys, n_nodes = part->setup->n_nodes;
    const uint64_t end = n * (part->self + 1) / n_nodes;
    uint64_t keys[CALL_KEYS];
    for (uint64_t key = n * part->self / n_nodes; key < end;) {
        size_t n_call = 0;
        while (n_call < CALL_KEYS && key < end)
            keys[n_call++] = key++;
        if (tern_push(part->worker, part->table, keys, n_call, part->values))
            return false;
    }
    return tern_quiesce(part->node) == TERN_OK;
}

static bool step(struct part *part, uint64_t *random)
{
    uint64_t keys[CALL_KEYS];
    for (size_t i = 0; i < CALL_KEYS; i++) {
        *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        keys[i] = (*random >> 33) % part->setup->n_keys;
    }
    if (tern_push(part->worker, part->table, keys, CALL_KEYS, part->values) ||
        tern_pull(part->worker, part->table, keys, CALL_KEYS, part->values))
        return false;
    atomic_fetch_add(&part->board->nodes[part->self].n_done, 2 * CALL_KEYS);
    return true;
}

/* Starts the checkpoint; the worker is in no call meanwhile. */
static bool start_saving(struct part *part)
{
    const uint64_t before = proc_resident_bytes(), began_ns = proc_now_ns();
    if (tern_checkpoint_start(part->node, part->path, NULL, 0))
        return false;
    atomic_store(&part->board->nodes[part->self].start_ns, proc_now_ns() - began_ns);
    const uint64_t after = proc_resident_bytes();
    atomic_store(&part->board->nodes[part->self].copied_bytes, after > before ? after - before : 0);
    return true;
}

/* A thread that waits for the files. */
static void *wait_saved(void *context)
{
    struct part *part = context;
    const uint64_t began_ns = proc_now_ns();
    const uint64_t n_before = atomic_load(&part->board->nodes[part->self].n_done);
    if (tern_checkpoint_wait(part->node)) {
        complain_tern("a checkpoint failed");
        return part;
    }
    atomic_store(&part->board->nodes[part->self].write_ns, proc_now_ns() - began_ns);
    atomic_store(&part->board->nodes[part->self].n_meanwhile,
                 atomic_load(&part->board->nodes[part->self].n_done) - n_before);
    atomic_fetch_add(&part->board->n_saved, 1);
    return NULL;
}

static int node_main(void *context)
{
    struct part *part = context;
    uint64_t random = part->self;
    pthread_t thread;
    void *failed = NULL;
    cluster_enter(&part->cluster, part->self);
    bool ok = open_node(part) && fill(part);
    atomic_fetch_add(&part->board->n_ready, 1);
    while (ok && !atomic_load(&part->board->saves))
        ok = step(part, &random);
    ok = ok && start_saving(part) && pthread_create(&thread, NULL, wait_saved, part) == 0;
    const bool has_thread = ok;
    while (ok && !atomic_load(&part->board->is_over))
        ok = step(part, &random);
    if (has_thread)
        pthread_join(thread, &failed);
    if (!ok || failed != NULL || tern_worker_close(part->worker) || tern_node_close(part->node))
        return complain_tern("a node failed");
    free(part->values);
    return EXIT_OK;
}

/* ---- The plain write -------------------------------------------------------------------------- */

/* Seconds that it takes; 0 where files cannot be written past the page cache. */
static double write_plainly(const char *path, uint64_t n_bytes)
{
    double seconds = 0;
    void *block = NULL;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && posix_memalign(&block, 4096, BLOCK_BYTES) == 0;
    if (ok)
        memset(block, 1, BLOCK_BYTES);
    const uint64_t began_ns = proc_now_ns();
    for (uint64_t at = 0; ok && at < n_bytes; at += BLOCK_BYTES) {
        const uint64_t left = (n_bytes - at + 4095) / 4096 * 4096;
        const size_t n = left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES;
        ok = write(fd, block, n) == (ssize_t)n;
    }
    if (ok && fsync(fd) == 0)
        seconds = (double)(proc_now_ns() - began_ns) * 1e-9;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    free(block);
    return seconds;
}

/* ---- The whole -------------------------------------------------------------------------------- */

static bool wait_for(const _Atomic uint32_t *count, uint32_t n)
{
    for (int i = 0; i < PATIENCE_S * 1000 / GLANCE_MS && atomic_load(count) < n; i++)
        proc_sleep_ms(GLANCE_MS);
    if (atomic_load(count) < n)
        complain("the nodes did not come so far within %d s", PATIENCE_S);
    return atomic_load(count) >= n;
}

static bool begin(struct part *part)
{
    struct link_speed speed;
    const size_t n_nodes = part->setup->n_nodes;
    memset(part->board, 0, sizeof *part->board);
    if (part->setup->link != NULL ? !link_parse(part->setup->link, &speed) ||
                                        !cluster_open_linked(&part->cluster, n_nodes, &speed)
                                  : !cluster_open(&part->cluster, TRANSPORT_UNIX, n_nodes))
        return false;
    bool ok = true;
    for (part->self = 0; ok && part->self < n_nodes; part->self++)
        ok = cluster_fork(&part->cluster, node_main, part);
    return (ok && wait_for(&part->board->n_ready, (uint32_t)n_nodes)) ||
           cluster_close(&part->cluster, false);
}

static double count_done(const struct board *board)
{
    double n = 0;
    for (int i = 0; i < MAX_NODES; i++)
        n += (double)atomic_load(&board->nodes[i].n_done);
    return n;
}

static void collect(const struct part *part, struct disk_figures *figures)
{
    for (uint32_t i = 0; i < part->setup->n_nodes; i++) {
        const double start_ms = (double)atomic_load(&part->board->nodes[i].start_ns) * 1e-6;
        const double write_s = (double)atomic_load(&part->board->nodes[i].write_ns) * 1e-9;
        if (start_ms > figures->pause_ms)
            figures->pause_ms = start_ms;
        if (write_s > figures->write_s)
            figures->write_s = write_s;
        figures->keys_per_s +=
            write_s > 0 ? (double)atomic_load(&part->board->nodes[i].n_meanwhile) / write_s : 0;
        figures->copied_bytes += (double)atomic_load(&part->board->nodes[i].copied_bytes);
    }
}

/* The bytes of the checkpoint's files, which are removed. */
static bool take_away(const char *path, double *n_bytes)
{
    struct tern_checkpoint *checkpoint;
    struct tern_checkpoint_info info = {.struct_size = sizeof info};
    if (tern_checkpoint_open(path, &checkpoint) || tern_checkpoint_get_info(checkpoint, &info) ||
        tern_checkpoint_close(checkpoint)) {
        complain_tern("the checkpoint cannot be read");
        return false;
    }
    *n_bytes = (double)info.bytes;
    return proc_remove_folder(path);
}

bool bench_disk(const struct disk_setup *setup, struct disk_figures *figures)
{
    static struct part part;
    char plain[PATH_MAX + 8];
    *figures = (struct disk_figures){0};
    part = (struct part){.setup = setup,
                         .board = mmap(NULL, sizeof *part.board, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
    if (part.board == MAP_FAILED) {
        complain("no memory for the figures");
        return false;
    }
    snprintf(part.path, sizeof part.path, "%.3000s/tern-bench-%ld", setup->folder, (long)getpid());
    snprintf(plain, sizeof plain, "%s.plain", part.path);
    if (!begin(&part))
        return false;
    const uint64_t began_ns = proc_now_ns();
    const double n_before = count_done(part.board);
    proc_sleep_ms(setup->seconds * 1e3);
    figures->keys_per_s_without =
        (count_done(part.board) - n_before) / ((double)(proc_now_ns() - began_ns) * 1e-9);
    atomic_store(&part.board->saves, true);
    const bool ok = wait_for(&part.board->n_saved, setup->n_nodes);
    collect(&part, figures);
    atomic_store(&part.board->is_over, true);
    if (!cluster_close(&part.cluster, ok) || !ok || !take_away(part.path, &figures->n_bytes))
        return false;
    figures->plain_s = write_plainly(plain, (uint64_t)figures->n_bytes);
    return true;
}

/*
 * sketch_count - counts the lines of files. See sketch.h.
 *
 * Each node has a thread, which takes blocks of lines, counts them and goes on until there are none left. Then all add up their cells,
 * and the first writes the file. A thread that fails stops the source; the others end at the barrier and make no
 * collective calls.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/progress.h"
#include "common/sentence.h"
#include "common/team.h"
#include "sketch/sketch.h"
#include "sketch/sketch_lines.h"
#include "sketch/sketch_names.h"
#include "sketch/sketch_node.h"

enum { SPARE_NAMES = 1 << 16 }; /* beside four for each counter, before names are dropped */

/* What one thread may count, so that the sum of all stays below 2^63. */
static const int64_t most_each = INT64_MAX / SKETCH_MAX_NODES;

/* The keys that tern_top gives, in room for all counters. */
struct top_keys {
    uint64_t *keys;
    int64_t *counts, *errors;
    size_t n, most;
};

struct counter {
    struct sketch_node node;
    struct sketch_block block;
    struct sketch_names names;
    struct top_keys top;
    uint64_t keys[SKETCH_BLOCK_LINES];
    int64_t counts[SKETCH_BLOCK_LINES];
    uint64_t n_lines;
    int64_t sum;
};

struct counting {
    const struct sketch_job *job;
    struct sketch_source source;
    pthread_barrier_t barrier;
    struct counter *counters; /* one per node */
    struct sketch_writer writer;
    struct sketch_heavy *heavy;
    size_t n_heavy;
    double seconds;
};

/* ---- The heaviest keys ----------------------------------------------------------------------- */

static bool top_init(struct top_keys *top, size_t most)
{
    *top = (struct top_keys){.most = most,
                             .keys = malloc((most + 1) * sizeof *top->keys),
                             .counts = malloc((most + 1) * sizeof *top->counts),
                             .errors = malloc((most + 1) * sizeof *top->errors)};
    return (top->keys && top->counts && top->errors) || task_fail_memory("the heaviest keys");
}

static void top_fini(struct top_keys *top)
{
    free(top->keys);
    free(top->counts);
    free(top->errors);
}

static bool top_ask(struct counter *counter)
{
    struct top_keys *top = &counter->top;
    return tern_top(counter->node.worker, counter->node.table, top->most, top->keys, top->counts,
                    top->errors, &top->n) == TERN_OK ||
           task_fail_tern("cannot find the heaviest keys");
}

/* Lists the heaviest keys with their names, which one of the threads has. */
static bool list_heavy(struct counting *all)
{
    struct counter *first = &all->counters[0];
    if (!top_ask(first))
        return false;
    all->n_heavy = first->top.n < all->job->n_counters ? first->top.n : all->job->n_counters;
    all->heavy = calloc(all->n_heavy + 1, sizeof *all->heavy);
    if (!all->heavy)
        return task_fail_memory("the heaviest keys");
    for (size_t i = 0; i < all->n_heavy; i++) {
        const struct sketch_name *name = NULL;
        for (size_t k = 0; !name && k < all->job->n_nodes; k++)
            name = sketch_names_find(&all->counters[k].names, first->top.keys[i]);
        all->heavy[i] = (struct sketch_heavy){.key = first->top.keys[i],
                                              .count = first->top.counts[i],
                                              .error = first->top.errors[i],
                                              .name = name ? name->text : "",
                                              .name_bytes = name ? name->bytes : 0};
    }
    return true;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Counts the lines of a block. */
static bool count_block(struct counter *counter, bool has_names)
{
    struct sketch_block *block = &counter->block;
    struct sketch_line line;
    size_t n = 0;
    for (size_t i = 0; i < block->n; i++) {
        if (!sketch_parse(block, i, &line))
            return false;
        if (line.count < 0)
            continue;
        if (line.count > most_each - counter->sum)
            return task_fail("%s:%" PRIu64 ": the counts add up to more than 2^57", block->path,
                             block->first + i);
        counter->sum += line.count;
        counter->keys[n] = line.key;
        counter->counts[n++] = line.count;
        if (has_names && line.text &&
            !sketch_names_add(&counter->names, line.key, line.text, line.text_bytes))
            return false;
    }
    counter->n_lines += n;
    return tern_push(counter->node.worker, counter->node.table, counter->keys, n,
                     counter->counts) == TERN_OK ||
           task_fail_tern("cannot count");
}

static bool count_lines(struct counting *all, struct counter *counter)
{
    const bool has_names = all->job->n_counters > 0;
    do {
        if (!sketch_source_take(&all->source, &counter->block) || !count_block(counter, has_names))
            return false;
        if (counter->names.n > 4 * counter->top.most + SPARE_NAMES &&
            !(top_ask(counter) &&
              sketch_names_keep(&counter->names, counter->top.keys, counter->top.n)))
            return false;
    } while (counter->block.n > 0);
    return true;
}

/* Adds up what the nodes have, and writes it. */
static bool finish(struct counting *all, struct counter *counter)
{
    const bool is_first = counter == all->counters, has_file = all->job->out != NULL;
    int64_t sum = counter->sum;
    if (tern_all_reduce(counter->node.node, TERN_I64, 1, &sum) != TERN_OK)
        return task_fail_tern("cannot add up counts");
    if (is_first && all->job->n_counters > 0 && !list_heavy(all))
        return false;
    if (!has_file)
        return true;
    if (is_first)
        sketch_write_header(&all->writer, &all->job->shape, sum, all->heavy, all->n_heavy);
    if (!sketch_node_write_cells(&counter->node, &all->job->shape, is_first ? &all->writer : NULL))
        return false;
    if (is_first)
        sketch_write_heavy(&all->writer, all->heavy, all->n_heavy);
    return true;
}

static bool count_at_node(void *context, size_t thread)
{
    struct counting *all = context;
    const struct sketch_job *job = all->job;
    struct counter *counter = &all->counters[thread];
    bool ok = top_init(&counter->top, job->n_counters * job->n_nodes) &&
              sketch_node_open(&counter->node, thread, job->n_nodes, &job->shape, job->n_counters);
    const double began = seconds_now();
    ok = ok && count_lines(all, counter);
    if (!ok)
        sketch_source_stop(&all->source);
    pthread_barrier_wait(&all->barrier);
    if (thread == 0)
        all->seconds = seconds_now() - began;
    if (ok && !sketch_source_is_stopped(&all->source))
        ok = finish(all, counter);
    free(counter->block.text);
    top_fini(&counter->top);
    return sketch_node_close(&counter->node) && ok;
}

static void print_rate(const struct counting *all)
{
    uint64_t n = 0;
    for (size_t i = 0; i < all->job->n_nodes; i++)
        n += all->counters[i].n_lines;
    fprintf(stderr, "%" PRIu64 " keys in %.2f s: %.2f M/s\n", n, all->seconds,
            all->seconds > 0 ? (double)n / all->seconds / 1e6 : 0);
}

bool sketch_count(const struct sketch_job *job)
{
    struct counting all = {.job = job};
    if (job->out && !sketch_writer_open(&all.writer, job->out))
        return false;
    sketch_source_init(&all.source, job->inputs, job->n_inputs);
    pthread_barrier_init(&all.barrier, NULL, (unsigned)job->n_nodes);
    all.counters = calloc(job->n_nodes, sizeof *all.counters);
    bool ok = all.counters ? team_run(job->n_nodes, count_at_node, NULL, &all)
                           : task_fail_memory("threads that count");
    if (job->out && ok)
        ok = sketch_writer_commit(&all.writer);
    else if (job->out)
        sketch_writer_discard(&all.writer);
    if (ok) {
        print_rate(&all);
        sketch_print_heavy(all.heavy, job->n_top < all.n_heavy ? job->n_top : all.n_heavy);
    }
    for (size_t i = 0; all.counters && i < job->n_nodes; i++)
        sketch_names_fini(&all.counters[i].names);
    free(all.heavy);
    free(all.counters);
    pthread_barrier_destroy(&all.barrier);
    sketch_source_fini(&all.source);
    return ok;
}

/*
 * kge_moves - how many rows must change nodes when two nodes learn a knowledge graph, whatever manages them.
 *
 *     build/bench/kge_moves GRAPH BATCH NEGATIVES FLOATS
 *
 * Two nodes have half of the triples of GRAPH each and take turns, a batch at a time. A batch uses the entities of its triples, and
 * negatives drawn uniformly from all, independently of what was drawn before. A row that the other node has changed since it was
 * here last is sent once; nothing else is: no index, key, header, decision, replica or second copy. FLOATS are those of a row: twice
 * the dimension, because of AdaGrad's sums. Prints the rows and bytes of an epoch, the mean of EPOCHS.
 *
 * It is a limit for exact reads. A replica may skip changes while it is young, but a batch of the default size takes longer than a
 * replica may be old.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/sentence.h"
#include "kge/graph.h"

enum { EPOCHS = 3 };

struct moves {
    uint32_t n_entities;
    uint8_t *last;   /* the node that used an entity last, plus one; 0: none */
    uint32_t *batch; /* the batch that did */
    uint32_t n_batches;
    uint64_t n_used, n_sent[2]; /* for triples, as negatives */
};

static void use(struct moves *moves, uint32_t entity, uint8_t node, bool is_negative)
{
    if (moves->batch[entity] == moves->n_batches)
        return;
    moves->n_used++;
    moves->n_sent[is_negative] += moves->last[entity] == 2 - node;
    moves->last[entity] = (uint8_t)(node + 1);
    moves->batch[entity] = moves->n_batches;
}

static void shuffle(struct triple *at, size_t n, struct rng *rng)
{
    for (size_t i = n; i > 1; i--) {
        const size_t j = rng_below(rng, i);
        const struct triple other = at[j];
        at[j] = at[i - 1];
        at[i - 1] = other;
    }
}

static void learn(struct moves *moves, struct triples *triples, size_t n_batch, size_t n_negatives,
                  struct rng *rng)
{
    const size_t half = triples->n / 2;
    for (size_t done = 0; done < half; done += n_batch) {
        const size_t end = done + n_batch < half ? done + n_batch : half;
        for (uint8_t node = 0; node < 2; node++) {
            moves->n_batches++;
            for (size_t i = done; i < end; i++) {
                use(moves, triples->at[node * half + i].subject, node, false);
                use(moves, triples->at[node * half + i].object, node, false);
            }
            for (size_t i = 0; i < n_negatives; i++)
                use(moves, (uint32_t)rng_below(rng, moves->n_entities), node, true);
        }
    }
}

int main(int argc, char **argv)
{
    struct graph graph = {0};
    struct rng rng = rng_seed(1, 1);
    if (argc != 5) {
        fprintf(stderr, "usage: kge_moves GRAPH BATCH NEGATIVES FLOATS\n");
        return 2;
    }
    const size_t n_batch = strtoul(argv[2], NULL, 10), n_negatives = strtoul(argv[3], NULL, 10);
    const double row_bytes = strtod(argv[4], NULL) * sizeof(float);
    if (n_batch == 0 || !graph_read(&graph, argv[1], GRAPH_ADD)) {
        fprintf(stderr, "kge_moves: %s\n", n_batch ? task_error() : "BATCH must not be 0");
        return 1;
    }
    struct moves moves = {.n_entities = graph.entities.n,
                          .last = calloc(graph.entities.n, sizeof *moves.last),
                          .batch = calloc(graph.entities.n, sizeof *moves.batch)};
    if (moves.last == NULL || moves.batch == NULL)
        return 1;
    shuffle(graph.train.at, graph.train.n, &rng);
    const size_t half = graph.train.n / 2;
    for (int epoch = -1; epoch < EPOCHS;
         epoch++) { /* the one before the first gives rows their nodes */
        if (epoch == 0)
            moves.n_used = moves.n_sent[0] = moves.n_sent[1] = 0;
        shuffle(graph.train.at, half, &rng);
        shuffle(graph.train.at + half, half, &rng);
        learn(&moves, &graph.train, n_batch, n_negatives, &rng);
    }
    const double n_triples = (double)moves.n_sent[0] / EPOCHS,
                 n_drawn = (double)moves.n_sent[1] / EPOCHS;
    printf("%.0f rows sent for triples, %.0f as negatives: %.2f of those used, %.0f MB per epoch\n",
           n_triples, n_drawn, (n_triples + n_drawn) * EPOCHS / (double)moves.n_used,
           (n_triples + n_drawn) * row_bytes / 1e6);
    free(moves.last);
    free(moves.batch);
    graph_fini(&graph);
    return 0;
}

/*
 * graph - a knowledge graph: training, validation and test triples (subject, relation, object).
 *
 * A file has one triple per line, three names separated by tabs. Names are any text, numbers included. They
 * are numbered in the order they are met. The published splits of WN18RR and FB15k-237 have entities in `valid`
 * and `test` that `train` lacks: `enum graph_unknown` says what happens with them.
 */
#ifndef TASKS_KGE_GRAPH_H
#define TASKS_KGE_GRAPH_H

#include "common/names.h"

struct triple {
    uint32_t subject, relation, object;
};

struct triples {
    size_t n, capacity;
    struct triple *at;
};

/* Appends a triple. */
bool triples_add(struct triples *triples, struct triple triple);

/* What to do with a triple of `valid` or `test` that has an unknown name. */
enum graph_unknown {
    GRAPH_REFUSE, /* fail */
    GRAPH_ADD,    /* take the name as that of one more entity or relation */
    GRAPH_SKIP,   /* leave the triple out */
};

struct graph {
    struct names entities, relations;
    struct triples train, valid, test;
    uint32_t n_trained_entities, n_trained_relations; /* those of train; others were added behind */
    size_t n_unknown; /* triples of valid and test with an entity or relation that train lacks */
};

/* `data` is a folder with train, valid and test, the last two optional, or up to three files separated
 * by commas. graph_fini() is due in any case. */
bool graph_read(struct graph *graph, const char *data, enum graph_unknown unknown);

/* The same, but the triples to learn from alone. */
bool graph_read_train(struct graph *graph, const char *data);

void graph_fini(struct graph *graph);

/* ---- Known answers --------------------------------------------------------------------------- */

/* A question is a given entity and a relation, asked for the object or for the subject. */
enum side { ASK_OBJECT, ASK_SUBJECT };

struct answer {
    uint64_t question; /* given entity, relation */
    uint32_t entity;
};

/* For either side, the triples of all three parts in ascending order of question and entity. */
struct known {
    size_t n;
    struct answer *of[2];
};

bool known_init(struct known *known, const struct graph *graph);
void known_fini(struct known *known);

/* The entities that answer a question, ascending; *n of them. */
const struct answer *known_answers(const struct known *known, enum side side, uint32_t given,
                                   uint32_t relation, size_t *n);

#endif

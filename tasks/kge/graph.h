/*
 * graph - a knowledge graph: facts (subject, relation, object) to learn from, to choose by and to test.
 *
 * A file has one fact per line, three names separated by tabs. Names may be anything, numbers too. They
 * are numbered in the order they are met. A name that stands in `valid` or `test` alone was never
 * learned; what happens then is the user's choice.
 */
#ifndef TASKS_KGE_GRAPH_H
#define TASKS_KGE_GRAPH_H

#include "common/names.h"

struct fact {
    uint32_t subject, relation, object;
};

struct facts {
    size_t n, capacity;
    struct fact *at;
};

/* What to do with a fact of `valid` or `test` that has an unknown name. */
enum graph_unknown {
    GRAPH_REFUSE, /* fail */
    GRAPH_ADD,    /* take the name as that of one more entity or relation */
    GRAPH_SKIP,   /* leave the fact out */
};

struct graph {
    struct names entities, relations;
    struct facts train, valid, test;
    size_t n_skipped; /* facts that were left out */
};

/* `data` is a folder with train, valid and test, the last two optional, or up to three files separated
 * by commas. graph_fini() is due in any case. */
bool graph_read(struct graph *graph, const char *data, enum graph_unknown unknown);

/* The same, but the facts to learn from alone. */
bool graph_read_train(struct graph *graph, const char *data);

void graph_fini(struct graph *graph);

/* ---- Known answers --------------------------------------------------------------------------- */

/* A question is a given entity and a relation, asked for the object or for the subject. */
enum side { ASK_OBJECT, ASK_SUBJECT };

struct answer {
    uint64_t question; /* given entity, relation */
    uint32_t entity;
};

/* For either side, the facts of all three parts in ascending order of question and entity. */
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

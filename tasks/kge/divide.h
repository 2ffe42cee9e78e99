/*
 * divide - puts triples in an order in which equal parts, one after the other, have few entities in common.
 *
 * Each part is learned from at one node, so entities of one part alone stay there, and only those of several parts must travel.
 * Entities are given to parts by streaming, each to the part that has most of its neighbours (Linear Deterministic Greedy,
 * Stanton and Kliot, 2012), several times, as in Nishimura and Ugander's restreaming (2013). A triple goes where its entities are.
 */
#ifndef TASKS_KGE_DIVIDE_H
#define TASKS_KGE_DIVIDE_H

#include "kge/graph.h"

/* The order within a part remains. The same triples in the same order give the same result. False after task_fail(). */
bool divide_triples(struct triples *triples, uint32_t n_entities, uint32_t n_parts);

#endif

/*
 * defect - mistakes that can be switched on, to prove that the simulator would find them.
 *
 * Only in builds with TERN_DEFECTS, which tests/sim/test_defects.c is; elsewhere defect() is the
 * constant false and nothing of it is left in the code.
 */
#ifndef CORE_DEFECT_H
#define CORE_DEFECT_H

#include <stdbool.h>

enum defect {
    DEFECT_NONE,
    /* client.c */
    DEFECT_NUMBER_REPEATED,  /* two requests have the same number */
    DEFECT_RESUME_FORGETS,   /* the oldest unanswered request is not sent again */
    DEFECT_RESUME_RENUMBERS, /* requests sent again get new numbers */
    DEFECT_REPLY_MISMATCHED, /* an answer goes to the request after its own */
    DEFECT_SCATTER_SORTED,   /* values come in the order of the sorted keys, not the caller's */
    DEFECT_GATHER_UNSORTED,  /* values go out in the order of the caller's keys, not the sorted */
    DEFECT_SORT_UNSTABLE,    /* equal keys change places */
    DEFECT_WRONG_NODE,       /* a key of a group goes to another node, which executes it */
    /* server.c */
    DEFECT_NO_DUPLICATE_CHECK, /* a write that comes again is executed again */
    DEFECT_DUPLICATE_OFF_BY_ONE,
    DEFECT_ANY_EPOCH,     /* requests of another epoch are executed */
    DEFECT_TABLE_MIXED,   /* a write goes to another table of the same shape */
    DEFECT_SET_ADDS,      /* a set is executed as a push */
    DEFECT_HELD_EXECUTED, /* a request that is held counts as executed */
    DEFECT_SYNC_AGAIN,    /* a round of replicas that comes again is executed again */
    /* group.c */
    DEFECT_BARRIER_EARLY, /* a barrier passes while one node is missing */
    DEFECT_JOIN_EARLY,    /* the roster goes out while one node is missing */
    DEFECT_REDUCE_EARLY,  /* a sum goes out while one node is missing */
    DEFECT_JOIN_TWICE,    /* another process may join as the same node */
    /* placement.c */
    DEFECT_RANGE_BEGIN, /* the first key of a range belongs to the node before */
    /* The rules of lanes that src/sim repeats from src/node. */
    DEFECT_OLD_CONNECTION,  /* the older connection of a lane stays open */
    DEFECT_OLD_INCARNATION, /* so do those of an incarnation that was replaced */
    DEFECT_HELD_DROPPED,    /* a held request is forgotten */
    N_DEFECTS,
};

#ifdef TERN_DEFECTS
extern enum defect core_defect;

static inline bool defect(enum defect which)
{
    return core_defect == which;
}
#else
#define defect(which) false
#endif

#endif

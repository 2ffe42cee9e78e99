/*
 * fault - points at which a simulated process may lose its core, stop or die, and mistakes that can be switched on to prove
 * that the simulation finds them. For memory that processes share.
 *
 * Only in builds with TERN_DEFECTS (tests/sim/test_shared.c); elsewhere nothing of it is left in the code.
 */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum fault_defect {
    FAULT_NONE,
    FAULT_LATCH_STOLEN,  /* a latch that was waited for in vain is taken all the same */
    FAULT_TORN_ROW_READ, /* so is a row behind such a latch read */
    FAULT_LOSS_UNSEEN,   /* that a process was lost is looked at before a wait, and not meanwhile */
    FAULT_PATIENCE_ENDLESS, /* a process that is not known to be lost is waited for without end */
    FAULT_LOSS_FORGOTTEN, /* a row that was missed because of a loss counts as one that is not there */
    FAULT_GROWN_EARLY,    /* an array is published before the cells have moved there */
    FAULT_INDEX_UNLATCHED, /* keys are inserted without a latch */
    FAULT_STRIPE_KEPT,     /* the latch of a stripe is not released when it has grown */
    FAULT_CELL_NOT_MARKED, /* a cell of a growing stripe is neither moved nor marked */
    FAULT_ROW_COUNTED_TWICE,
    FAULT_SLOT_LOST,       /* the slot of a row that has left is not used again */
    FAULT_REMOVED_COUNTED, /* such a row still counts */
    FAULT_REBUILD_UNSEEN,  /* readers do not notice that cells were used again */
    FAULT_PINNED_REMOVED,
    FAULT_FLOOR_IGNORED,
    /* Of tables with backups (undo.h): */
    FAULT_UNDO_SKIPPED,  /* a row that a dead process was writing is released as it is */
    FAULT_UNDO_LATE,     /* a row is restored though the write was complete */
    FAULT_UNDO_LEFT,     /* the copy of an earlier write is taken for that of this one */
    FAULT_UNDO_EARLY,    /* the copy counts before it is complete */
    FAULT_UNDO_NO_STATE, /* the updater's state is not restored */
    FAULT_UNDO_SLEEPER,  /* what a stopped process holds is freed, and the process goes on later */
    FAULT_GATE_LEFT,     /* what a process leaves that dies while it mends is not mended */
    FAULT_ROW_UNCOUNTED, /* a row that a dead process made is not counted */
    FAULT_GROWTH_UNFINISHED,
    FAULT_CELL_MOVED_TWICE, /* a cell that a dead process had moved is moved again */
    FAULT_KEY_WITHOUT_WORD, /* a key that a dead process was inserting stays in a free cell */
    N_FAULTS,
};

#ifdef TERN_DEFECTS
enum { fault_is_simulated = 1 };
extern enum fault_defect fault_defect;
extern uint64_t fault_now_ns; /* virtual time */
void fault_point(void);

static inline bool fault(enum fault_defect which)
{
    return fault_defect == which;
}
#else
enum { fault_is_simulated = 0 };
#define fault(which) false
#define fault_point() ((void)0)
#endif

#endif

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
    DEFECT_WRONG_SHARD,      /* a key of a group goes to another shard */
    DEFECT_SETS_REPEATED,    /* of keys that move, all sets of one operation are sent */
    DEFECT_MOVED_UNLEARNED,  /* where keys have moved is not learned from the answer */
    DEFECT_MOVED_DROPPED,    /* a request that was answered MOVED is not sent on */
    /* lanes.c */
    DEFECT_RESUME_SKIPPED,   /* what was unanswered when a connection broke is not sent again */
    DEFECT_PATIENCE_SHORT,   /* a node is given up after a small part of the deadline */
    DEFECT_PATIENCE_ENDLESS, /* a node that does not answer is waited for without end */
    DEFECT_HOLD_ECHOED, /* nodes that wait for each other say for ever that they wait for a good reason */
    /* server.c */
    DEFECT_NO_DUPLICATE_CHECK, /* a write that comes again is executed again */
    DEFECT_DUPLICATE_OFF_BY_ONE,
    DEFECT_ANY_EPOCH,       /* requests of another epoch are executed */
    DEFECT_TABLE_MIXED,     /* a write goes to another table of the same shape */
    DEFECT_SET_ADDS,        /* a set is executed as a push */
    DEFECT_HELD_EXECUTED,   /* a request that is held counts as executed */
    DEFECT_SYNC_AGAIN,      /* a round of replicas that comes again is executed again */
    DEFECT_MOVED_EXECUTED,  /* a request that was answered MOVED counts as executed */
    DEFECT_ROUND_FORGOTTEN, /* a round that comes again gets an empty answer, not the one it had */
    DEFECT_KEPT_ONCE,       /* a lane keeps one answer to a round, and not one for each table */
    DEFECT_RUMOUR_BELIEVED, /* a node that lives is given up because another cannot reach it */
    DEFECT_DEAD_NOT_FENCED, /* requests of a node that was given up are executed */
    /* backup.c */
    DEFECT_ANSWERED_UNSAFE,    /* a write is answered before the backup has it */
    DEFECT_STATE_NOT_BACKED,   /* a backup has no updater state */
    DEFECT_RECORD_FORGOTTEN,   /* a batch has rows and no records */
    DEFECT_RECORD_LEFT_BEHIND, /* the lanes of an arc that is taken over begin anew */
    DEFECT_BATCH_HALF_APPLIED, /* half of the rows of a batch are kept */
    DEFECT_COPY_SKIPPED,       /* no new backup is made after a death */
    DEFECT_PEERS_KEPT,         /* after a death batches go to the backups that there were before */
    DEFECT_CONFIRMED_BY_FIRST, /* a batch counts as confirmed when the first of several backups has it */
    DEFECT_ROUND_NOT_NOTED, /* what a round changes goes with a later batch, without its record */
    DEFECT_ROUND_ANSWERED_UNSAFE, /* a round is answered before the backups have what it changed */
    DEFECT_REPLICA_LEFT, /* a replica of a key that nobody wrote to does not become the main copy */
    DEFECT_ROOM_KEPT,    /* slots that are set aside for keys that are taken over stay so */
    DEFECT_QUESTION_TWICE, /* what was told to a dead node is done again by the one that takes over */
    DEFECT_ANSWER_BELIEVED, /* the answer of a node that is given up counts */
    DEFECT_ANSWERS_CROSS, /* a question that a dead node did not execute is answered with values, beside others */
    DEFECT_TAKEN_AGAIN,     /* what the dead node had executed of a round is executed once more */
    DEFECT_WANTS_FORGOTTEN, /* after a death no node repeats which keys it wants */
    DEFECT_LAST_BATCH_KEPT, /* the node that takes over does not send on the last batch that it took */
    DEFECT_RECOVERS_NOTHING, /* an arc that is lost begins anew, though there is a checkpoint */
    DEFECT_PUSH_UNCOUNTED,   /* a push that finds no row is dropped, and not counted */
    DEFECT_DROPPED_AGAIN,    /* one that comes again is counted again, where keys are admitted */
    DEFECT_MISSED_CONFUSED,  /* pushes that find no row go to the first such key */
    DEFECT_READ_ADMITS,      /* a pull gives a key its row */
    DEFECT_SKETCH_ONCE,      /* a key that a push names twice is counted once in a sketch */
    /* replica.c */
    DEFECT_WRITER_BEHIND, /* a node that set a row need not have heard of it */
    /* doubling.c */
    DEFECT_PART_TWICE, /* a partner's sum is added twice */
    DEFECT_OWN_KEPT,   /* what a node added to a round still counts as changed */
    /* intents.c */
    DEFECT_ACTS_LATE,           /* intents are acted on when their start has come */
    DEFECT_CLOSE_KEEPS_INTENTS, /* those of a closed worker do not end */
    /* manager.c and share.c */
    DEFECT_EXPIRY_LOST,           /* the end of an intent is not told */
    DEFECT_MOVE_WITH_TWO_INTENTS, /* a key moves although others also want it */
    DEFECT_DELTA_UNTOLD,          /* what one replica changed is not told to the others */
    DEFECT_UPDATE_UNTOLD,         /* nor what an updater made of it to that replica */
    DEFECT_RETURNED_DROPPED,      /* a delta that met no owner is forgotten */
    DEFECT_STALE_ASK_FORGOTTEN,   /* an ask that met no owner is forgotten */
    DEFECT_BASE_NOT_RESET,        /* a delta that was taken is taken again */
    DEFECT_COPY_OVERWRITES,       /* a value that comes replaces what was changed in the replica */
    DEFECT_REPLICA_KEPT,          /* a replica stays when nobody wants it any more */
    DEFECT_DROPPED_CHANGED,       /* a replica is dropped with what was changed in it */
    DEFECT_GATHERED_LOST,         /* what was gathered for an updater is lost with a move */
    DEFECT_SPARE_LOST,            /* the slot set aside for a key is not given back */
    DEFECT_MOVE_WANTED_HERE,      /* a key moves although its owner wants it */
    DEFECT_CHANGES_FORGOTTEN,     /* one of the holders of replicas is not told of changes */
    DEFECT_STATE_LEFT_BEHIND,     /* a key moves without its updater's state */
    DEFECT_SHARE_LOST,            /* who wanted a key is remembered after it has moved */
    DEFECT_NUMBER_NOT_RAISED,     /* a key that moves keeps its number */
    DEFECT_HOME_NOT_TOLD,         /* the home does not learn where a key went */
    DEFECT_CLEAN_EARLY,           /* a round counts as clean while changes are left over */
    DEFECT_FRESH_FORGOTTEN,       /* a new replica does not get its first value */
    DEFECT_ENDED_FORGOTTEN,       /* a row may leave while a replica is left that was to end */
    DEFECT_SHARED_LEAVES,         /* a row may leave while other nodes want it */
    DEFECT_WANTED_LEAVES,         /* a row may leave while its home wants it */
    DEFECT_DROPPED_UNSAID,        /* the owner is not told that a replica is gone */
    /* follower.c, and what the leader does for followers */
    DEFECT_FOLLOWER_UNHEARD,       /* what a follower wants is not told to the leader */
    DEFECT_FOLLOWER_KEEPS,         /* nor that it does not want it any more */
    DEFECT_END_OVERTAKES,          /* the end of an intent is told before its beginning */
    DEFECT_FOLLOWER_FLUSHES_ALONE, /* a follower that waits for rounds does not wait for the leader's */
    DEFECT_FOLLOWER_UNAWAITED,     /* the leader does not hurry for followers that wait */
    DEFECT_MARKS_PRIVATE,          /* the leader does not see what a follower has changed */
    DEFECT_END_COUNTS_TWICE,       /* the end of a follower's intent ends another one as well */
    DEFECT_FIRST_END_TOLD,     /* a key ends when the first of a follower's workers has ended it */
    DEFECT_PLACED_AT_FOLLOWER, /* a placement's home is not taken by the leader of its host */
    /* cached.c */
    DEFECT_CACHE_KEPT, /* a key that is displaced from a cache is wanted on */
    /* draw.c and target.c */
    DEFECT_DRAWN_BESIDE,    /* the key after the last of a range can be drawn */
    DEFECT_POOL_OVERUSED,   /* a pool is used once too often */
    DEFECT_POSTPONED_TWICE, /* a key that was put off is put off again */
    DEFECT_POSTPONED_LOST,  /* a key that is put off is not handed out, but another one twice */
    DEFECT_GIVEN_BACK_LOST, /* so is a key that was given back after it had been handed out */
    DEFECT_LOCAL_ANYWHERE,  /* local sampling takes any key */
    /* bounded.c and bounded_home.c */
    DEFECT_CLOCK_BEFORE_CHANGES, /* a clock is told before all that was changed until then */
    DEFECT_CLOCK_BEFORE_MARKS, /* a home's own clock counts before its changes are noted for others */
    DEFECT_MINIMUM_OF_HEARD,   /* the lowest clock is that of the nodes that were heard of */
    DEFECT_LOST_AT_CLOCK,      /* a change is lost when the clock advances */
    DEFECT_BOUND_OFF_BY_ONE,   /* a read may miss one clock more */
    DEFECT_AGE_WITHOUT_FETCH, /* a replica that is too old counts as fresh without being fetched */
    DEFECT_VALUE_OVERWRITES,  /* a value that comes replaces what was changed in the replica */
    DEFECT_NOT_REGISTERED,    /* a home forgets who has a replica */
    DEFECT_ROW_DROPPED,       /* a row that has changed is not sent to one who has a replica */
    DEFECT_RESTED_FORGOTTEN,  /* how far workers were that rest now is forgotten */
    DEFECT_SEEN_EARLY,        /* what was sent counts as seen before it is confirmed */
    DEFECT_CROSSED_LOST, /* a row that a home sends replaces changes that are on their way there */
    DEFECT_PUSH_OVERTAKEN,      /* a node asks again while such a row may still be under way */
    DEFECT_PUSH_REST_FORGOTTEN, /* the clock counts before all rows that travel with it have come */
    DEFECT_FIRST_VALUE_LATE,    /* an answer replaces a later row that came with the clock */
    /* The same with backups, and bounded_view.c */
    DEFECT_ERA_IGNORED,      /* clocks that were said before a death still count */
    DEFECT_DEAD_CLOCK_KEPT,  /* a dead node's workers hold back the others */
    DEFECT_CHANGES_LEFT,     /* what was to be told to a dead home is forgotten */
    DEFECT_REPLICA_BELIEVED, /* replicas that nobody refreshes any more are read */
    /* graph.c and graph_home.c */
    DEFECT_GRAPH_COUNT_NOT_CARRIED, /* a home does not look at a replica's count */
    DEFECT_GRAPH_OFF_BY_ONE,        /* a replica may lack one update more */
    DEFECT_GRAPH_UPDATE_UNCOUNTED,  /* an update is not counted */
    DEFECT_GRAPH_OWN_TWICE,   /* a node's own update counts twice when a value with it has come */
    DEFECT_GRAPH_ADDED_TWICE, /* a push is added to a value that has it */
    DEFECT_GRAPH_BETWEEN_SKIPPED,     /* keys of one pull are not compared */
    DEFECT_GRAPH_OLD_FREQUENCY,       /* they are compared by the frequency of another key */
    DEFECT_GRAPH_VALUE_WITHOUT_COUNT, /* a value comes with the count of another key */
    DEFECT_GRAPH_COUNT_NOT_BACKED,    /* a backup has the rows without their counts */
    /* Filters (wire/filter.h). */
    DEFECT_ZEROS_REPEAT,      /* a row of zeros that is pulled is the one before it */
    DEFECT_FILTERED_ROW_LOST, /* the last row of a write is taken for zeros */
    /* sifter.c, and who calls it */
    DEFECT_BASE_UNROUNDED,    /* a base is moved by a change as it was before it was rounded */
    DEFECT_WAITING_DROPPED,   /* what waits counts as sent */
    DEFECT_WAITING_FORGOTTEN, /* what waits is not sent when everything is to be told */
    DEFECT_RARE_LEFT,         /* changes of rare keys wait although everything is awaited */
    DEFECT_EXACT_SIFTED,      /* what everything is to be told of is rounded, too */
    DEFECT_ROUNDED_KEPT,      /* a rounded value is not sent again when everything is to be heard */
    DEFECT_MAIN_ROUNDED,      /* a main copy that moves is rounded */
    /* Lists of keys (wire/lists.h). */
    DEFECT_LIST_CONFUSED, /* the digest of a list is that of its first keys alone */
    DEFECT_LIST_GUESSED,  /* a list that is not known is taken for that of the last request */
    DEFECT_LIST_EXECUTED, /* a request whose list is not known counts as executed */
    DEFECT_LIST_UNSENT,   /* a request whose list was forgotten is not sent again */
    /* group.c, collective.c */
    DEFECT_BARRIER_EARLY, /* a barrier passes while one node is missing */
    DEFECT_JOIN_EARLY,    /* the roster goes out while one node is missing */
    DEFECT_REDUCE_EARLY,  /* a sum goes out while one node is missing */
    DEFECT_JOIN_TWICE,    /* another process may join as the same node */
    /* A node that leaves alone: view.c, group.c, backup.c */
    DEFECT_LEAVES_BACKUPS_SHORT, /* a node that leaves has no more backups than others */
    DEFECT_LEAVING_COUNTS,       /* a node that leaves counts as a backup of others */
    DEFECT_LEAVES_EARLY,         /* it goes before all backups are complete */
    DEFECT_PARTED_AWAITED,       /* the others wait for one that has left */
    /* placement.c */
    DEFECT_RANGE_BEGIN, /* the first key of a range belongs to the node before */
    /* placed.c */
    DEFECT_SCATTER_FORGOTTEN, /* a node takes some keys that are scattered for at home in a range */
    DEFECT_PLACEMENT_FORGOTTEN, /* a node takes some keys for at home where they are without a placement */
    /* service.c */
    DEFECT_GUEST_FORGOTTEN, /* a lane of a process that has joined ends with its connection */
    DEFECT_OLD_CONNECTION,  /* the older connection of a lane stays open */
    DEFECT_OLD_INCARNATION, /* a process is served that is not the one that joined */
    DEFECT_HELD_DROPPED,    /* a held request is forgotten */
    DEFECT_HOLD_UNSAID,     /* those that wait rightly are not told so */
    /* pulse.c */
    DEFECT_PULSE_SKIPPED, /* a node does not tell the coordinator that it lives */
    /* rounds.c */
    DEFECT_PAUSE_ENDLESS,     /* when nothing was exchanged, no further round begins by itself */
    DEFECT_FLUSH_UNCOLLECTED, /* a node that waits for all changes to be told does not collect them */
    DEFECT_ROUND_HELD_DROPPED, /* one that waits for a round is not tried again when it is over */
    /* order.c */
    DEFECT_TURN_SKIPPED,     /* an operation does not wait for an earlier one on the same key */
    DEFECT_CATCH_UP_SKIPPED, /* a write does not wait for a replica that is older */
    /* admit.c */
    DEFECT_RETURNS_AT_ONCE, /* a worker that comes back does not ask how far others are */
    DEFECT_WAIT_SHORT,      /* a worker gives up before a dead node can be known */
    DEFECT_OPENING_BLAMED,  /* a node that has still to open a table counts as late */
    /* A mistake of a program, in sim/worker.c. */
    DEFECT_RESTS_TOO_EARLY, /* a worker counts as resting while it works */
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

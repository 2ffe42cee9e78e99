/*
 * The simulator finds every defect of core/defect.h, and nothing without one.
 *
 * `test_defects TEXT` looks for those alone whose name contains TEXT.
 *
 * Built with TERN_DEFECTS, together with the sources of src/core and src/sim.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fault.h"
#include "core/defect.h"
#include "tern/sim.h"

enum { FIRST_SEED = 2001, SEEDS = 500 };

enum defect core_defect;

/* Latches have points at which the processes of tests/sim/test_shared.c stop; here there is one thread. */
void fault_point(void)
{
}

static const char *only; /* a part of the names of the defects to look for; NULL: all */

static const char *const names[N_DEFECTS] = {
    [DEFECT_NUMBER_REPEATED] = "two requests have the same number",
    [DEFECT_RESUME_FORGETS] = "a resumed lane forgets a request",
    [DEFECT_RESUME_RENUMBERS] = "a resumed lane gives requests new numbers",
    [DEFECT_REPLY_MISMATCHED] = "a reply goes to the next request",
    [DEFECT_SCATTER_SORTED] = "values come in the wrong order",
    [DEFECT_GATHER_UNSORTED] = "values go out in the wrong order",
    [DEFECT_SORT_UNSTABLE] = "equal keys change places",
    [DEFECT_WRONG_NODE] = "a key is executed at another node",
    [DEFECT_WRONG_SHARD] = "a key is sent to another shard",
    [DEFECT_SETS_REPEATED] = "all sets of one operation are sent",
    [DEFECT_MOVED_UNLEARNED] = "where keys are is not learned",
    [DEFECT_MOVED_DROPPED] = "a request that met no owner is dropped",
    [DEFECT_RESUME_SKIPPED] = "a broken lane does not resume",
    [DEFECT_PATIENCE_SHORT] = "a lane gives up too early",
    [DEFECT_PATIENCE_ENDLESS] = "a lane never gives up",
    [DEFECT_HOLD_ECHOED] = "a HOLD is echoed for ever",
    [DEFECT_NO_DUPLICATE_CHECK] = "no check for duplicates",
    [DEFECT_DUPLICATE_OFF_BY_ONE] = "that check is off by one",
    [DEFECT_ANY_EPOCH] = "an earlier epoch is served",
    [DEFECT_RUMOUR_BELIEVED] = "a rumour of a death is believed",
    [DEFECT_DEAD_NOT_FENCED] = "a node that was given up is served",
    [DEFECT_ANSWERED_UNSAFE] = "answered before the backup has it",
    [DEFECT_STATE_NOT_BACKED] = "no updater state in backups",
    [DEFECT_RECORD_FORGOTTEN] = "no records in batches",
    [DEFECT_RECORD_LEFT_BEHIND] = "records are not taken over",
    [DEFECT_BATCH_HALF_APPLIED] = "half a batch is kept",
    [DEFECT_PEERS_KEPT] = "batches go to the backups of before",
    [DEFECT_CONFIRMED_BY_FIRST] = "the first backup confirms for all",
    [DEFECT_ROUND_NOT_NOTED] = "changes of a round have no record",
    [DEFECT_ROUND_ANSWERED_UNSAFE] = "a round is answered before the backup has it",
    [DEFECT_REPLICA_LEFT] = "a replica of an unwritten key is left",
    [DEFECT_ROOM_KEPT] = "room is kept for keys that are taken over",
    [DEFECT_QUESTION_TWICE] = "what was told to a dead node is done again",
    [DEFECT_ANSWER_BELIEVED] = "an answer of a dead node counts",
    [DEFECT_ANSWERS_CROSS] = "values come on the lane of a dead node",
    [DEFECT_TAKEN_AGAIN] = "a dead node's round is executed again",
    [DEFECT_WANTS_FORGOTTEN] = "wants are not told anew after a death",
    [DEFECT_LAST_BATCH_KEPT] = "the last batch is not sent on",
    [DEFECT_COPY_SKIPPED] = "no new backup after a death",
    [DEFECT_RECOVERS_NOTHING] = "what is lost begins anew",
    [DEFECT_TABLE_MIXED] = "tables are mixed up",
    [DEFECT_ZEROS_REPEAT] = "a row of zeros is the one before it",
    [DEFECT_FILTERED_ROW_LOST] = "the last filtered row is lost",
    [DEFECT_BASE_UNROUNDED] = "a base is set unrounded",
    [DEFECT_WAITING_DROPPED] = "what is rounded off or waits is dropped",
    [DEFECT_WAITING_FORGOTTEN] = "a flush does not send what waits",
    [DEFECT_RARE_LEFT] = "a flush leaves the changes of rare keys",
    [DEFECT_EXACT_SIFTED] = "a flush rounds what it sends",
    [DEFECT_ROUNDED_KEPT] = "rounded values of replicas are kept",
    [DEFECT_MAIN_ROUNDED] = "a main copy that moves is rounded",
    [DEFECT_LIST_CONFUSED] = "two lists of keys are confused",
    [DEFECT_LIST_GUESSED] = "a forgotten list of keys is guessed",
    [DEFECT_LIST_EXECUTED] = "a request without its list is executed",
    [DEFECT_LIST_UNSENT] = "a forgotten list is not sent again",
    [DEFECT_SET_ADDS] = "a set adds",
    [DEFECT_HELD_EXECUTED] = "a held request counts as executed",
    [DEFECT_SYNC_AGAIN] = "a round of replicas is executed twice",
    [DEFECT_MOVED_EXECUTED] = "a request that met no owner is executed",
    [DEFECT_ROUND_FORGOTTEN] = "the answer to a round is forgotten",
    [DEFECT_KEPT_ONCE] = "the answer about another table is kept",
    [DEFECT_PUSH_UNCOUNTED] = "admission: a dropped push is not counted",
    [DEFECT_DROPPED_AGAIN] = "admission: a push is counted twice",
    [DEFECT_MISSED_CONFUSED] = "admission: pushes go to another new key",
    [DEFECT_READ_ADMITS] = "admission: a pull makes a row",
    [DEFECT_SKETCH_ONCE] = "a sketch counts a repeated key once",
    [DEFECT_WRITER_BEHIND] = "a writer goes on with an older replica",
    [DEFECT_PART_TWICE] = "a sum of an all-reduce is added twice",
    [DEFECT_OWN_KEPT] = "what was added to it is added again",
    [DEFECT_ACTS_LATE] = "intents are acted on late",
    [DEFECT_CLOSE_KEEPS_INTENTS] = "a closed worker's intents stay",
    [DEFECT_EXPIRY_LOST] = "the end of an intent is not told",
    [DEFECT_MOVE_WITH_TWO_INTENTS] = "a key moves though several want it",
    [DEFECT_DELTA_UNTOLD] = "changes of a replica are not told to others",
    [DEFECT_UPDATE_UNTOLD] = "what an updater did is not told back",
    [DEFECT_RETURNED_DROPPED] = "a delta that met no owner is dropped",
    [DEFECT_STALE_ASK_FORGOTTEN] = "an ask that met no owner is dropped",
    [DEFECT_BASE_NOT_RESET] = "a delta is taken twice",
    [DEFECT_COPY_OVERWRITES] = "news overwrite a replica's changes",
    [DEFECT_REPLICA_KEPT] = "a replica is kept after its intent",
    [DEFECT_DROPPED_CHANGED] = "a replica is dropped with its changes",
    [DEFECT_GATHERED_LOST] = "gathered updates are lost with a move",
    [DEFECT_SPARE_LOST] = "a slot that was set aside is lost",
    [DEFECT_MOVE_WANTED_HERE] = "a key moves though its owner wants it",
    [DEFECT_CHANGES_FORGOTTEN] = "one holder of a replica gets no news",
    [DEFECT_STATE_LEFT_BEHIND] = "the updater's state is left behind",
    [DEFECT_SHARE_LOST] = "a share outlives the move of its key",
    [DEFECT_NUMBER_NOT_RAISED] = "a move does not raise the number",
    [DEFECT_HOME_NOT_TOLD] = "the home is not told where a key went",
    [DEFECT_FRESH_FORGOTTEN] = "a new replica gets no value",
    [DEFECT_ENDED_FORGOTTEN] = "eviction: a row leaves while a replica ends",
    [DEFECT_SHARED_LEAVES] = "eviction: a row leaves while it is wanted elsewhere",
    [DEFECT_WANTED_LEAVES] = "eviction: a row leaves while its home wants it",
    [DEFECT_DROPPED_UNSAID] = "eviction: the end of a replica is not confirmed",
    [DEFECT_CLEAN_EARLY] = "changes are left over by a clean round",
    [DEFECT_FOLLOWER_UNHEARD] = "a follower's wants are not told",
    [DEFECT_FOLLOWER_KEEPS] = "a follower's ends are not told",
    [DEFECT_END_OVERTAKES] = "a follower's end overtakes",
    [DEFECT_FOLLOWER_FLUSHES_ALONE] = "a follower does not wait for its leader",
    [DEFECT_FOLLOWER_UNAWAITED] = "a leader ignores that a follower waits",
    [DEFECT_MARKS_PRIVATE] = "a follower's changes are not seen",
    [DEFECT_END_COUNTS_TWICE] = "a follower's end counts twice",
    [DEFECT_FIRST_END_TOLD] = "a follower's first end is told",
    [DEFECT_PLACED_AT_FOLLOWER] = "a placement's home is a follower",
    [DEFECT_CACHE_KEPT] = "a key that a cache displaces is kept",
    [DEFECT_DRAWN_BESIDE] = "a key beside the range is drawn",
    [DEFECT_POOL_OVERUSED] = "a pool is used once too often",
    [DEFECT_POSTPONED_TWICE] = "a key of a sample is put off twice",
    [DEFECT_POSTPONED_LOST] = "a key that is put off is lost",
    [DEFECT_GIVEN_BACK_LOST] = "a key that is given back is lost",
    [DEFECT_LOCAL_ANYWHERE] = "local sampling takes any key",
    [DEFECT_ERA_IGNORED] = "clocks of before a death count",
    [DEFECT_DEAD_CLOCK_KEPT] = "a dead node's clock is waited for",
    [DEFECT_CHANGES_LEFT] = "changes for a dead home are left",
    [DEFECT_REPLICA_BELIEVED] = "a replica that nobody refreshes is read",
    [DEFECT_CLOCK_BEFORE_CHANGES] = "a clock is told before the changes",
    [DEFECT_CLOCK_BEFORE_MARKS] = "a home's clock comes before its changes",
    [DEFECT_MINIMUM_OF_HEARD] = "the lowest clock is of those heard of",
    [DEFECT_LOST_AT_CLOCK] = "a change is lost at the end of a clock",
    [DEFECT_BOUND_OFF_BY_ONE] = "a read may miss one clock too many",
    [DEFECT_AGE_WITHOUT_FETCH] = "a replica counts as fresh unfetched",
    [DEFECT_VALUE_OVERWRITES] = "a value overwrites a replica's changes",
    [DEFECT_NOT_REGISTERED] = "a home forgets who has replicas",
    [DEFECT_ROW_DROPPED] = "a changed row is not sent",
    [DEFECT_RESTED_FORGOTTEN] = "how far those were who rest is forgotten",
    [DEFECT_SEEN_EARLY] = "what was sent counts as seen",
    [DEFECT_CROSSED_LOST] = "a pushed row lacks crossing changes",
    [DEFECT_PUSH_OVERTAKEN] = "a question overtakes a pushed row",
    [DEFECT_PUSH_REST_FORGOTTEN] = "the rest of pushed rows is forgotten",
    [DEFECT_FIRST_VALUE_LATE] = "a first value replaces a later one",
    [DEFECT_GRAPH_COUNT_NOT_CARRIED] = "a replica's count is not carried",
    [DEFECT_GRAPH_OFF_BY_ONE] = "a replica may lack one update too many",
    [DEFECT_GRAPH_UPDATE_UNCOUNTED] = "an update is not counted",
    [DEFECT_GRAPH_OWN_TWICE] = "a node's own update counts twice",
    [DEFECT_GRAPH_ADDED_TWICE] = "a push is added to a value that has it",
    [DEFECT_GRAPH_BETWEEN_SKIPPED] = "keys of a pull are not compared",
    [DEFECT_GRAPH_OLD_FREQUENCY] = "they are by another key's frequency",
    [DEFECT_GRAPH_VALUE_WITHOUT_COUNT] = "a value comes without its count",
    [DEFECT_GRAPH_COUNT_NOT_BACKED] = "a backup has no counts of updates",
    [DEFECT_BARRIER_EARLY] = "a barrier passes too early",
    [DEFECT_JOIN_EARLY] = "a node joins too early",
    [DEFECT_REDUCE_EARLY] = "a reduction ends too early",
    [DEFECT_JOIN_TWICE] = "another process joins as the same node",
    [DEFECT_LEAVES_BACKUPS_SHORT] = "one that leaves has no more backups",
    [DEFECT_LEAVING_COUNTS] = "one that leaves counts as a backup",
    [DEFECT_LEAVES_EARLY] = "it goes before backups are complete",
    [DEFECT_PARTED_AWAITED] = "the others wait for one that has left",
    [DEFECT_RANGE_BEGIN] = "a range begins one key late",
    [DEFECT_SCATTER_FORGOTTEN] = "a node forgets that homes are scattered",
    [DEFECT_PLACEMENT_FORGOTTEN] = "a node forgets where keys were placed",
    [DEFECT_GUEST_FORGOTTEN] = "a lane ends with its connection",
    [DEFECT_OLD_CONNECTION] = "the older connection of a lane stays",
    [DEFECT_OLD_INCARNATION] = "a process that has not joined is served",
    [DEFECT_HELD_DROPPED] = "a held request is dropped",
    [DEFECT_HOLD_UNSAID] = "those that wait rightly are not told",
    [DEFECT_PULSE_SKIPPED] = "a node gives no sign of life",
    [DEFECT_PAUSE_ENDLESS] = "rounds do not begin by themselves",
    [DEFECT_FLUSH_UNCOLLECTED] = "a flush does not collect changes",
    [DEFECT_ROUND_HELD_DROPPED] = "one held for a round is dropped",
    [DEFECT_TURN_SKIPPED] = "an operation does not wait for its turn",
    [DEFECT_CATCH_UP_SKIPPED] = "a write does not wait for its replica",
    [DEFECT_RETURNS_AT_ONCE] = "a worker comes back unannounced",
    [DEFECT_WAIT_SHORT] = "a worker gives up too early",
    [DEFECT_OPENING_BLAMED] = "a node that opens a table late is blamed",
    [DEFECT_RESTS_TOO_EARLY] = "a worker counts as resting while it works",
};

/* Seeds that have found defects which few seeds find. They are tried before all others, which take minutes: a change of the
 * simulator or of the rules may make one useless. Then the search prints another. */
static const uint64_t tried_first[N_DEFECTS] = {
    [DEFECT_SETS_REPEATED] = 2509,        [DEFECT_PATIENCE_ENDLESS] = 2049,
    [DEFECT_HOLD_ECHOED] = 2206,          [DEFECT_MOVED_EXECUTED] = 2336,
    [DEFECT_RUMOUR_BELIEVED] = 2052,      [DEFECT_STATE_NOT_BACKED] = 2024,
    [DEFECT_LAST_BATCH_KEPT] = 4445,      [DEFECT_DROPPED_AGAIN] = 2319,
    [DEFECT_SKETCH_ONCE] = 2036,          [DEFECT_WRITER_BEHIND] = 2442,
    [DEFECT_RETURNED_DROPPED] = 3045,     [DEFECT_GATHERED_LOST] = 2016,
    [DEFECT_CHANGES_FORGOTTEN] = 2014,    [DEFECT_CLEAN_EARLY] = 2314,
    [DEFECT_END_OVERTAKES] = 2608,        [DEFECT_CLOCK_BEFORE_CHANGES] = 2031,
    [DEFECT_RESTED_FORGOTTEN] = 2117,     [DEFECT_PUSH_OVERTAKEN] = 3015,
    [DEFECT_PUSH_REST_FORGOTTEN] = 2110,  [DEFECT_GRAPH_OWN_TWICE] = 2133,
    [DEFECT_GRAPH_OLD_FREQUENCY] = 2048,  [DEFECT_LIST_CONFUSED] = 2065,
    [DEFECT_JOIN_TWICE] = 2049,           [DEFECT_TURN_SKIPPED] = 2084,
    [DEFECT_CATCH_UP_SKIPPED] = 2039,     [DEFECT_RETURNS_AT_ONCE] = 2018,
    [DEFECT_WAIT_SHORT] = 2365,           [DEFECT_OPENING_BLAMED] = 2067,
    [DEFECT_ROUND_NOT_NOTED] = 2548,      [DEFECT_ROUND_ANSWERED_UNSAFE] = 2548,
    [DEFECT_ANSWER_BELIEVED] = 2629,      [DEFECT_ANSWERS_CROSS] = 5082,
    [DEFECT_TAKEN_AGAIN] = 3116,          [DEFECT_QUESTION_TWICE] = 8725,
    [DEFECT_GRAPH_ADDED_TWICE] = 4907,    [DEFECT_GRAPH_COUNT_NOT_BACKED] = 3457,
    [DEFECT_LEAVES_BACKUPS_SHORT] = 4069, [DEFECT_LEAVING_COUNTS] = 3668,
    [DEFECT_LEAVES_EARLY] = 2393,         [DEFECT_WANTED_LEAVES] = 2044,
    [DEFECT_ERA_IGNORED] = 2118,          [DEFECT_CHANGES_LEFT] = 2222,
    [DEFECT_ENDED_FORGOTTEN] = 2500,
};

static struct tern_sim_result run(enum defect which, uint64_t seed, uint64_t n_seeds)
{
    const struct tern_sim_options options = {.struct_size = sizeof options,
                                             .n_nodes = 5,
                                             .n_steps = 30,
                                             .faults = TERN_SIM_ALL,
                                             .seed = seed,
                                             .n_seeds = n_seeds};
    struct tern_sim_result result = {.struct_size = sizeof result};
    core_defect = which;
    assert_int_equal(tern_sim_run(&options, &result), TERN_OK);
    core_defect = DEFECT_NONE;
    return result;
}

static void nothing_is_found_without_defect(void **state)
{
    (void)state;
    if (only)
        skip();
    struct tern_sim_result result = run(DEFECT_NONE, FIRST_SEED, SEEDS);
    assert_int_equal(result.n_violations, 0);
    assert_int_equal(result.n_seeds, SEEDS);
}

static void every_defect_is_found(void **state)
{
    (void)state;
    int n_missed = 0;
    for (int which = DEFECT_NONE + 1; which < N_DEFECTS; which++) {
        if (only && !strstr(names[which], only))
            continue;
        uint64_t first = tried_first[which];
        struct tern_sim_result result = {.n_violations = 0};
        if (first)
            result = run((enum defect)which, first, 1);
        if (!result.n_violations) {
            first = FIRST_SEED;
            result = run((enum defect)which, first, 8 * SEEDS);
        }
        const uint64_t seed = first + result.n_seeds - 1;
        /* A run that also goes wrong without the defect shows nothing. */
        const bool is_found = result.n_violations && !run(DEFECT_NONE, seed, 1).n_violations;
        if (is_found)
            print_message("%-44s seed %3ju: %s\n", names[which], (uintmax_t)seed, result.violation);
        else if (result.n_violations)
            print_error("%-44s seed %3ju, which goes wrong without it: %s\n", names[which],
                        (uintmax_t)seed, result.violation);
        else
            print_error("%-44s not found\n", names[which]);
        n_missed += !is_found;
    }
    assert_int_equal(n_missed, 0);
}

int main(int n_arguments, char **arguments)
{
    only = n_arguments > 1 ? arguments[1] : NULL;
    /* Thousands of small tables: huge pages would only have to be cleared. */
    setenv("TERN_HUGE_PAGES", "off", 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_found_without_defect),
        cmocka_unit_test(every_defect_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

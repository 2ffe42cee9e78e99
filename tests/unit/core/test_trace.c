/*
 * A trace keeps the last events of a table and tells those of one key, the newest first; a recording has
 * every event of the chosen keys and no other, in order, and loses none without counting it; a line says
 * when, where, which key and what. Through the public calls: what is wrong with a trace is told, and a
 * node that is alone says so.
 */
#include "core/trace.h"

#include "support/check.h"
#include "support/alloc.h"

static uint64_t now;

static uint64_t clock_of_test(void)
{
    return now;
}

static struct trace *new_trace(void)
{
    static struct trace trace;
    assert_true(trace_init(&trace));
    trace.clock = clock_of_test;
    return &trace;
}

static void note_at(struct trace *trace, uint64_t time_ns, enum trace_kind kind, uint64_t key,
                    uint32_t node)
{
    now = time_ns;
    trace_tick(trace);
    trace_note(trace, kind, key, node);
}

/* ---- The ring ---------------------------------------------------------------------------------- */

static void tells_the_last_events_of_a_key(void **state)
{
    (void)state;
    struct trace *trace = new_trace();
    struct trace_event events[8];
    assert_int_equal(trace_last(trace, 7, events, 8), 0);
    note_at(trace, 10, TRACE_REPLICA_MADE, 7, 1);
    note_at(trace, 20, TRACE_MAIN_CAME, 8, 2);
    note_at(trace, 30, TRACE_REPLICA_ENDED, 7, 3);
    assert_int_equal(trace_last(trace, 7, events, 8), 2);
    assert_int_equal(events[0].kind, TRACE_REPLICA_ENDED);
    assert_int_equal(events[0].time_ns, 30);
    assert_int_equal(events[0].node, 3);
    assert_int_equal(events[1].kind, TRACE_REPLICA_MADE);
    assert_int_equal(trace_last(trace, 7, events, 1), 1);
    assert_int_equal(events[0].time_ns, 30);
    assert_int_equal(trace_last(trace, 9, events, 8), 0);
    trace_fini(trace);
}

static void forgets_what_is_older_than_the_ring(void **state)
{
    (void)state;
    struct trace *trace = new_trace();
    struct trace_event events[3];
    note_at(trace, 1, TRACE_MAIN_CAME, 0, 0);
    for (uint64_t i = 1; i < TRACE_RING; i++)
        note_at(trace, 1 + i, TRACE_MAIN_CAME, i, 0);
    assert_int_equal(trace_last(trace, 0, events, 3), 1);
    note_at(trace, 5000, TRACE_MAIN_CAME, TRACE_RING, 0);
    assert_int_equal(trace_last(trace, 0, events, 3), 0);
    assert_int_equal(trace_last(trace, 1, events, 3), 1);
    assert_int_equal(trace_last(trace, TRACE_RING, events, 3), 1);
    trace_fini(trace);
}

/* ---- Recordings -------------------------------------------------------------------------------- */

static void records_the_chosen_keys_alone(void **state)
{
    (void)state;
    struct trace *trace = new_trace();
    struct recording recording = {0};
    uint64_t chosen[] = {0, 5, 5, UINT64_MAX}, n_expected = 0;
    assert_true(recording_init(&recording, chosen, COUNT(chosen)));
    trace->recording = &recording;
    for (uint64_t i = 0; i < 30000; i++) {
        uint64_t key = i % 10 == 9 ? UINT64_MAX : i % 10;
        note_at(trace, i, i % 2 ? TRACE_MAIN_CAME : TRACE_MAIN_LEFT, key, 1);
        trace_note_intent(trace, TRACE_INTENT_BEGAN, key);
        n_expected += key == 0 || key == 5 || key == UINT64_MAX ? 2 : 0;
    }
    struct trace_events events = {0};
    recording_take(&recording, &events);
    assert_int_equal(events.n, n_expected);
    assert_int_equal(recording.n_lost, 0);
    for (size_t i = 0; i < events.n; i++) {
        assert_true(events.events[i].key % 5 == 0 || events.events[i].key == UINT64_MAX);
        assert_true(!i || events.events[i].time_ns >= events.events[i - 1].time_ns);
        assert_int_equal(events.events[i].kind == TRACE_INTENT_BEGAN, i % 2);
    }
    /* What was taken is gone, and what comes is recorded beside it. */
    note_at(trace, 99999, TRACE_REPLICA_MADE, 5, 1);
    assert_int_equal(recording.events.n, 1);
    recording_take(&recording, &events);
    assert_int_equal(events.n, 1);
    assert_int_equal(events.events[0].time_ns, 99999);
    free(events.events);
    trace->recording = NULL;
    recording_fini(&recording);
    trace_fini(trace);
}

static void intents_alone_are_not_in_the_ring(void **state)
{
    (void)state;
    struct trace *trace = new_trace();
    struct trace_event event;
    trace_note_intent(trace, TRACE_INTENT_BEGAN, 3);
    assert_int_equal(trace_last(trace, 3, &event, 1), 0);
    trace_fini(trace);
}

static void counts_what_is_lost_for_want_of_memory(void **state)
{
    (void)state;
    struct trace *trace = new_trace();
    struct recording recording = {0};
    uint64_t key = 1;
    assert_true(recording_init(&recording, &key, 1));
    trace->recording = &recording;
    alloc_fail_from(1);
    note_at(trace, 1, TRACE_MAIN_CAME, key, 0);
    note_at(trace, 2, TRACE_MAIN_LEFT, key, 0);
    alloc_fail_from(0);
    note_at(trace, 3, TRACE_MAIN_CAME, key, 0);
    assert_int_equal(recording.n_lost, 2);
    assert_int_equal(recording.events.n, 1);
    assert_int_equal(recording.events.events[0].time_ns, 3);
    trace->recording = NULL;
    recording_fini(&recording);
    trace_fini(trace);
}

static void note_release(struct recording *recording)
{
    recording->n_lost = 12345;
}

static void hands_back_a_recording_at_its_end(void **state)
{
    (void)state;
    struct trace *trace = new_trace();
    struct recording recording = {.release = note_release};
    trace->recording = &recording;
    trace_fini(trace);
    assert_int_equal(recording.n_lost, 12345);
}

/* ---- Lines ------------------------------------------------------------------------------------- */

static void lines_say_when_where_and_what(void **state)
{
    (void)state;
    static const char *const words[] = {
        [TRACE_MAIN_CAME] = "main",       [TRACE_MAIN_LEFT] = "none",
        [TRACE_REPLICA_MADE] = "replica", [TRACE_REPLICA_ENDED] = "none",
        [TRACE_OTHER_WANTS] = NULL,       [TRACE_OTHER_LEAVES] = NULL,
        [TRACE_INTENT_BEGAN] = "intent",  [TRACE_INTENT_ENDED] = "idle",
    };
    for (uint32_t kind = 0; kind < COUNT(words); kind++) {
        char line[TRACE_LINE], expected[TRACE_LINE] = "";
        struct trace_event event = {UINT64_MAX, UINT64_MAX, 0, kind};
        size_t n = trace_line(&event, UINT32_MAX, line);
        if (words[kind])
            snprintf(expected, sizeof expected, "%s %s %s %s\n", "18446744073709551615",
                     "4294967295", "18446744073709551615", words[kind]);
        assert_int_equal(n, strlen(expected));
        assert_memory_equal(line, expected, n);
    }
}

/* ---- The public calls of a node that is alone --------------------------------------------------- */

static void a_node_that_is_alone_explains_itself(void **state)
{
    (void)state;
    struct tern_node *node;
    struct tern_table *table;
    struct tern_table_options options = {.struct_size = sizeof options, .n_keys = 10, .length = 1};
    char text[TERN_WHY_BYTES], path[] = "/tmp/test_trace_XXXXXX", file[64], line[128] = "";
    uint64_t keys[] = {3, 9}, outside = 10;
    ok(tern_node_open(NULL, &node));
    ok(tern_table_open(node, "alone", &options, &table));
    ok(tern_why(table, 3, text, sizeof text));
    assert_non_null(strstr(text, "Key 3 of table 'alone'"));
    assert_non_null(strstr(text, "alone"));
    ok(tern_why(table, 3, text, 6));
    assert_string_equal(text, "Key 3");
    refused(tern_why(NULL, 3, text, sizeof text), TERN_INVALID, "table");
    refused(tern_why(table, 3, NULL, 6), TERN_INVALID, "room");
    refused(tern_why(table, 3, text, 0), TERN_INVALID, "room");
    refused(tern_why(table, 10, text, sizeof text), TERN_RANGE, "key 10", "alone");

    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    refused(tern_trace_start(NULL, keys, 2, path), TERN_INVALID, "table");
    refused(tern_trace_start(table, NULL, 2, path), TERN_INVALID, "key");
    refused(tern_trace_start(table, keys, 0, path), TERN_INVALID, "key");
    refused(tern_trace_start(table, keys, 2, NULL), TERN_INVALID, "path");
    refused(tern_trace_start(table, keys, 2, ""), TERN_INVALID, "path");
    refused(tern_trace_start(table, &outside, 1, path), TERN_RANGE, "key 10");
    refused(tern_trace_start(table, keys, 2, "/nowhere/at/all"), TERN_INVALID, "/nowhere/at/all.0");
    refused(tern_trace_stop(NULL), TERN_INVALID, "table");
    ok(tern_trace_start(table, keys, 2, path));
    ok(tern_trace_stop(table));
    snprintf(file, sizeof file, "%s.0", path);
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    assert_non_null(fgets(line, sizeof line, in));
    assert_string_equal(line, "# tern trace 1, node 0 of 1, table alone\n");
    assert_non_null(fgets(line, sizeof line, in));
    assert_non_null(strstr(line, " 0 3 main\n"));
    assert_non_null(fgets(line, sizeof line, in));
    assert_non_null(strstr(line, " 0 9 main\n"));
    assert_non_null(fgets(line, sizeof line, in));
    assert_memory_equal(line, "# end ", 6);
    assert_null(fgets(line, sizeof line, in));
    fclose(in);
    unlink(file);
    unlink(path);
    ok(tern_table_close(table));
    refused(tern_why(table, 3, text, sizeof text), TERN_CLOSED, "closed");
    ok(tern_node_close(node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_the_last_events_of_a_key),
        cmocka_unit_test(forgets_what_is_older_than_the_ring),
        cmocka_unit_test(records_the_chosen_keys_alone),
        cmocka_unit_test(intents_alone_are_not_in_the_ring),
        cmocka_unit_test(counts_what_is_lost_for_want_of_memory),
        cmocka_unit_test(hands_back_a_recording_at_its_end),
        cmocka_unit_test(lines_say_when_where_and_what),
        cmocka_unit_test(a_node_that_is_alone_explains_itself),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}

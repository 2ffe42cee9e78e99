/* Bodies of TASK and FINISHED: what is written is read, and nothing else is. */
#include "wire/task.h"

#include "support/check.h"

static const struct task_message sample = {.worker = 0x0102030405060708,
                                           .begin = 3,
                                           .end = UINT64_MAX,
                                           .result_bytes = 0x0a0b,
                                           .name_bytes = 4,
                                           .name = "step",
                                           .argument_bytes = 2,
                                           .argument = "xy"};

/* The example of docs/PROTOCOL.md. */
static void a_task_is_laid_out_as_documented(void **state)
{
    (void)state;
    static const uint8_t wanted[] = {
        8,    7,    6,    5,    4,    3,    2,    1, 3, 0, 0, 0, 0, 0,   0,   0,   0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0x0b, 0x0a, 0, 0, 4, 0, 0, 0, 's', 't', 'e', 'p',  'x',  'y'};
    uint8_t body[sizeof wanted];
    assert_int_equal(task_bytes(&sample), sizeof wanted);
    task_encode(&sample, body);
    assert_memory_equal(body, wanted, sizeof wanted);
    struct task_message read;
    ok(task_decode(body, sizeof body, &read));
    assert_int_equal(read.worker, sample.worker);
    assert_int_equal(read.begin, 3);
    assert_int_equal(read.end, UINT64_MAX);
    assert_int_equal(read.result_bytes, 0x0a0b);
    assert_int_equal(read.name_bytes, 4);
    assert_memory_equal(read.name, "step", 4);
    assert_int_equal(read.argument_bytes, 2);
    assert_memory_equal(read.argument, "xy", 2);
}

static void bad_tasks_are_refused(void **state)
{
    (void)state;
    struct task_message message = sample, read;
    uint8_t *body = array_of(TASK_HEADER_BYTES + 100 + TERN_MAX_TASK_BYTES, 1);
    task_encode(&sample, body);
    for (size_t n = 0; n < TASK_HEADER_BYTES; n++)
        refused(task_decode(body, n, &read), TERN_INVALID, "header");
    refused(task_decode(body, TASK_HEADER_BYTES + 3, &read), TERN_INVALID, "names its function");
    ok(task_decode(body, TASK_HEADER_BYTES + 4, &read));
    assert_int_equal(read.argument_bytes, 0);
    refused(task_decode(body, TASK_HEADER_BYTES + 4 + TERN_MAX_TASK_BYTES + 1, &read), TERN_INVALID,
            "1048577");
    ok(task_decode(body, TASK_HEADER_BYTES + 4 + TERN_MAX_TASK_BYTES, &read));

    message.name_bytes = 0;
    task_encode(&message, body);
    refused(task_decode(body, task_bytes(&message), &read), TERN_INVALID, "0 bytes");
    message.name_bytes = TERN_MAX_NAME + 1;
    message.name = (char[TERN_MAX_NAME + 1]){"long"};
    task_encode(&message, body);
    refused(task_decode(body, task_bytes(&message), &read), TERN_INVALID, "64 bytes");
    message.name_bytes = 5;
    task_encode(&message, body);
    refused(task_decode(body, task_bytes(&message), &read), TERN_INVALID, "zero byte");
    message = sample;
    message.end = message.begin;
    task_encode(&message, body);
    refused(task_decode(body, task_bytes(&message), &read), TERN_INVALID, "[3, 3)");
    message = sample;
    message.result_bytes = TERN_MAX_TASK_BYTES + 1;
    task_encode(&message, body);
    refused(task_decode(body, task_bytes(&message), &read), TERN_INVALID, "1048577");
    free(body);
}

static void an_end_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct finished_message sent = {TERN_CONFLICT, 3, "why"};
    static const uint8_t wanted[] = {TERN_CONFLICT, 0, 0, 0, 'w', 'h', 'y'};
    uint8_t body[sizeof wanted];
    assert_int_equal(finished_bytes(&sent), sizeof wanted);
    finished_encode(&sent, body);
    assert_memory_equal(body, wanted, sizeof wanted);
    struct finished_message read;
    ok(finished_decode(body, sizeof body, &read));
    assert_int_equal(read.status, TERN_CONFLICT);
    assert_int_equal(read.n_bytes, 3);
    assert_memory_equal(read.bytes, "why", 3);
    for (size_t n = 0; n < FINISHED_HEADER_BYTES; n++)
        refused(finished_decode(body, n, &read), TERN_INVALID, "header");
    refused(finished_decode(body, FINISHED_HEADER_BYTES + TERN_MAX_TASK_BYTES + 1, &read),
            TERN_INVALID, "at most");
    body[2] = 1;
    refused(finished_decode(body, sizeof body, &read), TERN_INVALID, "status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_laid_out_as_documented),
        cmocka_unit_test(bad_tasks_are_refused),
        cmocka_unit_test(an_end_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

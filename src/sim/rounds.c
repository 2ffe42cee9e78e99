/* rounds - see rounds.h. */
#include "sim/rounds.h"

#include <stdlib.h>

#define MS UINT64_C(1000000)

enum { BUSY_MS = 3, IDLE_MS = 50 };

enum tern_status rounds_init(struct rounds *rounds)
{
    rounds->questions = calloc(rounds->site->core->n_nodes, sizeof *rounds->questions);
    return rounds->questions ? TERN_OK : fail(TERN_NO_MEMORY, "no memory for rounds of replicas");
}

void rounds_fini(struct rounds *rounds)
{
    caller_fini(&rounds->caller);
    for (uint32_t i = 0; rounds->questions && i < rounds->site->core->n_nodes; i++) {
        struct question *question = &rounds->questions[i];
        if (question->asked) {
            op_end(&question->op);
            buffer_free(&question->op.answer_body);
        }
        buffer_free(&question->body);
    }
    free(rounds->questions);
}

static struct replication *replication_of(const struct rounds *rounds)
{
    return rounds->site->tables[REPLICA_COUNTS].replication;
}

/* A failure ends the rounds for good, as in node/sync.c. */
static void end_rounds(struct rounds *rounds, enum tern_status status)
{
    site_ended(rounds->site, status, "a round of replicas");
    rounds->over = true;
    rounds->running = false;
}

static enum tern_status ask(struct rounds *rounds, uint32_t owner)
{
    struct question *question = &rounds->questions[owner];
    struct frame frame;
    enum tern_status status = replication_request(replication_of(rounds), owner, &question->body,
                                                  &frame, &question->more);
    if (status)
        return status;
    question->op = (struct op){.table = rounds->site->numbers[REPLICA_COUNTS],
                               .limit = frame.count,
                               .flags = frame.flags,
                               .keys_bytes = frame.keys_bytes,
                               .payload = buffer_head(&question->body),
                               .payload_bytes = frame.body_bytes};
    status = client_call(&rounds->caller.client, owner, &question->op, FRAME_SYNC);
    question->asked = !status;
    return status;
}

/* Asks the owners that have more, or are to be told more. */
static void ask_all(struct rounds *rounds)
{
    enum tern_status status = TERN_OK;
    for (uint32_t i = 0; !status && i < rounds->site->core->n_nodes; i++)
        if (rounds->questions[i].more)
            status = ask(rounds, i);
    if (status)
        end_rounds(rounds, status);
    caller_nudge(&rounds->caller);
}

static bool all_answered(const struct rounds *rounds)
{
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        if (rounds->questions[i].asked && !op_is_done(&rounds->questions[i].op))
            return false;
    return true;
}

static enum tern_status take_answer(struct rounds *rounds, struct question *question)
{
    question->asked = false;
    enum tern_status status = op_end(&question->op);
    if (!status)
        status = replication_answer(replication_of(rounds), &question->op.answer,
                                    buffer_head(&question->op.answer_body));
    rounds->busy |= question->op.answer.count || question->op.limit;
    question->more |= question->op.answer.a != 0;
    buffer_free(&question->op.answer_body);
    return status;
}

/* True if somebody has more. */
static bool take_answers(struct rounds *rounds)
{
    enum tern_status status = TERN_OK;
    bool more = false;
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++) {
        struct question *question = &rounds->questions[i];
        if (!question->asked)
            continue;
        enum tern_status outcome = take_answer(rounds, question);
        status = status ? status : outcome;
        more |= question->more;
    }
    if (status)
        end_rounds(rounds, status);
    return more && !status;
}

static void begin_round(struct rounds *rounds)
{
    rounds->busy = false;
    enum tern_status status = replication_take(replication_of(rounds));
    if (status) {
        end_rounds(rounds, status);
        return;
    }
    rounds->running = true;
    for (uint32_t i = 0; i < rounds->site->core->n_nodes; i++)
        rounds->questions[i].more = i != rounds->site->core->node;
    ask_all(rounds);
}

static void rest(struct rounds *rounds)
{
    uint64_t longer = 2 * rounds->pause_ns < IDLE_MS * MS ? 2 * rounds->pause_ns : IDLE_MS * MS;
    rounds->running = false;
    rounds->n_rounds++;
    rounds->pause_ns = rounds->busy ? BUSY_MS * MS : longer;
    rounds->resting = true;
    sim_timer(rounds->site->sim, rounds->site->core->node, rounds->pause_ns, rounds->tag);
}

void rounds_run(struct rounds *rounds)
{
    if (!replication_of(rounds))
        return;
    if (rounds->running && all_answered(rounds)) {
        if (take_answers(rounds))
            ask_all(rounds);
        else if (!rounds->over)
            rest(rounds);
    } else if (!rounds->running && !rounds->resting && !rounds->over) {
        begin_round(rounds);
    }
    caller_pump(&rounds->caller);
}

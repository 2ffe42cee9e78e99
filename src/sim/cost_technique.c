/* cost_technique - a technique that does what the managed one does, and counts it: see cost_node.h. */
#include "sim/cost_node.h"

#include "core/manager_internal.h"
#include "sim/cost_internal.h"

static struct cost_node *node_of(const struct core_table *table)
{
    return (struct cost_node *)((char *)(uintptr_t)table - offsetof(struct cost_node, table));
}

static const struct technique *inner_of(const struct core_table *table)
{
    return node_of(table)->run->inner;
}

/* Counts what is in the sections of a message. */
static void count_sections(struct cost_node *node, const uint8_t *body, size_t bytes)
{
    struct section section;
    size_t at = 0;
    bool wrong = false;
    while (section_next(body, bytes, &at, &section, &wrong))
        cost_count(node, section.item_bytes > 2 * sizeof(uint64_t) ? TERN_COST_ROW : TERN_COST_KEY,
                   section.count);
}

static void want(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    cost_count(node_of(table), TERN_COST_INTENT, (double)n);
    inner_of(table)->want(table, shard, keys, n);
}

static void unwant(struct core_table *table, uint32_t shard, const uint64_t *keys, size_t n)
{
    cost_count(node_of(table), TERN_COST_INTENT, (double)n);
    inner_of(table)->unwant(table, shard, keys, n);
}

/* Rows that were changed are listed in the manager while they are collected. */
static enum tern_status collect(struct core_table *table, uint32_t shard, bool is_due,
                                bool is_awaited)
{
    struct manager *manager = managed_shard(table, shard);
    keys_clear(&manager->marked);
    const enum tern_status status = inner_of(table)->collect(table, shard, is_due, is_awaited);
    cost_count(node_of(table), TERN_COST_CHANGE, (double)manager->marked.n);
    return status;
}

static enum tern_status ask(struct core_table *table, uint32_t shard, uint32_t peer,
                            uint64_t now_ns, struct buffer *body, struct frame *frame, bool *more)
{
    const enum tern_status status =
        inner_of(table)->ask(table, shard, peer, now_ns, body, frame, more);
    cost_count(node_of(table), TERN_COST_MESSAGE, 1);
    count_sections(node_of(table), buffer_head(body), buffer_size(body));
    return status;
}

static enum tern_status absorb(struct core_table *table, uint32_t shard, uint32_t peer,
                               const struct round_answer *answer, bool *more)
{
    cost_count(node_of(table), TERN_COST_MESSAGE, 1);
    count_sections(node_of(table), answer->body, answer->frame->body_bytes);
    return inner_of(table)->absorb(table, shard, peer, answer, more);
}

static enum tern_status answer(struct core_table *table, uint32_t shard,
                               struct round_question *question)
{
    struct cost_node *node = node_of(table);
    struct manager *manager = managed_shard(table, shard);
    const size_t before = buffer_size(question->out);
    keys_clear(&manager->marked);
    const enum tern_status status = inner_of(table)->answer(table, shard, question);
    cost_count(node, TERN_COST_CHANGE, (double)manager->marked.n);
    cost_count(node, TERN_COST_MESSAGE, 1);
    count_sections(node, question->body, question->frame->body_bytes);
    count_sections(node, buffer_head(question->out) + before, buffer_size(question->out) - before);
    return status;
}

struct technique cost_technique(const struct technique *inner)
{
    struct technique counted = *inner;
    if (!inner->sends_sections || inner->rows != ROWS_MOVE)
        return counted;
    counted.want = want;
    counted.unwant = unwant;
    counted.collect = collect;
    counted.ask = ask;
    counted.absorb = absorb;
    counted.answer = answer;
    return counted;
}

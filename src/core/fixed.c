/*
 * fixed - the technique of `static`, and of every table whose rows are all in one memory: a key stays at its home and
 * there is no other copy, so nothing has to be exchanged.
 */
#include <inttypes.h>

#include "core/technique.h"

static void explain(const struct core *core, const struct core_table *table, uint64_t key,
                    struct text *text)
{
    text_add(text, "is at its home, node %" PRIu32 ", for good, by policy %s.\n",
             core_home(core, &table->store, key), table->policy->name);
}

static enum copy copy(const struct core *core, const struct core_table *table, uint64_t key,
                      bool *is_wanted)
{
    *is_wanted = false;
    return core_home(core, &table->store, key) == core->node ? COPY_MAIN : COPY_NONE;
}

const struct technique technique_fixed = {
    .rows = ROWS_AT_HOME,
    .where = technique_where_home,
    .explain = explain,
    .copy = copy,
};

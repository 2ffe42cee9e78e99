/*
 * pages - what it is worth where values lie in memory (docs/decisions/003). The
 * store's reader on
 *
 *   natural   the table as it is: rows in the order of keys, on huge pages
 *   small     the same with TERN_HUGE_PAGES=off
 *   slots     rows in the order of creation: their address is known when the
 * entry is there apart     values of one float in rows of their own instead of
 * in the entry
 *
 * Memory in huge pages is printed for each; a system may refuse them, or insist
 * on them.
 */
#include "measure.h"

/* Bytes of this process in huge pages, in MB. */
static double huge_mb(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[128];
    double kib = 0;
    while (file && fgets(line, sizeof line, file) && sscanf(line, "AnonHugePages: %lf", &kib) != 1)
        continue;
    if (file)
        fclose(file);
    return kib * 1024 / 1e6;
}

static void open_named(struct subject *subject, const char *name, uint32_t length,
                       struct tern_updater updater, void (*change)(struct store *), bool json)
{
    double before_mb = huge_mb();
    subject_open(subject, length, updater, change);
    if (!json)
        printf("  %-8s %6.0f MB, of them %6.0f in huge pages\n", name,
               (double)store_memory_bytes(&subject->store) / 1e6, huge_mb() - before_mb);
}

/* Makes a table forget, while it is empty, that its rows are to be in the order
 * of keys. */
static void by_slots(struct store *store)
{
    store->n_natural = 0;
    store->counts->next_slot = 0;
    store->pull = pull_loops_for(store);
}

static void compare(uint32_t length, bool json)
{
    struct tern_updater add = {0};
    struct subject natural, small, slots;
    if (!json)
        printf("\n%d keys of %u float%s\n", N_ROWS, length, length == 1 ? "" : "s");
    open_named(&natural, "natural", length, add, NULL, json);
    setenv("TERN_HUGE_PAGES", "off", 1);
    open_named(&small, "small", length, add, NULL, json);
    unsetenv("TERN_HUGE_PAGES");
    /* An updater of its own keeps a single float out of its entry. */
    if (length == 1)
        open_named(&slots, "apart", length, tern_updater_sgd(1), NULL, json);
    else
        open_named(&slots, "slots", length, add, by_slots, json);
    struct contender contenders[] = {{"natural", read_store, &natural},
                                     {"small", read_store, &small},
                                     {length == 1 ? "apart" : "slots", read_store, &slots}};
    measure_all(contenders, sizeof contenders / sizeof contenders[0], "pages", json);
    subject_close(&natural);
    subject_close(&small);
    subject_close(&slots);
}

int main(int argc, char **argv)
{
    bool json = json_wanted(argc, argv);
    compare(1, json);
    compare(32, json);
    compare(128, json);
    return 0;
}

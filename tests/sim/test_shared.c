/*
 * Several processes of one host share a table, and one of them dies or is stopped at any marked point (base/fault.h): with a
 * latch, in the middle of a row, while it inserts or makes the index grow. The others see old rows, new rows, or errors.
 *
 * Processes are coroutines in one thread on virtual time. At each point the seed decides who goes on. Checked are:
 *
 *  1. a read is never torn, and has every push that was reported done before it began, and none twice;
 *  2. a call fails only after a loss, and every wait ends within the patience;
 *  3. in the end each row that is not latched is whole, has what was reported, and at most one more for a push that was not;
 *  4. without a loss all rows are there, once, and counted.
 *
 * In a third of the runs rows leave (store/evict.h), by sweeps or by age, from a stripe of the index that is rebuilt again and
 * again, and processes sometimes stand still for a while. What is pushed to a key is a multiple of a number of its own. Checked is
 * besides:
 *
 *  5. a row that is read or left is the key's own, with no more than was pushed;
 *  6. a pinned row stays, with all that was pushed;
 *  7. the rule of age stops at the floor.
 *
 * In a third of the runs the table has backups (store/undo.h), and one or two processes are lost. Each process has a second
 * coroutine, which mends what those have left that are known to be gone; it may be lost while it does. Then
 *
 *  8. no call fails, what was read once is not taken back, and in the end no row is latched;
 *  9. the updater's state belongs to its row, and all rows are counted.
 *
 * Built with TERN_DEFECTS, together with the sources of src/store, and without a sanitizer, which does not follow coroutines.
 * `test_shared SEED [DEFECT]` runs one seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>
#undef fail

#include "base/fault.h"
#include "base/rand.h"
#include "store/evict.h"
#include "store/shared.h"
#include "store/undo.h"

enum {
    N_PROCESSES = 3,
    N_COROUTINES = 2 * N_PROCESSES, /* those behind the processes mend */
    N_LOSSES = 2,
    N_KEYS = 3000, /* enough for the index to grow */
    N_HOT = 6,     /* that all use */
    N_STEPS = 600,
    LENGTH = 4,
    N_LEAVING = 80, /* keys of runs in which rows leave, */
    N_PINNED = 4,   /* of which the first are pinned */
    FLOOR = 10,
    AGE = 3,
    STANDS_POINTS = 2000, /* that a process may stand still */
    STACK_BYTES = 512 << 10,
    SEEDS = 300,
    MOST_CPU_S = 3,       /* for a run with a defect; others take less than 0.1 s */
    MOST_POINTS = 250000, /* of a run; without defects at most 160,000 were seen */
};

#define MS UINT64_C(1000000)
#define PATIENCE_NS (200 * MS)
#define DETECTION_NS (50 * MS)

struct process {
    ucontext_t context;
    char *stack;
    struct store store;
    bool is_done, is_lost; /* lost: died or stopped */
    uint64_t until;        /* of all points: it stands still */
    uint64_t call_ns;      /* when its present call began */
    uint64_t index;        /* of the key that it used last */
};

/* The points of which one is that of a loss: all, those of a growing index, or those behind a write, before the gate says that
 * it is over. */
enum place { ANYWHERE, IN_GROWTH, BEHIND_WRITE };

/* A process that is lost. */
struct loss {
    enum place place;
    uint32_t victim;        /* N_PROCESSES: none */
    uint64_t point, points; /* of its own points: where it is lost, and how many there were */
    uint64_t lost_ns;
    bool is_known, is_mended[N_PROCESSES];
};

struct run {
    uint64_t seed, n_random, n_points;
    ucontext_t scheduler;
    struct process processes[N_COROUTINES];
    uint32_t now;
    struct loss losses[N_LOSSES];
    bool is_detected; /* a loss becomes known; else it is found by patience alone */
    bool evicts, mends;
    uint64_t patience_ns;
    uint64_t clock, n_odd; /* n_odd: which rows a sweep removes */
    uint64_t keys[N_KEYS];
    uint64_t begun[N_KEYS], done[N_KEYS], seen[N_KEYS];
    bool is_over; /* what is left is looked at: no process runs */
    const char *violation;
};

enum fault_defect fault_defect;
uint64_t fault_now_ns;
static struct run *run;

static uint64_t draw(uint64_t n)
{
    return rand_below(rand_at(hash_u64(run->seed), run->n_random++), n);
}

static void violate(const char *what)
{
    if (!run->violation)
        run->violation = what;
}

static void leave(void)
{
    swapcontext(&run->processes[run->now].context, &run->scheduler);
}

/* Whether the present process, which is one of a sparse table with backups, is in such a place. */
static bool is_at(enum place place)
{
    if (place == ANYWHERE)
        return true;
    const struct process *process = &run->processes[run->now];
    const struct store *store = &process->store;
    const unsigned stripe = sparse_stripe(store->sparse, run->keys[process->index]);
    const struct gate *gate = (struct gate *)(store->gates + stripe * store->gate_stride);
    if (gate->holder != store->process + 1)
        return false;
    if (place == IN_GROWTH)
        return store->sparse->stripes[stripe].grows_to;
    run->is_over = true; /* there are no points in this look-up */
    const struct entry *entry = store_find(store, gate->key);
    run->is_over = false;
    return gate->stage == GATE_WRITES && entry && !(entry->word & ENTRY_LATCHED);
}

/* Loses the present process if it is its time. The second loss comes soon after the first is known. */
static void lose(void)
{
    const uint32_t number = run->now % N_PROCESSES;
    for (int i = 0; i < N_LOSSES; i++) {
        struct loss *loss = &run->losses[i];
        if (loss->victim != number || (i > 0 && !run->losses[0].is_known) || !is_at(loss->place) ||
            ++loss->points != loss->point)
            continue;
        run->processes[number].is_lost = run->processes[number + N_PROCESSES].is_lost = true;
        loss->lost_ns = fault_now_ns;
    }
}

void fault_point(void)
{
    if (!run || run->is_over)
        return;
    struct process *process = &run->processes[run->now];
    fault_now_ns += MS / 10;
    if (++run->n_points > MOST_POINTS)
        violate("a process waits without end");
    if (process->call_ns && fault_now_ns > process->call_ns + 40 * run->patience_ns)
        violate("a call takes longer than its patience");
    lose();
    if (run->evicts && draw(1000) == 0)
        process->until = run->n_points + STANDS_POINTS;
    if (process->is_lost || run->violation || process->until > run->n_points || draw(3) == 0)
        leave();
}

/* Writes one element after the other, so that a process can be lost in between. */
static void add(const struct tern_updater *updater, enum tern_type type, size_t length, void *row,
                void *state, const void *update)
{
    (void)updater, (void)type;
    for (size_t i = 0; i < length; i++) {
        ((int64_t *)row)[i] += ((const int64_t *)update)[i];
        fault_point();
    }
    if (state)
        *(int64_t *)state += ((const int64_t *)update)[0];
    fault_point();
}

/* A call failed: that is right only after a loss. */
static void check_failure(const struct process *process)
{
    if (run->mends)
        violate("a call fails though what was lost is mended");
    if (!run->losses[0].lost_ns)
        violate("a call fails though nobody was lost");
    if (!store_check_lost(&process->store))
        violate("a call fails without a reason");
}

/* What is pushed to a key. */
static int64_t mark_of(uint64_t index)
{
    return run->evicts ? 100003 + 2 * (int64_t)index : 1;
}

static bool push(struct process *process, uint64_t index)
{
    const int64_t mark = mark_of(index), marks[LENGTH] = {mark, mark, mark, mark};
    struct store *store = &process->store;
    const uint64_t key = run->keys[index];
    run->begun[index]++;
    bool done = !store_create(store, key), here = true;
    if (done && run->evicts)
        done = !store_push_new(store, key, marks, &here);
    else if (done)
        done = store_push_one(store, key, marks);
    if (!done)
        check_failure(process);
    run->done[index] += done;
    return done;
}

static bool pull(struct process *process, uint64_t index)
{
    struct store *store = &process->store;
    const uint64_t key = run->keys[index], done = run->done[index], seen = run->seen[index];
    int64_t row[LENGTH] = {0};
    bool here = store_pull_one(store, key, row);
    if (!here && (store_pull_new(store, key, row, &here) || !here)) {
        check_failure(process);
        return false;
    }
    for (int i = 1; i < LENGTH; i++)
        if (row[i] != row[0])
            violate("a read is torn");
    if (row[0] % mark_of(index))
        violate("a read has the row of another key");
    const uint64_t n = (uint64_t)(row[0] / mark_of(index));
    if (n < done && (!run->evicts || index < N_PINNED))
        violate("a read lacks what was pushed before");
    if (n > run->begun[index])
        violate("a read has more than was pushed");
    if (run->mends && n < seen)
        violate("what was read before was taken back");
    if (n > run->seen[index])
        run->seen[index] = n;
    return true;
}

static bool is_swept(void *context, uint64_t key, const void *value)
{
    (void)context, (void)value;
    return (key ^ run->n_odd) % 4 != 0;
}

/* Removes rows by a function or by age. */
static bool remove_rows(struct process *process)
{
    struct store *store = &process->store;
    uint64_t n;
    if (run->seed % 4) {
        const uint64_t before = store_rows(store);
        evict_advance(store, ++run->clock);
        if (before > 2 * FLOOR && store_rows(store) < FLOOR - N_PROCESSES)
            violate("the rule of age does not stop at the floor");
        return !store_check_lost(store);
    }
    run->n_odd = draw(4);
    if (!evict_sweep(store, is_swept, NULL, &n))
        return true;
    check_failure(process);
    return false;
}

static bool act(struct process *process)
{
    if (run->evicts && draw(8) == 0)
        return remove_rows(process);
    const uint64_t n_keys = run->evicts ? N_LEAVING : N_KEYS;
    const struct process *other = run->mends ? &run->processes[draw(N_PROCESSES)] : process;
    uint64_t index = draw(3) == 0 ? draw(N_HOT) : draw(n_keys);
    if (run->mends && other->is_lost)
        index = other->index;
    process->index = index;
    return draw(3) ? push(process, index) : pull(process, index);
}

static bool works(void)
{
    bool works = false;
    for (uint32_t i = 0; i < N_PROCESSES; i++)
        works |= !run->processes[i].is_done && !run->processes[i].is_lost;
    return works;
}

/* Mends what those have left of whom it is known that they are gone. */
static void mend(void)
{
    struct process *process = &run->processes[run->now];
    const uint32_t number = run->now % N_PROCESSES;
    while (works() && !run->violation) {
        for (int i = 0; i < N_LOSSES; i++) {
            struct loss *loss = &run->losses[i];
            if (!loss->is_known || loss->is_mended[number])
                continue;
            undo_mend(&process->store, loss->victim);
            loss->is_mended[number] = true;
        }
        leave();
    }
    process->is_done = true;
    leave();
}

static void work(void)
{
    struct process *process = &run->processes[run->now];
    bool goes_on = true;
    for (int step = 0; goes_on && step < N_STEPS; step++) {
        process->call_ns = fault_now_ns;
        goes_on = !store_check_lost(&process->store) && act(process);
        process->call_ns = 0;
    }
    process->is_done = true;
    leave();
}

static void begin(uint32_t number, struct shared_table *shared,
                  const struct tern_table_options *options)
{
    struct process *process = &run->processes[number];
    struct store_home home = {
        .end = options->n_keys, .shared = shared, .process = number % N_PROCESSES};
    assert_int_equal(store_init(&process->store, "shared", options, &home), TERN_OK);
    process->stack = malloc(STACK_BYTES);
    assert_non_null(process->stack);
    getcontext(&process->context);
    process->context.uc_stack.ss_sp = process->stack;
    process->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&process->context, number < N_PROCESSES ? work : mend, 0);
}

/* Lets losses become known. A process that was stopped is known to be lost when it has been killed. */
static void detect(struct watch *watch)
{
    for (int i = 0; i < N_LOSSES; i++) {
        struct loss *loss = &run->losses[i];
        if (!run->is_detected || !loss->lost_ns || loss->is_known ||
            fault_now_ns <= loss->lost_ns + DETECTION_NS)
            continue;
        loss->is_known = true;
        if (!run->mends)
            watch_lose(watch, loss->victim + 1);
        else if (fault(FAULT_UNDO_SLEEPER))
            run->processes[loss->victim].is_lost = false;
    }
}

/* Runs the processes until all that are left have finished. */
static void schedule(struct watch *watch)
{
    const uint32_t n_coroutines = run->mends ? N_COROUTINES : N_PROCESSES;
    for (;;) {
        uint32_t ready[N_COROUTINES], n = 0;
        for (uint32_t i = 0; i < n_coroutines; i++)
            if (!run->processes[i].is_done && !run->processes[i].is_lost &&
                run->processes[i].until <= run->n_points)
                ready[n++] = i;
        for (uint32_t i = 0; !n && i < n_coroutines; i++) /* all stand still */
            if (!run->processes[i].is_done && !run->processes[i].is_lost)
                ready[n++] = i;
        if (!n || run->violation)
            return;
        detect(watch);
        run->now = ready[draw(n)];
        swapcontext(&run->scheduler, &run->processes[run->now].context);
    }
}

static void count_key(void *context, uint64_t key, uint64_t word)
{
    (void)key;
    *(uint64_t *)context += entry_has_row(word);
}

/* What is in the memory in the end. */
static void check_rows(struct store *store)
{
    const bool is_lost = !run->mends && (run->losses[0].lost_ns || watch_lost(store->watch));
    uint64_t n_rows = 0, n_used = 0;
    for (uint64_t index = 0; index < N_KEYS; index++) {
        n_used += run->begun[index] > 0;
        const bool stays = !run->evicts || index < N_PINNED;
        struct entry *entry = store_find(store, run->keys[index]);
        uint64_t word = entry ? entry_read(entry) : 0;
        if (!entry_readable(word)) {
            if (!is_lost && (run->mends ? run->done[index] : run->begun[index]) && stays)
                violate("a row is not there");
            if (run->mends && (word & ENTRY_LATCHED))
                violate("a row is latched in the end");
            continue;
        }
        const int64_t *row = slabs_at(&store->rows, entry_slot(word)), mark = mark_of(index);
        for (int i = 0; i < LENGTH; i++)
            if (row[i] != row[0] || row[i] % mark ||
                (stays && (uint64_t)(row[i] / mark) < run->done[index]) ||
                (uint64_t)(row[i] / mark) > run->begun[index])
                violate("a row that is not latched has another value than was pushed");
        if (run->mends && *(int64_t *)store_state(store, entry_slot(word)) != row[0])
            violate("a row has another updater's state");
        n_rows += store->index == TERN_DENSE;
    }
    if (is_lost)
        return;
    for (int i = 0; run->mends && store->sparse && i < SPARSE_STRIPES; i++)
        if (store->sparse->stripes[i].grows_to)
            violate("the index is half grown in the end");
    if (store->index == TERN_SPARSE)
        sparse_visit(store->sparse, count_key, &n_rows, NULL);
    if (run->mends) {
        if (n_rows != store_rows(store))
            violate("rows are counted wrong");
        return;
    }
    if ((n_rows != n_used && !run->evicts) || store_rows(store) != n_rows)
        violate("rows are not there once, or counted wrong");
    if (run->evicts && store_slots(store) != n_rows + store->counts->n_free)
        violate("slots are lost or used twice");
}

/* Keys all over the index, or of one of its stripes; of a dense table all. */
static void choose_keys(const struct sparse *sparse, bool is_dense)
{
    uint64_t n = 0;
    for (uint64_t i = 0; n < (run->evicts ? N_LEAVING : N_KEYS); i++) {
        const uint64_t key = is_dense ? i : i * UINT64_C(0x9e3779b97f4a7c15);
        if (!run->evicts || sparse_hash(sparse, key) >> 58 == 5)
            run->keys[n++] = key;
    }
}

static void pin_some(struct store *store)
{
    for (uint64_t i = 0; i < N_PINNED; i++) {
        void *row;
        assert_int_equal(store_create(store, run->keys[i]), TERN_OK);
        assert_int_equal(store_pin(store, run->keys[i], &row), TERN_OK);
    }
}

static void choose_losses(bool is_sparse)
{
    for (int i = 0; i < N_LOSSES; i++)
        run->losses[i].victim = N_PROCESSES;
    if (!draw(4))
        return;
    run->losses[0].victim = (uint32_t)draw(N_PROCESSES);
    run->losses[0].point = 1 + draw(draw(2) ? 300 : 15000);
    run->is_detected = draw(3) || run->mends;
    if (run->mends && is_sparse && draw(2)) {
        run->losses[0].place = draw(2) ? IN_GROWTH : BEHIND_WRITE;
        run->losses[0].point = 1 + draw(100);
    }
    if (!run->mends || !draw(3))
        return;
    run->losses[1].victim = (run->losses[0].victim + 1 + (uint32_t)draw(2)) % N_PROCESSES;
    run->losses[1].point = 1 + draw(draw(2) ? 60 : 1000);
}

/* Whether the table has backups in the run of a seed. */
static bool is_mended(uint64_t seed)
{
    return seed % 3 == 0;
}

/* One simulation; what was found, or NULL. */
static const char *simulate(uint64_t seed)
{
    struct tern_table_options options = {.struct_size = sizeof options,
                                         .index = TERN_SPARSE,
                                         .type = TERN_I64,
                                         .length = LENGTH,
                                         .updater = {.name = "add", .apply = add},
                                         .memory_limit_bytes = 1 << 21};
    struct run here = {.seed = seed, .mends = is_mended(seed)};
    here.evicts = !here.mends && seed % 2 == 0;
    if (here.mends) {
        options.backups = 1;
        options.updater.state_per_row = 1;
        options.index = seed % 2 ? TERN_DENSE : TERN_SPARSE;
        options.n_keys = options.index == TERN_DENSE ? N_KEYS : 0;
    }
    if (here.evicts) {
        options.evict_age = AGE;
        options.evict_floor = FLOOR;
    }
    const struct store_home home = {.end = options.n_keys, .hash_seed = seed};
    size_t bytes = shared_bytes(&options, &home);
    struct shared_table *shared = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    assert_non_null(shared);
    memset(shared, 0, bytes);
    here.patience_ns = here.evicts || here.mends ? 10 * PATIENCE_NS : PATIENCE_NS;
    shared_format(shared, &options, &home, here.patience_ns);
    run = &here;
    fault_now_ns = MS;
    choose_losses(options.index == TERN_SPARSE);
    choose_keys(&shared->sparse, options.index == TERN_DENSE);
    here.is_over = true;
    for (uint32_t i = 0; i < N_COROUTINES; i++)
        begin(i, shared, &options);
    if (here.evicts)
        pin_some(&here.processes[0].store);
    here.is_over = false;
    schedule(&shared->watch);
    here.is_over = true;
    for (int i = 0; here.mends && i < N_LOSSES; i++) /* if the others had ended before */
        if (here.losses[i].lost_ns)
            undo_mend(&here.processes[0].store, here.losses[i].victim);
    if (!here.violation)
        check_rows(&here.processes[0].store);
    run = NULL;
    for (uint32_t i = 0; i < N_COROUTINES; i++) {
        store_fini(&here.processes[i].store);
        free(here.processes[i].stack);
    }
    free(shared);
    return here.violation;
}

static void survivors_see_old_new_or_errors(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *violation = simulate(seed);
        if (violation)
            print_error("seed %llu: %s; replay with: build/tests/sim/test_shared %llu\n",
                        (unsigned long long)seed, violation, (unsigned long long)seed);
        assert_null(violation);
    }
}

/* The same in a process of its own, since a defect may leave an index in which a search does not end. */
static const char *simulate_apart(uint64_t seed)
{
    static char found[200];
    const struct rlimit limit = {.rlim_cur = MOST_CPU_S, .rlim_max = MOST_CPU_S};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CPU, &limit);
        const char *violation = simulate(seed);
        const size_t n = violation ? strlen(violation) : 0;
        _exit(write(ends[1], violation, n) != (ssize_t)n);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], found, sizeof found - 1);
    close(ends[0]);
    found[n > 0 ? n : 0] = '\0';
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        return "a process does not come to an end, or crashes";
    return n > 0 ? found : NULL;
}

/* Seeds that have found defects which few seeds find. They are tried before all others; a change may make one useless. */
static const uint64_t tried_first[N_FAULTS] = {
    [FAULT_TORN_ROW_READ] = 683, [FAULT_SLOT_LOST] = 22,        [FAULT_REMOVED_COUNTED] = 22,
    [FAULT_REBUILD_UNSEEN] = 26, [FAULT_FLOOR_IGNORED] = 74,    [FAULT_UNDO_SKIPPED] = 93,
    [FAULT_UNDO_LATE] = 702,     [FAULT_UNDO_LEFT] = 48,        [FAULT_UNDO_EARLY] = 21,
    [FAULT_UNDO_NO_STATE] = 33,  [FAULT_UNDO_SLEEPER] = 21,     [FAULT_GATE_LEFT] = 99,
    [FAULT_ROW_UNCOUNTED] = 144, [FAULT_CELL_MOVED_TWICE] = 78, [FAULT_KEY_WITHOUT_WORD] = 534,
};

static void every_defect_is_found(void **state)
{
    (void)state;
    int n_missed = 0;
    for (int defect = FAULT_NONE + 1; defect < N_FAULTS; defect++) {
        fault_defect = (enum fault_defect)defect;
        uint64_t seed = tried_first[defect];
        const char *found = seed ? simulate_apart(seed) : NULL;
        seed = found ? seed : 0;
        const bool mends = defect >= FAULT_UNDO_SKIPPED;
        while (!found && ++seed <= 4 * SEEDS)
            found = !mends || is_mended(seed) ? simulate_apart(seed) : NULL;
        fault_defect = FAULT_NONE;
        print_message("defect %d: %s (seed %llu)\n", defect, found ? found : "NOT FOUND",
                      (unsigned long long)seed);
        n_missed += !found;
    }
    assert_int_equal(n_missed, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        fault_defect = argc > 2 ? (enum fault_defect)atoi(argv[2]) : FAULT_NONE;
        const char *violation = simulate(strtoull(argv[1], NULL, 10));
        printf("%s\n", violation ? violation : "no violation");
        return violation != NULL;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_see_old_new_or_errors),
        cmocka_unit_test(every_defect_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

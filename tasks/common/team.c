/* team - threads that do one thing together. See team.h. */
#include "common/team.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/sentence.h"

enum { TICK_NS = 200000000 };

struct team {
    team_function *work;
    void *context;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    size_t n_running;
    bool failed;
    char sentence[1024]; /* of the first failure */
};

struct member {
    struct team *team;
    size_t number;
    pthread_t thread;
};

static void *run_member(void *argument)
{
    struct member *member = argument;
    struct team *team = member->team;
    bool ok = team->work(team->context, member->number);
    pthread_mutex_lock(&team->lock);
    if (!ok && !team->failed) {
        team->failed = true;
        snprintf(team->sentence, sizeof team->sentence, "%s", task_error());
    }
    team->n_running--;
    pthread_cond_signal(&team->changed);
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static struct timespec next_tick(void)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += TICK_NS;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static void wait_for_members(struct team *team, void (*tick)(void *, bool))
{
    struct timespec at = next_tick();
    pthread_mutex_lock(&team->lock);
    while (team->n_running > 0) {
        if (pthread_cond_timedwait(&team->changed, &team->lock, &at) == 0)
            continue;
        bool failed = team->failed;
        pthread_mutex_unlock(&team->lock);
        if (tick != NULL)
            tick(team->context, failed);
        at = next_tick();
        pthread_mutex_lock(&team->lock);
    }
    pthread_mutex_unlock(&team->lock);
}

/* The number of threads that could be started. */
static size_t start_members(struct team *team, struct member *members, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        members[i] = (struct member){.team = team, .number = i};
        if (pthread_create(&members[i].thread, NULL, run_member, &members[i]) != 0)
            return i;
    }
    return n;
}

bool team_run(size_t n_threads, team_function *work, void (*tick)(void *context, bool failed),
              void *context)
{
    struct member *members = calloc(n_threads, sizeof *members);
    if (members == NULL)
        return task_fail_memory("the threads");
    struct team team = {.work = work, .context = context, .n_running = n_threads};
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.changed, NULL);
    size_t n_started = start_members(&team, members, n_threads);
    if (n_started < n_threads) {
        pthread_mutex_lock(&team.lock);
        team.n_running -= n_threads - n_started;
        team.failed = true;
        snprintf(team.sentence, sizeof team.sentence, "cannot start %zu threads", n_threads);
        pthread_mutex_unlock(&team.lock);
    }
    wait_for_members(&team, tick);
    for (size_t i = 0; i < n_started; i++)
        pthread_join(members[i].thread, NULL);
    pthread_cond_destroy(&team.changed);
    pthread_mutex_destroy(&team.lock);
    free(members);
    return !team.failed || task_fail("%s", team.sentence);
}

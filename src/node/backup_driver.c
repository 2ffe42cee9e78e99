/* backup_driver - see backup_driver.h. */
#include "node/backup_driver.h"

#include "base/clock.h"
#include "base/thread.h"
#include "node/engine.h"
#include "node/remote.h"

enum {
    PAUSE_MS = 5,  /* between batches that nobody waits for */
    LOOK_MS = 100, /* how often a wait looks for the end of the node */
    RETRY_MS = 20, /* after a batch that could not be sent */
};

#define MS UINT64_C(1000000)

void backup_driver_init(struct backup_driver *driver, struct shard *shard)
{
    *driver = (struct backup_driver){.shard = shard};
    lock_init(&driver->lock, RANK_THREADS, 0);
    condition_init(&driver->wanted_now);
    condition_init(&driver->confirmed);
}

static bool is_over(const struct backup_driver *driver)
{
    return atomic_load_explicit(&driver->shard->engine->peers.stop, memory_order_relaxed);
}

/* Sleeps until a batch is wanted, or the time is over. */
static void sleep_until_wanted(struct backup_driver *driver, uint64_t ms)
{
    const uint64_t end_ns = clock_now_ns() + ms * MS;
    bool in_time = true;
    lock_take(&driver->lock);
    while (!driver->wanted && in_time && !is_over(driver))
        in_time = lock_wait_until(&driver->lock, &driver->wanted_now, end_ns);
    driver->wanted = false;
    lock_release(&driver->lock);
}

static void tell_confirmed(struct backup_driver *driver)
{
    lock_take(&driver->lock);
    pthread_cond_broadcast(&driver->confirmed);
    lock_release(&driver->lock);
}

/* Sends the next frame of a batch. False: there was none, or it could not be sent. */
static bool send_next(struct backup_driver *driver, struct remote *remote, uint64_t *pause_ms)
{
    struct shard *shard = driver->shard;
    struct backup *backup = &shard->service.backup;
    struct slice payload;
    struct op op = {0};
    uint32_t peer;
    bool is_last;
    *pause_ms = PAUSE_MS;
    lock_take(&shard->lock);
    const bool has_one = backup_next(backup, &peer, &payload, &op.fields.batch.begin, &is_last);
    lock_release(&shard->lock);
    if (!has_one) {
        tell_confirmed(driver);
        return false;
    }
    op.fields.batch.is_last = is_last;
    op.payload = payload.bytes;
    op.payload_bytes = (uint32_t)payload.n;
    const enum tern_status status = engine_call(remote, peer, &op, FRAME_BATCH);
    *pause_ms = RETRY_MS;
    if (status)
        return false;
    lock_take(&shard->lock);
    const bool was_formed = backup_is_flushed(backup, 0);
    const bool is_confirmed =
        backup_confirm(backup, buffer_head(&op.answer_body), buffer_size(&op.answer_body));
    /* The coordinator waits for that while a node leaves. */
    const bool is_formed =
        !was_formed && backup_is_flushed(backup, 0) && view_has_leaving(shard->engine->core.view);
    lock_release(&shard->lock);
    buffer_free(&op.answer_body);
    if (!is_confirmed)
        return true;
    if (is_formed)
        engine_fetch_view(shard->engine);
    shard_retry(shard);
    tell_confirmed(driver);
    return true;
}

static void *backup_main(void *context)
{
    struct backup_driver *driver = context;
    struct remote remote;
    if (remote_init_shard(&remote, driver->shard->engine, driver->shard->number))
        return NULL;
    while (!is_over(driver)) {
        uint64_t pause_ms;
        if (!send_next(driver, &remote, &pause_ms))
            sleep_until_wanted(driver, pause_ms);
    }
    remote_fini(&remote);
    return NULL;
}

enum tern_status backup_driver_start(struct backup_driver *driver)
{
    if (atomic_load_explicit(&driver->is_running, memory_order_relaxed))
        return TERN_OK;
    enum tern_status status = thread_start(&driver->thread, backup_main, driver);
    atomic_store_explicit(&driver->is_running, !status, memory_order_relaxed);
    return status;
}

void backup_driver_fini(struct backup_driver *driver)
{
    backup_driver_hurry(driver);
    if (atomic_load_explicit(&driver->is_running, memory_order_relaxed))
        pthread_join(driver->thread, NULL);
    pthread_cond_destroy(&driver->wanted_now);
    pthread_cond_destroy(&driver->confirmed);
    lock_fini(&driver->lock);
}

void backup_driver_hurry(struct backup_driver *driver)
{
    lock_take(&driver->lock);
    driver->wanted = true;
    pthread_cond_signal(&driver->wanted_now);
    lock_release(&driver->lock);
}

enum tern_status backup_driver_flush(struct backup_driver *driver)
{
    struct shard *shard = driver->shard;
    if (!atomic_load_explicit(&driver->is_running, memory_order_relaxed))
        return TERN_OK;
    lock_take(&shard->lock);
    const uint64_t sweep = backup_last(&shard->service.backup);
    lock_release(&shard->lock);
    for (;;) {
        lock_take(&shard->lock);
        const bool is_done = backup_is_flushed(&shard->service.backup, sweep);
        lock_release(&shard->lock);
        if (is_done)
            return TERN_OK;
        enum tern_status status = peers_check_dead(&shard->engine->peers);
        if (status)
            return status;
        if (is_over(driver))
            return fail(TERN_CLOSED, "the node was closed before its backup had all rows");
        backup_driver_hurry(driver);
        lock_take(&driver->lock);
        lock_wait_until(&driver->lock, &driver->confirmed, clock_now_ns() + LOOK_MS * MS);
        lock_release(&driver->lock);
    }
}

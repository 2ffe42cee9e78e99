/*
 * tasks - a node's part in tasks (tern.h, section Tasks): those its workers submit, and those it runs for
 * workers of this node and of others.
 *
 *   a worker submits          --> its schedule --> what may start: to the inbox here, messages to others
 *   others' messages (service)--> TASK: to the inbox;  FINISHED: to the schedule of its worker
 *   the pool                  --> takes tasks from the inbox, runs functions; the outcome goes to the
 *                                 schedule of a worker here, or is a message to the caller's node
 *   the sender                --> sends messages
 *
 * task.c has the public calls, tasks.c what joins the parts, task_pool.c the threads that run functions, started
 * as they are needed, task_sender.c the thread that sends, in a cluster. The rules are in core: schedule.h and
 * inbox.h.
 *
 * One lock guards it all. It is taken after the first shard's lock, if both are; nothing is waited for
 * under it, and no function of the program is called.
 */
#ifndef NODE_TASKS_H
#define NODE_TASKS_H

#include <pthread.h>

#include "base/lock.h"
#include "core/client.h"
#include "core/inbox.h"
#include "core/schedule.h"
#include "node/node.h"

enum {
    /* Threads, with those that wait for tasks themselves. */
    MAX_POOL = TERN_MAX_TASK_DEPTH + TERN_MAX_TASK_THREADS,
    MAX_SENTENCE = 192, /* bytes of why a function failed */
};

/* A worker that has submitted tasks. */
struct caller {
    struct caller *next;
    uint64_t worker; /* its number */
    struct schedule *schedule;
};

struct function {
    char name[TERN_MAX_NAME + 1];
    tern_task_function *function;
    void *context;
};

/* A request to another node. */
struct message {
    struct message *next;
    uint32_t node;
    enum frame_kind kind; /* FRAME_TASK or FRAME_FINISHED */
    union frame_fields fields;
    uint64_t worker, id; /* of a TASK: whose it is */
    struct op op;        /* while it is under way */
    uint32_t n_bytes;
    uint8_t *body;   /* `room`, or in `memory` */
    uint8_t *memory; /* freed with the message; may be NULL */
    uint8_t room[];
};

struct tasks {
    struct tern_node *node;
    uint32_t self;
    const struct view *view;
    struct lock lock;
    bool stop;
    bool is_held; /* tasks of others are not run any more: this node leaves */

    struct function *functions[TERN_MAX_FUNCTIONS];
    size_t n_functions;

    struct caller *callers;  /* a list */
    uint64_t time;           /* of the last task that was started */
    pthread_cond_t finished; /* some task has; on the monotonic clock */

    struct inbox *inbox;
    pthread_cond_t work; /* for the pool */
    pthread_t pool[MAX_POOL];
    size_t n_pool;
    size_t n_idle;    /* of them, that wait for work */
    size_t n_waiting; /* that wait for tasks of their own */

    struct message *outbox, *last_message; /* a list, oldest first */
    pthread_t sender;
    bool has_sender;
    bool is_sending; /* messages are under way */
    int wake_fd;     /* the sender's; -1: there is none */
};

/* Makes a node's part in tasks; NULL, with a sentence, when memory runs out. The engine, if there is one,
 * hands it requests from then on. */
struct tasks *tasks_new(struct tern_node *node);

/* Waits until no task waits or runs here, and all outcomes have been told; from then on none is run until tasks_release. */
void tasks_hold(struct tasks *tasks);
void tasks_release(struct tasks *tasks);

/* Waits for the functions that run, and ends all threads. Nobody submits, and no request comes, any more. */
void tasks_free(struct tasks *tasks);

/* The tasks of a worker, made when it first needs them; NULL, with a sentence, when memory runs out. Without
 * the lock. */
struct caller *tasks_caller(struct tern_worker *worker);

/* As tern_task_wait, for a worker that has submitted this task. Without the lock. */
enum tern_status tasks_wait(struct tasks *tasks, const struct tern_worker *worker, uint64_t id,
                            uint32_t timeout_ms);

/* ---- For the parts; all with the lock held ---------------------------------------------------------- */

/* Starts all tasks of a worker that may start. */
void tasks_start(struct tasks *tasks, struct caller *caller);

/* A part of a task has ended at a node: tells its schedule and starts what may start then. */
void tasks_finish(struct tasks *tasks, uint64_t worker, uint64_t id, uint32_t node,
                  enum tern_status status, const void *bytes, size_t n);

/* The same for all parts under way at a node. */
void tasks_fail_node(struct tasks *tasks, uint32_t node, const char *sentence);

/* Whether some task here waits for a node. */
bool tasks_wait_for(const struct tasks *tasks, uint32_t node);

/* The function of this name; NULL: there is none. */
const struct function *tasks_find(const struct tasks *tasks, const char *name);

/* Starts the first thread of the pool unless there is one: from then on tasks are run. */
enum tern_status pool_start(struct tasks *tasks);

/* Lets a thread of the pool, a new one if need be, take what is in the inbox. */
void pool_call(struct tasks *tasks);

/* Ends the pool. Without the lock. */
void pool_end(struct tasks *tasks);

/* A message with room for a body of n bytes and a header; NULL when memory runs out. Also without the lock. */
struct message *message_new(size_t n);
void message_free(struct message *message);

/* Makes a message, with room for MAX_SENTENCE, say how a task ended; a result is to be added. */
void message_tell(struct message *message, const struct inbox_task *task, enum tern_status status,
                  const char *sentence);

/* Has a message sent, and freed then. */
void sender_send(struct tasks *tasks, struct message *message);

/* Starts the sender unless it runs; fails when there are no threads or descriptors left. */
enum tern_status sender_start(struct tasks *tasks);

/* Ends it; what is not delivered is dropped. Without the lock. */
void sender_end(struct tasks *tasks);

#endif

/* bench_train - see bench_train.h. */
#include "bench_train.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "options.h"

enum { MAX_OUTPUT = TRAINING_MAX_EPOCHS * 512 + 16384, MEASURE_BYTES = 64 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- The process ----------------------------------------------------------------------------- */

/* Starts this program again, with its standard output in *fd. */
static pid_t start(char *const *words, int *fd)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    fflush(stdout); /* otherwise the child would print it again */
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() == parent && dup2(ends[1], STDOUT_FILENO) >= 0)
            execv("/proc/self/exe", words);
        _exit(EXIT_FAILED);
    }
    close(ends[1]);
    *fd = ends[0];
    if (pid < 0)
        close(ends[0]);
    return pid;
}

/* Reads until the process closes its output; false if it takes too long or prints too much. */
static bool read_all(int fd, double limit_s, char text[MAX_OUTPUT + 1])
{
    double end_s = now_s() + limit_s, left_s = limit_s;
    size_t n_bytes = 0;
    for (; left_s > 0 && n_bytes < MAX_OUTPUT; left_s = end_s - now_s()) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, (int)(left_s * 1000) + 1) <= 0)
            continue;
        ssize_t n = read(fd, text + n_bytes, MAX_OUTPUT - n_bytes);
        if (n == 0) {
            text[n_bytes] = '\0';
            return true;
        }
        n_bytes += n > 0 ? (size_t)n : 0;
    }
    return false;
}

/* Waits for the process; true if it exited by itself with status 0. */
static bool finish(pid_t pid, bool in_time, double limit_s)
{
    int status = 0;
    if (!in_time)
        kill(pid, SIGTERM);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!in_time)
        complain("a training was ended because it took longer than %.0f s; --limit allows more",
                 limit_s);
    else if (WIFSIGNALED(status))
        complain("a training was ended by signal %d", WTERMSIG(status));
    return in_time && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK;
}

/* ---- Its output ---------------------------------------------------------------------------- */

double training_number(const char *line, const char *field)
{
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", field);
    const char *at = strstr(line, name);
    if (at == NULL)
        return (double)NAN;
    char *end;
    at += strlen(name);
    double value = strtod(at, &end);
    return end > at ? value : (double)NAN;
}

/* How long each worker waited. */
static void read_waits(const char *line, struct training_epoch *epoch)
{
    static const char field[] = "\"waited\":";
    const char *at = strstr(line, field);
    if (at != NULL)
        at += strlen(field);
    while (at != NULL && (*at == '[' || *at == ',') && epoch->n_workers < TRAINING_MAX_WORKERS) {
        char *end;
        epoch->waited[epoch->n_workers++] = strtod(at + 1, &end);
        at = end;
    }
}

/* The name of the measure that decides, from the first line; "" if nothing is measured. */
static void read_measure(const char *line, char measure[MEASURE_BYTES])
{
    static const char field[] = "\"measure\":\"";
    const char *at = strstr(line, field);
    measure[0] = '\0';
    if (at != NULL)
        snprintf(measure, MEASURE_BYTES, "%.*s", (int)strcspn(at + strlen(field), "\""),
                 at + strlen(field));
}

static struct training_epoch read_epoch(const char *line, const char *measure)
{
    const char *const fields[EPOCH_N_FIGURES] = {
        "seconds",       "cpu_seconds",  "loss",         measure,
        "accesses",      "remote_share", "bytes",        "staleness_ms_mean",
        "request_bytes", "reply_bytes",  "memory_bytes", "active",
        "waiting",       "setup_s",
    };
    struct training_epoch epoch = {0};
    for (size_t i = 0; i < EPOCH_N_FIGURES; i++)
        epoch.figures[i] = training_number(line, fields[i]);
    read_waits(line, &epoch);
    return epoch;
}

/* Reads [[...],...], the last line. */
static void read_traffic(const char *at, struct training *training)
{
    for (size_t i = 0; i < TRAINING_MAX_NODES && (at = strpbrk(at, "[]")) != NULL && *at == '[';
         i++) {
        char *end = (char *)at;
        for (size_t j = 0; j < TRAINING_MAX_NODES && *end != ']' && *end != '\0'; j++)
            training->traffic[i][j] = strtod(end + 1, &end);
        at = end + 1;
    }
}

/* Reads the lines of epochs; a model may print further lines after the last one. */
static void read_epochs(char *text, struct training *training)
{
    char *rest = NULL, measure[MEASURE_BYTES] = "";
    static const char field[] = "{\"traffic\":[";
    training->n_epochs = 0;
    memset(training->traffic, 0, sizeof training->traffic);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strstr(line, "\"measure\":") != NULL)
            read_measure(line, measure);
        else if (strstr(line, "\"epoch\":") != NULL && training->n_epochs < TRAINING_MAX_EPOCHS)
            training->epochs[training->n_epochs++] = read_epoch(line, measure);
        else if (strncmp(line, field, strlen(field)) == 0)
            read_traffic(line + strlen(field), training);
    }
}

bool training_output(char *const *words, double limit_s, char **text)
{
    int fd = -1;
    *text = malloc(MAX_OUTPUT + 1);
    pid_t pid = *text != NULL ? start(words, &fd) : -1;
    if (pid < 0)
        complain("cannot start a training: %s", strerror(errno));
    const bool ok = pid >= 0 && finish(pid, read_all(fd, limit_s, *text), limit_s);
    if (pid >= 0)
        close(fd);
    if (!ok) {
        free(*text);
        *text = NULL;
    }
    return ok;
}

bool training_run(char *const *words, double limit_s, struct training *training)
{
    char *text;
    bool ok = training_output(words, limit_s, &text);
    if (ok)
        read_epochs(text, training);
    if (ok && training->n_epochs == 0) {
        complain("a training ended without printing an epoch");
        ok = false;
    }
    free(text);
    return ok;
}

enum { MAX_OWN_WORDS = 20 };

/* Appends words up to a NULL. */
static void append(char **words, size_t *n, char *const *more)
{
    for (size_t i = 0; more[i] != NULL; i++)
        words[(*n)++] = more[i];
}

bool training_run_order(const struct training_order *order, struct training *training)
{
    char epochs[24], nodes[24], threads[24];
    char *words[MAX_OWN_WORDS + LIST_MAX + 1];
    size_t n = 0;
    snprintf(epochs, sizeof epochs, "%zu", order->n_epochs);
    snprintf(nodes, sizeof nodes, "%zu", order->n_nodes);
    snprintf(threads, sizeof threads, "%zu", order->n_threads);
    append(words, &n,
           (char *const[]){"tern", "train", (char *)order->model, "--json", "--data",
                           (char *)order->data, "--epochs", epochs, "--patience", "0", "--threads",
                           threads, NULL});
    if (order->policy != NULL)
        append(words, &n,
               (char *const[]){"--nodes", nodes, "--policy", (char *)order->policy, NULL});
    if (order->policy != NULL && order->link != NULL)
        append(words, &n, (char *const[]){"--link", (char *)order->link, NULL});
    if (order->is_plain)
        words[n++] = "--plain";
    for (size_t i = 0; i < order->n_further && i < LIST_MAX; i++)
        words[n++] = order->further[i];
    words[n] = NULL;
    return training_run(words, order->limit_s, training);
}

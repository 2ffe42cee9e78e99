/*
 * tern run - starts a program several times on this host, each as one node of a cluster.
 *
 * One thread in one loop: it waits for signals, which come as reads from a descriptor, and for what
 * the nodes print. Each node leads a process group of its own, so that a node is ended together with
 * whatever it has started. A node that has ended stays a zombie while the others run, so that the
 * number of its group cannot come to mean something else.
 *
 * Two things see to it that nothing is left behind when tern run itself is killed: the kernel kills
 * each node with its parent, and the guard (run_guard.h) kills the groups and removes the sockets.
 *
 * A terminal is read by the processes of one group only, and that is not node 0's. So a small process
 * of tern run's group, the feeder, passes on what is typed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "link.h"
#include "options.h"
#include "run_guard.h"
#include "run_lines.h"
#include "token.h"

enum {
    GRACE_MS = 2000,     /* between SIGTERM and SIGKILL */
    GLANCE_MS = 20,      /* how often to look whether a group is gone */
    PATH_MAX_BYTES = 80, /* of a folder, so that "/node.1023" fits into a socket's path */
};

/* ---- Options --------------------------------------------------------------------------------- */

static struct {
    int64_t n_nodes, n_hosts;
    bool over_unix, over_tcp, no_share, no_prefix, survive;
    const char *link, *deadline;
} args;

static const struct option options[] = {
    {"nodes", OPTION_INT, &args.n_nodes, "1", "N", "nodes to start", .min = 1, .max = RUN_MAX_NODES,
     .aliases = "n"},
    {"unix", OPTION_FLAG, &args.over_unix,
     .help = "connect the nodes by Unix sockets in a private folder; this is the default"},
    {"tcp", OPTION_FLAG, &args.over_tcp, .help = "connect them by TCP on loopback"},
    {"link", OPTION_STRING, &args.link, .takes = "RATE[,DELAY]",
     .help = "make each node a host of its own, on links such as 1gbit or 1gbit,0.1ms"},
    {"hosts", OPTION_INT, &args.n_hosts, "0", "H",
     "divide the nodes among H hosts: those of a host share memory; 0: see --link", .min = 0,
     .max = RUN_MAX_NODES},
    {"deadline", OPTION_STRING, &args.deadline, .takes = "S",
     .help = "seconds after which a node that does not answer is given up, 0.1 to 86400"},
    {"no-share", OPTION_FLAG, &args.no_share,
     .help = "let each node have tables in its own memory, as nodes of different hosts do"},
    {"survive", OPTION_FLAG, &args.survive,
     .help = "let the others continue when a node other than node 0 fails"},
    {"no-prefix", OPTION_FLAG, &args.no_prefix,
     .help = "leave the nodes' output as it is, without \"[k] \" before each line"},
};

enum { N_OPTIONS = sizeof options / sizeof *options };

static struct operand_list no_operands; /* what follows the options is not this command's */

static const struct option_set option_set = {
    .program = "tern run",
    .operands = "[--] PROGRAM [ARGUMENT]...",
    .given = &no_operands,
    .about =
        "Starts a program N times on this host, each as a node of one cluster, and waits for all.",
    .notes =
        "Each node finds TERN_NODE, TERN_NODES, TERN_COORDINATOR and TERN_TOKEN in its\n"
        "environment. Node 0 reads the standard input, the others an empty one. What a node\n"
        "prints comes out line by line behind its number.\n"
        "\n"
        "With --link each node is in a network namespace of its own, as on a host of its own,\n"
        "and messages between nodes take as long as on links of that rate, each way, and delay.\n"
        "The nodes share everything else: cores, memory, files. It needs root. With --hosts H\n"
        "there are H hosts, with --link H namespaces, and each has as many nodes as another or\n"
        "one more; the nodes of a host have consecutive numbers.\n"
        "\n"
        "When a node fails, the others are ended: by SIGTERM, and 2 seconds later by SIGKILL,\n"
        "together with all they have started. The exit status is 0 when every node's was, 1 when\n"
        "one failed, and 128 + n when signal n ended tern run. With --survive, which is for\n"
        "programs whose tables have backups, only the failure of node 0 counts.",
    .options = options,
    .n_options = N_OPTIONS,
};

static bool takes_value(const char *word)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (options[i].kind != OPTION_FLAG && strcmp(word + 2, options[i].name) == 0)
            return true;
    return false;
}

/* Where the program stands in argv; argc when it is missing. *n_own arguments belong to tern run.
 * -n becomes --nodes on the way. */
static int find_program(int argc, char **argv, int *n_own)
{
    static char long_form[64];
    int i = 1;
    for (; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-n") == 0) {
            argv[i] = "--nodes";
        } else if (strncmp(argv[i], "-n", 2) == 0) {
            snprintf(long_form, sizeof long_form, "--nodes=%s", argv[i] + 2);
            argv[i] = long_form;
        }
        if (strncmp(argv[i], "--", 2) == 0 && takes_value(argv[i]))
            i++;
    }
    i = i < argc ? i : argc;
    *n_own = i;
    return i < argc && strcmp(argv[i], "--") == 0 ? i + 1 : i;
}

static bool check_deadline(void)
{
    if (args.deadline == NULL)
        return true;
    static char text[32];
    char *end;
    double seconds = strtod(args.deadline, &end);
    if (end == args.deadline || *end != '\0' || !(seconds >= 0.1 && seconds <= 86400)) {
        complain("--deadline takes seconds from 0.1 to 86400, not '%s'", args.deadline);
        return false;
    }
    snprintf(text, sizeof text, "%.9g", seconds);
    args.deadline = text;
    return true;
}

/* ---- The run --------------------------------------------------------------------------------- */

struct node {
    pid_t pid;  /* also its group; 0 before it is started */
    bool ended; /* the process itself; others of its group may be left */
    bool reaped;
};

enum { POLL_SIGNALS, POLL_LINES };

static struct {
    char **program;
    size_t n_nodes, n_started, n_running;
    struct node nodes[RUN_MAX_NODES];
    struct lines lines[2 * RUN_MAX_NODES]; /* of node k: 2k its output, 2k + 1 its errors */
    struct output outputs[2];              /* one when both are the same file */
    struct pollfd polls[POLL_LINES + 2 * RUN_MAX_NODES];
    struct guard guard;
    struct link_speed speed; /* with --link */
    struct links links;
    char folder[PATH_MAX_BYTES + 32]; /* of the sockets; "" without --unix */
    char coordinator[sizeof "unix:/node" + PATH_MAX_BYTES + 32];
    char token[TOKEN_BYTES];
    int port_holder; /* the socket that keeps the port of --tcp; or -1 */
    pid_t feeder;    /* 0: none */
    int signals;     /* descriptor */
    sigset_t outer_mask;
    struct rlimit outer_files;
    int stop_signal;    /* the one that ends the run; 0: none */
    int64_t give_up_ms; /* when waiting for a slow reader of the output ends; 0: not yet known */
} run;

/* The program and its arguments; NULL, with *status, when the command is over. */
static char **read_arguments(int argc, char **argv, int *status)
{
    int n_own, program = find_program(argc, argv, &n_own);
    if (!options_read(&option_set, n_own, argv, status))
        return NULL;
    *status = EXIT_USAGE;
    if (args.over_unix + args.over_tcp + (args.link != NULL) > 1) {
        complain("--unix, --tcp and --link exclude each other");
        return NULL;
    }
    if (args.n_hosts > args.n_nodes) {
        complain("--hosts %" PRId64 " is more than the %" PRId64 " nodes", args.n_hosts,
                 args.n_nodes);
        return NULL;
    }
    if (!check_deadline() || (args.link != NULL && !link_parse(args.link, &run.speed)))
        return NULL;
    if (program >= argc) {
        complain("which program? tern run -n N PROGRAM [ARGUMENT]...; see 'tern run --help'");
        return NULL;
    }
    return argv + program;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* complain(), on a line of its own among what the nodes print. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char sentence[512];
    va_list list;
    va_start(list, format);
    vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    output_message(run.lines[1].output, sentence);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

/* While the output is slow: go on unless somebody wants the run to end. */
static bool may_wait(void)
{
    if (run.give_up_ms != 0)
        return now_ms() < run.give_up_ms;
    sigset_t pending, stop;
    stop_signals(&stop);
    sigpending(&pending);
    sigandset(&pending, &pending, &stop);
    return sigisemptyset(&pending);
}

static bool prepare_signals(void)
{
    sigset_t set;
    stop_signals(&set);
    sigaddset(&set, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, &run.outer_mask);
    run.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run.signals < 0)
        complain("cannot wait for signals: %s", strerror(errno));
    return run.signals >= 0;
}

/* Many nodes have many pipes. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &run.outer_files);
    limit = run.outer_files;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void prepare_outputs(void)
{
    struct stat out, err;
    output_init(&run.outputs[0], STDOUT_FILENO, may_wait);
    output_init(&run.outputs[1], STDERR_FILENO, may_wait);
    bool one = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
               out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    for (size_t i = 0; i < 2 * run.n_nodes; i++) {
        run.lines[i] = (struct lines){.fd = -1, .node = (unsigned)(i / 2)};
        run.lines[i].output = &run.outputs[one ? 0 : i % 2];
        run.polls[POLL_LINES + i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    run.polls[POLL_SIGNALS] = (struct pollfd){.fd = run.signals, .events = POLLIN};
}

static bool make_folder(void)
{
    const char *parent = getenv("TMPDIR");
    /* Programs may go elsewhere, from where a relative path leads nowhere. */
    if (parent == NULL || parent[0] != '/' || strlen(parent) > PATH_MAX_BYTES)
        parent = "/tmp";
    snprintf(run.folder, sizeof run.folder, "%s/tern-XXXXXX", parent);
    if (mkdtemp(run.folder) == NULL) {
        complain("cannot make a folder for the nodes' sockets in %s: %s", parent, strerror(errno));
        return false;
    }
    snprintf(run.coordinator, sizeof run.coordinator, "unix:%s/node", run.folder);
    return true;
}

/* Chooses a free port and keeps it: a socket that is bound but does not listen leaves the port to
 * node 0, which reuses addresses, and to nobody who asks for any free one. */
static bool hold_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    run.port_holder = fd;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &n_bytes) != 0) {
        complain("cannot find a free port: %s", strerror(errno));
        return false;
    }
    snprintf(run.coordinator, sizeof run.coordinator, "127.0.0.1:%u", ntohs(address.sin_port));
    return true;
}

/* The hosts that nodes are on, and that of a node. */
static size_t n_hosts(void)
{
    return args.n_hosts > 0 ? (size_t)args.n_hosts : run.n_nodes;
}

static size_t host_of(size_t node)
{
    return node * n_hosts() / run.n_nodes;
}

static bool make_hosts(void)
{
    snprintf(run.coordinator, sizeof run.coordinator, "%s", LINK_COORDINATOR);
    return links_open(&run.links, n_hosts(), &run.speed);
}

/* Makes what the nodes meet at. */
static bool make_place(void)
{
    if (args.link != NULL)
        return make_hosts();
    return args.over_tcp ? hold_port() : make_folder();
}

static bool prepare(void)
{
    run.port_holder = -1;
    raise_file_limit();
    if (!prepare_signals() || !token_make("run", run.token) || !make_place())
        return false;
    if (!guard_start(&run.guard, run.folder)) {
        complain("cannot start a process: %s", strerror(errno));
        links_close(&run.links);
        return false;
    }
    prepare_outputs();
    return true;
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Ends this process with its parent, which may have gone already. */
static void follow(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILED);
}

/* The feeder: copies the terminal to node 0. When the terminal belongs to another group it is stopped
 * like any reader in the background, and nobody else with it. */
static _Noreturn void feed(int to)
{
    char bytes[4096];
    prctl(PR_SET_NAME, "tern-feeder");
    dup2(to, STDOUT_FILENO);
    close_range(STDOUT_FILENO + 1, ~0U, 0); /* the guard's pipe among them */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &run.outer_mask, NULL);
    for (ssize_t n; (n = read(STDIN_FILENO, bytes, sizeof bytes)) > 0;)
        for (ssize_t done = 0, part; done < n; done += part)
            if ((part = write(STDOUT_FILENO, bytes + done, (size_t)(n - done))) < 0)
                _exit(EXIT_FAILED);
    _exit(EXIT_OK);
}

/* What the node is to have as its standard input, or -1. */
static int open_input(size_t node)
{
    if (node > 0)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (!isatty(STDIN_FILENO))
        return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    pid_t parent = getpid();
    run.feeder = fork();
    if (run.feeder == 0) {
        follow(parent);
        close(ends[0]);
        feed(ends[1]);
    }
    close(ends[1]);
    return ends[0];
}

static void set_environment(size_t node)
{
    char number[24];
    snprintf(number, sizeof number, "%zu", node);
    setenv("TERN_NODE", number, 1);
    snprintf(number, sizeof number, "%zu", run.n_nodes);
    setenv("TERN_NODES", number, 1);
    setenv("TERN_COORDINATOR", run.coordinator, 1);
    setenv("TERN_TOKEN", run.token, 1);
    unsetenv("TERN_LISTEN");
    if (args.deadline != NULL)
        setenv("TERN_DEADLINE", args.deadline, 1);
    if (args.no_share)
        setenv("TERN_SHARE", "0", 1);
    if (args.n_hosts > 0 && args.link == NULL) {
        snprintf(number, sizeof number, "%zu", host_of(node));
        setenv("TERN_HOST", number, 1);
    }
}

/* Descriptors of a node that is about to start; -1: none. The node gets input, output and errors. */
struct ends {
    int input, output, errors;
    int verdict; /* takes errno when the program cannot be executed */
};

static _Noreturn void become_node(size_t node, const struct ends *ends, pid_t parent)
{
    setpgid(0, 0);
    follow(parent);
    dup2(ends->input, STDIN_FILENO);
    if (ends->output >= 0) {
        dup2(ends->output, STDOUT_FILENO);
        dup2(ends->errors, STDERR_FILENO);
    }
    set_environment(node);
    setrlimit(RLIMIT_NOFILE, &run.outer_files);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &run.outer_mask, NULL);
    if (args.link == NULL || links_enter(&run.links, host_of(node)))
        execvp(run.program[0], run.program);
    int error = errno;
    if (write(ends->verdict, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

static void close_ends(const struct ends *ends)
{
    const int fds[] = {ends->input, ends->output, ends->errors, ends->verdict};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* A pipe whose end for tern run does not block. */
static bool open_lines(size_t i, int *end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    run.lines[i].fd = run.polls[POLL_LINES + i].fd = ends[0];
    *end = ends[1];
    return true;
}

static bool open_ends(size_t node, struct ends *ends, int *verdict)
{
    int verdicts[2];
    ends->input = open_input(node);
    if (ends->input < 0 || pipe2(verdicts, O_CLOEXEC) != 0)
        return false;
    *verdict = verdicts[0];
    ends->verdict = verdicts[1];
    return args.no_prefix ||
           (open_lines(2 * node, &ends->output) && open_lines(2 * node + 1, &ends->errors));
}

static bool start_node(size_t node)
{
    struct ends ends = {-1, -1, -1, -1};
    int verdict = -1, error = 0;
    pid_t parent = getpid(), pid = -1;
    if (open_ends(node, &ends, &verdict) && (pid = fork()) == 0)
        become_node(node, &ends, parent);
    if (pid < 0)
        complain("cannot start node %zu: %s", node, strerror(errno));
    close_ends(&ends);
    if (pid > 0) {
        setpgid(pid, pid);
        guard_add(&run.guard, pid);
        run.nodes[node].pid = pid;
        run.n_started++;
        run.n_running++;
        /* The end comes when exec closes the other side. */
        while (read(verdict, &error, sizeof error) < 0 && errno == EINTR)
            ;
        if (error != 0)
            say("cannot execute '%s': %s", run.program[0], strerror(error));
    }
    if (verdict >= 0)
        close(verdict);
    return pid > 0 && error == 0;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Passes on what the nodes print until something happens or `timeout_ms` (-1: none) is over, and
 * notes what signals say. True when a child may have ended. */
static bool wait_for_news(int timeout_ms)
{
    bool child = false;
    nfds_t n_polls = POLL_LINES + 2 * run.n_started;
    if (poll(run.polls, n_polls, timeout_ms) <= 0)
        return false;
    for (size_t i = 0; i < 2 * run.n_started; i++) {
        struct pollfd *wanted = &run.polls[POLL_LINES + i];
        if (wanted->fd < 0 || wanted->revents == 0)
            continue;
        lines_pump(&run.lines[i]);
        wanted->fd = run.lines[i].fd;
    }
    for (struct signalfd_siginfo info; read(run.signals, &info, sizeof info) == sizeof info;) {
        if (info.ssi_signo == SIGCHLD)
            child = true;
        else
            run.stop_signal = (int)info.ssi_signo;
    }
    return child;
}

static void drain_node(size_t node)
{
    for (size_t i = 2 * node; i < 2 * node + 2; i++) {
        if (run.lines[i].fd >= 0)
            lines_drain(&run.lines[i]);
        run.polls[POLL_LINES + i].fd = run.lines[i].fd;
    }
}

static bool by_signal(const siginfo_t *end)
{
    return end->si_code != CLD_EXITED;
}

static void blame(size_t node, const siginfo_t *how, const char *others)
{
    int pid = (int)run.nodes[node].pid;
    if (by_signal(how))
        say("node %zu (pid %d) was killed by signal %d (%s)%s", node, pid, how->si_status,
            strsignal(how->si_status), others);
    else
        say("node %zu (pid %d) exited with status %d%s", node, pid, how->si_status, others);
}

/* Notes which nodes have ended. True when one of them failed: *culprit ended as *how. When several
 * have, one that was killed explains more than one that gave up. */
static bool collect(size_t *culprit, siginfo_t *how)
{
    bool failed = false;
    for (size_t i = 0; i < run.n_started; i++) {
        struct node *node = &run.nodes[i];
        siginfo_t end = {0};
        if (node->ended || waitid(P_PID, (id_t)node->pid, &end, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            end.si_pid == 0)
            continue;
        node->ended = true;
        run.n_running--;
        drain_node(i);
        bool well = !by_signal(&end) && end.si_status == 0;
        if (!well && args.survive && i > 0) {
            blame(i, &end, "; the others continue");
            kill(-node->pid, SIGKILL); /* what it has started */
            well = true;
        }
        if (!well && (!failed || (by_signal(&end) && !by_signal(how)))) {
            failed = true;
            *culprit = i;
            *how = end;
        }
    }
    return failed;
}

/* From now on a slow reader of the output is waited for a little only. */
static void limit_patience(void)
{
    run.give_up_ms = now_ms() + GRACE_MS;
}

/* Waits for the nodes; the exit status of tern run. */
static int wait_for_nodes(void)
{
    size_t culprit;
    siginfo_t how;
    while (run.n_running > 0 && !output_broken(&run.outputs[0])) {
        if (wait_for_news(-1) && collect(&culprit, &how)) {
            limit_patience();
            blame(culprit, &how, run.n_running > 0 ? "; ending the others" : "");
            return EXIT_FAILED;
        }
        if (run.stop_signal != 0) {
            limit_patience();
            say("got signal %d (%s); ending the nodes", run.stop_signal,
                strsignal(run.stop_signal));
            return 128 + run.stop_signal;
        }
    }
    return run.n_running == 0 ? EXIT_OK : EXIT_FAILED;
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* Whether nothing is left of a node and of what it has started. */
static bool group_gone(struct node *node)
{
    if (!node->reaped && waitpid(node->pid, NULL, WNOHANG) == node->pid)
        node->reaped = node->ended = true;
    return node->reaped && kill(-node->pid, 0) != 0;
}

static bool all_gone(void)
{
    bool gone = true;
    for (size_t i = 0; i < run.n_started; i++)
        gone &= group_gone(&run.nodes[i]);
    return gone;
}

/* Waits for a while until nothing is left; a further signal cuts it short. */
static void wait_until_gone(void)
{
    int64_t end_ms = now_ms() + GRACE_MS;
    limit_patience();
    run.stop_signal = 0;
    while (!all_gone() && now_ms() < end_ms && run.stop_signal == 0)
        wait_for_news(GLANCE_MS);
}

static void ask_to_end(void)
{
    for (size_t i = 0; i < run.n_started; i++) {
        kill(-run.nodes[i].pid, SIGTERM);
        kill(-run.nodes[i].pid, SIGCONT);
    }
}

static void finish(bool well)
{
    if (well) {
        guard_forget(&run.guard);
        guard_finish(&run.guard);
    } else {
        ask_to_end();
        wait_until_gone();
        guard_finish(&run.guard); /* kills the rest */
        wait_until_gone();
    }
    for (size_t i = 0; i < run.n_started; i++)
        drain_node(i);
    for (size_t i = 0; i < 2 * run.n_nodes; i++)
        lines_fini(&run.lines[i]);
    if (run.feeder > 0) {
        kill(run.feeder, SIGKILL);
        waitpid(run.feeder, NULL, 0);
    }
    if (run.port_holder >= 0)
        close(run.port_holder);
    links_close(&run.links);
    close(run.signals);
}

int run_command(int argc, char **argv)
{
    int status;
    run.program = read_arguments(argc, argv, &status);
    if (run.program == NULL)
        return status;
    run.n_nodes = (size_t)args.n_nodes;
    if (!prepare())
        return EXIT_FAILED;
    bool started = true;
    for (size_t i = 0; i < run.n_nodes && started; i++)
        started = start_node(i);
    status = started ? wait_for_nodes() : EXIT_FAILED;
    finish(status == EXIT_OK);
    if (run.outputs[0].error == 0 || status > EXIT_FAILED)
        return status;
    complain("cannot write to standard output: %s", strerror(run.outputs[0].error));
    return EXIT_FAILED;
}

/*
 * launch - reads what the launcher set in the environment; see launch.h.
 *
 * The variables of Tern itself. An empty variable is as good as none.
 *
 *   TERN_NODE, TERN_NODES   this node's number, from 0, and how many there are
 *   TERN_COORDINATOR        where node 0 listens: host:port or unix:/path. Also goes before what is
 *                           derived from another launcher's variables.
 *   TERN_LISTEN             where the other nodes listen. Default: beside a unix coordinator, the
 *                           coordinator's path followed by a dot and the node's number; else the
 *                           address this host uses towards the coordinator (127.0.0.1 for one on
 *                           loopback) with a port of the system's choice; 0.0.0.0:0 when the host
 *                           knows no way to the coordinator yet. Node 0 always listens where the
 *                           coordinator is said to be; at all addresses, if that is a name which
 *                           means loopback here and nodes elsewhere may connect.
 *   TERN_TOKEN              the job's name and secret: only processes that have it may connect. Default: the
 *                           launcher's name of the job, or "tern"; on loopback TCP, where every user of the
 *                           host can connect, followed by the user's secret (user_folder.h). Plain TCP beyond
 *                           loopback needs a TERN_TOKEN.
 *   TERN_CERTIFICATE, TERN_KEY, TERN_AUTHORITY
 *                           PEM files for TLS: all three or none
 *   TERN_INSECURE           1: plain TCP beyond loopback; 0 is the default
 *   TERN_DEADLINE           seconds, 0.1 to 86400, after which a silent node is given up; 10
 *   TERN_JOIN_DEADLINE      seconds, 0.1 to 86400, for all nodes to be there; 300, or TERN_DEADLINE if that is longer
 *   TERN_SHARE              0: processes of one host do not share memory, as if each were on a host of its own.
 *   TERN_HOST               a name of up to 63 bytes: processes share memory only with those that have the same one, as if
 *                           names were hosts. For tests
 *   TERN_SHARDS             1 to 16: how many shards (core/core.h) each node has; what node 0 says counts.
 *                           Default: one for each 8 cores, but at most 8
 *
 * Where the coordinator is when TERN_COORDINATOR does not say:
 *
 *   on one host  a Unix socket in the user's own folder (user_folder.h), named after the job, where the launcher says
 *                that there is no other host (torchrun: LOCAL_WORLD_SIZE, Open MPI: OMPI_COMM_WORLD_LOCAL_SIZE, Slurm: SLURM_STEP_NUM_NODES)
 *   torchrun     MASTER_ADDR at MASTER_PORT + 1, because the port itself belongs to torchrun's store
 *   Open MPI     is not known
 *   Slurm        the first host of the step at port 20000 + SLURM_JOB_ID mod 10000
 *
 * A batch script's shell has Slurm's variables too, as if it were task 0, and would wait for tasks
 * that nobody started. What srun starts has a SLURM_STEP_ID besides; without one they do not count.
 *
 * The first launcher that left a variable decides. A world of one node is a single node.
 */
#include "node/launch.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/address.h"
#include "node/user_folder.h"
#include "store/store.h"

enum {
    MAX_NODES = 65536,
    GROUP_BYTES = 49, /* of a group's name, with its 0 */
    NS_PER_100_MS = 100000000,
    SLURM_PORT_FIRST = 20000,
    SLURM_PORTS = 10000,
};

#define NS_PER_S UINT64_C(1000000000)
#define DEADLINE_MAX_S 86400
#define DEADLINE_DEFAULT_S 10
#define JOIN_DEADLINE_DEFAULT_S 300

/* A launcher is known by the variables for a node's number and for how many there are. */
struct launcher {
    const char *node, *n_nodes;
    /* Whether its variables count; NULL: when either is set. */
    bool (*present)(void);
    /* Writes launch->coordinator; *origin is the variable to blame for it. */
    enum tern_status (*coordinate)(struct launch *launch, const char **origin);
    const char *name;                /* begins a token */
    const char *job, *job_otherwise; /* the variables for a job's name; or NULL */
    const char *step;                /* the variable for a part of a job; or NULL */
};

/* ---- Variables ------------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static enum tern_status missing(const char *name, const char *because)
{
    return fail(TERN_INVALID, "the environment has %s='%.100s' but no %s", because,
                variable(because), name);
}

/* A whole number in decimal digits. */
static enum tern_status read_number(const char *name, const char *text, uint64_t min, uint64_t max,
                                    uint64_t *number)
{
    uint64_t n = 0;
    size_t n_digits = strspn(text, "0123456789");
    for (size_t i = 0; i < n_digits && n <= max; i++)
        n = n * 10 + (uint64_t)(text[i] - '0');
    if (n_digits == 0 || text[n_digits] != '\0' || n < min || n > max)
        return fail(TERN_INVALID,
                    "%s is '%.100s'; it takes a whole number from %" PRIu64 " to %" PRIu64, name,
                    text, min, max);
    *number = n;
    return TERN_OK;
}

static enum tern_status copy_text(const char *name, const char *text, size_t size, char *copy)
{
    if (strlen(text) >= size)
        return fail(TERN_INVALID, "%s is '%.100s...', which has more than %zu characters", name,
                    text, size - 1);
    strcpy(copy, text);
    return TERN_OK;
}

/* ---- What is the same under every launcher --------------------------------------------------- */

/* Seconds of a variable, or `otherwise`. Read by hand, because strtod depends on the program's locale. */
static enum tern_status read_seconds(const char *name, uint64_t otherwise_ns, uint64_t *deadline_ns)
{
    const char *text = variable(name);
    if (text == NULL) {
        *deadline_ns = otherwise_ns;
        return TERN_OK;
    }
    const char *at = text;
    uint64_t ns = 0;
    size_t n_digits = 0;
    for (; *at >= '0' && *at <= '9'; at++, n_digits++)
        ns = ns > DEADLINE_MAX_S * NS_PER_S ? ns : ns * 10 + (uint64_t)(*at - '0') * NS_PER_S;
    if (*at == '.') {
        uint64_t unit = NS_PER_S;
        for (at++; *at >= '0' && *at <= '9'; at++, n_digits++) {
            unit /= 10;
            ns += (uint64_t)(*at - '0') * unit;
        }
    }
    if (n_digits == 0 || *at != '\0' || ns < NS_PER_100_MS || ns > DEADLINE_MAX_S * NS_PER_S)
        return fail(TERN_INVALID, "%s is '%.100s'; it takes seconds from 0.1 to %d", name, text,
                    DEADLINE_MAX_S);
    *deadline_ns = ns;
    return TERN_OK;
}

static enum tern_status read_deadlines(struct launch *launch)
{
    enum tern_status status =
        read_seconds("TERN_DEADLINE", DEADLINE_DEFAULT_S * NS_PER_S, &launch->deadline_ns);
    if (status == TERN_OK)
        status = read_seconds("TERN_JOIN_DEADLINE", JOIN_DEADLINE_DEFAULT_S * NS_PER_S,
                              &launch->join_deadline_ns);
    if (launch->join_deadline_ns < launch->deadline_ns)
        launch->join_deadline_ns = launch->deadline_ns;
    return status;
}

/* Most machines have one: it serves a link of 10 Gbit/s. Cores that have something else to do need no more. */
static enum tern_status read_shards(uint32_t *n_shards)
{
    enum { CORES = 8, MOST = 8 }; /* for a shard; shards without being asked */
    const char *name = "TERN_SHARDS", *text = variable(name);
    cpu_set_t cores;
    int n_cores = sched_getaffinity(0, sizeof cores, &cores) ? 1 : CPU_COUNT(&cores);
    uint64_t n = n_cores < 2 * CORES      ? 1
                 : n_cores / CORES > MOST ? MOST
                                          : (uint64_t)n_cores / CORES;
    enum tern_status status =
        text == NULL ? TERN_OK : read_number(name, text, 1, STORE_MAX_SHARDS, &n);
    *n_shards = (uint32_t)n;
    return status;
}

static enum tern_status read_share(bool *shares)
{
    const char *text = variable("TERN_SHARE");
    *shares = text == NULL || strcmp(text, "1") == 0;
    if (!*shares && strcmp(text, "0") != 0)
        return fail(TERN_INVALID,
                    "TERN_SHARE is '%.100s'; it takes 1 (processes of one host share tables) or 0",
                    text);
    return TERN_OK;
}

static enum tern_status read_host(size_t size, char *host)
{
    const char *text = variable("TERN_HOST");
    if (text != NULL && strlen(text) >= size)
        return fail(TERN_INVALID, "TERN_HOST is longer than %zu bytes", size - 1);
    snprintf(host, size, "%s", text == NULL ? "" : text);
    return TERN_OK;
}

static enum tern_status read_insecure(bool *insecure)
{
    const char *text = variable("TERN_INSECURE");
    *insecure = text != NULL && strcmp(text, "1") == 0;
    if (text != NULL && !*insecure && strcmp(text, "0") != 0)
        return fail(TERN_INVALID,
                    "TERN_INSECURE is '%.100s'; it takes 1 (plain TCP beyond loopback) or 0", text);
    return TERN_OK;
}

static enum tern_status read_credentials(struct launch *launch)
{
    static const char *const names[] = {"TERN_CERTIFICATE", "TERN_KEY", "TERN_AUTHORITY"};
    char *const files[] = {launch->certificate, launch->key, launch->authority};
    const char *set = NULL, *unset = NULL;
    for (int i = 0; i < 3; i++) {
        const char *text = variable(names[i]);
        if (text == NULL) {
            unset = names[i];
            continue;
        }
        set = names[i];
        enum tern_status status = copy_text(names[i], text, sizeof launch->certificate, files[i]);
        if (status != TERN_OK)
            return status;
    }
    if (set != NULL && unset != NULL)
        return fail(TERN_INVALID,
                    "%s is set but %s is not; TLS takes TERN_CERTIFICATE, TERN_KEY and "
                    "TERN_AUTHORITY",
                    set, unset);
    return TERN_OK;
}

static bool is_visible(char c)
{
    return c > ' ' && c < 0x7f;
}

/* Appends `text` with a '_' for each character that may not stand in a token or a file's name. */
static void append_plain(size_t size, char *plain, const char *text)
{
    size_t n = strlen(plain);
    for (; *text != '\0' && n + 1 < size; text++) {
        bool word = (*text >= '0' && *text <= '9') || (*text >= 'A' && *text <= 'Z') ||
                    (*text >= 'a' && *text <= 'z') || strchr(".-", *text) != NULL;
        plain[n++] = word ? *text : '_';
    }
    plain[n] = '\0';
}

static const char *variable_or_null(const char *name)
{
    return name != NULL ? variable(name) : NULL;
}

/* The launcher's name of this job, such as "slurm-4711.0"; false when it has none. */
static bool job_name(const struct launcher *launcher, size_t size, char *name)
{
    const char *job = variable_or_null(launcher->job);
    const char *step = variable_or_null(launcher->step);
    if (job == NULL)
        job = variable_or_null(launcher->job_otherwise);
    if (job == NULL)
        return false;
    snprintf(name, size, "%s-", launcher->name);
    append_plain(size, name, job);
    if (step != NULL) {
        append_plain(size, name, ".");
        append_plain(size, name, step);
    }
    return true;
}

/* The job's name, of which the end is kept if it is long: it tells jobs apart better than the beginning. */
static void name_job(const struct launcher *launcher, size_t size, char *token)
{
    char name[1024] = "tern";
    if (launcher != NULL)
        job_name(launcher, sizeof name, name);
    size_t n = strlen(name), n_kept = n < size ? n : size - 1;
    memcpy(token, name + n - n_kept, n_kept + 1);
}

/* Whether the nodes meet over plain TCP, on this host alone or not. Found by find_listen. */
enum reach { REACH_PROTECTED, REACH_LOOPBACK, REACH_PLAIN };

static enum tern_status make_token(const struct launcher *launcher, enum reach reach,
                                   struct launch *launch)
{
    char secret[USER_SECRET_CHARACTERS + 1] = "";
    if (reach == REACH_PLAIN)
        return fail(TERN_INVALID,
                    "TERN_INSECURE=1 lets everybody on the network connect to this job: set "
                    "TERN_TOKEN to the "
                    "same secret at every node, such as the output of 'openssl rand -hex 16'");
    enum tern_status status = reach == REACH_LOOPBACK ? user_folder_secret(secret) : TERN_OK;
    if (status != TERN_OK)
        return status;
    size_t n_secret = strlen(secret);
    name_job(launcher, sizeof launch->token - (n_secret > 0 ? n_secret + 1 : 0), launch->token);
    if (n_secret > 0) {
        strcat(launch->token, "-");
        strcat(launch->token, secret);
    }
    return TERN_OK;
}

static enum tern_status read_token(const struct launcher *launcher, enum reach reach,
                                   struct launch *launch)
{
    const char *text = variable("TERN_TOKEN");
    if (text == NULL)
        return make_token(launcher, reach, launch);
    for (const char *at = text; *at != '\0'; at++)
        if (!is_visible(*at))
            return fail(TERN_INVALID,
                        "TERN_TOKEN is '%.100s'; it takes letters, digits and signs, no blanks",
                        text);
    return copy_text("TERN_TOKEN", text, sizeof launch->token, launch->token);
}

/* ---- Where the coordinator is ---------------------------------------------------------------- */

static enum tern_status need_coordinator(const char *because)
{
    return fail(TERN_INVALID, "%s; set TERN_COORDINATOR to the address of node 0, host:port",
                because);
}

static enum tern_status write_address(struct launch *launch, const char *origin, const char *host,
                                      unsigned port)
{
    bool v6 = strchr(host, ':') != NULL && host[0] != '[';
    int n = snprintf(launch->coordinator, sizeof launch->coordinator, v6 ? "[%s]:%u" : "%s:%u",
                     host, port);
    if (n < 0 || (size_t)n >= sizeof launch->coordinator)
        return fail(TERN_INVALID, "%s is '%.100s...', which is too long for an address", origin,
                    variable(origin));
    return TERN_OK;
}

/* Whether all nodes are on this host, by what a variable of the launcher counts. */
static enum tern_status read_count(const char *name, uint64_t all, bool *is_all)
{
    const char *text = variable(name);
    uint64_t count = 0;
    *is_all = false;
    if (text == NULL)
        return TERN_OK;
    enum tern_status status = read_number(name, text, 1, MAX_NODES, &count);
    *is_all = status == TERN_OK && count == all;
    return status;
}

/* Puts the coordinator at a Unix socket in the user's own folder, named after the job. *fits is false if the path, to
 * which the others add their numbers, would be too long. */
static enum tern_status write_socket(struct launch *launch, const char *job, bool *fits)
{
    enum { NUMBER_BYTES = sizeof ".65535" };
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path];
    char path[sizeof folder - NUMBER_BYTES];
    *fits = user_folder_path(sizeof folder, folder);
    int n = *fits ? snprintf(path, sizeof path, "%s/%s", folder, job) : 0;
    *fits = n > 0 && (size_t)n < sizeof path;
    if (!*fits)
        return TERN_OK;
    snprintf(launch->coordinator, sizeof launch->coordinator, "unix:%s", path);
    return user_folder_make();
}

static enum tern_status coordinate_tern(struct launch *launch, const char **origin)
{
    (void)launch;
    *origin = "TERN_NODES";
    return missing("TERN_COORDINATOR", "TERN_NODES");
}

static enum tern_status coordinate_torchrun(struct launch *launch, const char **origin)
{
    const char *host = variable("MASTER_ADDR");
    const char *port = variable("MASTER_PORT");
    if (host == NULL)
        return missing("MASTER_ADDR", "WORLD_SIZE");
    if (port == NULL)
        return missing("MASTER_PORT", "WORLD_SIZE");
    uint64_t number = 0;
    enum tern_status status = read_number("MASTER_PORT", port, 1, 65534, &number);
    bool is_one_host = false;
    if (status == TERN_OK)
        status = read_count("LOCAL_WORLD_SIZE", launch->n_nodes, &is_one_host);
    if (status != TERN_OK)
        return status;
    /* The port tells the jobs of a host apart; a run's name need not. */
    char job[32];
    snprintf(job, sizeof job, "torchrun-%u", (unsigned)number);
    *origin = "MASTER_ADDR";
    bool fits = false;
    if (is_one_host)
        status = write_socket(launch, job, &fits);
    if (status != TERN_OK || fits)
        return status;
    return write_address(launch, *origin, host, (unsigned)number + 1);
}

static const struct launcher open_mpi, slurm;

static enum tern_status coordinate_open_mpi(struct launch *launch, const char **origin)
{
    bool is_one_host;
    enum tern_status status =
        read_count("OMPI_COMM_WORLD_LOCAL_SIZE", launch->n_nodes, &is_one_host);
    if (status != TERN_OK)
        return status;
    if (!is_one_host)
        return need_coordinator("Open MPI does not say where rank 0 of several hosts is");
    char job[1024];
    if (!job_name(&open_mpi, sizeof job, job))
        return need_coordinator("Open MPI has set neither OMPI_MCA_ess_base_jobid nor "
                                "PMIX_NAMESPACE to name the job");
    *origin = variable("TMPDIR") != NULL ? "TMPDIR" : open_mpi.job;
    bool fits;
    status = write_socket(launch, job, &fits);
    if (status == TERN_OK && !fits)
        return need_coordinator("TMPDIR and the name of the job are too long for a socket's path");
    return status;
}

/* The first host of a list such as "node[03-05,7],x1": node03. False when it is not one. */
static bool first_host(const char *list, size_t size, char *host)
{
    size_t n = 0;
    for (const char *at = list; *at != '\0' && *at != ','; at++) {
        if (*at == ']' || n + 1 >= size)
            return false;
        if (*at != '[') {
            host[n++] = *at;
            continue;
        }
        size_t n_digits = strspn(at + 1, "0123456789");
        const char *end = strchr(at, ']');
        if (n_digits == 0 || end == NULL || n + n_digits >= size ||
            strchr("-,]", at[1 + n_digits]) == NULL)
            return false;
        memcpy(host + n, at + 1, n_digits);
        n += n_digits;
        at = end;
    }
    host[n] = '\0';
    return n > 0;
}

static enum tern_status coordinate_slurm(struct launch *launch, const char **origin)
{
    const char *job = variable("SLURM_JOB_ID");
    if (job == NULL)
        return missing("SLURM_JOB_ID", "SLURM_NTASKS");
    uint64_t number = 0;
    enum tern_status status = read_number("SLURM_JOB_ID", job, 0, UINT32_MAX, &number);
    if (status != TERN_OK)
        return status;
    *origin = variable("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
    const char *list = variable(*origin);
    if (list == NULL)
        return missing(*origin, "SLURM_NTASKS");
    bool is_one_host;
    status = read_count("SLURM_STEP_NUM_NODES", 1, &is_one_host);
    if (status != TERN_OK)
        return status;
    char name[1024];
    bool fits = false;
    if (is_one_host && job_name(&slurm, sizeof name, name))
        status = write_socket(launch, name, &fits);
    if (status != TERN_OK || fits)
        return status;
    char host[200];
    if (!first_host(list, sizeof host, host))
        return fail(TERN_INVALID, "%s is '%.100s', which is not a list of hosts", *origin, list);
    return write_address(launch, *origin, host,
                         (unsigned)(SLURM_PORT_FIRST + number % SLURM_PORTS));
}

static bool slurm_present(void)
{
    const char *n_tasks = variable("SLURM_NTASKS");
    return variable("SLURM_PROCID") != NULL && n_tasks != NULL && strcmp(n_tasks, "1") != 0 &&
           variable("SLURM_STEP_ID") != NULL;
}

/* ---- The launchers --------------------------------------------------------------------------- */

static const struct launcher by_hand = {
    .node = "TERN_NODE",
    .n_nodes = "TERN_NODES",
    .coordinate = coordinate_tern,
};

static const struct launcher torchrun = {
    .node = "RANK",
    .n_nodes = "WORLD_SIZE",
    .coordinate = coordinate_torchrun,
    .name = "torchrun",
    .job = "TORCHELASTIC_RUN_ID",
};

static const struct launcher open_mpi = {
    .node = "OMPI_COMM_WORLD_RANK",
    .n_nodes = "OMPI_COMM_WORLD_SIZE",
    .coordinate = coordinate_open_mpi,
    .name = "mpi",
    .job = "OMPI_MCA_ess_base_jobid",
    .job_otherwise = "PMIX_NAMESPACE",
};

static const struct launcher slurm = {
    .node = "SLURM_PROCID",
    .n_nodes = "SLURM_NTASKS",
    .present = slurm_present,
    .coordinate = coordinate_slurm,
    .name = "slurm",
    .job = "SLURM_JOB_ID",
    .step = "SLURM_STEP_ID",
};

static const struct launcher *find_launcher(void)
{
    static const struct launcher *const launchers[] = {&by_hand, &torchrun, &open_mpi, &slurm};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *launcher = launchers[i];
        if (launcher->present != NULL
                ? launcher->present()
                : variable(launcher->node) != NULL || variable(launcher->n_nodes) != NULL)
            return launcher;
    }
    return NULL;
}

static enum tern_status read_ranks(const struct launcher *launcher, struct launch *launch)
{
    const char *node_text = variable(launcher->node);
    const char *size_text = variable(launcher->n_nodes);
    if (node_text == NULL)
        return missing(launcher->node, launcher->n_nodes);
    if (size_text == NULL)
        return missing(launcher->n_nodes, launcher->node);
    uint64_t node = 0, n_nodes = 0;
    enum tern_status status = read_number(launcher->n_nodes, size_text, 1, MAX_NODES, &n_nodes);
    if (status == TERN_OK)
        status = read_number(launcher->node, node_text, 0, MAX_NODES - 1, &node);
    if (status != TERN_OK)
        return status;
    if (node >= n_nodes)
        return fail(TERN_INVALID,
                    "%s is '%s', but %s is '%s': nodes are numbered from 0 to %" PRIu64,
                    launcher->node, node_text, launcher->n_nodes, size_text, n_nodes - 1);
    launch->node = (uint32_t)node;
    launch->n_nodes = (uint32_t)n_nodes;
    return TERN_OK;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

/* address_find, whose sentence then begins with the variable. */
static enum tern_status find_address(const char *origin, const char *text, bool to_listen,
                                     struct address found[ADDRESS_FOUND_MAX], int *n_found)
{
    enum tern_status status = address_find(text, to_listen, found, n_found);
    if (status == TERN_OK)
        return TERN_OK;
    char why[400];
    snprintf(why, sizeof why, "%s", tern_error());
    return fail(status, "%s: %s", origin, why);
}

/* Whether the coordinator is named by a name that means loopback here, as Debian's /etc/hosts has it for a machine's
 * own name, and another address elsewhere; and nodes elsewhere may connect. */
static bool is_known_elsewhere(const struct launch *launch, const struct address *found,
                               int n_found)
{
    const char *text = launch->coordinator;
    size_t n_host = strcspn(text, ":");
    bool is_number = text[0] == '[' || strspn(text, "0123456789.") >= n_host;
    bool is_localhost = n_host >= strlen("localhost") &&
                        strncmp(text + n_host - strlen("localhost"), "localhost:", 10) == 0;
    for (int i = 0; i < n_found; i++)
        if (!address_is_local(&found[i]) || found[i].any.sa_family == AF_UNIX)
            return false;
    return !is_number && !is_localhost && (launch->insecure || launch->certificate[0] != '\0');
}

/* All addresses of this machine, of the same kind. */
static void write_wildcard(char *text, size_t size, const struct address *address, const char *port)
{
    snprintf(text, size, "%s:%s", address->any.sa_family == AF_INET6 ? "[::]" : "0.0.0.0", port);
}

static enum tern_status choose_listen(struct launch *launch, const struct address *found,
                                      int n_found)
{
    if (found[0].any.sa_family == AF_UNIX) {
        char path[sizeof launch->listen + 16];
        snprintf(path, sizeof path, "%s.%u", launch->coordinator, launch->node);
        return copy_text("TERN_COORDINATOR", path, sizeof launch->listen, launch->listen);
    }
    char text[ADDRESS_TEXT_BYTES] = "0.0.0.0:0";
    struct address own;
    if (is_known_elsewhere(launch, found, n_found))
        n_found = 0;
    for (int i = 0; i < n_found; i++) {
        if (address_towards(&found[i], &own)) {
            address_text(&own, text);
            break;
        }
    }
    return copy_text("TERN_COORDINATOR", text, sizeof launch->listen, launch->listen);
}

/* Who could connect to nodes of a coordinator at this address. */
static enum reach reach_of(const struct launch *launch, const struct address *found, int n_found)
{
    bool is_unix = found[0].any.sa_family == AF_UNIX;
    bool is_here = !is_known_elsewhere(launch, found, n_found);
    for (int i = 0; i < n_found; i++)
        is_here &= address_is_local(&found[i]);
    if (is_here)
        return is_unix ? REACH_PROTECTED : REACH_LOOPBACK;
    bool is_plain =
        launch->insecure && launch->certificate[0] == '\0'; /* else certificates are needed */
    return is_plain ? REACH_PLAIN : REACH_PROTECTED;
}

static enum tern_status find_listen(struct launch *launch, const char *origin, enum reach *reach)
{
    struct address found[ADDRESS_FOUND_MAX];
    int n_found;
    enum tern_status status = find_address(origin, launch->coordinator, false, found, &n_found);
    if (status != TERN_OK)
        return status;
    *reach = reach_of(launch, found, n_found);
    if (launch->node == 0) {
        strcpy(launch->listen, launch->coordinator);
        if (is_known_elsewhere(launch, found, n_found))
            write_wildcard(launch->listen, sizeof launch->listen, &found[0],
                           strrchr(launch->coordinator, ':') + 1);
        return TERN_OK;
    }
    if (address_is_wildcard(&found[0]))
        return fail(TERN_INVALID,
                    "%s gives the coordinator as '%s', which stands for every machine itself; name "
                    "the host of node 0",
                    origin, launch->coordinator);
    const char *text = variable("TERN_LISTEN");
    if (text != NULL) {
        origin = "TERN_LISTEN";
        status = copy_text(origin, text, sizeof launch->listen, launch->listen);
    } else {
        status = choose_listen(launch, found, n_found);
    }
    if (status != TERN_OK)
        return status;
    return find_address(origin, launch->listen, true, found, &n_found);
}

static enum tern_status find_addresses(const struct launcher *launcher, struct launch *launch,
                                       enum reach *reach)
{
    const char *origin = "TERN_COORDINATOR";
    const char *text = variable(origin);
    enum tern_status status =
        text != NULL ? copy_text(origin, text, sizeof launch->coordinator, launch->coordinator)
                     : launcher->coordinate(launch, &origin);
    return status == TERN_OK ? find_listen(launch, origin, reach) : status;
}

/* ---- All of it -------------------------------------------------------------------------------- */

static enum tern_status find_in_cluster(const struct launcher *launcher, struct launch *launch,
                                        enum reach *reach)
{
    if (launcher == NULL) {
        if (variable("TERN_COORDINATOR") != NULL)
            return missing("TERN_NODE", "TERN_COORDINATOR");
        launch->n_nodes = 1;
        return TERN_OK;
    }
    enum tern_status status = read_ranks(launcher, launch);
    if (status != TERN_OK || launch->n_nodes == 1)
        return status;
    return find_addresses(launcher, launch, reach);
}

enum tern_status launch_find(struct launch *launch)
{
    struct launch found = {0};
    enum reach reach = REACH_PROTECTED;
    const struct launcher *launcher = find_launcher();
    enum tern_status status = read_credentials(&found);
    if (status == TERN_OK)
        status = read_insecure(&found.insecure);
    if (status == TERN_OK)
        status = read_share(&found.shares);
    if (status == TERN_OK)
        status = read_host(sizeof found.host, found.host);
    if (status == TERN_OK)
        status = find_in_cluster(launcher, &found, &reach);
    /* Nodes of one host share no memory if they were started to meet over TCP at a loopback address. */
    if (reach == REACH_LOOPBACK && found.host[0] == '\0')
        found.shares = false;
    if (status == TERN_OK)
        status = read_token(launcher, reach, &found);
    if (status == TERN_OK)
        status = read_deadlines(&found);
    if (status == TERN_OK)
        status = read_shards(&found.n_shards);
    if (status == TERN_OK)
        *launch = found;
    return status;
}

enum tern_status launch_in_group(const char *group, uint32_t node, uint32_t n_nodes,
                                 struct launch *launch)
{
    struct launch found = {.node = node, .n_nodes = n_nodes};
    if (group[0] == '\0' || strlen(group) >= GROUP_BYTES)
        return fail(TERN_INVALID, "tern_node_options.group must have 1 to %d characters",
                    GROUP_BYTES - 1);
    for (const char *at = group; *at != '\0'; at++)
        if (!is_visible(*at))
            return fail(TERN_INVALID, "tern_node_options.group has a space, or a character that "
                                      "cannot be seen");
    if (n_nodes == 0 || n_nodes > MAX_NODES || node >= n_nodes)
        return fail(TERN_INVALID,
                    "tern_node_options: there is no node %" PRIu32 " in group '%s' of %" PRIu32
                    " nodes; they are numbered from 0, and there are 1 to %d",
                    node, group, n_nodes, MAX_NODES);
    snprintf(found.coordinator, sizeof found.coordinator, "here:%s.0", group);
    snprintf(found.listen, sizeof found.listen, "here:%s.%" PRIu32, group, node);
    snprintf(found.token, sizeof found.token, "%s", group);
    enum tern_status status = read_deadlines(&found);
    if (status == TERN_OK)
        status = read_shards(&found.n_shards);
    if (status == TERN_OK)
        *launch = found;
    return status;
}

/* partition_files - see partition_files.h. */
#include "partition/partition_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/npy.h"
#include "common/outputs.h"

/* ---- Writing ----------------------------------------------------------------------------------- */

static void write_array(struct outputs *outputs, const char *name, const char *type, uint64_t n,
                        size_t n_columns, const void *values, size_t value_bytes, bool *ok)
{
    struct outfile *out = *ok ? outputs_add(outputs, name) : NULL;
    *ok = out != NULL;
    if (!*ok)
        return;
    npy_write_head(out, type, n, n_columns);
    outfile_write(out, values, n * n_columns * value_bytes);
}

static void write_rows(struct outputs *outputs, const struct job *job, bool *ok)
{
    struct outfile *out = *ok ? outputs_add(outputs, "rows.txt") : NULL;
    *ok = out != NULL;
    for (uint64_t r = 0; *ok && r < job->granules->n_rows; r++)
        outfile_print(out, "%u\n", job->parts[r]);
}

static void write_facts(struct outputs *outputs, const struct job *job,
                        const struct outcome *outcome, bool *ok)
{
    struct outfile *out = *ok ? outputs_add(outputs, "partition.txt") : NULL;
    *ok = out != NULL;
    if (!*ok)
        return;
    outfile_print(out, "parts %u\nrows %" PRIu64 "\nkeys %" PRIu64 "\nentries %" PRIu64 "\n",
                  job->n_parts, outcome->n_rows, outcome->n_keys, outcome->n_entries);
    outfile_print(out,
                  "remote_pairs %" PRIu64 "\nremote_share %.6f\nremote_share_with_replicas %.6f\n",
                  outcome->n_pairs, outcome->remote, outcome->remote_with_replicas);
    outfile_print(out, "m_max %" PRIu64 "\nt_max %" PRIu64 "\nt_sum %" PRIu64 "\n",
                  outcome->max_keys, outcome->max_traffic, outcome->sum_traffic);
    outfile_print(
        out, "row_balance %.4f\nentry_balance %.4f\nhome_balance %.4f\nreplicas %" PRIu64 "\n",
        outcome->row_balance, outcome->entry_balance, outcome->home_balance, outcome->n_replicas);
}

/* ---- The rows in files ------------------------------------------------------------------------- */

enum { OTHER_FILES = 64 }; /* that are open meanwhile */

struct split {
    const struct job *job;
    struct outfile *files[MAX_PARTS];
};

static bool split_line(void *context, bool is_heading, uint64_t row, const char *line,
                       size_t length)
{
    const struct split *split = context;
    const uint32_t part = is_heading ? 0 : split->job->parts[row];
    const uint32_t end = is_heading ? split->job->n_parts : part + 1;
    for (uint32_t p = part; p < end; p++) {
        outfile_write(split->files[p], line, length);
        outfile_write(split->files[p], "\n", 1);
    }
    return true;
}

/* All of them are open at once. */
static void allow_files(uint32_t n)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= n + OTHER_FILES)
        return;
    limit.rlim_cur = limit.rlim_max < n + OTHER_FILES ? limit.rlim_max : n + OTHER_FILES;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void write_split(struct outputs *outputs, const struct job *job, bool *ok)
{
    const struct partition_options *options = job->options;
    struct split split = {.job = job};
    if (!*ok || !options->split)
        return;
    allow_files(job->n_parts);
    for (uint32_t p = 0; *ok && p < job->n_parts; p++) {
        char name[32];
        snprintf(name, sizeof name, "part-%04" PRIu32 ".%s", p,
                 options->format == READ_LIBSVM ? "svm" : "txt");
        split.files[p] = outputs_add(outputs, name);
        *ok = split.files[p] != NULL;
    }
    *ok = *ok && read_lines(job->train->options->data, options->format, split_line, &split);
}

bool partition_files_write(const char *folder, const struct job *job, const struct outcome *outcome)
{
    struct outputs outputs;
    if (!outputs_open(&outputs, folder))
        return false;
    bool ok = true;
    write_facts(&outputs, job, outcome, &ok);
    write_rows(&outputs, job, &ok);
    write_array(&outputs, "keys.npy", "<u8", outcome->n_keys, 1, outcome->keys,
                sizeof *outcome->keys, &ok);
    write_array(&outputs, "homes.npy", "<u2", outcome->n_keys, 1, outcome->homes,
                sizeof *outcome->homes, &ok);
    write_array(&outputs, "frequencies.npy", "<u8", outcome->n_keys, 1, outcome->uses,
                sizeof *outcome->uses, &ok);
    write_array(&outputs, "sets.npy", "<u8", outcome->n_keys, outcome->n_words, outcome->sets,
                sizeof *outcome->sets, &ok);
    write_array(&outputs, "replica_keys.npy", "<u8", outcome->n_replicas, 1, outcome->replica_keys,
                sizeof *outcome->replica_keys, &ok);
    write_array(&outputs, "replica_parts.npy", "<u2", outcome->n_replicas, 1,
                outcome->replica_parts, sizeof *outcome->replica_parts, &ok);
    write_split(&outputs, job, &ok);
    if (!ok)
        outputs_discard(&outputs);
    return ok && outputs_commit(&outputs);
}

/* ---- Reading ----------------------------------------------------------------------------------- */

bool partition_files_read_sets(const char *folder, uint32_t n_parts, uint64_t *n_keys,
                               uint64_t **keys, uint64_t **sets)
{
    uint64_t n_sets;
    void *read;
    *sets = NULL;
    if (!npy_read_array(folder, "keys.npy", "<u8", sizeof **keys, 1, n_keys, &read))
        return false;
    *keys = read;
    bool ok = npy_read_array(folder, "sets.npy", "<u8", sizeof **sets, set_words(n_parts), &n_sets,
                             &read);
    *sets = read;
    ok = ok && (n_sets == *n_keys ||
                task_fail("%s: keys.npy and sets.npy are not of one partition", folder));
    for (uint64_t i = 0; ok && n_parts % 64 && i < *n_keys; i++)
        ok = (*sets)[(i + 1) * set_words(n_parts) - 1] >> n_parts % 64 == 0 ||
             task_fail("%s is a partition into more than %u parts", folder, n_parts);
    if (!ok) {
        free(*keys);
        free(*sets);
    }
    return ok;
}

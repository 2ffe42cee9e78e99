/*
 * command - the commands of `tern` and how they are found.
 *
 * A command is a row of a table: a name, a one-line summary and a function. `tern` itself and
 * commands with subcommands (`tern bench`) each pass their table to command_dispatch. A command returns
 * its exit status; main checks that all output was written.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1, /* the work failed */
    EXIT_USAGE = 2,  /* the command line is wrong */
};

struct command {
    const char *name;
    const char *summary;
    /* argv[0] is the command's own name. */
    int (*run)(int argc, char **argv);
};

struct command_set {
    const char *program; /* what the user types before the command: "tern bench" */
    const char *about;   /* a sentence for --help */
    const char *notes;   /* further lines of --help, or NULL */
    const struct command *commands;
    size_t n_commands;
};

/* Runs the command that argv[1] names. */
int command_dispatch(const struct command_set *set, int argc, char **argv);

int ca_command(int argc, char **argv);
int bench_command(int argc, char **argv);
int bench_local_command(int argc, char **argv);
int bench_net_command(int argc, char **argv);
int bench_fm_command(int argc, char **argv);
int bench_linear_command(int argc, char **argv);
int bench_idle_command(int argc, char **argv);
int bench_survive_command(int argc, char **argv);
int bench_intent_command(int argc, char **argv);
int bench_loop_command(int argc, char **argv);
int bench_manage_command(int argc, char **argv);
int bench_nd_command(int argc, char **argv);
int bench_partition_command(int argc, char **argv);
int bench_sample_command(int argc, char **argv);
int bench_converge_command(int argc, char **argv);
int bench_scale_command(int argc, char **argv);
int bench_stale_command(int argc, char **argv);
int bench_task_command(int argc, char **argv);
int checkpoint_command(int argc, char **argv);
int checkpoint_export_command(int argc, char **argv);
int checkpoint_ls_command(int argc, char **argv);
int checkpoint_verify_command(int argc, char **argv);
int data_command(int argc, char **argv);
int data_bow_command(int argc, char **argv);
int data_clicks_command(int argc, char **argv);
int data_gcide_command(int argc, char **argv);
int data_text_command(int argc, char **argv);
int data_wordnet_command(int argc, char **argv);
int data_zipf_matrix_command(int argc, char **argv);
int nearest_command(int argc, char **argv);
int predict_command(int argc, char **argv);
int predict_fm_command(int argc, char **argv);
int predict_kge_command(int argc, char **argv);
int partition_command(int argc, char **argv);
int predict_lda_command(int argc, char **argv);
int predict_linear_command(int argc, char **argv);
int predict_mf_command(int argc, char **argv);
int run_command(int argc, char **argv);
int sim_command(int argc, char **argv);
int sketch_command(int argc, char **argv);
int sketch_count_command(int argc, char **argv);
int sketch_merge_command(int argc, char **argv);
int sketch_query_command(int argc, char **argv);
int trace_command(int argc, char **argv);
int train_command(int argc, char **argv);
int train_fm_command(int argc, char **argv);
int train_kge_command(int argc, char **argv);
int train_lda_command(int argc, char **argv);
int train_linear_command(int argc, char **argv);
int train_net_command(int argc, char **argv);
int train_rica_command(int argc, char **argv);
int train_mf_command(int argc, char **argv);
int train_wordvec_command(int argc, char **argv);

/* Prints "tern: ", the sentence and a line end to stderr. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Flushes standard output. If that fails, says so once and returns false from then on; the command should
 * stop. */
bool flush_output(void);

/* complain() with what tern_error() says, after `doing`; returns EXIT_FAILED. */
int complain_tern(const char *doing);

#endif

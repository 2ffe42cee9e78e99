/*
 * tern - the program. It uses the public interface alone; its commands are listed below.
 *
 * Data goes to stdout, progress and error messages to stderr. Exit status: 0; 1 when the work failed,
 * also when stdout could not be written; 2 when the command line is wrong.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "command.h"
#include "help.h"

static int explain_command(int argc, char **argv);

static const struct command commands[] = {
    {"bench", "measure Tern against a baseline in the same run", bench_command},
    {"ca", "make the certificates of a cluster", ca_command},
    {"checkpoint", "list, verify and export checkpoints", checkpoint_command},
    {"data", "make data sets to train on", data_command},
    {"help", "explain a command", explain_command},
    {"nearest", "find the words closest to a given one", nearest_command},
    {"partition", "divide data and parameters into parts that share little", partition_command},
    {"predict", "ask a trained model", predict_command},
    {"run", "start a program as several nodes on this host", run_command},
    {"sim", "run simulated clusters over a network that fails", sim_command},
    {"sketch", "count keys in a sketch, ask it, merge several", sketch_command},
    {"trace", "draw where keys were and when", trace_command},
    {"train", "train a model", train_command},
};

static const struct command_set program = {
    .program = "tern",
    .about = "Tern keeps the parameters of large sparse models where they are about to be used.",
    .notes = "`tern --version` prints the version and the instruction set in use.",
    .commands = commands,
    .n_commands = sizeof commands / sizeof *commands,
};

static int explain_command(int argc, char **argv)
{
    return help_command(&program, argc, argv);
}

static int run(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        printf("tern %s (%s)\n", tern_version(), tern_kernel_name());
        return EXIT_OK;
    }
    return command_dispatch(&program, argc, argv);
}

/* Opens /dev/null as every standard descriptor that is closed. Otherwise the next file opened would get the
 * descriptor, and what is printed. */
static void fill_standard_files(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_files();
    setenv("TERN_NOTICES", "stderr", 0); /* what the library has to say while the command waits */
    int status = run(argc, argv);
    return flush_output() ? status : EXIT_FAILED;
}

/*
 * tern - the command. Its commands are listed below; each uses the public interface alone.
 *
 * Data goes to stdout, progress and complaints to stderr. Exit status: 0, 1 when the work failed
 * (also when stdout did not take the output), 2 when the command line made no sense.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tern/tern.h>

#include "command.h"

static const struct command commands[] = {
    {"bench", "measure Tern against a baseline in the same run", bench_command},
    {"ca", "make the certificates of a cluster", ca_command},
    {"data", "make data sets to train on", data_command},
    {"nearest", "find the words closest to a given one", nearest_command},
    {"predict", "ask a trained model", predict_command},
    {"run", "start a program as several nodes on this host", run_command},
    {"sim", "run simulated clusters over a network that fails", sim_command},
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

static int run(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        printf("tern %s (%s)\n", tern_version(), tern_kernel_name());
        return EXIT_OK;
    }
    return command_dispatch(&program, argc, argv);
}

/* Standard descriptors that are closed would be those of the next files opened, which then got what is printed. So
 * they are taken by something that is empty and takes nothing. */
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
    int status = run(argc, argv);
    return flush_output() ? status : EXIT_FAILED;
}

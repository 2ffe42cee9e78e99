/*
 * interrupt - see interrupt.h.
 *
 * The handler calls only what POSIX allows in a handler. It reads strings that another thread may be
 * writing: a path counts from the moment its first byte is there, which is written last, and the sentence
 * has two buffers, of which `current` names the complete one.
 */
#include "common/interrupt.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FOLDER = INTERRUPT_MAX_FILES, SENTENCE_BYTES = 2 * PATH_MAX };

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

static volatile char leftovers[INTERRUPT_MAX_FILES + 1][PATH_MAX];
static char sentences[2][SENTENCE_BYTES];
static volatile sig_atomic_t current;
static int depth;

static void end_program(int number)
{
    const char *sentence = sentences[current];
    if (sentence[0] != '\0')
        (void)!write(STDERR_FILENO, sentence, strlen(sentence));
    for (size_t i = 0; i < FOLDER; i++)
        if (leftovers[i][0] != '\0')
            unlink((const char *)leftovers[i]);
    if (leftovers[FOLDER][0] != '\0')
        rmdir((const char *)leftovers[FOLDER]);
    signal(number, SIG_DFL);
    raise(number);
}

static void exchange_handlers(void (*from)(int), void (*to)(int))
{
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct sigaction action;
        if (sigaction(ending[i], NULL, &action) == 0 && action.sa_handler == from)
            signal(ending[i], to);
    }
}

void interrupt_begin(void)
{
    if (depth++ == 0)
        exchange_handlers(SIG_DFL, end_program);
}

void interrupt_end(void)
{
    if (--depth == 0)
        exchange_handlers(end_program, SIG_DFL);
}

void interrupt_say(const char *sentence)
{
    char *other = sentences[1 - current];
    other[0] = '\0';
    /* A bar may be on the line. */
    if (sentence[0] != '\0')
        snprintf(other, SENTENCE_BYTES, "%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "",
                 sentence);
    current = 1 - current;
}

static void note(size_t number, const char *path)
{
    size_t n = path != NULL ? strlen(path) : 0;
    leftovers[number][0] = '\0';
    for (size_t i = n + 1; path != NULL && n < PATH_MAX && i-- > 0;)
        leftovers[number][i] = path[i];
}

void interrupt_remove_file(size_t number, const char *path)
{
    note(number, path);
}

void interrupt_remove_folder(const char *path)
{
    note(FOLDER, path);
}

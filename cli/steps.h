/*
 * steps - tells on stderr how far a long command has come.
 *
 * On a terminal it is one line that is drawn anew; with --progress elsewhere, a line per step. A command
 * names steps_option as a common option, calls steps_begin() once, steps_next() before each step,
 * and steps_end() before it prints results.
 */
#ifndef CLI_STEPS_H
#define CLI_STEPS_H

#include <stddef.h>

#include "options.h"

enum { STEPS_N_OPTIONS = 1 };
extern const struct option steps_option[STEPS_N_OPTIONS]; /* --progress */

/* Whether anybody will see it. */
bool steps_are_shown(void);

void steps_begin(size_t n_steps);

/* The next step begins: "4 of 25: adaptive, repeat 2 (6 s, about 42 s left)". */
void steps_next(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prepares for the next step, which may take a while by itself. */
void steps_prepare(const char *doing);

/* The same where steps are short: so many are done. Draws a few times a second at most. */
void steps_at(size_t n_done, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Wipes the line from the terminal; the next step draws it again. */
void steps_end(void);

#endif

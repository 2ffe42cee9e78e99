/*
 * interrupt - what a signal that ends the program says and removes first.
 *
 * Between interrupt_begin() and interrupt_end() SIGINT, SIGTERM and SIGHUP print the sentence, remove the
 * temporary files, and then end the program as they would have done anyway. A signal that the program
 * ignores or handles itself stays as it is. Pairs of begin and end may be nested. The main thread calls
 * these functions; the signal may arrive in any thread.
 */
#ifndef TASKS_INTERRUPT_H
#define TASKS_INTERRUPT_H

#include <stddef.h>

enum { INTERRUPT_MAX_FILES = 16 };

void interrupt_begin(void);
void interrupt_end(void);

/* The sentence to print on standard error, without a line end; "" prints nothing. */
void interrupt_say(const char *sentence);

/* A file to remove, by a number below INTERRUPT_MAX_FILES, and the folder to remove after all files; NULL
 * for none. */
void interrupt_remove_file(size_t number, const char *path);
void interrupt_remove_folder(const char *path);

#endif

/* token - the secret that the nodes of a job share (TERN_TOKEN), made for each job. */
#ifndef CLI_TOKEN_H
#define CLI_TOKEN_H

#include <stdbool.h>

enum { TOKEN_BYTES = 40 };

/* Writes "NAME-" and 128 random bits; NAME has at most 6 letters. False after an error message. */
bool token_make(const char *name, char token[TOKEN_BYTES]);

#endif

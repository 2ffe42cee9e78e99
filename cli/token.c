/* token - see token.h. */
#include "token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "command.h"

bool token_make(const char *name, char token[TOKEN_BYTES])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) {
        complain("cannot get random numbers: %s", strerror(errno));
        return false;
    }
    int n = snprintf(token, TOKEN_BYTES, "%.6s-", name);
    for (size_t i = 0; i < sizeof bytes; i++)
        n += snprintf(token + n, TOKEN_BYTES - (size_t)n, "%02x", bytes[i]);
    return true;
}

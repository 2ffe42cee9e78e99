/*
 * user_folder - a folder of this host that only this user can write: $TMPDIR/tern-UID, or /tmp/tern-UID.
 *
 * Nodes that know no other address meet there, and nodes on loopback TCP find the secret that proves that they
 * belong to the same user. Another user can neither look into the folder nor put something there. Another user can
 * take its name first; then every call below fails with a sentence.
 */
#ifndef NODE_USER_FOLDER_H
#define NODE_USER_FOLDER_H

#include "base/status.h"

enum { USER_SECRET_CHARACTERS = 32 }; /* hexadecimal digits */

/* The path of the folder. False if it does not fit. Does not look whether the folder exists. */
bool user_folder_path(size_t size, char *path);

/* Makes the folder unless it exists. Fails if the folder is not this user's, is a link, or others may use it. */
enum tern_status user_folder_make(void);

/* The secret of this user on this host: random, made by the first process that asks, the same for all others. */
enum tern_status user_folder_secret(char secret[USER_SECRET_CHARACTERS + 1]);

#endif

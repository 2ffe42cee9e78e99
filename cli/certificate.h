/*
 * certificate - makes and reads the certificates of a cluster: an authority and the nodes it vouches
 * for, each a PEM file of the certificate and one of its key (EC P-256).
 *
 * Files are written whole or not at all and never over another; keys are for their owner alone. What
 * fails has complained by then.
 */
#ifndef CLI_CERTIFICATE_H
#define CLI_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* A certificate and its key in memory. */
struct credential;

/* A host of credential_new_node that begins so is not a host: it binds the certificate to the nodes of these numbers,
 * "tern:node:3" or "tern:node:0-7". */
#define CERTIFICATE_NODES "tern:node:"

/* A new authority, or a node of one, with the host names and addresses given; NULL when that fails.
 * The node's certificate ends no later than the authority's. */
struct credential *credential_new_authority(const char *name, int days);
struct credential *credential_new_node(const struct credential *authority, const char *name,
                                       const char *const *hosts, size_t n_hosts, int days);

/* Reads and writes FOLDER/NAME.crt and FOLDER/NAME.key. */
struct credential *credential_read(const char *folder, const char *name);
bool credential_write(const struct credential *credential, const char *folder, const char *name);

void credential_free(struct credential *credential);

/* What `tern ca show` tells of a certificate. */
struct certificate_facts {
    char name[128];
    char expires[32]; /* "2027-11-15 23:37 UTC" */
    bool is_authority;
    bool has_expired;
    bool is_ours; /* signed by the authority asked about */
    unsigned
        key_mode; /* permissions that others have to the key beside it; 0: none, or there is no key */
};

/* Reads the facts of FOLDER/NAME.crt, beside the authority FOLDER/AUTHORITY.crt. */
bool certificate_facts(const char *folder, const char *name, const char *authority,
                       struct certificate_facts *facts);

#endif

/*
 * certificates - authorities and node certificates for the tests of TLS, written as PEM files.
 */
#ifndef NET_CERTIFICATES_H
#define NET_CERTIFICATES_H

#include <stdbool.h>
#include <stdio.h>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "support/check.h"

struct issued {
    X509 *certificate;
    EVP_PKEY *key;
    char certificate_path[128];
    char key_path[128];
};

static inline void issued_extend(X509 *certificate, X509 *issuer, int what, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, what, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static inline void issued_write(struct issued *issued, const char *folder, const char *name)
{
    snprintf(issued->certificate_path, sizeof issued->certificate_path, "%s/%s.crt", folder, name);
    snprintf(issued->key_path, sizeof issued->key_path, "%s/%s.key", folder, name);
    FILE *file = fopen(issued->certificate_path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, issued->certificate), 1);
    fclose(file);
    file = fopen(issued->key_path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, issued->key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
}

/* A certificate valid from one time to another, in seconds from now; its own authority when `by` is
 * NULL. `usage`: its extended key usage; NULL: none. */
static inline struct issued issue_for(const char *usage, const char *folder, const char *name,
                                      const struct issued *by, long from_s, long to_s)
{
    static long serial = 1;
    struct issued issued = {.certificate = X509_new(), .key = EVP_EC_gen("P-256")};
    assert_non_null(issued.certificate);
    assert_non_null(issued.key);
    X509 *certificate = issued.certificate;
    X509 *issuer = by != NULL ? by->certificate : certificate;
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), to_s);
    X509_set_pubkey(certificate, issued.key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                               (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    issued_extend(certificate, issuer, NID_basic_constraints,
                  by != NULL ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (usage != NULL)
        issued_extend(certificate, issuer, NID_ext_key_usage, usage);
    assert_true(X509_sign(certificate, by != NULL ? by->key : issued.key, EVP_sha256()) > 0);
    issued_write(&issued, folder, name);
    return issued;
}

static inline struct issued issue(const char *folder, const char *name, const struct issued *by,
                                  long from_s, long to_s)
{
    return issue_for(NULL, folder, name, by, from_s, to_s);
}

static inline void issued_free(struct issued *issued)
{
    X509_free(issued->certificate);
    EVP_PKEY_free(issued->key);
}

#endif

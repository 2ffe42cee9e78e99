/* certificate - see certificate.h. */
#include "certificate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "command.h"

enum {
    PATH_BYTES = 4096,
    SERIAL_BITS = 127,
    CLOCK_SLACK_S = 3600, /* valid since an hour: the clocks of the nodes differ */
    DAY_S = 86400,
};

struct credential {
    X509 *certificate;
    EVP_PKEY *key;
};

void credential_free(struct credential *credential)
{
    if (credential == NULL)
        return;
    X509_free(credential->certificate);
    EVP_PKEY_free(credential->key);
    free(credential);
}

static void complain_openssl(const char *doing)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    complain("%s: %s", doing, reason != NULL ? reason : "unknown cause");
    ERR_clear_error();
}

/* ---- Making ------------------------------------------------------------------------------------ */

static bool set_serial(X509 *certificate)
{
    BIGNUM *number = BN_new();
    bool done = number != NULL && BN_rand(number, SERIAL_BITS, BN_RAND_TOP_ANY, 0) &&
                BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return done;
}

static bool set_times(X509 *certificate, const X509 *issuer, int days)
{
    ASN1_TIME *end = X509_getm_notAfter(certificate);
    if (X509_gmtime_adj(X509_getm_notBefore(certificate), -CLOCK_SLACK_S) == NULL ||
        X509_time_adj_ex(end, days, 0, NULL) == NULL)
        return false;
    const ASN1_TIME *last = X509_get0_notAfter(issuer);
    return issuer == certificate || ASN1_TIME_compare(end, last) <= 0 ||
           X509_set1_notAfter(certificate, last);
}

static bool set_extension(X509 *certificate, X509 *issuer, int what, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, what, value);
    bool done = extension != NULL && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return done;
}

static bool is_number(const char *host)
{
    unsigned char number[16];
    return inet_pton(AF_INET, host, number) == 1 || inet_pton(AF_INET6, host, number) == 1;
}

/* Built without OpenSSL's little language, in which a comma in a host would begin the next one. */
static bool add_host(GENERAL_NAMES *names, const char *host)
{
    const bool is_nodes = strncmp(host, CERTIFICATE_NODES, strlen(CERTIFICATE_NODES)) == 0;
    const int kind = is_nodes ? GEN_URI : is_number(host) ? GEN_IPADD : GEN_DNS;
    GENERAL_NAME *name = a2i_GENERAL_NAME(NULL, NULL, NULL, kind, host, 0);
    if (name != NULL && sk_GENERAL_NAME_push(names, name) > 0)
        return true;
    GENERAL_NAME_free(name);
    return false;
}

static bool set_hosts(X509 *certificate, const char *const *hosts, size_t n_hosts)
{
    if (n_hosts == 0)
        return true;
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    bool done = names != NULL;
    for (size_t i = 0; i < n_hosts && done; i++)
        done = add_host(names, hosts[i]);
    done = done && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) == 1;
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
    return done;
}

/* Fills in what all certificates have. */
static bool set_common(X509 *certificate, X509 *issuer, EVP_PKEY *key, const char *name, int days)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    return X509_set_version(certificate, X509_VERSION_3) && set_serial(certificate) &&
           set_times(certificate, issuer, days) && X509_set_pubkey(certificate, key) &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                                      -1, 0) &&
           X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) &&
           set_extension(certificate, issuer, NID_subject_key_identifier, "hash");
}

static struct credential *credential_new(void)
{
    struct credential *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    made->certificate = X509_new();
    made->key = EVP_EC_gen("P-256");
    if (made->certificate != NULL && made->key != NULL)
        return made;
    credential_free(made);
    return NULL;
}

struct credential *credential_new_authority(const char *name, int days)
{
    struct credential *made = credential_new();
    X509 *certificate = made != NULL ? made->certificate : NULL;
    if (certificate != NULL && set_common(certificate, certificate, made->key, name, days) &&
        set_extension(certificate, certificate, NID_basic_constraints,
                      "critical,CA:TRUE,pathlen:0") &&
        set_extension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        X509_sign(certificate, made->key, EVP_sha256()) > 0)
        return made;
    complain_openssl("the authority cannot be made");
    credential_free(made);
    return NULL;
}

struct credential *credential_new_node(const struct credential *authority, const char *name,
                                       const char *const *hosts, size_t n_hosts, int days)
{
    struct credential *made = credential_new();
    X509 *certificate = made != NULL ? made->certificate : NULL;
    X509 *issuer = authority->certificate;
    if (certificate != NULL && set_common(certificate, issuer, made->key, name, days) &&
        set_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always") &&
        set_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
        set_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
        set_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth") &&
        set_hosts(certificate, hosts, n_hosts) &&
        X509_sign(certificate, authority->key, EVP_sha256()) > 0)
        return made;
    complain_openssl("the node's certificate cannot be made");
    credential_free(made);
    return NULL;
}

/* ---- Files ------------------------------------------------------------------------------------- */

static bool path_of(char path[PATH_BYTES], const char *folder, const char *name, const char *ending)
{
    int n = snprintf(path, PATH_BYTES, "%s/%s.%s", folder, name, ending);
    if (n > 0 && n < PATH_BYTES)
        return true;
    complain("the path of '%s' is too long", name);
    return false;
}

static int no_password(char *password, int n_password, int writing, void *context)
{
    (void)password;
    (void)n_password;
    (void)writing;
    (void)context;
    return -1;
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        complain("cannot read %s: %s", path, strerror(errno));
    return file;
}

static X509 *read_certificate(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    FILE *file = path_of(path, folder, name, "crt") ? open_file(path) : NULL;
    if (file == NULL)
        return NULL;
    X509 *certificate = PEM_read_X509(file, NULL, no_password, NULL);
    fclose(file);
    if (certificate == NULL) {
        complain("%s is not a certificate in PEM form", path);
        ERR_clear_error();
    }
    return certificate;
}

static EVP_PKEY *read_key(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    FILE *file = path_of(path, folder, name, "key") ? open_file(path) : NULL;
    if (file == NULL)
        return NULL;
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, no_password, NULL);
    fclose(file);
    if (key == NULL) {
        complain("%s is not a key in PEM form and without a password", path);
        ERR_clear_error();
    }
    return key;
}

struct credential *credential_read(const char *folder, const char *name)
{
    struct credential *found = calloc(1, sizeof *found);
    if (found == NULL) {
        complain("no memory");
        return NULL;
    }
    found->certificate = read_certificate(folder, name);
    if (found->certificate != NULL)
        found->key = read_key(folder, name);
    if (found->key != NULL) {
        if (X509_check_private_key(found->certificate, found->key) == 1)
            return found;
        complain("%s/%s.key is not the key of %s/%s.crt", folder, name, folder, name);
        ERR_clear_error();
    }
    credential_free(found);
    return NULL;
}

static bool put(FILE *file, const X509 *certificate, const EVP_PKEY *key)
{
    int done = key != NULL ? PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL)
                           : PEM_write_X509(file, certificate);
    return done == 1 && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

/* Writes the key, or when it is NULL the certificate, beside `path` first. link() then gives the
 * whole file its name, and unlike rename() fails when the name is taken. */
static bool write_file(const char *path, const X509 *certificate, const EVP_PKEY *key)
{
    char beside[PATH_BYTES + 8];
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    int fd = mkstemp(beside); /* mode 0600 */
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        complain("cannot write %s: %s", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
            unlink(beside);
        }
        return false;
    }
    bool done = put(file, certificate, key) && fchmod(fd, key != NULL ? 0600 : 0644) == 0;
    done = fclose(file) == 0 && done;
    done = done && link(beside, path) == 0;
    if (!done && errno == EEXIST)
        complain("%s exists and is not overwritten", path);
    else if (!done)
        complain("cannot write %s: %s", path, strerror(errno));
    unlink(beside);
    return done;
}

/* Making files in pairs, both should be known to be free before one is made. */
static bool is_free(const char *path)
{
    struct stat about;
    if (lstat(path, &about) != 0)
        return true;
    complain("%s exists and is not overwritten", path);
    return false;
}

bool credential_write(const struct credential *credential, const char *folder, const char *name)
{
    char certificate_path[PATH_BYTES], key_path[PATH_BYTES];
    if (!path_of(certificate_path, folder, name, "crt") ||
        !path_of(key_path, folder, name, "key") || !is_free(certificate_path) ||
        !is_free(key_path) || !write_file(key_path, NULL, credential->key))
        return false;
    if (write_file(certificate_path, credential->certificate, NULL))
        return true;
    unlink(key_path);
    return false;
}

/* ---- Facts ------------------------------------------------------------------------------------- */

/* Names come from files that others may have written; only plain letters go to the terminal. */
static void copy_name(const X509 *certificate, char *name, size_t n_name)
{
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                                  (int)n_name) < 0)
        snprintf(name, n_name, "-");
    for (char *at = name; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
}

static bool copy_end(const X509 *certificate, struct certificate_facts *facts)
{
    const ASN1_TIME *end = X509_get0_notAfter(certificate);
    struct tm when;
    if (ASN1_TIME_to_tm(end, &when) != 1)
        return false;
    strftime(facts->expires, sizeof facts->expires, "%Y-%m-%d %H:%M UTC", &when);
    facts->has_expired = X509_cmp_current_time(end) < 0;
    return true;
}

/* The permissions of others to a key; 0 when there is none. */
static unsigned others_mode(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct stat about;
    if (!path_of(path, folder, name, "key") || stat(path, &about) != 0)
        return 0;
    return about.st_mode & (S_IRWXG | S_IRWXO);
}

bool certificate_facts(const char *folder, const char *name, const char *authority,
                       struct certificate_facts *facts)
{
    X509 *certificate = read_certificate(folder, name);
    X509 *issuer = certificate != NULL ? read_certificate(folder, authority) : NULL;
    bool done = false;
    if (issuer != NULL) {
        copy_name(certificate, facts->name, sizeof facts->name);
        facts->key_mode = others_mode(folder, name);
        facts->is_authority = X509_check_ca(certificate) > 0;
        facts->is_ours = X509_verify(certificate, X509_get0_pubkey(issuer)) == 1;
        done = copy_end(certificate, facts);
        if (!done)
            complain("%s/%s.crt has no proper date", folder, name);
    }
    ERR_clear_error();
    X509_free(certificate);
    X509_free(issuer);
    return done;
}

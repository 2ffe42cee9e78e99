/* user_folder - see user_folder.h. */
#include "node/user_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static const char remedy[] =
    "set TMPDIR to a folder of your own, or TERN_COORDINATOR and TERN_TOKEN";

bool user_folder_path(size_t size, char *path)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0')
        parent = "/tmp";
    int n = snprintf(path, size, "%s/tern-%u", parent, (unsigned)geteuid());
    return n > 0 && (size_t)n < size;
}

static enum tern_status find_path(size_t size, char *path)
{
    if (user_folder_path(size, path))
        return TERN_OK;
    return fail(TERN_INVALID, "TMPDIR is too long for a path");
}

/* lstat, and not stat: a link may lead to what another user wants this one to open. */
static enum tern_status check_owner(const char *path, const struct stat *about, mode_t type)
{
    if ((about->st_mode & S_IFMT) != type)
        return fail(TERN_INVALID,
                    "%s is not a %s, so nodes cannot trust what is there: remove it, or %s", path,
                    type == S_IFDIR ? "folder" : "plain file", remedy);
    if (about->st_uid != geteuid())
        return fail(TERN_INVALID,
                    "%s belongs to another user (uid %u; this process is uid %u), who could take "
                    "over this job: %s",
                    path, (unsigned)about->st_uid, (unsigned)geteuid(), remedy);
    if ((about->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return fail(
            TERN_INVALID,
            "%s is open to other users (mode %03o): make it yours alone with chmod %s, or %s", path,
            (unsigned)(about->st_mode & 0777), type == S_IFDIR ? "700" : "600", remedy);
    return TERN_OK;
}

enum tern_status user_folder_make(void)
{
    char path[PATH_BYTES];
    struct stat about;
    enum tern_status status = find_path(sizeof path, path);
    if (status)
        return status;
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || lstat(path, &about) != 0)
        return fail(TERN_INVALID, "the folder %s cannot be made: %s; %s", path, strerror(errno),
                    remedy);
    return check_owner(path, &about, S_IFDIR);
}

/* ---- The secret ------------------------------------------------------------------------------- */

static bool write_random(int fd)
{
    unsigned char bytes[USER_SECRET_CHARACTERS / 2];
    char text[USER_SECRET_CHARACTERS + 1];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return write(fd, text, USER_SECRET_CHARACTERS) == USER_SECRET_CHARACTERS;
}

/* Writes the file beside its name first. link() then gives the whole file its name, and fails when another process
 * was first: that one's secret counts. */
static enum tern_status make_secret(const char *path)
{
    char beside[PATH_BYTES + 8];
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    int fd = mkstemp(beside); /* mode 0600 */
    bool made = fd >= 0 && write_random(fd) && (link(beside, path) == 0 || errno == EEXIST);
    int error = errno;
    if (fd >= 0) {
        close(fd);
        unlink(beside);
    }
    if (made)
        return TERN_OK;
    return fail(TERN_INVALID, "the secret %s cannot be made: %s; set TERN_TOKEN to one of your own",
                path, strerror(error));
}

static enum tern_status read_secret(const char *path, char secret[USER_SECRET_CHARACTERS + 1])
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        enum tern_status status =
            fail(TERN_INVALID, "the secret %s cannot be read: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    enum tern_status status = check_owner(path, &about, S_IFREG);
    char text[USER_SECRET_CHARACTERS + 1] = "";
    ssize_t n = status ? 0 : read(fd, text, sizeof text);
    close(fd);
    if (status)
        return status;
    if (n != USER_SECRET_CHARACTERS || strspn(text, "0123456789abcdef") != USER_SECRET_CHARACTERS)
        return fail(TERN_INVALID, "%s is not a secret of Tern; remove it", path);
    memcpy(secret, text, USER_SECRET_CHARACTERS);
    secret[USER_SECRET_CHARACTERS] = '\0';
    return TERN_OK;
}

enum tern_status user_folder_secret(char secret[USER_SECRET_CHARACTERS + 1])
{
    char folder[PATH_BYTES - 16], path[PATH_BYTES];
    enum tern_status status = find_path(sizeof folder, folder);
    if (!status)
        status = user_folder_make();
    if (status)
        return status;
    snprintf(path, sizeof path, "%s/secret", folder);
    struct stat about;
    if (lstat(path, &about) != 0)
        status = make_secret(path);
    return status ? status : read_secret(path, secret);
}

/* process - see process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same on all machines. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum { TEXT_BYTES = 1024, BEGAN_FIELD = 22, FIRST_FIELD = 3 /* behind the name */ };

/* When a process began, from its file `stat`; false if it cannot be read. */
static bool read_began(const char *path, uint64_t *began)
{
    char text[TEXT_BYTES];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* a name may have any character */
    for (int field = FIRST_FIELD; at && field <= BEGAN_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return false;
    *began = strtoull(at + 1, NULL, 10);
    return *began > 0;
}

static bool read_space(uint64_t *space)
{
    struct stat about;
    if (stat("/proc/self/ns/pid", &about))
        return false;
    *space = about.st_ino;
    return true;
}

bool process_self(struct process_name *name)
{
    *name = (struct process_name){.pid = (uint32_t)getpid()};
    return read_began("/proc/self/stat", &name->began) && read_space(&name->space);
}

bool process_is_gone(int fd)
{
    struct pollfd poll_for = {.fd = fd, .events = POLLIN};
    return poll(&poll_for, 1, 0) > 0;
}

/* The descriptor is taken first: if the process then still has the number, it was the one all the time. */
enum process_state process_find(const struct process_name *name, int *fd)
{
    char path[64];
    uint64_t space, began;
    *fd = -1;
    if (!read_space(&space) || space != name->space || name->pid == (uint32_t)getpid())
        return PROCESS_UNKNOWN;
    const int found = (int)syscall(SYS_pidfd_open, (pid_t)name->pid, 0);
    if (found < 0)
        return errno == ESRCH ? PROCESS_GONE : PROCESS_UNKNOWN;
    snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)name->pid);
    const bool is_read = read_began(path, &began);
    if (is_read && began == name->began && !process_is_gone(found)) {
        *fd = found;
        return PROCESS_LIVES;
    }
    const bool is_gone = process_is_gone(found) || (is_read && began != name->began);
    close(found);
    return is_gone ? PROCESS_GONE : PROCESS_UNKNOWN;
}

bool process_kill(int fd)
{
    return syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0 || errno == ESRCH;
}

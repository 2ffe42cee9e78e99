/* run_guard - see run_guard.h. */
#include "run_guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

/* The guard's life. A message is the number of a group, or 0 to forget all. */
static _Noreturn void stand_guard(int fd, const char *folder)
{
    pid_t groups[RUN_MAX_NODES], group;
    size_t n_groups = 0;
    setsid();
    prctl(PR_SET_NAME, "tern-guard");
    dup2(fd, STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
    for (ssize_t n; (n = read(STDIN_FILENO, &group, sizeof group)) != 0;) {
        if (n < 0 && errno != EINTR)
            break;
        if (n == sizeof group && group == 0)
            n_groups = 0;
        else if (n == sizeof group && n_groups < RUN_MAX_NODES)
            groups[n_groups++] = group;
    }
    for (size_t i = 0; i < n_groups; i++)
        kill(-groups[i], SIGKILL);
    if (folder[0] != '\0')
        remove_folder(folder);
    _exit(0);
}

bool guard_start(struct guard *guard, const char *folder)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        goto no_pipe;
    guard->pid = fork();
    if (guard->pid < 0)
        goto no_process;
    if (guard->pid == 0) {
        close(ends[1]);
        stand_guard(ends[0], folder);
    }
    close(ends[0]);
    guard->fd = ends[1];
    return true;

    int error;
no_process:
    error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
no_pipe:
    error = errno;
    if (folder[0] != '\0')
        rmdir(folder);
    errno = error;
    return false;
}

/* A write of this size to a pipe is whole; one that fails means that there is no guard any more, and
 * then each node still ends with tern run by itself. */
static void tell(const struct guard *guard, pid_t group)
{
    while (write(guard->fd, &group, sizeof group) < 0 && errno == EINTR)
        ;
}

void guard_add(const struct guard *guard, pid_t group)
{
    tell(guard, group);
}

void guard_forget(const struct guard *guard)
{
    tell(guard, 0);
}

void guard_finish(struct guard *guard)
{
    close(guard->fd);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

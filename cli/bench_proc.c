/* bench_proc - see bench_proc.h. */
#include "bench_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"

uint64_t proc_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void proc_sleep_ms(double ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1e3)};
    left.tv_nsec = (long)((ms - (double)left.tv_sec * 1e3) * 1e6);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

uint64_t proc_resident_bytes(void)
{
    unsigned long long n_all = 0, n_resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu %llu", &n_all, &n_resident) != 2)
        n_resident = 0;
    fclose(file);
    return n_resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool proc_remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
    if (rmdir(path) == 0)
        return true;
    complain("cannot remove %s: %s", path, strerror(errno));
    return false;
}

/* bench_proc - what benchmarks ask the system: the time, this process's memory, and a folder's end. */
#ifndef CLI_BENCH_PROC_H
#define CLI_BENCH_PROC_H

#include <stdbool.h>
#include <stdint.h>

/* On the monotonic clock. */
uint64_t proc_now_ns(void);
void proc_sleep_ms(double ms);

/* Of this process; 0: not known. */
uint64_t proc_resident_bytes(void);

/* Removes a folder of files; false after an error message. */
bool proc_remove_folder(const char *path);

#endif

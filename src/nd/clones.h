/*
 * clones - CLONES in front of a function has it compiled for wider vectors too; the processor chooses when the library is
 * loaded. All give the same bits: nothing is contracted or put into another order.
 */
#ifndef ND_CLONES_H
#define ND_CLONES_H

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__clang__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#endif

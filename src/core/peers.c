/* peers - see peers.h. */
#include "core/peers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/defect.h"
#include "wire/bytes.h"

enum { ROSTER_ENTRY_BYTES = 8 + 8 + 2 }; /* without the address */

enum tern_status peers_init(struct peers *peers, const struct view *view, uint64_t deadline_ns)
{
    *peers = (struct peers){.view = view, .deadline_ns = deadline_ns};
    peers->addresses = calloc(view_capacity(view), sizeof *peers->addresses);
    peers->incarnations = calloc(view_capacity(view), sizeof *peers->incarnations);
    peers->hosts = calloc(view_capacity(view), sizeof *peers->hosts);
    if (peers->addresses && peers->incarnations && peers->hosts)
        return TERN_OK;
    return fail(TERN_NO_MEMORY, "no memory for a cluster of %" PRIu32 " nodes", view_n_nodes(view));
}

void peers_fini(struct peers *peers)
{
    free(peers->addresses);
    free(peers->incarnations);
    free(peers->hosts);
}

enum tern_status peers_read_roster(struct peers *peers, const uint8_t *bytes, size_t size)
{
    view_each (i, peers->view) {
        size_t length = size >= ROSTER_ENTRY_BYTES ? get_u16(bytes + 16) : SIZE_MAX;
        if (length >= sizeof peers->addresses[0] || size - ROSTER_ENTRY_BYTES < length)
            return fail(TERN_PEER, "the coordinator sent a broken list of nodes");
        peers->incarnations[i] = get_u64(bytes);
        peers->hosts[i] = get_u64(bytes + 8);
        memcpy(peers->addresses[i], bytes + ROSTER_ENTRY_BYTES, length);
        peers->addresses[i][length] = '\0';
        bytes += ROSTER_ENTRY_BYTES + length;
        size -= ROSTER_ENTRY_BYTES + length;
    }
    log_line("joined a cluster of %" PRIu32 " nodes", view_n_nodes(peers->view));
    return TERN_OK;
}

bool peers_is_member(const struct peers *peers, uint32_t node, uint64_t incarnation)
{
    const uint64_t joined = peers->incarnations[node];
    return !joined || joined == incarnation;
}

void peers_give_up(struct peers *peers, uint32_t node)
{
    if (atomic_exchange_explicit(&peers->dead, node + 1, memory_order_relaxed) != node + 1)
        log_line("node %" PRIu32 " at %s is dead: it gave no sign of life for %.1f s", node,
                 peers->addresses[node], (double)peers->deadline_ns / 1e9);
}

/* A HOLD counts for half a deadline: twice as long as until the next. */
static bool is_held(const struct peers *peers, uint64_t now_ns)
{
    const uint64_t held_ns = peers_held_ns(peers);
    return held_ns && now_ns < held_ns + peers->deadline_ns / 2;
}

void peers_take_hold(struct peers *peers, uint64_t hops, uint64_t now_ns)
{
    const uint64_t held = atomic_load_explicit(&peers->held, memory_order_relaxed);
    if (defect(DEFECT_HOLD_ECHOED))
        hops = 0;
    if (hops >= HOLD_HOPS || (is_held(peers, now_ns) && hops > held % HOLD_HOPS))
        return;
    atomic_store_explicit(&peers->held, now_ns * HOLD_HOPS + hops, memory_order_relaxed);
}

uint64_t peers_hold_hops(const struct peers *peers, uint64_t now_ns)
{
    const uint64_t held = atomic_load_explicit(&peers->held, memory_order_relaxed);
    return is_held(peers, now_ns) ? held % HOLD_HOPS + 1 : HOLD_HOPS;
}

enum tern_status peers_check_dead(const struct peers *peers)
{
    const uint32_t dead = peers_dead(peers);
    if (!dead)
        return TERN_OK;
    return fail(TERN_PEER,
                "node %" PRIu32 " at %s was given up: it gave no sign of life for %.1f s", dead - 1,
                peers->addresses[dead - 1], (double)peers->deadline_ns / 1e9);
}

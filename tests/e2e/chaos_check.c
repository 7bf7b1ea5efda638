/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold when nothing is under way, and what must be back when nobody is left. One thread; what comes in time
 * gets WAIT_MS.
 */
#include "chaos_runner.h"

#include <stdlib.h>
#include <string.h>

#define GPU_SLACK 4u /* descriptors; a leak is one a client, and there are more clients */

size_t maps_of(pid_t pid)
{
    char path[64], line[512];
    size_t count = 0;

    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *const file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        count += strstr(line, "memfd:") != NULL;
    if (file != NULL)
        fclose(file);
    return count;
}

/* ---- What the ledgers say about one life of the daemon ---- */

struct audit {
    uint64_t done;    /* answered OK */
    uint64_t unknown; /* what became of them nobody can say: their client died, or the connection ended */
    uint64_t refused; /* by the library or by the daemon */
    uint64_t answered, cancelled, lost;
};

static void audit_record(struct runner *r, const struct ledger *l, const struct record *record, struct audit *audit)
{
    const int state = record->state;

    if (state == RECORD_ACCEPTED && !l->dead)
        complain(r->world, "client %u.%u: job %u (%s) was accepted and never answered", l->slot, l->incarnation,
                 (uint32_t)(record - l->record), gm_op_name(record->op));
    if (state == RECORD_SENDING || state == RECORD_ACCEPTED)
        audit->unknown++;
    audit->refused += state == RECORD_REFUSED;
    if (state != RECORD_ANSWERED)
        return;
    audit->answered++;
    audit->done += record->status == GM_OK;
    audit->cancelled += record->status == GM_ECANCELLED;
    audit->lost += record->status == GM_EDEVICELOST;
    audit->unknown += record->status == GM_ECLOSED;
}

static struct audit audit_life(struct runner *r, uint32_t life)
{
    struct audit audit = {0};

    for (uint32_t i = 0; i < r->world->ledgers; i++) {
        const struct ledger *const l = &r->world->ledger[i];
        for (uint32_t k = 0; k < l->records && k < RECORDS_MAX; k++)
            if (l->record[k].life == life)
                audit_record(r, l, &l->record[k], &audit);
    }
    return audit;
}

/* In this life of the daemon. */
static bool was_lost(const struct runner *r)
{
    bool lost = false;

    for (uint32_t d = 0; d < r->seen.devices; d++)
        lost |= (pid_t)r->seen.device[d].pid != r->first[d] || r->world->doomed[d] == r->world->life;
    return lost;
}

/* NULL, or what does not agree. Of what a device answered last before it was killed nobody knows the kind; it is
 * counted as done. */
static const char *audit_wrong(struct runner *r, const struct figures *f, const struct audit *audit)
{
    static char words[500];
    const uint64_t sent = audit->answered + audit->refused + audit->unknown;
    uint64_t done = 0, submitted = 0, failed = 0, rejected = 0, cancelled = 0;

    for (uint32_t d = 0; d < f->devices; d++) {
        done += f->device[d].done, submitted += f->device[d].submitted, failed += f->device[d].failed;
        rejected += f->device[d].rejected, cancelled += f->device[d].cancelled;
    }
    snprintf(words, sizeof words,
             "the daemon counts submitted %" PRIu64 " done %" PRIu64 " failed %" PRIu64 " rejected %" PRIu64
             " cancelled %" PRIu64 ", the ledgers answered %" PRIu64 " done %" PRIu64 " cancelled %" PRIu64
             " lost %" PRIu64 " refused %" PRIu64 " unknown %" PRIu64,
             submitted, done, failed, rejected, cancelled, audit->answered, audit->done, audit->cancelled, audit->lost,
             audit->refused, audit->unknown);
    const bool exact = !was_lost(r);
    if (done > (exact ? audit->done + audit->unknown : sent) || (exact && done < audit->done))
        return words;
    if (cancelled > audit->cancelled + audit->unknown || (exact && cancelled < audit->cancelled))
        return words;
    /* What is refused before it has a device is counted elsewhere. */
    if (submitted > sent || (exact && submitted < audit->done + audit->cancelled))
        return words;
    r->summary = words;
    return NULL;
}

/* Counters of lanes come out when the dispatcher has nothing else to do. */
static void check_audit(struct runner *r)
{
    const struct audit audit = audit_life(r, r->world->life);
    const uint64_t end_ms = now_ms() + WAIT_MS / 4;
    const char *wrong;
    struct figures f;

    do {
        runner_figures(r, &f);
        wrong = audit_wrong(r, &f, &audit);
        if (wrong != NULL && now_ms() > end_ms)
            complain(r->world, "%s", wrong);
        sleep_ms(wrong != NULL ? 2 : 0);
    } while (wrong != NULL);
    note(r->world, "quiet: %s", r->summary);
}

/* ---- At rest ---- */

struct rest {
    uint64_t sessions, arenas, arena_bytes;
    uint64_t attached; /* handles on named arenas, of which none lives between the rounds */
};

static struct rest expected_rest(const struct runner *r)
{
    struct rest rest = {.sessions = 1};
    struct named named;

    if (!figures_named(r->observer, &named))
        complain(r->world, "the daemon does not list its arenas");
    rest.arenas = named.count, rest.arena_bytes = named.bytes, rest.attached = named.attached;

    for (uint32_t i = 0; i < CLIENTS_MAX; i++) {
        const struct ledger *const l = r->client[i];
        if (l == NULL || l->life != r->world->life)
            continue;
        rest.sessions++;
        rest.arenas += l->arenas;
        rest.arena_bytes += l->arena_bytes;
    }
    return rest;
}

static bool holders_left(const struct runner *r)
{
    bool left = false;

    for (uint32_t i = 0; i < r->world->ledgers; i++)
        left |= r->world->ledger[i].holder != 0;
    return left;
}

static bool at_rest(struct runner *r, const struct figures *f)
{
    const struct rest rest = expected_rest(r);
    bool still = f->sessions == rest.sessions && f->arenas == rest.arenas && f->arena_bytes == rest.arena_bytes &&
                 rest.attached == 0;

    for (uint32_t d = 0; d < f->devices; d++) {
        const bool doomed = r->world->doomed[d] == r->world->life;
        const bool up = strcmp(f->device[d].state, "up") == 0 || strcmp(f->device[d].state, "asleep") == 0;
        const bool lost = doomed && strcmp(f->device[d].state, "lost") == 0;
        still &= f->device[d].depth == 0 && (pid_t)f->device[d].pid != r->gone[d] && (up || lost);
    }
    return still && !holders_left(r);
}

static void complain_of_unrest(struct runner *r, const struct figures *f)
{
    const struct rest rest = expected_rest(r);

    complain(r->world,
             "no rest: sessions %" PRIu64 " instead of %" PRIu64 ", arenas %" PRIu64 " instead of %" PRIu64
             ", bytes %" PRIu64 " instead of %" PRIu64 ", device 0 %s depth %" PRIu64 ", device 1 %s depth %" PRIu64
             ", attached %" PRIu64 ", forked children %d",
             f->sessions, rest.sessions, f->arenas, rest.arenas, f->arena_bytes, rest.arena_bytes, f->device[0].state,
             f->device[0].depth, f->device[1].state, f->device[1].depth, rest.attached, holders_left(r));
}

void check_quiet(struct runner *r)
{
    const uint64_t start_ms = now_ms();
    struct figures f;

    for (runner_figures(r, &f); !at_rest(r, &f); runner_figures(r, &f)) {
        if (now_ms() - start_ms > WAIT_MS)
            complain_of_unrest(r, &f);
        runner_reap(r);
        sleep_ms(2);
    }
    note(r->world, "at rest after %" PRIu64 " ms", now_ms() - start_ms);
    check_audit(r);
    for (uint32_t d = 0; d < f.devices; d++) {
        const bool armed = r->drill && (pid_t)f.device[d].pid == r->first[d];
        r->world->repaired[d] = r->world->losses[d] - armed;
    }
}

/* ---- Nobody left ---- */

/* On a GPU the driver has descriptors of its own, and closes some when it likes. */
static bool at_base(const struct runner *r, pid_t pid, uint32_t d)
{
    const size_t fds = descriptors_of(pid), maps = maps_of(pid);

    if (on_gpu() && d == 0)
        return fds <= r->device_fds[d] + GPU_SLACK && maps <= r->device_maps[d];
    return fds == r->device_fds[d] && maps == r->device_maps[d];
}

void check_device_base(struct runner *r, const struct figures *f, uint32_t d)
{
    const uint64_t end_ms = now_ms() + WAIT_MS;
    const pid_t pid = (pid_t)f->device[d].pid;

    if (strcmp(f->device[d].state, "lost") == 0)
        return;
    while (!at_base(r, pid, d)) {
        if (now_ms() > end_ms)
            complain(r->world, "device %u has %zu descriptors instead of %zu, maps %zu memory files instead of %zu", d,
                     descriptors_of(pid), r->device_fds[d], maps_of(pid), r->device_maps[d]);
        sleep_ms(5);
    }
}

static void remove_named(struct runner *r)
{
    struct named named;

    if (!figures_named(r->observer, &named))
        complain(r->world, "the daemon does not list its arenas");
    for (uint32_t i = 0; i < named.count; i++) {
        const int rc = gm_arena_remove(r->observer, named.name[i], in_ms(WAIT_MS));
        if (rc != GM_OK)
            complain(r->world, "gm_arena_remove: %s", gm_status_name(rc));
    }
}

void check_base(struct runner *r)
{
    const struct gm_request nop = gm_request("nop", GM_NO_ELEMENT, 0);
    const uint64_t end_ms = now_ms() + WAIT_MS;
    uint64_t lanes = 0;
    struct figures f;

    check_quiet(r);
    remove_named(r);
    do {
        runner_figures(r, &f);
        lanes = f.device[0].lanes + f.device[1].lanes;
        if (now_ms() > end_ms)
            complain(r->world, "with no client left: %" PRIu64 " descriptors instead of %" PRIu64 ", %" PRIu64
                     " lanes, %" PRIu64 " arenas, %" PRIu64 " bytes", f.fds, r->base_fds, lanes, f.arenas,
                     f.arena_bytes);
        sleep_ms(2);
    } while (f.fds != r->base_fds || lanes != 0 || f.arenas != 0 || f.arena_bytes != 0);
    for (uint32_t d = 0; d < f.devices; d++)
        check_device_base(r, &f, d);
    struct gm_client *const client = daemon_open(&r->daemon);
    if (gm_run(client, &nop, in_ms(WAIT_MS), NULL) != GM_OK)
        complain(r->world, "in the end a new client's job is not done");
    gm_close(client);
}

void check_log(struct runner *r)
{
    static const char *const bad[] = {"WARNING: ThreadSanitizer", "LeakSanitizer", "Assertion", "-buffer-overflow",
                                      "use-after", "Sanitizer", "runtime error:"};
    /* The last two are also what sanitizers say of the faults that some drills commit. */
    const size_t count = sizeof bad / sizeof *bad - (r->drill_crashes ? 2u : 0);

    for (size_t i = 0; i < count; i++)
        if (daemon_logged(&r->daemon, bad[i]))
            complain(r->world, "the log has %s", bad[i]);
}

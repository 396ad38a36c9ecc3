/*
 * Evidence of the transport, from outside the library: what the interfaces carried while two
 * processes exchanged data, and which memory both have mapped.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { MAPPINGS_MAX = 256, SMALL = 8, LARGE = 1 << 20, SMALL_ROUNDS = 2000, LARGE_ROUNDS = 32 };

struct mapping {
    char identity[40];      /* device and inode: the same file in two processes */
    char name[80];
};

/* Bytes that interfaces received since they were made. */
struct received {
    double loopback, network;
};

static struct received bytes_received(void)
{
    FILE *file = fopen("/proc/net/dev", "r");
    struct received received = {0};
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon)
            continue;
        bool is_loopback = strstr(line, "lo:") != NULL;
        *(is_loopback ? &received.loopback : &received.network) += strtod(colon + 1, NULL);
    }
    if (file)
        fclose(file);
    return received;
}

/* Writable mappings that are shared between processes and backed by one object. */
static int read_shared_mappings(struct mapping *mappings)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (file && count < MAPPINGS_MAX && fgets(line, sizeof line, file)) {
        char permissions[8], offset[24], device[16], inode[24], name[256] = "";
        if (sscanf(line, "%*s %7s %23s %15s %23s %255[^\n]", permissions, offset, device, inode,
                   name) < 4)
            continue;
        if (permissions[1] != 'w' || permissions[3] != 's' || strcmp(inode, "0") == 0)
            continue;
        snprintf(mappings[count].identity, sizeof mappings[count].identity, "%s %s", device,
                 inode);
        snprintf(mappings[count].name, sizeof mappings[count].name, "%.79s", name);
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

static double exchange(struct job *job, int bytes, int rounds)
{
    char *buffer = buffer_new(job, (size_t)bytes);
    int peer = 1 - job->rank;
    for (int i = 0; i < rounds; i++) {
        if (job->rank == 0)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 1, job->pair);
        MPI_Recv(buffer, bytes, MPI_BYTE, peer, 1, job->pair, MPI_STATUS_IGNORE);
        if (job->rank == 1)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 1, job->pair);
    }
    free(buffer);
    return 2.0 * bytes * rounds;
}

static bool is_new(const struct mapping *mappings, int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(mappings[i].identity, mappings[index].identity) == 0)
            return false;
    return true;
}

/* Counts and names what both lists contain. */
static int intersect(const struct mapping *mine, int my_count, const struct mapping *theirs,
                     int their_count, char *names, size_t names_size)
{
    int shared = 0;
    size_t used = 0;
    names[0] = '\0';
    for (int i = 0; i < my_count; i++) {
        bool found = false;
        for (int k = 0; k < their_count && !found; k++)
            found = strcmp(mine[i].identity, theirs[k].identity) == 0;
        if (!found || !is_new(mine, i))
            continue;
        if (used + 100 < names_size)
            used += (size_t)snprintf(names + used, names_size - used, "%s%s", shared ? "; " : "",
                                     mine[i].name);
        shared++;
    }
    return shared;
}

void show_transport(struct job *job)
{
    if (job->pair == MPI_COMM_NULL)
        return;
    job_describe(job, "transport", "", 0);
    struct mapping *mine = buffer_new(job, MAPPINGS_MAX * sizeof *mine);
    struct mapping *theirs = buffer_new(job, MAPPINGS_MAX * sizeof *theirs);
    exchange(job, SMALL, 1);
    exchange(job, LARGE, 1);
    struct received before = bytes_received();
    double payload = exchange(job, SMALL, SMALL_ROUNDS) + exchange(job, LARGE, LARGE_ROUNDS);
    struct received after = bytes_received();
    int my_count = read_shared_mappings(mine);
    if (job->rank == 1) {
        MPI_Send(mine, (int)(MAPPINGS_MAX * sizeof *mine), MPI_BYTE, 0, 2, job->pair);
        MPI_Send(&my_count, 1, MPI_INT, 0, 2, job->pair);
    } else {
        char names[600];
        int their_count = 0;
        MPI_Recv(theirs, (int)(MAPPINGS_MAX * sizeof *theirs), MPI_BYTE, 1, 2, job->pair,
                 MPI_STATUS_IGNORE);
        MPI_Recv(&their_count, 1, MPI_INT, 1, 2, job->pair, MPI_STATUS_IGNORE);
        int shared = intersect(mine, my_count, theirs, their_count, names, sizeof names);
        report_transport(job, payload, after.loopback - before.loopback,
                         after.network - before.network, shared, names);
    }
    free(mine);
    free(theirs);
}

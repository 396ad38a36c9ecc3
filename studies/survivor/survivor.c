/* A solver that continues when a process is killed: the heat equation in one dimension, with checkpoints in memory.
 *
 *     mpicc -O2 survivor.c -o survivor -lm
 *     combray run --keep-going -n 4 ./survivor [POINTS [GROUPS [REPETITIONS]]]
 *
 * Each process has a part of the points. After each GROUP iterations it keeps a copy of its part, and its successor
 * keeps another. Cases:
 *
 *     plain        no checkpoints
 *     checkpoints  with checkpoints, which nobody needs
 *     killed       the last process ends by SIGKILL in the middle of a group; the others revoke the communicator,
 *                  make one of the survivors, gather the last checkpoint, divide it anew and continue
 *
 * Points are computed in the same order by any number of processes, so all cases have the same bits. */
#define _POSIX_C_SOURCE 200112L
#include "../study.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#include <signal.h>
#include <unistd.h>

enum { PLAIN, CHECKPOINTS, KILLED, CASES, GROUP = 20 };
static const char *const NAMES[] = {"plain", "checkpoints", "killed"};

/* Points `first` to `first + count`. */
struct part {
    int first, count;
    double *values;
};

static MPI_Comm team;
static int points, team_rank, team_size;
static struct part now, own_copy, copy_before; /* the copies are of the last checkpoint */
static double communication, *next_values;

static double initial(int i) {
    return (double)((long)i * 7919 % 1009) / 1009;
}

static void set_part(struct part *part, int first, int count) {
    free(part->values);
    *part = (struct part){first, count, study_allocate((size_t)count + 2, sizeof(double))};
}

/* The part of a process of the team, without values. */
static struct part share_of(int process) {
    int first = (int)((long)points * process / team_size);
    return (struct part){first, (int)((long)points * (process + 1) / team_size) - first, NULL};
}

static void join(MPI_Comm communicator) {
    team = communicator;
    MPI_Comm_set_errhandler(team, MPI_ERRORS_RETURN);
    MPI_Comm_rank(team, &team_rank);
    MPI_Comm_size(team, &team_size);
    struct part mine = share_of(team_rank);
    set_part(&now, mine.first, mine.count);
    free(next_values);
    next_values = study_allocate((size_t)mine.count + 2, sizeof *next_values);
}

/* ---- Iterations ---- */

/* Returns whether all messages were exchanged. */
static int iterate(void) {
    int before = team_rank > 0 ? team_rank - 1 : MPI_PROC_NULL, after = team_rank + 1 < team_size ? team_rank + 1 : MPI_PROC_NULL;
    double *values = now.values;
    double started = MPI_Wtime();
    int failed = MPI_Sendrecv(values + 1, 1, MPI_DOUBLE, before, 0, values + now.count + 1, 1, MPI_DOUBLE, after, 0, team,
                              MPI_STATUS_IGNORE) != MPI_SUCCESS;
    failed |= MPI_Sendrecv(values + now.count, 1, MPI_DOUBLE, after, 1, values, 1, MPI_DOUBLE, before, 1, team,
                           MPI_STATUS_IGNORE) != MPI_SUCCESS;
    communication += MPI_Wtime() - started;
    if (failed) return 0;
    for (int i = 1; i <= now.count; i++) next_values[i] = values[i] + 0.25 * (values[i - 1] - 2 * values[i] + values[i + 1]);
    memcpy(values + 1, next_values + 1, (size_t)now.count * sizeof *values);
    return 1;
}

static void run_group(int case_number, int group, int groups) {
    for (int i = 0; i < GROUP; i++) {
        if (case_number == KILLED && group == groups / 2 && i == GROUP / 2 && team_size == size && team_rank == size - 1)
            kill(getpid(), SIGKILL);
        if (iterate()) continue;
        /* Processes that have no failed neighbour learn of the failure by this. */
        MPIX_Comm_revoke(team);
        return;
    }
}

/* ---- Checkpoints ---- */

/* Keeps a copy of this process's part, and one of its predecessor's. All agree whether all have done so; if not, the
 * checkpoint before is still complete. */
static int save(void) {
    struct part mine = {0}, before = {0}, theirs = share_of((team_rank + team_size - 1) % team_size);
    set_part(&mine, now.first, now.count);
    memcpy(mine.values, now.values, ((size_t)now.count + 2) * sizeof(double));
    set_part(&before, theirs.first, theirs.count);
    double started = MPI_Wtime();
    int done = MPI_Sendrecv(mine.values, mine.count + 2, MPI_DOUBLE, (team_rank + 1) % team_size, 2, before.values,
                            before.count + 2, MPI_DOUBLE, (team_rank + team_size - 1) % team_size, 2, team,
                            MPI_STATUS_IGNORE) == MPI_SUCCESS;
    int agreed = MPIX_Comm_agree(team, &done) == MPI_SUCCESS && done;
    communication += MPI_Wtime() - started;
    free(agreed ? own_copy.values : mine.values);
    free(agreed ? copy_before.values : before.values);
    if (agreed) {
        own_copy = mine;
        copy_before = before;
    }
    return agreed;
}

/* Fills `whole` with the last checkpoint: parts, and copies of the parts of processes that have ended. */
static void gather_checkpoint(double *whole) {
    double *found = study_allocate((size_t)points, sizeof *found);
    int *times = study_allocate(2 * (size_t)points, sizeof *times), *all_times = times + points;
    for (int copy = 0; copy < 2; copy++) {
        const struct part *part = copy ? &copy_before : &own_copy;
        for (int i = 0; i < part->count; i++) {
            found[part->first + i] += part->values[i + 1];
            times[part->first + i]++;
        }
    }
    MPI_Allreduce(found, whole, points, MPI_DOUBLE, MPI_SUM, team);
    MPI_Allreduce(times, all_times, points, MPI_INT, MPI_SUM, team);
    /* Twice the same number, divided by two, is that number. */
    for (int i = 0; i < points; i++) whole[i] /= all_times[i];
    free(found);
    free(times);
}

static void recover(void) {
    MPI_Comm survivors;
    double started = MPI_Wtime();
    double *whole = study_allocate((size_t)points, sizeof *whole);
    MPIX_Comm_revoke(team);
    if (MPIX_Comm_shrink(team, &survivors) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
    join(survivors);
    gather_checkpoint(whole);
    memcpy(now.values + 1, whole + now.first, (size_t)now.count * sizeof *whole);
    free(whole);
    communication += MPI_Wtime() - started;
    if (!save()) MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- A case and its proof ---- */

static double wrong_points(int iterations) {
    double *values = study_allocate((size_t)points + 2, sizeof *values), *next = study_allocate((size_t)points + 2, sizeof *next);
    double wrong = 0;
    for (int i = 0; i < points; i++) values[i + 1] = initial(i);
    for (int iteration = 0; iteration < iterations; iteration++) {
        for (int i = 1; i <= points; i++) next[i] = values[i] + 0.25 * (values[i - 1] - 2 * values[i] + values[i + 1]);
        memcpy(values + 1, next + 1, (size_t)points * sizeof *values);
    }
    for (int i = 1; i <= now.count; i++) wrong += now.values[i] != values[now.first + i];
    free(values);
    free(next);
    return wrong;
}

static void run(int case_number, int groups) {
    for (int i = 0; i < now.count; i++) now.values[i + 1] = initial(now.first + i);
    communication = 0;
    MPI_Barrier(team);
    double started = MPI_Wtime();
    if (case_number != PLAIN && !save()) MPI_Abort(MPI_COMM_WORLD, 1);
    for (int group = 0; group < groups;) {
        run_group(case_number, group, groups);
        if (case_number == PLAIN || save())
            group++;
        else
            recover();
    }
    double total = MPI_Wtime() - started;
    study_processes = team;
    rank = team_rank;
    if (case_number == KILLED) size = team_size;
    study_case(NAMES[case_number], total, communication);
    study_verify(NAMES[case_number], wrong_points(groups * GROUP), 0);
}

int main(int argc, char **argv) {
    study_begin("survivor", &argc, &argv, MPI_THREAD_SINGLE);
    points = study_number(argc, argv, 1, 20000);
    int groups = study_number(argc, argv, 2, 20), repetitions = study_number(argc, argv, 3, 1);
    study_need(size > 1 && points >= 2 * size && points <= 10000000 && groups && repetitions,
               "survivor [POINTS [GROUPS [REPETITIONS]]]: at least two processes, at least two points for each");
    MPI_Comm all;
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    join(all);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int case_number = PLAIN; case_number < KILLED; case_number++) run(case_number, groups);
    run(KILLED, groups);
    return study_end();
}

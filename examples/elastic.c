/* A program that runs on while its processes become more, fewer, or fail: heat on a square, whose rows
 * are divided among the processes.
 *
 *     mpicc -O2 elastic.c -o elastic
 *     combray run --keep-going -n 3 ./elastic [POINTS [ITERATIONS [PAUSE [sessions]]]]
 *
 * While it runs, `combray resize +2` adds two processes, `combray resize 8 --hosts c,d` uses further
 * hosts, and `combray resize -1` removes a process. A process that is killed is replaced. The result
 * is that of an undisturbed run, bit by bit. PAUSE is a time in milliseconds between two groups of
 * iterations, so that there is time to try it.
 *
 * After each group of iterations all processes agree whether it has succeeded. If so, each process keeps
 * a copy of its rows, and another one of the rows of its predecessor: together they are a checkpoint in
 * memory. If not, the survivors make a communicator of themselves, and go back to the checkpoint. Then
 * the program compares its size with the size that is wanted:
 *
 *   grow:    MPI_Comm_spawn, MPI_Intercomm_merge, and new borders between the rows of the processes;
 *   shrink:  new borders, MPI_Comm_split, and the others end;
 *   recover: MPIX_Comm_revoke, MPIX_Comm_agree, MPIX_Comm_shrink, and the rows of the checkpoint.
 *
 * With the last argument, the program uses sessions instead of MPI_Init. Then a process that leaves ends, while
 * in MPI_Finalize it would wait for its MPI_COMM_WORLD. The processes that compute are a process set, which
 * changes with them: the part of the program that adds the result up finds them by that set. */
#define _POSIX_C_SOURCE 200112L
#include <combray.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GROUP = 20 };

/* Rows `first` to `first + count` of the square. */
struct rows {
    int first, count;
    double *values;
};

/* A state of the whole square, of which each process has its rows and those of its predecessor. */
struct checkpoint {
    int iteration;
    struct rows own, before;
};

static int points = 192, iterations = 2000, pause_ms;
static char **arguments;
/* All processes that compute. Rank 0 is one of the oldest. */
static MPI_Comm team = MPI_COMM_NULL;
/* Not null: there is no MPI_COMM_WORLD. */
static MPI_Session session = MPI_SESSION_NULL;
/* The process set of the team. */
static const char *const team_set = "app://elastic/team";
/* How many processes there should be if the user has not asked for another number. */
static int usual_size;
static int iteration;
static struct rows now;
static struct checkpoint saved;

static void give_up(int code) {
    if (session == MPI_SESSION_NULL)
        MPI_Abort(MPI_COMM_WORLD, code);
    if (team != MPI_COMM_NULL)
        MPI_Abort(team, code);
    exit(code);
}

static void *allocate(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) {
        fprintf(stderr, "elastic: there is not enough memory\n");
        give_up(1);
    }
    return memory;
}

static struct rows make_rows(int first, int count) {
    return (struct rows){first, count, allocate((size_t)count * (size_t)points * sizeof(double))};
}

static struct rows copy_of(const struct rows *rows) {
    struct rows copy = make_rows(rows->first, rows->count);
    memcpy(copy.values, rows->values, (size_t)rows->count * (size_t)points * sizeof(double));
    return copy;
}

static void replace(struct rows *rows, struct rows by) {
    free(rows->values);
    *rows = by;
}

static int first_row(int rank, int size) { return (int)((long)points * rank / size); }

/* All processes of a communicator return whether all of them have succeeded. Those that have not make
 * the operations of the others fail, so that nobody waits. */
static int all_succeeded(MPI_Comm communicator, int succeeded) {
    if (!succeeded)
        MPIX_Comm_revoke(communicator);
    int agreed = succeeded;
    return MPIX_Comm_agree(communicator, &agreed) == MPI_SUCCESS && agreed;
}

static void be_told_of_errors(MPI_Comm communicator) { MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN); }

/* Divides the rows among the first `members` processes of a communicator. Each process contributes up to two
 * pieces; a row that several have comes from the lowest rank, and its own piece counts first. */
static int divide(MPI_Comm communicator, const struct rows *pieces[2], int members, struct rows *result) {
    int rank, size;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &size);
    int mine[4] = {0, 0, 0, 0};
    for (int piece = 0; piece < 2; piece++)
        if (pieces[piece]) {
            mine[2 * piece] = pieces[piece]->first;
            mine[2 * piece + 1] = pieces[piece]->count;
        }
    int *all = allocate((size_t)size * sizeof mine);
    int code = MPI_Allgather(mine, 4, MPI_INT, all, 4, MPI_INT, communicator);
    if (code != MPI_SUCCESS) {
        free(all);
        return code;
    }
    /* The process from which each row comes. */
    int *source = allocate((size_t)points * sizeof *source);
    for (int row = 0; row < points; row++)
        source[row] = -1;
    for (int piece = 0; piece < 2; piece++)
        for (int from = 0; from < size; from++)
            for (int row = all[4 * from + 2 * piece], n = all[4 * from + 2 * piece + 1]; n > 0; n--, row++)
                if (source[row] < 0)
                    source[row] = from;
    for (int row = 0; row < points; row++)
        if (source[row] < 0) {
            fprintf(stderr, "elastic: row %d is lost: two neighbours failed between two checkpoints\n", row);
            give_up(3);
        }
    /* Numbers of values, and where they begin in the buffers, for each process. */
    int *counts = allocate((size_t)size * 4 * sizeof *counts);
    int *sent = counts, *sent_at = counts + size, *received = counts + 2 * size, *received_at = counts + 3 * size;
    struct rows divided = make_rows(0, 0);
    if (rank < members)
        replace(&divided, make_rows(first_row(rank, members), first_row(rank + 1, members) - first_row(rank, members)));
    double *out = allocate((size_t)points * (size_t)points * sizeof *out);
    double *in = allocate((size_t)divided.count * (size_t)points * sizeof *in);
    int filled = 0;
    for (int to = 0; to < members; to++) {
        sent_at[to] = filled;
        for (int row = first_row(to, members); row < first_row(to + 1, members); row++)
            if (source[row] == rank) {
                const struct rows *own = pieces[0];
                const struct rows *has = own && row >= own->first && row < own->first + own->count ? own : pieces[1];
                memcpy(out + filled, has->values + (size_t)(row - has->first) * (size_t)points,
                       (size_t)points * sizeof *out);
                filled += points;
            }
        sent[to] = filled - sent_at[to];
    }
    for (int row = divided.first; row < divided.first + divided.count; row++)
        received[source[row]] += points;
    for (int from = 1; from < size; from++)
        received_at[from] = received_at[from - 1] + received[from - 1];
    code = MPI_Alltoallv(out, sent, sent_at, MPI_DOUBLE, in, received, received_at, MPI_DOUBLE, communicator);
    if (code == MPI_SUCCESS) {
        for (int row = divided.first; row < divided.first + divided.count; row++) {
            int from = source[row];
            memcpy(divided.values + (size_t)(row - divided.first) * (size_t)points, in + received_at[from],
                   (size_t)points * sizeof *in);
            received_at[from] += points;
        }
        replace(result, divided);
    } else {
        free(divided.values);
    }
    free(all), free(source), free(counts), free(out), free(in);
    return code;
}

/* Sends a copy of the rows to the successor. The checkpoint counts when all processes have theirs. */
static int save(MPI_Comm members) {
    int rank, size, code;
    MPI_Comm_rank(members, &rank);
    MPI_Comm_size(members, &size);
    int before = (rank + size - 1) % size, after = (rank + 1) % size;
    int first = first_row(before, size), count = first_row(before + 1, size) - first;
    struct checkpoint next = {iteration, copy_of(&now), make_rows(first, count)};
    code = MPI_Sendrecv(now.values, now.count * points, MPI_DOUBLE, after, 1, next.before.values, count * points,
                        MPI_DOUBLE, before, 1, members, MPI_STATUS_IGNORE);
    if (!all_succeeded(members, code == MPI_SUCCESS)) {
        free(next.own.values), free(next.before.values);
        return 0;
    }
    free(saved.own.values), free(saved.before.values);
    saved = next;
    return 1;
}

/* Lets all sessions of the program see the team as a process set. */
static int publish(void) {
    int code = session == MPI_SESSION_NULL ? MPI_SUCCESS : combray_publish_set(team, team_set);
    return all_succeeded(team, code == MPI_SUCCESS);
}

/* Computes the next iterations. The border of the square is hot on one side, and cold on the others. */
static int compute(void) {
    int rank, size, code = MPI_SUCCESS;
    MPI_Comm_rank(team, &rank);
    MPI_Comm_size(team, &size);
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    size_t width = (size_t)points;
    /* With a row more on each side. */
    double *old = allocate(((size_t)now.count + 2) * width * sizeof *old);
    memcpy(old + width, now.values, (size_t)now.count * width * sizeof *old);
    for (int step = 0; step < GROUP && iteration < iterations && code == MPI_SUCCESS; step++, iteration++) {
        for (size_t x = 0; x < width; x++)
            old[x] = 100.0;
        memset(old + ((size_t)now.count + 1) * width, 0, width * sizeof *old);
        code = MPI_Sendrecv(old + width, points, MPI_DOUBLE, above, 2, old + ((size_t)now.count + 1) * width, points,
                            MPI_DOUBLE, below, 2, team, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS)
            code = MPI_Sendrecv(old + (size_t)now.count * width, points, MPI_DOUBLE, below, 3, old, points, MPI_DOUBLE,
                                above, 3, team, MPI_STATUS_IGNORE);
        for (int row = 1; row <= now.count; row++) {
            const double *here = old + (size_t)row * width;
            double *next = now.values + (size_t)(row - 1) * width;
            for (int x = 0; x < points; x++) {
                double left = x > 0 ? here[x - 1] : 0, right = x + 1 < points ? here[x + 1] : 0;
                next[x] = 0.25 * (here[x - points] + here[x + points] + left + right);
            }
        }
        memcpy(old + width, now.values, (size_t)now.count * width * sizeof *old);
    }
    free(old);
    return code == MPI_SUCCESS;
}

static void say(const char *what) {
    int rank, size;
    MPI_Comm_rank(team, &rank);
    MPI_Comm_size(team, &size);
    if (rank == 0) {
        printf("iteration %d: %s, %d processes\n", iteration, what, size);
        fflush(stdout);
    }
}

/* Joins the processes of `bigger`, of which some have just been started. Those have no rows yet. */
static int join(MPI_Comm bigger) {
    int state[2] = {iteration, usual_size}, size;
    be_told_of_errors(bigger);
    MPI_Comm_size(bigger, &size);
    int code = MPI_Bcast(state, 2, MPI_INT, 0, bigger);
    iteration = state[0];
    usual_size = state[1];
    const struct rows *pieces[2] = {now.values ? &now : NULL, NULL};
    struct rows divided = {0, 0, NULL};
    if (code == MPI_SUCCESS)
        code = divide(bigger, pieces, size, &divided);
    if (!all_succeeded(bigger, code == MPI_SUCCESS)) {
        free(divided.values);
        return 0;
    }
    replace(&now, divided);
    return 1;
}

static int grow(int more, MPI_Info hints) {
    MPI_Comm parents_and_children = MPI_COMM_NULL, bigger = MPI_COMM_NULL;
    int code = MPI_Comm_spawn(arguments[0], arguments + 1, more, hints, 0, team, &parents_and_children,
                              MPI_ERRCODES_IGNORE);
    if (code == MPI_SUCCESS) {
        be_told_of_errors(parents_and_children);
        code = MPI_Intercomm_merge(parents_and_children, 0, &bigger);
    }
    int joined = all_succeeded(team, code == MPI_SUCCESS) && join(bigger);
    if (parents_and_children != MPI_COMM_NULL)
        MPI_Comm_free(&parents_and_children);
    if (joined) {
        MPI_Comm_free(&team);
        team = bigger;
    } else if (bigger != MPI_COMM_NULL) {
        MPIX_Comm_revoke(bigger);
        MPI_Comm_free(&bigger);
    }
    if (!joined || !save(team) || !publish())
        return 0;
    say("grown");
    return 1;
}

static void end(void) {
    free(now.values), free(saved.own.values), free(saved.before.values);
    if (session == MPI_SESSION_NULL)
        MPI_Finalize();
    else
        MPI_Session_finalize(&session);
    exit(0);
}

static int shrink(int members) {
    int rank;
    MPI_Comm_rank(team, &rank);
    const struct rows *pieces[2] = {&now, NULL};
    struct rows divided = {0, 0, NULL};
    MPI_Comm smaller = MPI_COMM_NULL;
    int code = divide(team, pieces, members, &divided);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_split(team, rank < members ? 0 : MPI_UNDEFINED, rank, &smaller);
    /* Only if all that remain have the communicator, they use it. */
    int is_made = all_succeeded(team, code == MPI_SUCCESS), succeeded = 1;
    if (is_made && smaller != MPI_COMM_NULL) {
        be_told_of_errors(smaller);
        replace(&now, divided);
        succeeded = save(smaller);
    } else {
        free(divided.values);
    }
    /* The others have their part of the old checkpoint until there is a new one. */
    if (!is_made || !all_succeeded(team, succeeded)) {
        if (smaller != MPI_COMM_NULL)
            MPI_Comm_free(&smaller);
        return 0;
    }
    MPI_Comm_free(&team);
    team = smaller;
    if (rank >= members)
        end();
    if (!publish())
        return 0;
    say("shrunk");
    return 1;
}

/* Makes the team as large as it should be. */
static int adapt(void) {
    int size, wanted = 0;
    MPI_Info hints = MPI_INFO_NULL;
    MPI_Comm_size(team, &size);
    if (!all_succeeded(team, combray_wanted_size(team, &wanted, &hints) == MPI_SUCCESS))
        return 0;
    if (wanted == 0)
        wanted = usual_size;
    int succeeded = 1;
    if (wanted > size)
        succeeded = grow(wanted - size, hints);
    else if (wanted < size)
        succeeded = shrink(wanted);
    if (hints != MPI_INFO_NULL)
        MPI_Info_free(&hints);
    return succeeded;
}

/* Goes on with the survivors from the last checkpoint. */
static void recover(void) {
    for (int recovered = 0; !recovered;) {
        MPI_Comm survivors;
        MPIX_Comm_revoke(team);
        if (MPIX_Comm_shrink(team, &survivors) != MPI_SUCCESS)
            continue;
        be_told_of_errors(survivors);
        MPI_Comm_free(&team);
        team = survivors;
        const struct rows *pieces[2] = {&saved.own, &saved.before};
        int size;
        MPI_Comm_size(team, &size);
        iteration = saved.iteration;
        int code = divide(team, pieces, size, &now);
        recovered = all_succeeded(team, code == MPI_SUCCESS) && save(team) && publish();
    }
    say("recovered");
}

/* Makes a communicator of the processes that are in the set now, as a library may do that gets none from its
 * caller. */
static int join_by_set(MPI_Session own, MPI_Comm *made) {
    MPI_Group group;
    int code = MPI_Group_from_session_pset(own, team_set, &group);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_from_group(group, "sum", MPI_INFO_NULL, MPI_ERRORS_RETURN, made);
        MPI_Group_free(&group);
    }
    return code;
}

static int add_up(uint64_t mine, uint64_t *result) {
    MPI_Session own;
    MPI_Comm members;
    int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &own);
    if (code != MPI_SUCCESS)
        return code;
    code = join_by_set(own, &members);
    if (code == MPI_SUCCESS) {
        code = MPI_Allreduce(&mine, result, 1, MPI_UINT64_T, MPI_SUM, members);
        MPI_Comm_free(&members);
    }
    MPI_Session_finalize(&own);
    return code;
}

/* A sum over the bits of all values, which does not depend on how the rows are divided. */
static int sum(uint64_t *result) {
    uint64_t mine = 0;
    for (size_t at = 0; at < (size_t)now.count * (size_t)points; at++) {
        uint64_t bits;
        memcpy(&bits, now.values + at, sizeof bits);
        mine += bits * 0x9e3779b97f4a7c15u + bits / 7 * (uint64_t)((size_t)now.first * (size_t)points + at + 1);
    }
    if (session != MPI_SESSION_NULL)
        return add_up(mine, result);
    return MPI_Allreduce(&mine, result, 1, MPI_UINT64_T, MPI_SUM, team);
}

static void start(int argc, char **argv) {
    int has_word = argc > 4, wants_sessions = has_word && !strcmp(argv[4], "sessions");
    if (wants_sessions)
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    else
        MPI_Init(&argc, &argv);
    arguments = argv;
    if (argc > 1)
        points = atoi(argv[1]);
    if (argc > 2)
        iterations = atoi(argv[2]);
    if (argc > 3)
        pause_ms = atoi(argv[3]);
    int is_wrong = points < 1 || points > 20000 || iterations < 0 || pause_ms < 0;
    if (is_wrong || has_word != wants_sessions) {
        fprintf(stderr, "usage: elastic [POINTS [ITERATIONS [PAUSE [sessions]]]]\n");
        give_up(2);
    }
}

/* Makes the team of all processes of the first job. */
static void make_first_team(void) {
    if (session == MPI_SESSION_NULL) {
        MPI_Comm_dup(MPI_COMM_WORLD, &team);
        return;
    }
    MPI_Group world;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Comm_create_from_group(world, "elastic", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &team);
    MPI_Group_free(&world);
}

int main(int argc, char **argv) {
    MPI_Comm parents;
    start(argc, argv);
    MPI_Comm_get_parent(&parents);
    int is_first_job = parents == MPI_COMM_NULL;
    if (is_first_job) {
        make_first_team();
        be_told_of_errors(team);
        int rank;
        MPI_Comm_rank(team, &rank);
        MPI_Comm_size(team, &usual_size);
        replace(&now, make_rows(first_row(rank, usual_size),
                                first_row(rank + 1, usual_size) - first_row(rank, usual_size)));
    } else {
        be_told_of_errors(parents);
        if (MPI_Intercomm_merge(parents, 1, &team) != MPI_SUCCESS)
            end();
        MPI_Comm_free(&parents);
        if (!join(team))
            end();
    }
    if (!save(team) || !publish())
        recover();
    if (is_first_job)
        say("started");
    uint64_t result = 0;
    for (;;) {
        int code = compute();
        if (all_succeeded(team, code) && save(team)) {
            if (iteration == iterations && all_succeeded(team, sum(&result) == MPI_SUCCESS))
                break;
            struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000L};
            nanosleep(&pause, NULL);
            if (iteration < iterations && adapt())
                continue;
        }
        recover();
    }
    int rank;
    MPI_Comm_rank(team, &rank);
    if (rank == 0)
        printf("%d iterations on %d x %d points: sum %016llx\n", iterations, points, points, (unsigned long long)result);
    MPI_Comm_free(&team);
    end();
}

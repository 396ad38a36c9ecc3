/*
 * Single calls, for bench/instructions to count their instructions under callgrind.
 *
 *   calls             as one process: each case so many times, then twice as many, a dump for both
 *   calls FILE        as two processes: a dump for each call. They take turns through FILE, beside
 *                     the library, so that a call finds what it would else wait for.
 *
 * The name of a dump is that of the case; alone also how many times it ran.
 */
#include <mpi.h>
#include <valgrind/callgrind.h>

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 7, TOGETHER = 32, WARM_UP = 300, TIMES = 1000, TURNS = 40, NAME_MAX_BYTES = 64 };

static MPI_Comm comm;
static int self, peer;
static long long sent[TOGETHER], received[TOGETHER];

static void nothing(void) {}

static void isend_recv_wait(void)
{
    MPI_Request request;
    MPI_Isend(sent, 8, MPI_BYTE, self, TAG, comm, &request);
    MPI_Recv(received, 8, MPI_BYTE, self, TAG, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void many_waitall(void)
{
    MPI_Request requests[2 * TOGETHER];
    for (int i = 0; i < TOGETHER; i++)
        MPI_Irecv(received + i, 8, MPI_BYTE, self, TAG, comm, requests + i);
    for (int i = 0; i < TOGETHER; i++)
        MPI_Isend(sent + i, 8, MPI_BYTE, self, TAG, comm, requests + TOGETHER + i);
    MPI_Waitall(2 * TOGETHER, requests, MPI_STATUSES_IGNORE);
}

static void send_one(void) { MPI_Send(sent, 8, MPI_BYTE, peer, TAG, comm); }

static void receive_one(void)
{
    MPI_Recv(received, 8, MPI_BYTE, peer, TAG, comm, MPI_STATUS_IGNORE);
}

static void barrier(void) { MPI_Barrier(comm); }
static void broadcast(void) { MPI_Bcast(sent, 8, MPI_BYTE, 0, comm); }

static void allreduce(void)
{
    MPI_Allreduce(sent, received, 1, MPI_INT64_T, MPI_SUM, comm);
}

static void reduce(void) { MPI_Reduce(sent, received, 1, MPI_INT64_T, MPI_SUM, 0, comm); }

static void reduce_scatter(void)
{
    static const int counts[] = {1, 1};
    MPI_Reduce_scatter(sent, received, counts, MPI_INT64_T, MPI_SUM, comm);
}

/* ---- objects that are prepared once and used often ---- */

static MPI_Win window;
static MPI_Request persistent[2], persistent_allreduce = MPI_REQUEST_NULL;
static MPI_Datatype spaced;
static MPI_Group everybody;
static MPI_Status counted_status;
static int keyval;
static char attached[1 << 14];

static void open_window(void)
{
    void *memory;
    MPI_Win_allocate(4096, 1, MPI_INFO_NULL, comm, &memory, &window);
    MPI_Win_lock_all(0, window);
}

static void close_window(void)
{
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

static void prepare_allreduce(void)
{
    MPI_Allreduce_init(sent, received, 1, MPI_INT64_T, MPI_SUM, comm, MPI_INFO_NULL,
                       &persistent_allreduce);
}

static void prepare(void)
{
    MPI_Recv_init(received, 8, MPI_BYTE, self, TAG, comm, &persistent[0]);
    MPI_Send_init(sent, 8, MPI_BYTE, self, TAG, comm, &persistent[1]);
    prepare_allreduce();
    MPI_Comm_group(comm, &everybody);
    MPI_Type_vector(64, 8, 16, MPI_BYTE, &spaced);
    MPI_Type_commit(&spaced);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(comm, keyval, &keyval);
    MPI_Buffer_attach(attached, sizeof attached);
}

static void clear_away(void)
{
    void *memory;
    int bytes;
    MPI_Buffer_detach(&memory, &bytes);
    MPI_Comm_delete_attr(comm, keyval);
    MPI_Comm_free_keyval(&keyval);
    MPI_Type_free(&spaced);
    MPI_Group_free(&everybody);
    MPI_Request_free(&persistent[0]);
    MPI_Request_free(&persistent[1]);
    MPI_Request_free(&persistent_allreduce);
}

/* Instead of a predefined one. */
static void duplicate(void) { MPI_Comm_dup(comm, &comm); }

static void free_duplicate(void)
{
    MPI_Comm_free(&comm);
    comm = MPI_COMM_SELF;
}

static void put(void) { MPI_Put(sent, 8, MPI_BYTE, self, 0, 8, MPI_BYTE, window); }
static void flush(void) { MPI_Win_flush(self, window); }
static void rget_wait(void)
{
    MPI_Request request;
    MPI_Rget(received, 8, MPI_BYTE, self, 0, 8, MPI_BYTE, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void fetch_and_op(void)
{
    MPI_Fetch_and_op(sent, received, MPI_INT64_T, self, 64, MPI_SUM, window);
}

static void accumulate(void)
{
    MPI_Accumulate(sent, 1, MPI_INT64_T, self, 64, 1, MPI_INT64_T, MPI_SUM, window);
}

static void compare_and_swap(void)
{
    MPI_Compare_and_swap(sent, sent, received, MPI_INT64_T, self, 64, window);
}

static void start_wait(void)
{
    MPI_Startall(2, persistent);
    MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
}

static void start_allreduce(void)
{
    MPI_Start(&persistent_allreduce);
    MPI_Wait(&persistent_allreduce, MPI_STATUS_IGNORE);
}

static void prepare_or_start_allreduce(void)
{
    if (persistent_allreduce == MPI_REQUEST_NULL)
        prepare_allreduce();
    start_allreduce();
}

static void sendrecv(void)
{
    MPI_Sendrecv(sent, 8, MPI_BYTE, self, TAG, received, 8, MPI_BYTE, self, TAG, comm,
                 MPI_STATUS_IGNORE);
}

static void bsend_recv(void)
{
    MPI_Bsend(sent, 8, MPI_BYTE, self, TAG, comm);
    MPI_Recv(received, 8, MPI_BYTE, self, TAG, comm, MPI_STATUS_IGNORE);
}

static void irecv_ssend_wait(void)
{
    MPI_Request request;
    MPI_Irecv(received, 8, MPI_BYTE, self, TAG, comm, &request);
    MPI_Ssend(sent, 8, MPI_BYTE, self, TAG, comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void sendrecv_replace(void)
{
    MPI_Sendrecv_replace(sent, 8, MPI_BYTE, self, TAG, self, TAG, comm, &counted_status);
}

static void waitsome(void)
{
    MPI_Request requests[2 * TOGETHER];
    int indices[2 * TOGETHER];
    for (int i = 0; i < TOGETHER; i++)
        MPI_Irecv(received + i, 8, MPI_BYTE, self, TAG, comm, requests + i);
    for (int i = 0; i < TOGETHER; i++)
        MPI_Isend(sent + i, 8, MPI_BYTE, self, TAG, comm, requests + TOGETHER + i);
    for (int left = 2 * TOGETHER, found; left > 0; left -= found)
        MPI_Waitsome(2 * TOGETHER, requests, &found, indices, MPI_STATUSES_IGNORE);
}

static void isend_mprobe_mrecv(void)
{
    MPI_Request request;
    MPI_Message message;
    MPI_Isend(sent, 8, MPI_BYTE, self, TAG, comm, &request);
    MPI_Mprobe(self, TAG, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(received, 8, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void type_vector(void)
{
    MPI_Datatype type;
    MPI_Type_vector(64, 8, 16, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
}

static void type_struct(void)
{
    static const int lengths[] = {1, 3, 2};
    static const MPI_Aint places[] = {0, 8, 32};
    const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    MPI_Datatype type;
    MPI_Type_create_struct(3, lengths, places, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
}

static void type_subarray(void)
{
    static const int sizes[] = {16, 16, 16}, parts[] = {14, 14, 1}, starts[] = {1, 1, 1};
    MPI_Datatype type;
    MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
}

static void group_incl(void)
{
    MPI_Group one;
    MPI_Group_incl(everybody, 1, &self, &one);
    MPI_Group_free(&one);
}

static void get_count(void)
{
    int count;
    MPI_Get_count(&counted_status, MPI_BYTE, &count);
}

static char from[1024], into[1024];

static void pack(void)
{
    int position = 0;
    MPI_Pack(from, 1, spaced, into, 512, &position, comm);
}

static void unpack(void)
{
    int position = 0;
    MPI_Unpack(from, 512, &position, into, 1, spaced, comm);
}

static void get_attribute(void)
{
    void *value;
    int found;
    MPI_Comm_get_attr(comm, keyval, &value, &found);
}

static void comm_rank(void)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
}

/* A list ends without a name. */
struct counted {
    const char *name;
    void (*run)(void);
};

static const struct counted alone[] = {
    {"nothing", nothing},
    {"isend_recv_wait", isend_recv_wait},
    {"32_irecv_32_isend_waitall", many_waitall},
    {"barrier", barrier},
    {"bcast", broadcast},
    {"allreduce", allreduce},
    {"reduce", reduce},
    {"reduce_scatter", reduce_scatter},
    {0},
};

static const struct counted prepared[] = {
    {"startall_waitall", start_wait},
    {"allreduce_start_wait", start_allreduce},
    {"sendrecv", sendrecv},
    {"sendrecv_replace", sendrecv_replace},
    {"irecv_ssend_wait", irecv_ssend_wait},
    {"32_irecv_32_isend_waitsome", waitsome},
    {"bsend_recv", bsend_recv},
    {"isend_mprobe_mrecv", isend_mprobe_mrecv},
    {"type_vector_commit_free", type_vector},
    {"type_struct_commit_free", type_struct},
    {"type_subarray_commit_free", type_subarray},
    {"pack", pack},
    {"unpack", unpack},
    {"comm_get_attr", get_attribute},
    {"comm_rank", comm_rank},
    {"get_count", get_count},
    {"group_incl_free", group_incl},
    {0},
};

static const struct counted on_duplicate[] = {
    {"isend_recv_wait, duplicate", isend_recv_wait},
    {"sendrecv, duplicate", sendrecv},
    {"allreduce, duplicate", allreduce},
    {"comm_rank, duplicate", comm_rank},
    {0},
};

/* With a window, each round of progress also checks for requests to it, so these come last. */
static const struct counted one_sided[] = {
    {"put", put},
    {"flush", flush},
    {"rget_wait", rget_wait},
    {"fetch_and_op", fetch_and_op},
    {"accumulate", accumulate},
    {"compare_and_swap", compare_and_swap},
    {0},
};

static const struct {
    void (*open)(void), (*close)(void);
    const struct counted *cases;
} lists[] = {
    {nothing, nothing, alone},
    {prepare, clear_away, prepared},
    {duplicate, free_duplicate, on_duplicate},
    {open_window, close_window, one_sided},
};

enum { LISTS = sizeof lists / sizeof lists[0] };

/* In each turn one process goes first, and the other after it. The calls of the first are counted
 * only if it does not wait for the other. Messages go there and back, as only a process that also
 * receives learns the shortest way to send. */
static const struct {
    const char *first_name, *second_name;
    void (*first)(void), (*second)(void);
    int goes_first;
    bool swaps;
} turns[] = {
    {"nothing", "nothing", nothing, nothing, 0, true},
    {"send", "recv", send_one, receive_one, 0, true},
    {NULL, "barrier", barrier, barrier, 0, false},
    {"bcast, root", "bcast, other", broadcast, broadcast, 0, false},
    {NULL, "allreduce", allreduce, allreduce, 0, false},
    {"reduce, other", "reduce, root", reduce, reduce, 1, false},
    {NULL, "reduce_scatter", reduce_scatter, reduce_scatter, 0, false},
    {NULL, "allreduce_start_wait", prepare_or_start_allreduce, prepare_or_start_allreduce, 0, false},
};

enum { CASES = sizeof turns / sizeof turns[0] };

static void count_alone(const struct counted *counted)
{
    for (int times = TIMES; times <= 2 * TIMES; times += TIMES) {
        for (int k = 0; k < WARM_UP; k++)
            counted->run();
        char name[NAME_MAX_BYTES];
        snprintf(name, sizeof name, "%s %d", counted->name, times);
        CALLGRIND_ZERO_STATS;
        for (int k = 0; k < times; k++)
            counted->run();
        CALLGRIND_DUMP_STATS_AT(name);
    }
}

static void run_alone(void)
{
    for (int i = 0; i < LISTS; i++) {
        lists[i].open();
        for (const struct counted *counted = lists[i].cases; counted->name; counted++)
            count_alone(counted);
        lists[i].close();
    }
}

/* How far each process is, in FILE. */
static _Atomic long *reached;

static void reach(long step) { atomic_store(reached + self, step); }

static void await(long step)
{
    while (atomic_load(reached + peer) < step)
        sched_yield();
}

/* Without a name it is only run. */
static void count_once(const char *name, void (*run)(void))
{
    CALLGRIND_ZERO_STATS;
    run();
    if (name)
        CALLGRIND_DUMP_STATS_AT(name);
}

static bool is_first(int i, int turn)
{
    return self == (turns[i].goes_first + (turns[i].swaps ? turn : 0)) % 2;
}

static void run_turns(void)
{
    long step = 0;
    for (int i = 0; i < CASES; i++) {
        for (int k = 0; k < WARM_UP; k++)
            (is_first(i, k) ? turns[i].first : turns[i].second)();
        for (int k = 0; k < TURNS; k++) {
            step += 2;
            bool waits = turns[i].first_name == NULL;
            if (is_first(i, k)) {
                if (waits)
                    reach(step - 1);
                count_once(turns[i].first_name, turns[i].first);
                reach(step - 1);
            } else {
                await(step - 1);
                /* Nothing shows when the first process waits inside its call; it has time to get
                 * there, and a turn in which it came later has more instructions than count. */
                if (waits)
                    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
                count_once(turns[i].second_name, turns[i].second);
            }
            reach(step);
            await(step);
        }
    }
    MPI_Request_free(&persistent_allreduce);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    peer = 1 - self;
    if (size != argc || size > 2) {
        fprintf(stderr, "usage: calls, or mpirun -n 2 calls FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    comm = size == 1 ? MPI_COMM_SELF : MPI_COMM_WORLD;
    if (size == 1) {
        run_alone();
    } else {
        int file = open(argv[1], O_RDWR);
        reached = file < 0 ? MAP_FAILED
                           : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (reached == MAP_FAILED) {
            perror(argv[1]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        run_turns();
    }
    MPI_Finalize();
}

/* The handles that the recorded calls pass, and what is reported; see recorder.h. */
#include <unistd.h>

#include "recorder.h"

#define DEFINE(Kind, Type, Conversion) Type recorded_##Kind[HANDLES];
FOR_EACH_KIND(DECLARE)
FOR_EACH_KIND(DEFINE)

int recorder_expected = -1, recorder_pass;
const void *recorder_buffers[32];
/* Calls of the expected function, and of any in all. */
static int calls, calls_of_all;
static int problems;
/* Bits of the ways in which each routine was called. */
static unsigned char seen[2048];

static void problem(const char *what)
{
    const char *name = recorder_expected < 0 ? "no routine" : recorder_routines[recorder_expected].name;
    problems++;
    printf("%s, call %d: %s\n", name, recorder_pass, what);
}

bool recorder_enter(int number, const char *name)
{
    if (number != recorder_expected) {
        recorder_unwanted(name);
        return false;
    }
    calls++;
    calls_of_all++;
    seen[number] |= 1 << recorder_pass;
    return true;
}

void recorder_unwanted(const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "a tool sees a call of %s, which the program did not make", name);
    problem(text);
}

void recorder_check(bool right, const char *what)
{
    char text[128];
    if (right) return;
    snprintf(text, sizeof text, "the argument %s is wrong in C", what);
    problem(text);
}

/* The program is about to call a routine. */
void recorder_expect_(const MPI_Fint *number, const MPI_Fint *pass)
{
    recorder_expected = *number;
    recorder_pass = *pass;
    calls = 0;
}

/* The call has returned. */
void recorder_done_(void)
{
    if (calls != 1) problem(calls == 0 ? "the function in C was not called" : "it was called twice");
}

/* Where a buffer is. */
void recorder_buffer_(const MPI_Fint *place, const void *buffer)
{
    recorder_buffers[*place] = buffer;
}

/* What came back to the program is wrong. */
void recorder_wrong_(const char *what, size_t length)
{
    char text[128];
    snprintf(text, sizeof text, "%.*s is wrong in Fortran", (int)length, what);
    problem(text);
}

#define INTEGERS(Kind, Type, Conversion) \
    MPI_Fint recorder_##Kind(MPI_Fint place) { return Conversion##_out(recorded_##Kind[place % HANDLES]); }
FOR_EACH_KIND(INTEGERS)

static void no_handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

static void no_operation(void *in, void *inout, int *length, MPI_Datatype *datatype)
{
    (void)in, (void)inout, (void)length, (void)datatype;
}

void recorder_begin_(void)
{
    static int room;
    int self, size, sources[2], destinations[3];
    char file[64];
    MPI_Group world;
    MPI_Request sends[HANDLES];
    PMPI_Init(NULL, NULL);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    PMPI_Comm_rank(MPI_COMM_WORLD, &self);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 3; i++) destinations[i] = (self + i) % size;
    for (int i = 0; i < 2; i++) sources[i] = self;
    snprintf(file, sizeof file, "/tmp/recorder-%d", getpid());
    for (int i = 0; i < HANDLES; i++) {
        /* Two neighbours send and three receive; as nothing is sent, the two need not agree. */
        PMPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 3, destinations,
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &recorded_Comm[i]);
        PMPI_Type_contiguous(i + 1, MPI_INT, &recorded_Datatype[i]);
        PMPI_Comm_create_errhandler(no_handler, &recorded_Errhandler[i]);
        PMPI_File_open(MPI_COMM_SELF, file, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &recorded_File[i]);
        PMPI_Group_range_incl(world, 1, (int[][3]){{0, i % size, 1}}, &recorded_Group[i]);
        PMPI_Info_create(&recorded_Info[i]);
        PMPI_Isend(&room, 1, MPI_INT, 0, i, MPI_COMM_SELF, &sends[i]);
        PMPI_Mprobe(0, i, MPI_COMM_SELF, &recorded_Message[i], MPI_STATUS_IGNORE);
        PMPI_Op_create(no_operation, 1, &recorded_Op[i]);
        PMPI_Recv_init(&room, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &recorded_Request[i]);
        PMPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &recorded_Session[i]);
        PMPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &recorded_Win[i]);
    }
    PMPI_Group_free(&world);
    /* Sends of one element need no receiver. */
    for (int i = 0; i < HANDLES; i++) PMPI_Request_free(&sends[i]);
}

/* Says what was not called, and ends the program. */
void recorder_end_(const MPI_Fint *binding)
{
    int routines = 0;
    for (int i = 0; i < recorder_count; i++) {
        routines += seen[i] != 0;
#ifdef RECORDER_PARTIAL
        (void)binding;
#else
        recorder_expected = i;
        if (seen[i] == 0 && recorder_routines[i].bindings & *binding) problem("no call of it was recorded");
#endif
    }
    for (int i = 0; i < HANDLES; i++) {
        int room;
        PMPI_Mrecv(&room, 1, MPI_INT, &recorded_Message[i], MPI_STATUS_IGNORE);
        PMPI_Comm_free(&recorded_Comm[i]);
        PMPI_Type_free(&recorded_Datatype[i]);
        PMPI_Errhandler_free(&recorded_Errhandler[i]);
        PMPI_File_close(&recorded_File[i]);
        PMPI_Group_free(&recorded_Group[i]);
        PMPI_Info_free(&recorded_Info[i]);
        PMPI_Op_free(&recorded_Op[i]);
        PMPI_Request_free(&recorded_Request[i]);
        PMPI_Session_finalize(&recorded_Session[i]);
        PMPI_Win_free(&recorded_Win[i]);
    }
    PMPI_Finalize();
    printf("%d routines, %d calls, %d problems\n", routines, calls_of_all, problems);
    exit(problems != 0 || routines == 0);
}

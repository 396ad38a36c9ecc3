// A program whose functions have names of the C library: it uses much of MPI, and no function of
// the C library, so that each call of such a function comes from the library. For scenarios, which
// define OWN_FUNCTIONS, and WITH_FORTRAN where the layer for Fortran is linked.
#include <mpi.h>

#ifndef OWN_FUNCTIONS
#define OWN_FUNCTIONS
#define FILE_NAME "own_functions"
#endif

enum { LARGE = 1 << 18 };

static int out[LARGE], in[LARGE], *window;

// System calls without the C library, as its functions may be this program's.
static long kernel(long number, long first, const void *second, long third) {
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = first, x2 __asm__("x2") = third;
    register const void *x1 __asm__("x1") = second;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#endif
}

#if defined(__x86_64__)
enum { WRITE = 1, EXIT_GROUP = 231 };
#else
enum { WRITE = 64, EXIT_GROUP = 94 };
#endif

// Replaces the function of this name: prints the name, and ends the process with 99.
__attribute__((used)) static long called(const char *name) {
    long length = 0;
    while (name[length]) length++;
    kernel(WRITE, 2, "called: ", 8);
    kernel(WRITE, 2, name, length);
    kernel(WRITE, 2, "\n", 1);
    return kernel(EXIT_GROUP, 99, 0, 0);
}

#define OWN(name)                                                                                  \
    long own_##name(void) __asm__(#name);                                                          \
    __attribute__((visibility("default"))) long own_##name(void) { return called(#name); }

OWN_FUNCTIONS

static void check(int holds, const char *what) {
    if (!holds) called(what);
}

#ifdef WITH_FORTRAN
void mpi_comm_create_keyval_(void (*copy)(void), void (*delete)(void), int *keyval, void *state, int *ierror);
void mpi_comm_free_keyval_(int *keyval, int *ierror);
void mpi_get_processor_name_(char *name, int *length, int *ierror, unsigned long room);
static void of_attributes(void) {
}

static void call_fortran(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = 0, ierror = -1, keyval;
    MPI_Aint state = 0;
    mpi_get_processor_name_(name, &length, &ierror, sizeof name);
    check(ierror == 0 && length > 0 && name[sizeof name - 1] == ' ', "the name is another one");
    mpi_comm_create_keyval_(of_attributes, of_attributes, &keyval, &state, &ierror);
    check(ierror == 0, "there is no keyval");
    mpi_comm_free_keyval_(&keyval, &ierror);
    check(ierror == 0, "the keyval is not freed");
}
#else
static void call_fortran(void) {
}
#endif

int main(void) {
    int rank, size;
    MPI_Init(0, 0);
    call_fortran();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int count = 1; count <= LARGE; count *= 8) {
        for (int i = 0; i < count; i++) out[i] = rank + i;
        MPI_Sendrecv(out, count, MPI_INT, next, 0, in, count, MPI_INT, before, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        check(in[count - 1] == before + count - 1, "the message is another one");
        MPI_Allreduce(out, in, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        check(in[0] == size - 1, "the largest is another one");
    }
    MPI_Win win;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    check(*window == before, "the window holds something else");
    MPI_Win_free(&win);
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_free(&copy);
    MPI_File file;
    static const char name[] = FILE_NAME;
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    int opened = MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file);
    check(opened == MPI_SUCCESS, "the file cannot be opened");
    MPI_File_write_at_all(file, rank * 4, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    int read = -1;
    MPI_File_read_at(file, rank * 4, &read, 1, MPI_INT, MPI_STATUS_IGNORE);
    check(read == rank, "the file holds something else");
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    // The C library would end the process by functions of these names.
    kernel(EXIT_GROUP, 0, 0, 0);
}

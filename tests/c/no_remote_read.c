// Where the system forbids one process to read another's memory, as in many containers, large
// messages still pass. The program forbids it to itself before MPI starts, and checks that it is
// forbidden.
// run: 2 4
// hosts
// checkers: address threads
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { LARGEST = 1 << 24 };

// A filter as container runtimes set it: these two calls fail with EPERM, all others are allowed.
static void forbid(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        perror("prctl");
}

static void is_forbidden(void) {
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    errno = 0;
    CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0 && errno == EPERM,
          "process_vm_readv still works: nothing is tested here");
}

static void contiguous(unsigned char *out, unsigned char *in, int bytes) {
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    pattern_fill(out, bytes, check_rank);
    memset(in, 0, bytes);
    OK(MPI_Sendrecv(out, bytes, MPI_BYTE, next, 0, in, bytes, MPI_BYTE, before, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK_PATTERN(in, bytes, before);
}

static void with_gaps(unsigned char *out, unsigned char *in) {
    MPI_Datatype gaps;
    enum { BLOCK = 700, STRIDE = 1024, COUNT = LARGEST / STRIDE };
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    OK(MPI_Type_vector(COUNT, BLOCK, STRIDE, MPI_BYTE, &gaps));
    OK(MPI_Type_commit(&gaps));
    pattern_fill(out, LARGEST, check_rank);
    memset(in, 0xEE, LARGEST);
    OK(MPI_Sendrecv(out, 1, gaps, next, 0, in, 1, gaps, before, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < LARGEST; i++)
        REQUIRE(in[i] == (i % STRIDE < BLOCK ? pattern_byte(before, i) : 0xEE), "byte %d", i);
    OK(MPI_Type_free(&gaps));
}

int main(void) {
    forbid();
    check_begin();
    is_forbidden();
    unsigned char *out = malloc(LARGEST), *in = malloc(LARGEST);
    for (int bytes = 1; bytes <= LARGEST; bytes *= 4) contiguous(out, in, bytes);
    with_gaps(out, in);
    free(out);
    free(in);
    return check_end();
}

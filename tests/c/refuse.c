// Runs a command as on a system that refuses something: system calls fail with an error, by a
// seccomp filter as container runtimes set it, or exceed a resource limit. For scenarios. Of prctl,
// PR_SET_CHILD_SUBREAPER can be refused alone.
//
//     refuse [CALL=ERROR | LIMIT=NUMBER]... -- COMMAND [ARGUMENT]...
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    int number;
} CALLS[] = {{"memfd_create", SYS_memfd_create},
             {"process_vm_readv", SYS_process_vm_readv},
             {"process_vm_writev", SYS_process_vm_writev},
             {"membarrier", SYS_membarrier},
             {"epoll_create1", SYS_epoll_create1},
             {"pidfd_open", SYS_pidfd_open},
             {"signalfd4", SYS_signalfd4},
             {"getrandom", SYS_getrandom},
             {"sched_getaffinity", SYS_sched_getaffinity},
             {"sched_setaffinity", SYS_sched_setaffinity},
             {"prctl", SYS_prctl},
             {"setpgid", SYS_setpgid},
             {"pipe2", SYS_pipe2},
             {"socketpair", SYS_socketpair},
             {"prlimit64", SYS_prlimit64},
             {"fcntl", SYS_fcntl}};

static const struct {
    const char *name;
    int number;
} LIMITS[] = {{"descriptors", RLIMIT_NOFILE},
              {"address_space", RLIMIT_AS},
              {"file_size", RLIMIT_FSIZE},
              {"locked_memory", RLIMIT_MEMLOCK}};

static const struct {
    const char *name;
    int number;
} ERRORS[] = {{"EPERM", EPERM}, {"ENOSYS", ENOSYS}, {"EINVAL", EINVAL}};

#define FIND(table, name) find(table, sizeof table / sizeof *table, sizeof *table, name)

static int find(const void *table, size_t count, size_t size, const char *name) {
    for (size_t i = 0; i < count; i++) {
        const char *entry = (const char *)table + i * size;
        if (strcmp(*(const char *const *)entry, name) == 0)
            return *(const int *)(entry + sizeof(char *));
    }
    return -1;
}

static void fail(const char *what) {
    fprintf(stderr, "refuse: %s is not known, or cannot be refused here: %s\n", what,
            strerror(errno));
    exit(125);
}

static void refuse(const struct sock_filter *filter, unsigned short length) {
    struct sock_fprog program = {length, (struct sock_filter *)filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        fail("a seccomp filter");
}

static void refuse_call(int number, int error) {
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    refuse(filter, sizeof filter / sizeof *filter);
}

// The lower half of the first argument, on processors that store it first.
static void refuse_subreaper(int error) {
    const struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_CHILD_SUBREAPER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    refuse(filter, sizeof filter / sizeof *filter);
}

int main(int count, char **words) {
    (void)count;
    for (words++; *words && strcmp(*words, "--") != 0; words++) {
        char *value = strchr(*words, '=');
        if (!value) fail(*words);
        *value++ = 0;
        int call = FIND(CALLS, *words), limit = FIND(LIMITS, *words), error = FIND(ERRORS, value);
        if (strcmp(*words, "PR_SET_CHILD_SUBREAPER") == 0 && error >= 0) {
            refuse_subreaper(error);
        } else if (call >= 0 && error >= 0) {
            refuse_call(call, error);
        } else if (limit >= 0) {
            rlim_t most = strtoull(value, NULL, 0);
            if (setrlimit((__rlimit_resource_t)limit, &(struct rlimit){most, most}) != 0)
                fail(*words);
        } else {
            fail(*words);
        }
    }
    if (!*words || !words[1]) fail("the command");
    execvp(words[1], words + 1);
    fail(words[1]);
}

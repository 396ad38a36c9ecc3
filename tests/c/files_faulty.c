// Interposes the system calls that read and write files, and makes them transfer less than
// requested, be interrupted, and fail, as `files_faulty_begin` configures, or be the last action of
// the process (`files_faulty_kill`). Descriptors of other kinds of files are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int is_on;
static atomic_ulong counter;
static unsigned long seed;
static long room_end, broken;
atomic_long files_faulty_interrupted, files_faulty_short, files_faulty_failed;

// From here on calls behave so. Bytes from `room` on have no space (ENOSPC); a call
// that touches byte `bad` fails there (EIO); -1: none.
void files_faulty_begin(unsigned long from, long room, long bad) {
    seed = from, room_end = room, broken = bad;
    atomic_store(&counter, 0);
    atomic_store(&is_on, 1);
}

void files_faulty_end(void) { atomic_store(&is_on, 0); }

// The write after so many others is half done, then the process does nothing for so many
// milliseconds, and is killed.
static atomic_int writes_left = -1;
static useconds_t pause_before_end;

void files_faulty_kill(int writes_before, int milliseconds) {
    pause_before_end = (useconds_t)milliseconds * 1000;
    atomic_store(&writes_left, writes_before);
}

static int is_last_write(int file, int writes) {
    struct stat about;
    return writes && atomic_load(&writes_left) >= 0 && !fstat(file, &about) &&
           S_ISREG(about.st_mode) && atomic_fetch_sub(&writes_left, 1) == 0;
}

static void end_here(void) {
    usleep(pause_before_end);
    raise(SIGKILL);
}

static unsigned random_below(unsigned bound) {
    uint64_t mixed = (seed + atomic_fetch_add(&counter, 1)) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 31)) * 0xbf58476d1ce4e5b9u;
    return (unsigned)((mixed >> 33) % bound);
}

// How much of a call is done; -1: it fails with errno.
static long admitted(int file, long length, long offset, int writes) {
    struct stat about;
    if (!atomic_load(&is_on) || length <= 0 || fstat(file, &about) || !S_ISREG(about.st_mode))
        return length;
    // Others come between two calls.
    if (random_below(6) == 0) usleep(30);
    if (random_below(4) == 0) {
        atomic_fetch_add(&files_faulty_interrupted, 1);
        errno = EINTR;
        return -1;
    }
    long all = length;
    if (writes && room_end >= 0 && offset + all > room_end) all = room_end - offset;
    int error = ENOSPC;
    if (broken >= offset && broken < offset + all) all = broken - offset, error = EIO;
    if (all <= 0) {
        atomic_fetch_add(&files_faulty_failed, 1);
        errno = error;
        return -1;
    }
    if (all > 1 && random_below(3) == 0) {
        atomic_fetch_add(&files_faulty_short, 1);
        all = 1 + random_below((unsigned)all - 1);
    }
    return all;
}

static int shortened(struct iovec *into, const struct iovec *parts, int count, long length) {
    int kept = 0;
    for (; kept < count && kept < 1024 && length > 0; kept++) {
        into[kept] = parts[kept];
        if ((long)into[kept].iov_len > length) into[kept].iov_len = (size_t)length;
        length -= (long)into[kept].iov_len;
    }
    return kept;
}

static long sum(const struct iovec *parts, int count) {
    long all = 0;
    for (int part = 0; part < count; part++) all += (long)parts[part].iov_len;
    return all;
}

#define PLAIN(NAME, POINTER, WRITES)                                                              \
    ssize_t NAME(int file, POINTER bytes, size_t length, off_t offset) {                          \
        static ssize_t (*real)(int, POINTER, size_t, off_t);                                      \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #NAME);                                     \
        if (is_last_write(file, WRITES)) real(file, bytes, length / 2, offset), end_here();       \
        long all = admitted(file, (long)length, offset, WRITES);                                  \
        return all < 0 ? -1 : real(file, bytes, (size_t)all, offset);                             \
    }
#define VECTOR(NAME, WRITES)                                                                      \
    ssize_t NAME(int file, const struct iovec *parts, int count, off_t offset) {                  \
        static ssize_t (*real)(int, const struct iovec *, int, off_t);                            \
        struct iovec kept[1024];                                                                  \
        if (!real) *(void **)&real = dlsym(RTLD_NEXT, #NAME);                                     \
        if (is_last_write(file, WRITES)) real(file, parts, (count + 1) / 2, offset), end_here();  \
        long all = admitted(file, sum(parts, count), offset, WRITES);                             \
        return all < 0 ? -1 : real(file, kept, shortened(kept, parts, count, all), offset);       \
    }

PLAIN(pread, void *, 0)
PLAIN(pread64, void *, 0)
PLAIN(pwrite, const void *, 1)
PLAIN(pwrite64, const void *, 1)
VECTOR(preadv, 0)
VECTOR(preadv64, 0)
VECTOR(pwritev, 1)
VECTOR(pwritev64, 1)

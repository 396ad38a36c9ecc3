// A small debugger that shows message queues: stops a process, finds in it the name of the library
// that reads its queues, and prints that library's results, a line each. The names, types and
// numbers are those of "MPI Message Queue Dumping Interface", version 1.0. The argument is the
// process.
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long address_t;
typedef struct { address_t id; long rank, size; char name[64]; } communicator_t;
typedef struct {
    int status;
    long rank, world_rank;
    int any_tag;
    long tag, length;
    int in_library;
    address_t buffer;
    long actual_rank, actual_world_rank, actual_tag, actual_length;
    char text[5][64];
} operation_t;

// One program with one process: the debugger's objects.
struct mqs_image_ { void *info; } image;
struct mqs_process_ { void *info; pid_t number; int memory; } process;
typedef struct mqs_image_ image_t;
typedef struct mqs_process_ process_t;

static void fail(const char *what) {
    fprintf(stderr, "mqs_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void print(const char *text) { fprintf(stderr, "%s\n", text); }
static char *error_text(int code) { (void)code; return "an error of mqs_client"; }
static void put_image(image_t *one, void *info) { one->info = info; }
static void *get_image(image_t *one) { return one->info; }
static void put_process(process_t *one, void *info) { one->info = info; }
static void *get_process(process_t *one) { return one->info; }
static image_t *image_of(process_t *one) { (void)one; return &image; }
static int rank_of(process_t *one) { (void)one; return 0; }

static int fetch(process_t *one, address_t address, int length, void *into) {
    return pread(one->memory, into, length, (off_t)address) == length ? 0 : 100;
}

static void convert(process_t *one, const void *from, void *into, int length) {
    (void)one;
    memcpy(into, from, length);
}

// The address of a symbol that others can link to, in a file that lies at `base`; 0: there is none.
static address_t symbol_in(const char *path, address_t base, const char *name) {
    struct stat status;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) || !S_ISREG(status.st_mode)) return 0;
    char *bytes = malloc(status.st_size);
    ssize_t got = read(file, bytes, status.st_size);
    close(file);
    address_t found = 0;
    Elf64_Ehdr *head = (Elf64_Ehdr *)bytes;
    if (got == status.st_size && got > (ssize_t)sizeof *head && !memcmp(bytes, ELFMAG, SELFMAG)) {
        Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + head->e_shoff);
        for (int i = 0; i < head->e_shnum; i++) {
            if (sections[i].sh_type != SHT_DYNSYM) continue;
            Elf64_Sym *symbols = (Elf64_Sym *)(bytes + sections[i].sh_offset);
            const char *names = bytes + sections[sections[i].sh_link].sh_offset;
            for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
                if (!strcmp(names + symbols[k].st_name, name) && symbols[k].st_shndx)
                    found = base + symbols[k].st_value;
        }
    }
    free(bytes);
    return found;
}

// In any file that the process has loaded.
static int find_symbol(image_t *one, char *name, address_t *address) {
    (void)one;
    char path[64], line[4096], file[4096];
    snprintf(path, sizeof path, "/proc/%d/maps", process.number);
    FILE *maps = fopen(path, "r");
    if (!maps) fail(path);
    *address = 0;
    while (!*address && fgets(line, sizeof line, maps)) {
        unsigned long start, offset;
        if (sscanf(line, "%lx-%*x %*s %lx %*s %*s %4095s", &start, &offset, file) == 3 && offset == 0 && file[0] == '/')
            *address = symbol_in(file, start, name);
    }
    fclose(maps);
    return *address ? 0 : 1;
}

static void *library;

static void *function(const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail(name);
    return found;
}

#define CALL(type, name, ...) ((type)function(name))(__VA_ARGS__)
typedef int (*of_process_t)(process_t *);

static void print_queue(int queue, const char *name) {
    operation_t one;
    if (CALL(int (*)(process_t *, int), "mqs_setup_operation_iterator", &process, queue)) return;
    while (CALL(int (*)(process_t *, operation_t *), "mqs_next_operation", &process, &one) == 0) {
        char tag[32] = "any", first = '-';
        if (!one.any_tag) snprintf(tag, sizeof tag, "%ld", one.tag);
        if (one.buffer) fetch(&process, one.buffer, 1, &first);
        printf("  %s: rank %ld, in the job %ld, tag %s, %ld bytes, first %c, status %d: %s\n", name, one.rank,
               one.world_rank, tag, one.length, queue == 0 ? first : '-', one.status, one.text[0]);
    }
}

static void print_communicator(void) {
    communicator_t one;
    if (CALL(int (*)(process_t *, communicator_t *), "mqs_get_communicator", &process, &one)) fail("communicator");
    int *ranks = calloc(one.size, sizeof *ranks);
    if (CALL(int (*)(process_t *, int *), "mqs_get_comm_group", &process, ranks)) fail("group");
    printf("%s: rank %ld of %ld, in the job", one.name, one.rank, one.size);
    for (int i = 0; i < one.size; i++) printf(" %d", ranks[i]);
    printf("\n");
    free(ranks);
    print_queue(0, "send");
    print_queue(1, "receive");
    print_queue(2, "message");
}

int main(int argc, char **argv) {
    static void *basic[] = {malloc, free, print, error_text, put_image, get_image, put_process, get_process};
    static void *of_images[] = {NULL, NULL, find_symbol, NULL, NULL, NULL};
    static void *of_processes[] = {rank_of, image_of, fetch, convert};
    char path[4096] = "", *message = NULL;
    address_t place;
    int status;
    if (argc != 2) return 2;
    process.number = atoi(argv[1]);
    if (ptrace(PTRACE_ATTACH, process.number, 0, 0) || waitpid(process.number, &status, __WALL) < 0) fail("attaching");
    snprintf(path, sizeof path, "/proc/%d/mem", process.number);
    process.memory = open(path, O_RDONLY);
    if (process.memory < 0) fail(path);
    if (find_symbol(&image, "MPIR_dll_name", &place) || fetch(&process, place, sizeof path, path)) fail("MPIR_dll_name");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "mqs_client: %s\n", dlerror());
        return 1;
    }
    CALL(void (*)(void *), "mqs_setup_basic_callbacks", basic);
    printf("%s, version %d, %d bytes\n", CALL(char *(*)(void), "mqs_version_string"),
           CALL(int (*)(void), "mqs_version_compatibility"), CALL(int (*)(void), "mqs_dll_taddr_width"));
    CALL(int (*)(image_t *, void *), "mqs_setup_image", &image, of_images);
    int code = CALL(int (*)(image_t *, char **), "mqs_image_has_queues", &image, &message);
    if (code == 0) code = CALL(int (*)(process_t *, void *), "mqs_setup_process", &process, of_processes);
    if (code == 0) code = CALL(int (*)(process_t *, char **), "mqs_process_has_queues", &process, &message);
    if (code == 0) code = CALL(of_process_t, "mqs_update_communicator_list", &process);
    if (code) {
        printf("no queues: %s\n", CALL(char *(*)(int), "mqs_dll_error_string", code));
        return 1;
    }
    code = CALL(of_process_t, "mqs_setup_communicator_iterator", &process);
    for (; code == 0; code = CALL(of_process_t, "mqs_next_communicator", &process)) print_communicator();
    CALL(void (*)(void *), "mqs_destroy_process_info", process.info);
    CALL(void (*)(void *), "mqs_destroy_image_info", image.info);
    ptrace(PTRACE_DETACH, process.number, 0, 0);
    return 0;
}

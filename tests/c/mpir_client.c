// A small debugger: starts a launcher as debuggers do, or attaches to a running one (-p PID), and
// prints the processes in its table, a line each, with their rank. It uses the names of "The MPIR
// Process Acquisition Interface", version 1.0.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t launcher;
static int memory;
static char *image;
static uint64_t base;

static void fail(const char *what) {
    fprintf(stderr, "mpir_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void get(uint64_t address, void *into, size_t length) {
    if (pread(memory, into, length, (off_t)address) != (ssize_t)length) fail("reading");
}

static void put(uint64_t address, const void *from, size_t length) {
    if (pwrite(memory, from, length, (off_t)address) != (ssize_t)length) fail("writing");
}

// Reads the file of the launcher, and where it lies in memory.
static void load(void) {
    char path[64], line[4096];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/exe", launcher);
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status)) fail(path);
    image = malloc(status.st_size);
    if (read(file, image, status.st_size) != status.st_size) fail(path);
    close(file);
    snprintf(path, sizeof path, "/proc/%d/maps", launcher);
    FILE *maps = fopen(path, "r");
    if (!maps || !fgets(line, sizeof line, maps)) fail(path);
    fclose(maps);
    base = ((Elf64_Ehdr *)image)->e_type == ET_DYN ? strtoull(line, NULL, 16) : 0;
    snprintf(path, sizeof path, "/proc/%d/mem", launcher);
    memory = open(path, O_RDWR);
    if (memory < 0) fail(path);
}

// Among the symbols that stay when a program is stripped.
static uint64_t symbol(const char *name) {
    Elf64_Ehdr *head = (Elf64_Ehdr *)image;
    Elf64_Shdr *sections = (Elf64_Shdr *)(image + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        Elf64_Sym *symbols = (Elf64_Sym *)(image + sections[i].sh_offset);
        const char *names = image + sections[sections[i].sh_link].sh_offset;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
            if (!strcmp(names + symbols[k].st_name, name) && symbols[k].st_shndx)
                return base + symbols[k].st_value;
    }
    fprintf(stderr, "mpir_client: the launcher has no %s\n", name);
    exit(1);
}

static void get_text(uint64_t address, char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        get(address + i, text + i, 1);
        if (!text[i]) return;
    }
    text[length - 1] = 0;
}

static void print_table(void) {
    struct { uint64_t host, executable; int process; } line;
    int size;
    uint64_t table;
    get(symbol("MPIR_proctable_size"), &size, sizeof size);
    get(symbol("MPIR_proctable"), &table, sizeof table);
    printf("%d processes\n", size);
    for (int i = 0; i < size; i++) {
        char host[256], executable[4096];
        get(table + i * sizeof line, &line, sizeof line);
        get_text(line.host, host, sizeof host);
        get_text(line.executable, executable, sizeof executable);
        printf("%d %s %s %d\n", i, host, executable, line.process);
    }
    fflush(stdout);
}

#if defined __x86_64__
// Starts the launcher, stops it at MPIR_Breakpoint, lets it go on, and ends as it does.
static int start(char **words) {
    int status, stopped = 0;
    launcher = fork();
    if (launcher == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execvp(words[0], words);
        fail(words[0]);
    }
    if (waitpid(launcher, &status, 0) < 0 || !WIFSTOPPED(status)) fail("starting");
    load();
    symbol("MPIR_i_am_starter");
    uint64_t place = symbol("MPIR_Breakpoint");
    const int yes = 1;
    const unsigned char trap = 0xcc;
    unsigned char code;
    put(symbol("MPIR_being_debugged"), &yes, sizeof yes);
    get(place, &code, 1);
    put(place, &trap, 1);
    ptrace(PTRACE_CONT, launcher, 0, 0);
    while (waitpid(launcher, &status, 0) == launcher && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        ptrace(PTRACE_GETREGS, launcher, 0, &registers);
        if (WSTOPSIG(status) != SIGTRAP || registers.rip != place + 1) {
            ptrace(PTRACE_CONT, launcher, 0, WSTOPSIG(status));
            continue;
        }
        int state;
        get(symbol("MPIR_debug_state"), &state, sizeof state);
        printf("state %d\n", state);
        print_table();
        // A process that does not wait would have left MPI_Init by now.
        nanosleep(&(struct timespec){0, 500000000}, NULL);
        printf("go on\n");
        fflush(stdout);
        put(place, &code, 1);
        registers.rip = place;
        ptrace(PTRACE_SETREGS, launcher, 0, &registers);
        ptrace(PTRACE_DETACH, launcher, 0, 0);
        stopped = 1;
    }
    if (!stopped) fprintf(stderr, "mpir_client: the launcher did not stop\n");
    return stopped && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
#else
static int start(char **words) {
    printf("not on this processor\n");
    return words == NULL;
}
#endif

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (strcmp(argv[1], "-p")) return start(argv + 1);
    launcher = atoi(argv[2]);
    load();
    print_table();
    return 0;
}

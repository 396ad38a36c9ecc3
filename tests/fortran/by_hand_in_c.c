/* In the place of the library's functions, which start no processes: what Fortran passes is checked, and the
 * results are known. */
#include <mpi.h>
#include <string.h>
#include <unistd.h>

/* A name for a file that no other process has. */
int process_in_c(void)
{
    return (int)getpid();
}

static int has_words(char **argv, int count, const char *const *words)
{
    for (int i = 0; i < count; i++)
        if (!argv[i] || strcmp(argv[i], words[i]) != 0) return 0;
    return argv[count] == NULL;
}

static int finish(int is_right, int is_short, int first, MPI_Comm *intercomm, int codes[])
{
    if (!is_right) return MPI_ERR_ARG;
    *intercomm = is_short ? MPI_COMM_NULL : MPI_COMM_WORLD;
    if (codes != MPI_ERRCODES_IGNORE)
        for (int i = 0; i < 3; i++) codes[i] = first + i;
    return is_short == (codes == MPI_ERRCODES_IGNORE) ? MPI_SUCCESS : MPI_ERR_ARG;
}

int MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
                   MPI_Comm *intercomm, int array_of_errcodes[])
{
    static const char *const words[] = {"one", " two"};
    int is_short = argv == MPI_ARGV_NULL;
    int is_right = strcmp(command, is_short ? "a program" : "  a program") == 0 && maxprocs == 3 &&
                   info == MPI_INFO_NULL && root == 0 && comm == MPI_COMM_SELF;
    return finish(is_right && (is_short || has_words(argv, 2, words)), is_short, 7, intercomm,
                  array_of_errcodes);
}

int MPI_Comm_spawn_multiple(int count, char *commands[], char **argvs[], const int maxprocs[],
                            const MPI_Info infos[], int root, MPI_Comm comm, MPI_Comm *intercomm,
                            int array_of_errcodes[])
{
    static const char *const first[] = {"a", "b"}, *const second[] = {"c"};
    int is_short = argvs == MPI_ARGVS_NULL;
    int is_right = count == 2 && strcmp(commands[0], "first") == 0 && strcmp(commands[1], "second") == 0 &&
                   maxprocs[0] == 1 && maxprocs[1] == 2 && infos[0] == MPI_INFO_NULL &&
                   infos[1] == MPI_INFO_NULL && root == 0 && comm == MPI_COMM_SELF;
    if (!is_short) is_right = is_right && has_words(argvs[0], 2, first) && has_words(argvs[1], 1, second);
    return finish(is_right, is_short, 4, intercomm, array_of_errcodes);
}

// Opens the file that the argument names, and prints the result on rank 0: tests/scenarios/files.py
// gives processes different files of this name.
#include "check.h"

int main(int argc, char **argv) {
    MPI_File file;
    char text[MPI_MAX_ERROR_STRING];
    int length, class = MPI_SUCCESS;
    check_begin();
    REQUIRE(argc == 2, "the file is missing");
    int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &length));
    if (code == MPI_SUCCESS) OK(MPI_File_close(&file));
    int alike[2] = {class, -class};
    OK(MPI_Allreduce(MPI_IN_PLACE, alike, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK(alike[0] == class && alike[1] == -class, "class %d is not that of all", class);
    const char *name = class == MPI_SUCCESS ? "the same" : class == MPI_ERR_NOT_SAME ? "not the same" : "other";
    if (check_rank == 0) printf("%s: %s\n", name, text);
    return check_end();
}

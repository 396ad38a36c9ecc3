// Random transfers of all processes on one file, against a model of its bytes (files_random.h).
// run: 1 2 3 5
// hosts
// checkers: address
#include "files_random.h"

int main(void) {
    check_begin();
    random_files(77);
    return check_end();
}

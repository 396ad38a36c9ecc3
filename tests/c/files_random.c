// Random transfers of all processes on one file, against a model of its bytes (files_random.h).
// run: 1 2 3 5
// hosts
// checkers: address
#include "files_random.h"

int main(void) {
    check_begin();
    in_all_settings(77, random_rounds);
    return check_end();
}

// Random transfers of all processes on one file, against a model of its bytes (files_random.h).
// run: 1 2 3 5
// hosts
// checkers: address
#include "files_random.h"

static void one(void) { in_all_settings(77, random_rounds); }

int main(int argc, char **argv) {
    check_begin();
    for_seeds(argc, argv, one);
    return check_end();
}

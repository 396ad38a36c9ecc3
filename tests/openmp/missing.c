// Calls a function that our library does not have.
extern void acc_init(int device);

int main(void) {
#pragma omp parallel
    ;
    acc_init(0);
    return 0;
}

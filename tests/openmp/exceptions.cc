// Threads of a team that outnumber the cores handle exceptions while they wait for each other: each
// keeps its own.
#include <cstdio>
#include <omp.h>
#include <stdexcept>
#include <string>

int main() {
    int wrong = 0;
    try {
        throw std::runtime_error("around");
    } catch (std::exception &) {
#pragma omp parallel num_threads(12) reduction(+ : wrong)
        for (int i = 0; i < 100; i++) {
            std::string own = "thread " + std::to_string(omp_get_thread_num()) + " in round " + std::to_string(i);
            try {
                throw std::runtime_error(own);
            } catch (std::exception &caught) {
#pragma omp barrier
                wrong += own != caught.what();
                try {
                    throw;
                } catch (std::runtime_error &again) {
#pragma omp barrier
                    wrong += own != again.what();
                }
            }
        }
        wrong += std::current_exception() == nullptr;
    }
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}

// How the processes of these tests end: by a child that each has for that.
#ifndef EXECUTIONER_H
#define EXECUTIONER_H

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

// A child that sends its parent a signal so long after the parent has written a byte to the
// descriptor that is returned. A process that was stopped by it is killed later.
static int executioner(int delay_us, int signal_number) {
    int ends[2];
    if (pipe(ends)) exit(1);
    pid_t parent = getpid();
    if (!fork()) {
        char byte;
        // The child ends with its parent, whatever ends the parent.
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        if (read(ends[0], &byte, 1) != 1) _exit(0);
        usleep(delay_us);
        // The parent has ended meanwhile.
        if (getppid() != parent) _exit(0);
        kill(parent, signal_number);
        if (signal_number == SIGSTOP) {
            usleep(delay_us % 400000);
            if (getppid() == parent) kill(parent, SIGKILL);
        }
        _exit(0);
    }
    close(ends[0]);
    return ends[1];
}

#endif

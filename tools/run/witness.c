/* SPDX-License-Identifier: Apache-2.0 */
/* The parent of a command: hands signals on to it, waits for its end, and hears from processes in
 * which the preloaded library has come to MPI or NCCL.
 *
 * The command is in the process group of this tool: the terminal's signals reach both. A signal
 * that was sent to this process alone has to be handed on. A signal that was sent to the whole
 * group must not be: the command has it already, and mpirun takes a second one for the order to end
 * at once without cleaning up. A process cannot tell the two apart. Therefore a second child, the
 * witness, is in the group, too, and only waits for signals. A signal that the witness gets as well
 * was sent to the group. As some programs signal the processes of a group one after the other, this
 * process waits WITNESS_SECONDS for the witness's report; then it asks, because the witness may not
 * have run in this time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/tool.h"
#include "tools/run/run.h"

#define WITNESS_SECONDS 0.2 /* after a signal, until the witness is asked */
#define QUESTION SIGRTMAX   /* the witness takes this signal after all others that have come */

struct watch {
    sigset_t signals; /* blocked, for this process and the witness to take */
    sigset_t inherited;
    struct sigaction inherited_child;
    int receiver; /* the socket; -1 once a datagram has come */
    int arrivals; /* signalfd */
    int reports;  /* from the witness: a byte for each signal that it gets */
    pid_t witness;
    pid_t command;
    double for_group[NSIG]; /* when the witness last reported the signal */
    bool interrupted;
    bool ended;
    int status; /* of the command, from waitpid, once it has ended */
};

int watch_run_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsigned long long random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    char *name = tool_format("compshim-%016llx%016llx", random[0], random[1]);
    const size_t length = strlen(name);
    /* A name behind a NUL is in the abstract namespace. */
    memcpy(address.sun_path + 1, name, length);
    int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (receiver < 0 || bind(receiver, (const struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
        return -1;
    /* Before the names of runs around this one. */
    const char *others = getenv(CSHIM_PRESENCE_VARIABLE);
    const bool nested = others != NULL && *others != '\0';
    name = tool_format("%s%s%s", name, nested ? "," : "", nested ? others : "");
    if (setenv(CSHIM_PRESENCE_VARIABLE, name, 1) != 0)
        tool_fail(TOOL_SYSTEM, "cannot set " CSHIM_PRESENCE_VARIABLE ": %s", strerror(errno));
    return receiver;
}

static void block_signals(struct watch *watch)
{
    /* All but the last three are handed on. */
    const int blocked[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP,
                           SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGPIPE, QUESTION};
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    /* If SIGCHLD is ignored, waitpid finds no child. */
    sigaction(SIGCHLD, &plain, &watch->inherited_child);
    sigemptyset(&watch->signals);
    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
        sigaddset(&watch->signals, blocked[i]);
    sigprocmask(SIG_BLOCK, &watch->signals, &watch->inherited);
    for (int signal = 0; signal < NSIG; signal++)
        watch->for_group[signal] = -WITNESS_SECONDS;
    watch->arrivals = signalfd(-1, &watch->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (watch->arrivals < 0)
        tool_fail(TOOL_SYSTEM, "cannot wait for signals: %s", strerror(errno));
}

static void open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        tool_fail(TOOL_SYSTEM, "cannot make a pipe: %s", strerror(errno));
}

/* Forks a child that is killed when this process ends. */
static pid_t start_child(void)
{
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0)
        tool_fail(TOOL_SYSTEM, "cannot start a process: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(TOOL_SYSTEM);
    }
    return child;
}

static void start_witness(struct watch *watch)
{
    int ends[2];
    open_pipe(ends);
    watch->witness = start_child();
    while (watch->witness == 0) {
        const int signal = sigwaitinfo(&watch->signals, NULL);
        const unsigned char report = (unsigned char)signal;
        if (signal > 0 && write(ends[1], &report, 1) != 1)
            _exit(TOOL_SYSTEM);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    watch->reports = ends[0];
}

static void start_command(struct watch *watch, char **words)
{
    int ends[2]; /* brings errno if the command cannot be started; execvp closes it */
    int error = 0;
    open_pipe(ends);
    watch->command = start_child();
    if (watch->command == 0) {
        sigaction(SIGCHLD, &watch->inherited_child, NULL);
        sigprocmask(SIG_SETMASK, &watch->inherited, NULL);
        execvp(words[0], words);
        error = errno;
        _exit(write(ends[1], &error, sizeof error) == (ssize_t)sizeof error ? 0 : TOOL_SYSTEM);
    }
    close(ends[1]);
    if (read(ends[0], &error, sizeof error) == (ssize_t)sizeof error) {
        kill(watch->witness, SIGKILL);
        tool_fail(TOOL_SYSTEM, "cannot run '%s': %s", words[0], strerror(error));
    }
    close(ends[0]);
}

/* Reads the witness's reports. Returns false if the witness has ended. */
static bool take_reports(struct watch *watch)
{
    unsigned char signal = 0;
    ssize_t bytes;
    while ((bytes = read(watch->reports, &signal, 1)) == 1)
        if (signal < NSIG)
            watch->for_group[signal] = cshim_seconds();
    return bytes != 0;
}

/* Whether a signal was sent to the whole group, and so to the command. */
static bool was_for_group(struct watch *watch, int signal)
{
    struct pollfd reports = {.fd = watch->reports, .events = POLLIN};
    const double noticed = cshim_seconds(), deadline = noticed + WITNESS_SECONDS;
    for (bool asked = false, present = true;;) {
        present = take_reports(watch);
        if (watch->for_group[signal] > noticed - WITNESS_SECONDS)
            return true;
        if (!present || (asked && watch->for_group[QUESTION] > deadline))
            return false;
        const double left = deadline - cshim_seconds();
        if (left <= 0 && !asked) {
            kill(watch->witness, QUESTION);
            kill(watch->witness, SIGCONT); /* it may be stopped, as the group was */
            asked = true;
        }
        poll(&reports, 1, asked ? -1 : 1 + (int)(1e3 * left));
    }
}

static void take_signals(struct watch *watch)
{
    struct signalfd_siginfo arrived;
    while (read(watch->arrivals, &arrived, sizeof arrived) == (ssize_t)sizeof arrived) {
        const int signal = (int)arrived.ssi_signo;
        /* The kernel sends the signals of the terminal's keys to the group. It may send SIGHUP, for
         * the end of the terminal, to one process. */
        const bool of_keys = arrived.ssi_code > 0 && signal != SIGHUP;
        if (signal == SIGCHLD || signal == SIGPIPE || signal == QUESTION)
            continue;
        watch->interrupted |=
            signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
        /* SIGCONT is always handed on: a second one does no harm, and waiting could let a later
         * stop come before it. */
        if (signal == SIGCONT || (!of_keys && !was_for_group(watch, signal)))
            kill(watch->command, signal);
    }
}

static void take_datagram(struct watch *watch)
{
    char byte = 0;
    if (watch->receiver < 0 || recv(watch->receiver, &byte, 1, 0) < 0)
        return;
    close(watch->receiver);
    watch->receiver = -1;
}

/* Notes the end of the command. If the command has stopped, stops this process, too, for the shell
 * to see; SIGCONT ends that. */
static void take_children(struct watch *watch)
{
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (child != watch->command)
            continue;
        if (WIFSTOPPED(status)) {
            raise(SIGSTOP);
            return;
        }
        watch->ended = true;
        watch->status = status;
    }
}

static void attend(struct watch *watch)
{
    while (!watch->ended) {
        struct pollfd sources[] = {{.fd = watch->arrivals, .events = POLLIN},
                                   {.fd = watch->reports, .events = POLLIN},
                                   {.fd = watch->receiver, .events = POLLIN}};
        poll(sources, sizeof sources / sizeof *sources, -1);
        take_reports(watch);
        take_signals(watch);
        take_children(watch);
        take_datagram(watch); /* the last step: what has ended has sent its datagram before */
    }
    kill(watch->witness, SIGKILL);
    waitpid(watch->witness, NULL, 0);
}

/* Ends this process by a signal, so that its parent sees what it would see of the command. */
static _Noreturn void end_by(int signal_number)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal_number);
    prctl(PR_SET_DUMPABLE, 0); /* no core: the command has left one */
    signal(signal_number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(signal_number);
    _exit(128 + signal_number);
}

int watch_run(char **words, int receiver, bool dlsym)
{
    struct watch watch = {.receiver = receiver};
    block_signals(&watch);
    start_witness(&watch);
    start_command(&watch, words);
    attend(&watch);
    if (WIFSIGNALED(watch.status))
        end_by(WTERMSIG(watch.status));
    const char *program = *check_behind_launchers(words);
    if (watch.receiver >= 0 && !watch.interrupted)
        tool_warn(
            "nothing was caught: no process of this job on this host came to MPI or NCCL through "
            "the library; 'compshim check %s' tells more%s",
            program != NULL ? program : "PROGRAM",
            dlsym ? "" : ", and run --dlsym reaches programs that fetch functions with dlsym");
    return WEXITSTATUS(watch.status);
}

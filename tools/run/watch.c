/* SPDX-License-Identifier: Apache-2.0 */
/* The command is in the tool's process group, so the terminal's signals reach both. A signal that
 * was sent to this process alone must be forwarded. One that was sent to the whole group must not:
 * the command has it already, and mpirun ends without cleaning up at the second one. A process
 * cannot distinguish the two. So another child in the group, the witness, waits for signals: one
 * that it receives, too, was sent to the group. Some programs signal the processes of a group one
 * after the other, so this process waits WITNESS_SECONDS for the witness's report; then it asks the
 * witness, which may not have run in this time. */
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
#define QUESTION SIGRTMAX   /* the witness receives this signal after all others that are pending */

struct watch {
    sigset_t signals; /* blocked, and received by this process and the witness */
    sigset_t inherited;
    struct sigaction inherited_child;
    int receiver; /* socket; -1 once a datagram has come */
    int arrivals; /* signalfd */
    int reports;  /* pipe from the witness: a byte for each signal that it receives */
    pid_t witness;
    pid_t command;
    double for_group[NSIG]; /* time of the witness's last report of each signal */
    bool interrupted;
    bool ended;
    int status; /* the command's status from waitpid(), once it has ended */
};

int run_open_receiver(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsigned long long random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    char *name = tool_format("compshim-%016llx%016llx", random[0], random[1]);
    const size_t length = strlen(name);
    /* a leading NUL: abstract namespace */
    memcpy(address.sun_path + 1, name, length);
    int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (receiver < 0 || bind(receiver, (const struct sockaddr *)&address,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
        return -1;
    /* the new name precedes those of enclosing runs */
    const char *others = getenv(CSHIM_PRESENCE_VARIABLE);
    const bool nested = others != NULL && *others != '\0';
    name = tool_format("%s%s%s", name, nested ? "," : "", nested ? others : "");
    tool_set_variable(CSHIM_PRESENCE_VARIABLE, name, false);
    return receiver;
}

static void block_signals(struct watch *watch)
{
    /* The last three are never forwarded. */
    const int blocked[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU,
                           SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGPIPE, QUESTION};
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
        err(TOOL_SYSTEM, "cannot wait for signals");
}

static void open_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        err(TOOL_SYSTEM, "cannot make a pipe");
}

/* Forks a child that is killed when this process ends. */
static pid_t start_child(void)
{
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0)
        err(TOOL_SYSTEM, "cannot start a process");
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

/* The system reports a missing interpreter or dynamic linker as if the file itself were missing. */
_Noreturn void run_fail_to_start(const char *name, int error)
{
    struct check_program program;
    struct object object;
    unsetenv("LD_PRELOAD");
    const char *problem = error == ENOENT ? check_program_find(&program, name) : NULL;
    if (problem != NULL && program.path != NULL)
        errx(TOOL_SYSTEM, "cannot run %s", problem);
    if (problem == NULL && error == ENOENT && object_open(&object, program.path) &&
        object.interpreter != NULL && access(object.interpreter, F_OK) != 0)
        errx(TOOL_SYSTEM, "cannot run '%s': its loader %s does not exist", name,
             object.interpreter);
    errx(TOOL_SYSTEM, "cannot run '%s': %s", name, strerror(error));
}

static void start_command(struct watch *watch, char **words)
{
    int ends[2]; /* carries errno if the command cannot be started; execvp closes it */
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
        run_fail_to_start(words[0], error);
    }
    close(ends[0]);
}

/* Reads the witness's reports. Returns false if the witness has ended. */
static bool take_reports(struct watch *watch)
{
    unsigned char signal = 0;
    ssize_t bytes = 0;
    while (watch->reports >= 0 && (bytes = read(watch->reports, &signal, 1)) == 1)
        if (signal < NSIG)
            watch->for_group[signal] = cshim_seconds();
    return bytes != 0;
}

/* Returns true if a signal was sent to the whole group, and so to the command. */
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
            kill(watch->witness, SIGCONT); /* the witness may be stopped, like the group */
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
        /* The kernel sends the signals of terminal keys to the whole group. It may send SIGHUP,
         * when the terminal closes, to one process only. */
        const bool of_keys = arrived.ssi_code > 0 && signal != SIGHUP;
        if (signal == SIGCHLD || signal == SIGPIPE || signal == QUESTION)
            continue;
        watch->interrupted |=
            signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
        /* SIGCONT is always forwarded: a second one does no harm, and a delay could let a later
         * stop overtake it. */
        if (signal == SIGCONT || (!of_keys && !was_for_group(watch, signal)))
            kill(watch->command, signal);
    }
}

/* Records the end of the command. If the command was stopped by the terminal's key or for reading
 * from it, stops this process, too, so that the shell sees it; SIGCONT ends that. Does not for
 * SIGSTOP: who stops the command alone will continue it alone. */
static void take_children(struct watch *watch)
{
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
        if (child != watch->command)
            continue;
        if (WIFSTOPPED(status)) {
            if (WSTOPSIG(status) != SIGSTOP)
                raise(SIGSTOP);
            return;
        }
        watch->ended = true;
        watch->status = status;
    }
}

static void attend(struct watch *watch)
{
    char datagram = 0;
    while (!watch->ended) {
        struct pollfd sources[] = {{.fd = watch->arrivals, .events = POLLIN},
                                   {.fd = watch->reports, .events = POLLIN},
                                   {.fd = watch->receiver, .events = POLLIN}};
        poll(sources, sizeof sources / sizeof *sources, -1);
        if (watch->reports >= 0 && !take_reports(watch)) { /* somebody has killed the witness */
            close(watch->reports);
            watch->reports = -1;
        }
        take_signals(watch);
        take_children(watch);
        /* Checked last: an ended process has sent its datagram before. */
        if (watch->receiver >= 0 && recv(watch->receiver, &datagram, 1, 0) >= 0) {
            close(watch->receiver);
            watch->receiver = -1;
        }
    }
    kill(watch->witness, SIGKILL);
    waitpid(watch->witness, NULL, 0);
}

/* Ends this process by a signal, so that its parent sees the same status as for the command. */
static _Noreturn void end_by(int signal_number)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal_number);
    prctl(PR_SET_DUMPABLE, 0); /* no core dump: the command's is enough */
    signal(signal_number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    raise(signal_number);
    _exit(128 + signal_number);
}

/* Warns, with advice, that no process used MPI, NCCL or gloo through the library. The tool does
 * not see what a script starts, or whether the script removed LD_PRELOAD. */
static void warn_nothing_caught(const char *name, bool with_dlsym)
{
    struct check_program program;
    const char *advice = tool_format("see 'compshim check %s'", name != NULL ? name : "PROGRAM");
    if (name != NULL && check_program_find(&program, name) == NULL &&
        check_calling(program.path) == CHECK_STARTER)
        advice = tool_format("if what %s starts calls them, LD_PRELOAD was lost on the way (unset, "
                             "env -i, sudo, a container): put compshim run there, before the "
                             "program",
                             name);
    warnx("nothing was caught: no process of this job on this host came to MPI, NCCL or gloo "
          "through the library; %s%s",
          advice,
          with_dlsym ? "" : ", and run --dlsym reaches programs that fetch functions with dlsym");
}

int run_watched(char **words, int receiver, bool with_dlsym)
{
    struct watch watch = {.receiver = receiver};
    block_signals(&watch);
    start_witness(&watch);
    start_command(&watch, words);
    attend(&watch);
    if (WIFSIGNALED(watch.status))
        end_by(WTERMSIG(watch.status));
    if (watch.receiver >= 0 && !watch.interrupted && watch.status == 0)
        warn_nothing_caught(*check_behind_launchers(words), with_dlsym);
    return WEXITSTATUS(watch.status);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files of this installation, LD_PRELOAD, the policy of a launch, and measured programs. */
#include "tools/lib/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "tools/lib/tool.h"

#define LIBRARY_NAME "libcompshim.so"
#define DLSYM_NAME "libcompshim_dl.so"

/* LD_PRELOAD has both as separators, and no quotes. */
#define PRELOAD_SEPARATORS " :"

#define OUTPUT_KEPT (1u << 20) /* least bytes kept of the end of a long output */
#define TICK_MILLISECONDS 100
#define TAIL_LINES 40
#define GRACE_SECONDS 5.0 /* between SIGTERM and SIGKILL: mpirun has to clean up its ranks */

char *launch_find(const char *name, const char *const *folders, size_t count, const char *advice)
{
    char *tool = realpath("/proc/self/exe", NULL);
    if (tool == NULL)
        err(TOOL_SYSTEM, "cannot find this program's own file by /proc/self/exe");
    *strrchr(tool, '/') = '\0';
    char *found = NULL;
    for (size_t i = 0; i < count && found == NULL; i++)
        found = realpath(tool_format("%s%s/%s", tool, folders[i], name), NULL);
    if (found == NULL)
        errx(TOOL_SYSTEM, "no %s in %s, %s", name, tool, advice);
    return found;
}

char *launch_find_library(void)
{
    static const char *const folders[] = {"", "/../lib", "/../lib64", "/../lib/x86_64-linux-gnu",
                                          "/../lib/aarch64-linux-gnu"};
    char *library = launch_find(LIBRARY_NAME, folders, sizeof folders / sizeof *folders,
                                "nor in lib, lib64, lib/x86_64-linux-gnu or lib/aarch64-linux-gnu "
                                "beside it; build it with make or install both into one prefix");
    if (strpbrk(library, PRELOAD_SEPARATORS) != NULL)
        errx(TOOL_SYSTEM,
             "%s: LD_PRELOAD cannot name a path with a space or a colon; move the library",
             library);
    return library;
}

static bool is_shim(const char *entry, size_t length)
{
    const char *slash = memrchr(entry, '/', length);
    const char *name = slash != NULL ? slash + 1 : entry;
    return tool_is_listed(LIBRARY_NAME " " DLSYM_NAME, ' ', name, (size_t)(entry + length - name));
}

char *launch_with_dlsym(const char *library)
{
    int folder = (int)(strrchr(library, '/') - library);
    char *value = tool_format("%s:%.*s/" DLSYM_NAME, library, folder, library);
    const char *added = value + strlen(library) + 1;
    if (access(added, R_OK) != 0)
        errx(TOOL_SYSTEM, "%s: %s; build it with make, or run without --dlsym", added,
             strerror(errno));
    return value;
}

char *launch_preload(const char *library, const char *existing)
{
    char *value = tool_copy(library != NULL ? library : "");
    for (const char *entry = existing; entry != NULL && *entry != '\0';) {
        size_t length = strcspn(entry, PRELOAD_SEPARATORS);
        if (length > 0 && !is_shim(entry, length))
            value = tool_format("%s%s%.*s", value, *value != '\0' ? ":" : "", (int)length, entry);
        entry += length;
        entry += strspn(entry, PRELOAD_SEPARATORS);
    }
    return value;
}

struct cshim_policy *launch_parse_policy(const char *text, size_t length, const char *source,
                                         char message[CSHIM_MESSAGE_MAX])
{
    if (message[0] != '\0')
        warnx("%s", message);
    struct cshim_policy *policy = cshim_policy_parse(text, length, source, message);
    if (policy == NULL)
        errx(TOOL_NOT_SO, "%s", message);
    if (policy->rule_count == 0)
        warnx("%s: it has no rules: everything is passed through", source);
    return policy;
}

struct cshim_policy *launch_load_policy(const char *path)
{
    size_t length = 0;
    char source[CSHIM_PATH_MAX];
    char message[CSHIM_MESSAGE_MAX];
    char *text = cshim_policy_load(path, &length, source, message);
    if (text == NULL)
        errx(TOOL_NOT_SO, "%s", message);
    return launch_parse_policy(text, length, source, message);
}

char *launch_absolute(const char *path)
{
    char *absolute = realpath(path, NULL);
    if (absolute == NULL)
        err(TOOL_SYSTEM, "%s", path);
    return absolute;
}

char *launch_name_policy(const char *path)
{
    return cshim_policy_is_named(path) ? tool_copy(path) : launch_absolute(path);
}

/* Returns the number of ranks that a launcher's command line asks for: the first -n or -np of each
 * of its parts, which colons separate. */
static unsigned long count_ranks(char *const *command)
{
    unsigned long ranks = 0;
    bool is_counted = false;
    for (; *command != NULL; command++) {
        const char *name = *command + strspn(*command, "-");
        if (strcmp(*command, ":") == 0) {
            is_counted = false;
        } else if (!is_counted && name != *command && command[1] != NULL &&
                   (strcmp(name, "n") == 0 || strcmp(name, "np") == 0)) {
            ranks += strtoul(command[1], NULL, 10);
            is_counted = true;
        }
    }
    return ranks;
}

/* Returns about the number of cores that this process may use: half of its processors if cores run
 * two threads. */
static unsigned long count_cores(void)
{
    cpu_set_t set;
    FILE *smt = fopen("/sys/devices/system/cpu/smt/active", "re");
    const bool are_shared = smt != NULL && fgetc(smt) == '1';
    if (smt != NULL)
        fclose(smt);
    unsigned long processors = sched_getaffinity(0, sizeof set, &set) == 0
                                   ? (unsigned long)CPU_COUNT(&set)
                                   : (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
    return are_shared ? (processors + 1) / 2 : processors;
}

char *launch_make_folder(char *template)
{
    if (mkdtemp(template) == NULL)
        err(TOOL_SYSTEM, "cannot make a folder %s", template);
    char *folder = launch_absolute(template);
    if (strchr(folder, '{') != NULL) {
        rmdir(folder);
        errx(TOOL_SYSTEM,
             "the folder %s has a brace in its name, which has a meaning in "
             "COMPSHIM_REPORT: take another",
             folder);
    }
    return folder;
}

void launch_permit_mpirun(char *const *command, bool is_local)
{
    bool is_mpirun = false; /* env or timeout may precede the launcher */
    for (char *const *word = command; *word != NULL; word++)
        is_mpirun |=
            tool_is_program(*word, "mpirun mpirun.openmpi mpiexec mpiexec.openmpi orterun prterun");
    if (!is_mpirun)
        return;
    if (is_local && count_ranks(command) > count_cores()) {
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
        setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
    }
    if (geteuid() == 0 && getenv("OMPI_ALLOW_RUN_AS_ROOT") == NULL) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
        warnx("note: mpirun is allowed to run as root, by OMPI_ALLOW_RUN_AS_ROOT");
    }
}

static volatile sig_atomic_t stop_signal;

static void note_signal(int signal)
{
    stop_signal = signal;
}

/* Signals whose actions this program sets for itself, and restores for its children: it ignores
 * SIGPIPE and SIGTSTP, and must not ignore SIGCHLD. */
static const int kept_signals[] = {SIGCHLD, SIGPIPE, SIGTSTP};
#define KEPT_SIGNALS (sizeof kept_signals / sizeof *kept_signals)
static struct sigaction inherited[KEPT_SIGNALS];
static bool catches_signals;

void child_catch_signals(void)
{
    static const int stopping[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = note_signal}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
        sigaction(stopping[i], NULL, &before);
        if (stopping[i] != SIGHUP || before.sa_handler != SIG_IGN) /* not after nohup */
            sigaction(stopping[i], &action, NULL);
    }
    for (size_t i = 0; i < KEPT_SIGNALS; i++) {
        action.sa_handler = kept_signals[i] == SIGCHLD ? SIG_DFL : SIG_IGN;
        sigaction(kept_signals[i], &action, &inherited[i]);
    }
    catches_signals = true;
}

int child_stop_signal(void)
{
    return stop_signal;
}

/* Runs in the child after fork. Replaces the caller's settings of the shim by those of `child`. */
static _Noreturn void exec_program(const struct child *child, int output)
{
    static const char *const settings[] = {"COMPSHIM",         "COMPSHIM_POLICY", "COMPSHIM_REPORT",
                                           "COMPSHIM_LOG",     "COMPSHIM_TRACE",  "COMPSHIM_LIVE",
                                           "COMPSHIM_MACHINE", "LD_PRELOAD"};
    const char *preload = launch_preload(child->library, getenv("LD_PRELOAD"));
    setpgid(0, 0);
    for (size_t i = 0; i < KEPT_SIGNALS && catches_signals; i++)
        sigaction(kept_signals[i], &inherited[i], NULL);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input >= 0)
        dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    if (child->policy != NULL)
        setenv("COMPSHIM_POLICY", child->policy, 1);
    if (child->report != NULL)
        setenv("COMPSHIM_REPORT", child->report, 1);
    if (*preload != '\0')
        setenv("LD_PRELOAD", preload, 1);
    launch_permit_mpirun(child->command, child->is_local);
    execvp(child->command[0], child->command);
    int error = errno;
    unsetenv("LD_PRELOAD");
    dprintf(STDERR_FILENO, "cannot run '%s': %s\n", child->command[0], strerror(error));
    _exit(127);
}

static pid_t start_process(const struct child *child, int *output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        err(TOOL_SYSTEM, "cannot make a pipe");
    fflush(NULL);
    pid_t process = fork();
    if (process < 0)
        err(TOOL_SYSTEM, "cannot start a process");
    if (process == 0)
        exec_program(child, ends[1]);
    setpgid(process, process); /* the child does it too: either may be first */
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *output = ends[0];
    return process;
}

/* Reads what the pipe contains. Returns false when no writer is left. */
static bool collect_output(struct child *child, int output)
{
    for (;;) {
        if (child->length == 2 * OUTPUT_KEPT) {
            memmove(child->output, child->output + OUTPUT_KEPT, OUTPUT_KEPT);
            child->length = OUTPUT_KEPT;
        }
        ssize_t got = read(output, child->output + child->length, 2 * OUTPUT_KEPT - child->length);
        if (got <= 0)
            return got < 0;
        for (char *text = child->output + child->length; got > 0; got--, text++) {
            *text = *text != '\0' ? *text : ' '; /* the output is read as text */
            child->length++;
        }
    }
}

static void show_progress(const struct child *child, double seconds)
{
    double left = child->left - seconds;
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K%s  %.0f s", child->progress, seconds);
    if (child->left < 0)
        return;
    if (left < 90)
        fprintf(stderr, ", about %.0f s left", left > 0 ? left : 0);
    else
        fprintf(stderr, ", about %.0f minutes left", left / 60);
}

/* Waits for the child's end, and collects its output meanwhile. */
static void wait_for_end(struct child *child, pid_t process, int output)
{
    struct pollfd pipe_end = {.fd = output, .events = POLLIN};
    double begin = cshim_seconds();
    double deadline = 0; /* deadline for the end after a signal; 0: none */
    double shown = 0;
    for (;;) {
        if (stop_signal != 0 && cshim_seconds() >= deadline) {
            kill(-process, deadline == 0 ? SIGTERM : SIGKILL);
            deadline = cshim_seconds() + GRACE_SECONDS;
        }
        poll(&pipe_end, 1, pipe_end.fd >= 0 ? TICK_MILLISECONDS : 1);
        if (pipe_end.fd >= 0 && !collect_output(child, output))
            pipe_end.fd = -1;
        const pid_t ended = waitpid(process, &child->status, WNOHANG);
        if (ended < 0 && errno != EINTR)
            child->status = -1;
        if (ended == process || (ended < 0 && errno != EINTR))
            break;
        if (cshim_seconds() - shown < 1e-3 * TICK_MILLISECONDS)
            continue;
        shown = cshim_seconds();
        show_progress(child, shown - begin);
        if (child->watch != NULL)
            child->watch();
    }
    child->wall = cshim_seconds() - begin;
    collect_output(child, output);
}

enum child_end child_run(struct child *child)
{
    int output = -1;
    child->output = tool_allocate(2 * OUTPUT_KEPT + 1, 1);
    if (!isatty(STDERR_FILENO))
        fprintf(stderr, "%s\n", child->progress);
    pid_t process = start_process(child, &output);
    wait_for_end(child, process, output);
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    close(output);
    child->output[child->length] = '\0';
    if (stop_signal == 0)
        return child->status == 0 ? CHILD_DONE : CHILD_FAILED;
    kill(-process, SIGKILL); /* kills processes that have outlived the group's leader */
    return CHILD_STOPPED;
}

char *child_tail(const char *output)
{
    const char *begin = output + strlen(output);
    while (begin > output && begin[-1] == '\n')
        begin--;
    size_t length = (size_t)(begin - output);
    for (int lines = 0; begin > output; begin--)
        if (begin[-1] == '\n' && ++lines == TAIL_LINES)
            break;
    return tool_format("%.*s", (int)(length - (size_t)(begin - output)), begin);
}

void child_report_failure(const struct child *child, const char *what, const char *between)
{
    const char *tail = child_tail(child->output);
    const bool signalled = WIFSIGNALED(child->status);
    warnx("%s failed (%s %d)%sits last lines:\n%s", what, signalled ? "signal" : "exit status",
          signalled ? WTERMSIG(child->status) : WEXITSTATUS(child->status), between,
          *tail != '\0' ? tail : "(no output)");
}

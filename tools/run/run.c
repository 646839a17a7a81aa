/* SPDX-License-Identifier: Apache-2.0 */
/* compshim run: starts a program with the shim preloaded, and makes launchers pass the preload on.
 *
 * If it is certain that all processes of the command run on this host, the shim is not off, and a
 * socket can be opened, the tool stays as the command's parent: it forwards signals, waits for the
 * end, and learns by a datagram that a process uses MPI, NCCL or gloo through the preloaded
 * library.
 *
 * The command is in the tool's process group, so the terminal's signals reach both. A signal that
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

#include "policy/policy.h"
#include "shim/core/clock.h"
#include "shim/core/environment.h"
#include "tools/check/check.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"

#define WITNESS_SECONDS 0.2 /* after a signal, until the witness is asked */
#define QUESTION SIGRTMAX   /* the witness receives this signal after all others that are pending */

static const char *policy_file;
static bool off, with_dlsym, verbose;

static const struct tool_option options[] = {
    {"policy", 'p', TOOL_TEXT, &policy_file, "FILE",
     "use this policy.ini, or a built-in @policy (it is checked before anything starts)"},
    {"off", 0, TOOL_FLAG, &off, NULL, "preload the shim but let it compress nothing"},
    {"dlsym", 0, TOOL_FLAG, &with_dlsym, NULL,
     "also catch MPI and NCCL functions that the program fetches with dlsym"},
    {"verbose", 'v', TOOL_FLAG, &verbose, NULL,
     "print to stderr what is set, what was found, and how it reaches the ranks"},
    {0},
};

static void set_variable(const char *name, const char *value, bool is_told)
{
    if (setenv(name, value, 1) != 0)
        err(TOOL_SYSTEM, "cannot set %s", name);
    if (is_told)
        warnx("%s=%s", name, value);
}

/* Makes a relative name in COMPSHIM_POLICY absolute, because the program may change its folder. */
static void make_policy_absolute(void)
{
    const char *policy = getenv("COMPSHIM_POLICY");
    const bool is_relative = policy != NULL && *policy != '/' && !cshim_policy_is_named(policy);
    const char *absolute = is_relative ? realpath(policy, NULL) : NULL;
    if (absolute != NULL)
        set_variable("COMPSHIM_POLICY", absolute, verbose);
}

/* Allows the address sanitizer to start after a preloaded object, unless the user has set that
 * option. */
static void permit_order(void)
{
    const char *options = getenv("ASAN_OPTIONS");
    const bool is_empty = options == NULL || *options == '\0';
    if (is_empty || strstr(options, "verify_asan_link_order") == NULL)
        set_variable(
            "ASAN_OPTIONS",
            tool_format("%s%s" CSHIM_ASAN_OPTION, is_empty ? "" : options, is_empty ? "" : ":"),
            verbose);
}

/* Sets the command's environment. */
static void prepare_environment(void)
{
    char *library = launch_find_library();
    if (!off || policy_file != NULL) {
        /* Finds errors in the policy now: they would end the job at its start. */
        const struct cshim_policy *policy = launch_load_policy(policy_file);
        if (verbose)
            warnx("policy: %s", policy->source);
    }
    if (with_dlsym)
        library = launch_with_dlsym(library);
    if (policy_file != NULL)
        set_variable("COMPSHIM_POLICY", launch_name_policy(policy_file), verbose);
    else
        make_policy_absolute();
    if (off)
        set_variable("COMPSHIM", "off", verbose);
    set_variable("LD_PRELOAD", launch_preload(library, getenv("LD_PRELOAD")), verbose);
}

/* Returns the comma-separated names in `list`, followed by those of the other variables that are
 * set and that all ranks need (cshim_is_forwarded). */
static const char *add_ours(const char *list)
{
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (cshim_is_forwarded(*entry) && !tool_is_listed(list, ',', *entry, length))
            list = tool_format("%s%s%.*s", list, *list != '\0' ? "," : "", (int)length, *entry);
    }
    return list;
}

/* Returns the word with the value of --export among a launcher's words, the first of which is its
 * own name: "--export=VALUE", or the word after "--export". NULL if the option is not given. */
static char **find_export(char **words, char *const *end)
{
    for (char **word = words + 1; word < end; word++)
        if (tool_starts_with(*word, "--export="))
            return word;
        else if (strcmp(*word, "--export") == 0 && word + 1 < end)
            return word + 1;
    return NULL;
}

/* Adds LD_PRELOAD and COMPSHIM_* to the list of variables that srun passes to its tasks. Without a
 * list, or with ALL in it, srun passes all variables. */
static void fix_srun(char **words, char *const *end)
{
    char **word = find_export(words, end);
    const char *begin = word != NULL && tool_starts_with(*word, "--export=") ? "--export=" : "";
    const char *list = word != NULL ? *word + strlen(begin) : getenv("SLURM_EXPORT_ENV");
    const char *changed = list;
    if (list != NULL && !tool_is_listed(list, ',', "ALL", strlen("ALL")))
        changed = add_ours(strcmp(list, "NONE") != 0 ? list : "");
    if (list == NULL || strcmp(changed, list) == 0) {
        if (verbose)
            warnx("srun: LD_PRELOAD and COMPSHIM_* are passed to all tasks");
        return;
    }
    if (word != NULL)
        *word = tool_format("%s%s", begin, changed);
    else
        set_variable("SLURM_EXPORT_ENV", changed, false);
    warnx("srun: %s is changed to %s, so that the library reaches the tasks",
          word != NULL ? "--export" : "SLURM_EXPORT_ENV", changed);
}

/* Only warns: it is not known how the batch script handles its environment. */
static void warn_sbatch(char **words, char *const *end)
{
    char **word = find_export(words, end);
    const char *list = word != NULL ? *word : getenv("SBATCH_EXPORT");
    if (list != NULL && strstr(list, "ALL") == NULL && strstr(list, "LD_PRELOAD") == NULL)
        warnx("sbatch: --export keeps LD_PRELOAD from the script; let the script start the "
              "program by compshim run");
    else if (verbose)
        warnx("sbatch: LD_PRELOAD and COMPSHIM_* are passed to the script and its programs");
}

/* Returns true if a launcher is Hydra: MPICH's mpirun is a link to mpiexec.hydra. */
static bool is_hydra(const char *name)
{
    struct check_program program;
    if (check_program_find(&program, name) != NULL)
        return false;
    const char *real = realpath(program.scripts > 0 ? program.script_paths[0] : program.path, NULL);
    return real != NULL && strstr(basename(real), "hydra") != NULL;
}

static void warn_mpirun(char **words, char *const *end)
{
    bool hydra = is_hydra(words[0]);
    for (char **word = words + 1; word < end; word++) {
        if (strcmp(*word, "mca_base_env_list") == 0)
            warnx("mpirun: mca_base_env_list is left as given: it must name LD_PRELOAD and "
                  "COMPSHIM_*");
        if (hydra && (strcmp(*word, "-genvnone") == 0 || strcmp(*word, "-genvlist") == 0))
            warnx("mpirun: %s keeps LD_PRELOAD from the ranks; use -genvall, or name LD_PRELOAD "
                  "and COMPSHIM_*",
                  *word);
    }
    if (verbose)
        warnx(hydra ? "mpirun: Hydra passes its environment to all ranks"
                    : "mpirun: the library has Open MPI forward LD_PRELOAD and COMPSHIM_* to "
                      "all nodes, unless its options or files say what is forwarded");
}

static void warn_horovodrun(char **words, char *const *end)
{
    for (char **word = words + 1; word < end; word++)
        if (strcmp(*word, "--gloo") == 0)
            warnx("horovodrun: Horovod has a gloo of its own, which it hides: its all-reduces are "
                  "not caught; use --mpi");
}

/* Returns a list of LD_PRELOAD and the shim's variables, separated by `separator`; each as
 * `before`, name, `between`, value, `after`; for text that is inside single quotes of a shell.
 * `is_json`: the values are parts of JSON strings. Without COMPSHIM_RUN, which is for processes of
 * this host. */
static const char *list_ours(const char *separator, const char *before, const char *between,
                             const char *after, bool is_json)
{
    const char *list = "";
    for (char **entry = environ; *entry != NULL; entry++) {
        const int length = (int)strcspn(*entry, "=");
        const char *value = *entry + length + ((*entry)[length] == '=');
        if (!cshim_is_forwarded(*entry) || tool_starts_with(*entry, CSHIM_PRESENCE_VARIABLE "="))
            continue;
        if (is_json)
            value = tool_replace(tool_replace(value, "\\", "\\\\"), "\"", "\\\"");
        list = tool_format("%s%s%s%.*s%s%s%s", list, *list != '\0' ? separator : "", before, length,
                           *entry, between, tool_replace(value, "'", "'\\''"), after);
    }
    return list;
}

/* Returns true if one of DeepSpeed's files of variables names LD_PRELOAD. */
static bool has_deepspeed_variables(void)
{
    const char *home = getenv("HOME"), *name = getenv("DS_ENV_FILE");
    const char *const folders[] = {home != NULL ? home : "", "."};
    char line[4096];
    bool is_named = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *path = tool_format("%s/%s", folders[i], name != NULL ? name : ".deepspeed_env");
        FILE *file = tool_is_regular(path) ? fopen(path, "re") : NULL;
        while (file != NULL && fgets(line, sizeof line, file) != NULL)
            is_named |= tool_starts_with(line, "LD_PRELOAD=");
        if (file != NULL)
            fclose(file);
    }
    return is_named;
}

/* Warns if DeepSpeed does not pass LD_PRELOAD to other hosts: it passes the variables of some
 * libraries and those in its own file. */
static void warn_deepspeed(char **words, char *const *end)
{
    if (!check_leads_away(words)) {
        if (verbose)
            warnx("deepspeed: the workers of this host inherit the environment");
        return;
    }
    (void)end;
    if (!has_deepspeed_variables())
        warnx("deepspeed: it does not pass LD_PRELOAD and COMPSHIM_* to other hosts; add them to "
              "its file: printf '%%s\\n' %s >>~/.deepspeed_env",
              list_ours(" ", "'", "=", "'", false));
}

/* Warns that a Ray job does not have this environment: workers have that of "ray start" on their
 * node. */
static void warn_ray(char **words, char *const *end)
{
    if (words + 1 < end && strcmp(words[1], "job") == 0)
        warnx("ray: a job has the environment of ray start on its node: submit it with "
              "--runtime-env-json '{\"env_vars\": {%s}}'",
              list_ours(", ", "\"", "\": \"", "\"", true));
    else if (verbose)
        warnx("ray: the workers of ray start on this node inherit the environment");
}

static void warn_sudo(char **words, char *const *end)
{
    (void)end;
    warnx("%s: it keeps LD_PRELOAD from the program; put compshim run after its options",
          basename(*words));
}

static void warn_container(char **words, char *const *end)
{
    (void)end;
    warnx("%s: a container has an environment and files of its own: start the program inside it by "
          "compshim run",
          basename(*words));
}

/* Warns if env removes LD_PRELOAD from the program's environment. */
static void warn_env(char **words, char *const *end)
{
    bool is_removed = false;
    for (char **word = words + 1; word < end && (**word == '-' || strchr(*word, '=') != NULL);
         word++) {
        if (tool_is_listed("-u -C", ' ', *word, strlen(*word)) && word + 1 < end)
            word++; /* the option's argument */
        if (tool_is_listed("-i - --ignore-environment LD_PRELOAD -uLD_PRELOAD", ' ', *word,
                           strlen(*word)) ||
            strcmp(*word, "--unset=LD_PRELOAD") == 0)
            is_removed = true;
        else if (tool_starts_with(*word, "LD_PRELOAD="))
            is_removed = false;
    }
    if (is_removed)
        warnx("env: it keeps LD_PRELOAD from the program; put compshim run after env's options");
}

/* Makes the launchers in a command line pass LD_PRELOAD and COMPSHIM_*, which are already set, to
 * all ranks: adds them to srun's --export if that omits them, in the words or in SLURM_EXPORT_ENV.
 * Warns about launchers that it cannot change, and about options of this tool after the command. */
static void forward(char **words)
{
    static const struct {
        const char *names;
        void (*warn)(char **words, char *const *end);
        const char *note; /* printed if verbose */
    } known[] = {
        {"srun", fix_srun, NULL},
        {"sbatch salloc", warn_sbatch, NULL},
        {"mpirun mpiexec", warn_mpirun, NULL},
        {"torchrun", NULL,
         "torchrun: the workers of this node inherit the environment; start torchrun by compshim "
         "run on each node"},
        {"accelerate", NULL,
         "accelerate: the workers of this node inherit the environment; start it by compshim run "
         "on "
         "each node"},
        {"deepspeed", warn_deepspeed, NULL},
        {"ray", warn_ray, NULL},
        {"sudo su", warn_sudo, NULL},
        {"docker podman nerdctl kubectl", warn_container, NULL},
        {"env", warn_env, NULL},
        {"horovodrun", warn_horovodrun, "horovodrun: it passes its environment to all ranks"},
    };
    char **program = check_behind_launchers(words);
    char **end = program;
    while (*end != NULL)
        end++;
    for (char **word = words; word <= program && *word != NULL; word++) {
        /* -p, -v and --verbose may be the launcher's own */
        if (tool_is_listed("--policy --off --dlsym", ' ', *word, strcspn(*word, "=")))
            warnx("%s is passed to %s: put options of compshim run before the command", *word,
                  *words);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (tool_is_program(*word, known[i].names)) {
                if (known[i].warn != NULL)
                    known[i].warn(word, word < program ? program : end);
                if (known[i].note != NULL && verbose)
                    warnx("%s", known[i].note);
            }
    }
}

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

/* Opens a socket and puts its name into the environment. The preloaded library sends it a datagram
 * from each process that uses MPI, NCCL or gloo. Returns the socket, or -1 on failure. */
static int open_receiver(void)
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
    set_variable(CSHIM_PRESENCE_VARIABLE, name, false);
    return receiver;
}

static void block_signals(struct watch *watch)
{
    /* The last three are never forwarded. */
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

/* Prints why a command could not be started, and exits. The system reports a missing interpreter or
 * dynamic linker as if the file itself were missing. */
static _Noreturn void fail_to_run(const char *name, int error)
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
        fail_to_run(words[0], error);
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
        /* The kernel sends signals of the terminal's keys to the whole group. SIGHUP, for the end
         * of the terminal, may be sent to one process only. */
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

/* Records the end of the command. If the command has stopped, stops this process, too, so that the
 * shell sees it; SIGCONT ends that. */
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
    char datagram = 0;
    while (!watch->ended) {
        struct pollfd sources[] = {{.fd = watch->arrivals, .events = POLLIN},
                                   {.fd = watch->reports, .events = POLLIN},
                                   {.fd = watch->receiver, .events = POLLIN}};
        poll(sources, sizeof sources / sizeof *sources, -1);
        take_reports(watch);
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

/* Warns, with advice, that no process used MPI, NCCL or gloo through the library. We cannot see
 * what a script starts, or whether it removed LD_PRELOAD. */
static void warn_nothing_caught(const char *name)
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

/* Starts a command, whose words end with NULL, and waits for its end. Forwards signals for this
 * process to the command, and stops when the command stops. At the end warns if no datagram came,
 * unless the command was interrupted or failed. Returns the command's exit status; if a signal has
 * ended the command, ends this process by the same signal. Exits with TOOL_SYSTEM if the command
 * cannot be started. */
static int watch_command(char **words, int receiver)
{
    struct watch watch = {.receiver = receiver};
    block_signals(&watch);
    start_witness(&watch);
    start_command(&watch, words);
    attend(&watch);
    if (WIFSIGNALED(watch.status))
        end_by(WTERMSIG(watch.status));
    if (watch.receiver >= 0 && !watch.interrupted && watch.status == 0)
        warn_nothing_caught(*check_behind_launchers(words));
    return WEXITSTATUS(watch.status);
}

static int run_preloaded(char **words)
{
    if (*words == NULL)
        tool_misuse("no command to run");
    prepare_environment();
    if (check_warn(words, off, verbose))
        permit_order();
    int receiver = !cshim_is_off() && locality_is_certain(words) ? open_receiver() : -1;
    forward(words);
    if (receiver >= 0)
        return watch_command(words, receiver);
    execvp(words[0], words);
    fail_to_run(words[0], errno);
}

const struct tool_command tool_run = {
    .name = "run",
    .summary = "start a program with the shim preloaded",
    .usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
    .details =
        "The library is in the folder of this tool or in the lib folder of the same prefix. "
        "Libraries "
        "that LD_PRELOAD names already follow it. Without --policy the program looks for its "
        "policy "
        "as compshim-policy(5) says. Warns about a program that the preload cannot reach, and "
        "starts it all the same. After a successful command, warns if no process on this host came "
        "to MPI, NCCL or gloo through the library. Extends srun's --export if it omits the "
        "library; mpirun, torchrun and horovodrun need nothing. --dlsym is for programs that open "
        "MPI or NCCL at run time, as Julia, JAX, vLLM and ctypes do.\n\n  compshim run --policy "
        "policy.ini -- mpirun -n 4 ./train\n  compshim run --policy policy.ini -- torchrun "
        "--nproc_per_node 2 train.py\n",
    .takes_command = true,
    .options = options,
    .run = run_preloaded,
};

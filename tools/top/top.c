/* SPDX-License-Identifier: Apache-2.0 */
/* compshim top: shows the figures that running processes on this host publish. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "shim/report/live.h"
#include "tools/lib/tool.h"
#include "version.h"

#define PROCESSES_MAX 4096

static bool once;
static uint32_t interval = 1;

static const struct tool_option options[] = {
    {"once", '1', TOOL_FLAG, &once, NULL, "print once, after one interval, and end"},
    {"interval", 'i', TOOL_COUNT, &interval, "SECONDS", "time between two updates (default 1)"},
    {0},
};

/* Figures of all processes at one time, a snapshot. */
struct look {
    double time;
    size_t count;
    struct cshim_live *processes;
};

static volatile sig_atomic_t is_stopped;

static void stop(int signal)
{
    (void)signal;
    is_stopped = 1;
}

/* Copies what a process has published. If the process has ended, and its file is more than a second
 * old, copies nothing, and removes the file if it is this user's. Returns false if nothing was
 * copied, or if the file is not of this version. */
static bool read_process(int folder, const char *name, struct cshim_live *process)
{
    struct stat status;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    /* Any user may have put a pipe there. */
    const int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_read = false;
    if (file < 0)
        return false;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        const bool is_stale = /* a process holds a lock as long as it lives */
            fcntl(file, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
        /* A newer file may not be locked yet. */
        const bool is_left = is_stale && time(NULL) - status.st_mtime > 1;
        if (is_left && status.st_uid == geteuid())
            unlinkat(folder, name, 0);
        else if (!is_left && status.st_size >= (off_t)sizeof *process)
            is_read = pread(file, process, sizeof *process, 0) == sizeof *process;
    }
    close(file);
    return is_read && memcmp(process->magic, CSHIM_LIVE_MAGIC, sizeof process->magic) == 0 &&
           strncmp(process->version, CSHIM_VERSION, sizeof process->version) == 0 &&
           process->size == sizeof *process && process->rule_count <= CSHIM_LIVE_RULES;
}

/* Terminates a text of another process, and replaces its control characters. */
static void clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    tool_printable(text);
}

static void clean_texts(struct cshim_live *process)
{
    clean_text(process->library, sizeof process->library);
    clean_text(process->program, sizeof process->program);
    clean_text(process->job, sizeof process->job);
    clean_text(process->policy, sizeof process->policy);
    for (size_t i = 0; i < process->rule_count; i++)
        clean_text(process->rules[i].name, sizeof process->rules[i].name);
}

static int compare_jobs(const struct cshim_live *a, const struct cshim_live *b)
{
    int order = strcmp(a->job, b->job);
    if (order == 0)
        order = strcmp(a->program, b->program);
    return order != 0 ? order : strcmp(a->library, b->library);
}

static int by_job(const void *left, const void *right)
{
    const struct cshim_live *a = left, *b = right;
    const int order = compare_jobs(a, b);
    return order != 0 ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static void look_around(struct look *look)
{
    DIR *folder = opendir(CSHIM_LIVE_FOLDER);
    if (folder == NULL)
        err(TOOL_SYSTEM, "cannot read %s", CSHIM_LIVE_FOLDER);
    look->time = cshim_seconds();
    look->count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL && look->count < PROCESSES_MAX;)
        if (tool_starts_with(entry->d_name, CSHIM_LIVE_PREFIX) &&
            read_process(dirfd(folder), entry->d_name, &look->processes[look->count]))
            clean_texts(&look->processes[look->count++]);
    closedir(folder);
    qsort(look->processes, look->count, sizeof *look->processes, by_job);
}

/* Sums a rule's figures over the processes of a job; with `rule` SIZE_MAX, the calls that were
 * passed through. */
static struct cshim_row add_up(const struct look *look, const struct cshim_live *job, size_t rule)
{
    struct cshim_row sum = {0};
    for (size_t i = 0; i < look->count; i++) {
        const struct cshim_live *process = &look->processes[i];
        if (compare_jobs(process, job) != 0)
            continue;
        for (size_t reason = 0; rule == SIZE_MAX && reason < CSHIM_REASON_COUNT; reason++)
            sum.calls += process->passed[reason];
        if (rule < process->rule_count)
            cshim_row_add(&sum, &process->rules[rule].row);
    }
    return sum;
}

/* Returns the calls per second between two looks; "-" if the later look has fewer calls, because a
 * process has ended, or no time has passed. The caller frees the text. */
static char *rate(const struct look *before, const struct look *after, const struct cshim_live *job,
                  size_t rule)
{
    const double seconds = after->time - before->time;
    const uint64_t first = add_up(before, job, rule).calls, last = add_up(after, job, rule).calls;
    if (seconds <= 0 || last < first)
        return tool_copy("-");
    return tool_format("%.1f", (double)(last - first) / seconds);
}

/* Prints what compressing has saved so far, if that was measured. */
static void print_saving(const struct look *look, const struct cshim_live *job)
{
    struct cshim_row all = {0};
    for (size_t rule = 0; rule < job->rule_count; rule++) {
        const struct cshim_row sum = add_up(look, job, rule);
        cshim_row_add(&all, &sum);
    }
    const struct cshim_saving saving = cshim_row_saving(&all);
    if (all.compared_calls == 0)
        return;
    char *saved = tool_seconds(fmax(0, saving.natively - saving.took));
    char *natively = tool_seconds(saving.natively);
    printf("saved: %s of %s, compressed calls were %.1fx as fast as native ones\n", saved, natively,
           saving.speedup);
    free(saved);
    free(natively);
}

/* Prints a job, whose processes on this host are [first, end) of the later look. */
static void print_job(const struct look *before, const struct look *after, size_t first, size_t end)
{
    const struct cshim_live *job = &after->processes[first];
    struct tool_table table =
        tool_table_of("rule,codec,algorithm,calls,calls/s,wire,ratio,error", 3);
    tool_print(stdout, 2,
               "%s (%s): %zu of %lld ranks here, process %lld and others, for %.0f s, policy %s\n",
               job->program, job->library, end - first, (long long)job->ranks, (long long)job->pid,
               after->time - job->started, job->policy);
    for (size_t rule = 0; rule < job->rule_count; rule++) {
        const struct cshim_live_rule *own = &job->rules[rule];
        const struct cshim_row sum = add_up(after, job, rule);
        const double native = (double)sum.bytes_native, wire = (double)sum.bytes_wire;
        char *cells[] = {
            tool_copy(own->name),
            tool_copy(cshim_codec_name((enum cshim_codec_id)own->codec)),
            sum.calls > 0 ? tool_copy(cshim_algorithm_name((enum cshim_algorithm)own->algorithm))
                          : NULL,
            tool_format("%llu", (unsigned long long)sum.calls),
            rate(before, after, job, rule),
            tool_bytes(wire),
            wire > 0 ? tool_format("%.1fx", native / wire) : NULL,
            sum.sum_squares > 0 ? tool_format("%.1e", cshim_row_error(&sum)) : NULL,
        };
        tool_table_add(&table, cells);
    }
    tool_table_print(&table, stdout);
    char *passing = rate(before, after, job, SIZE_MAX);
    printf("passed through: %llu calls, %s per second\n",
           (unsigned long long)add_up(after, job, SIZE_MAX).calls, passing);
    print_saving(after, job);
    putchar('\n');
    free(passing);
    tool_table_free(&table);
}

static void print_look(const struct look *before, const struct look *after)
{
    for (size_t first = 0, end; first < after->count; first = end) {
        for (end = first + 1; end < after->count &&
                              compare_jobs(&after->processes[first], &after->processes[end]) == 0;)
            end++;
        print_job(before, after, first, end);
    }
    if (after->count == 0)
        printf("no process that publishes its figures runs on this host\n"
               "(start the job with COMPSHIM_LIVE=on%s)\n",
               once ? "" : "; Ctrl-C ends the waiting");
}

/* Prints the figures repeatedly until a signal or an output error; with --once, once. Returns true
 * if a signal came, or if there was a job at the end. */
static bool watch(struct look looks[2])
{
    const bool is_screen = !once && isatty(STDOUT_FILENO);
    look_around(&looks[0]);
    for (size_t turn = 1;; turn++) {
        struct look *const after = &looks[turn % 2];
        sleep(interval); /* interrupted by a signal */
        if (is_stopped)
            return true;
        look_around(after);
        fputs(is_screen ? "\033[H\033[2J" : "", stdout);
        const struct look *const before = &looks[(turn - 1) % 2];
        if (is_screen || turn == 1 ||
            before->count + after->count > 0) /* does not repeat that there is no job */
            print_look(before, after);
        fflush(stdout);
        if (once || ferror(stdout))
            return after->count > 0;
    }
}

static int run_top(char **words)
{
    /* A caught signal ends sleep() early. */
    const struct sigaction action = {.sa_handler = stop};
    struct look looks[2] = {{0}};
    if (*words != NULL)
        tool_misuse("unexpected argument '%s'", *words);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (size_t i = 0; i < 2; i++)
        looks[i].processes = tool_allocate(PROCESSES_MAX, sizeof *looks[i].processes);
    return tool_finish(watch(looks) || is_stopped ? TOOL_GOOD : TOOL_NOT_SO);
}

const struct tool_command tool_top = {
    .name = "top",
    .summary = "show what running jobs on this host compress",
    .usage = "[OPTION...]",
    .details = "Processes started with COMPSHIM_LIVE=on publish their figures in shared memory. "
               "MPI's bytes are those of the ranks on this host, NCCL's and gloo's those of all "
               "ranks.\n\n  COMPSHIM_LIVE=on compshim run -- mpirun -n 4 ./train &\n"
               "  compshim top\n",
    .options = options,
    .run = run_top,
};

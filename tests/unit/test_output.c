/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the atomic replacement of files: by concurrent processes, and with a file, a link, a pipe
 * or an open descriptor at the path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/core/output.h"
#include "tests/unit/unit.h"

#define MARK "mark"
#define WRITERS 4
#define FILES_EACH 100
#define LINES_MOST 2000

static char folder[] = "/tmp/test_output.XXXXXX";
static char path[64], other[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_output.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    return 0;
}

static unsigned count_files(void)
{
    unsigned count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(entries);
    return count;
}

/* Checks that the test left no temporary file, and removes the folder. */
static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

#define IN_FOLDER .setup_func = make_folder, .teardown_func = remove_folder

static void put_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Returns true if a file's contents are `text`. */
static bool file_is(const char *name, const char *text)
{
    char found[256];
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    return strcmp(found, text) == 0;
}

/* Replaces the file at `path`. Returns the problem, or NULL on success. */
static const char *replace(const char *mark, const char *text)
{
    struct cshim_output output;
    const char *problem = cshim_output_open(&output, path, mark);
    if (problem != NULL)
        return problem;
    fputs(text, output.stream);
    return cshim_output_close(&output);
}

/* Writes files whose first line has the writer and the number of lines that follow; each of these
 * has the writer. */
static void write_many(unsigned writer)
{
    for (unsigned i = 0; i < FILES_EACH; i++) {
        struct cshim_output output;
        if (cshim_output_open(&output, path, MARK) != NULL)
            _exit(1);
        const unsigned lines = 1 + (writer * 617 + i * 97) % LINES_MOST;
        fprintf(output.stream, "mark %u %u\n", writer, lines);
        for (unsigned line = 0; line < lines; line++)
            fprintf(output.stream, "%u\n", writer);
        if (cshim_output_close(&output) != NULL)
            _exit(1);
    }
    _exit(0);
}

/* Returns true if the file is exactly what one writer wrote. */
static bool is_whole(void)
{
    unsigned writer, lines, found, count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    bool is_good = fscanf(file, "mark %u %u\n", &writer, &lines) == 2;
    while (is_good && fscanf(file, "%u\n", &found) == 1) {
        is_good = found == writer;
        count++;
    }
    is_good = is_good && feof(file) && count == lines;
    fclose(file);
    return is_good;
}

/* Runs the writers. Returns how often the file was incomplete meanwhile. */
static unsigned run_writers(void)
{
    unsigned torn = 0, ended = 0;
    int status;
    for (unsigned writer = 0; writer < WRITERS; writer++)
        if (fork() == 0)
            write_many(writer);
    while (ended < WRITERS) {
        if (waitpid(-1, &status, WNOHANG) > 0) {
            assert_int_equal(status, 0);
            ended++;
        }
        torn += !is_whole();
    }
    return torn;
}

TEST(side_by_side, IN_FOLDER)
{
    put_file(path, "mark 0 1\n0\n");
    assert_int_equal(run_writers(), 0);
    assert_int_equal(count_files(), 1);
}

/* A file with another hard link is rewritten in place, so that the link gets the new text. A reader
 * may then see an incomplete file, but writers exclude each other. */
TEST(side_by_side_in_place, IN_FOLDER)
{
    put_file(path, "mark 0 1\n0\n");
    assert_int_equal(link(path, other), 0);
    run_writers();
    assert_true(is_whole());
    struct stat facts;
    assert_int_equal(stat(other, &facts), 0);
    assert_int_equal(facts.st_nlink, 2);
}

TEST(keeps_what_is_no_text, IN_FOLDER)
{
    struct stat facts;
    put_file(path, "mark old\n");
    assert_int_equal(chmod(path, 0640), 0);
    assert_null(replace(MARK, "mark new\n"));
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);

    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink("other", path), 0);
    assert_null(replace(MARK, "mark newer\n"));
    assert_int_equal(lstat(path, &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    assert_true(file_is(other, "mark newer\n"));

    unlink(other);
    assert_null(replace(MARK, "mark first\n")); /* the link pointed to no file */
    assert_true(file_is(other, "mark first\n"));
}

TEST(new_files_have_the_umask, IN_FOLDER)
{
    struct stat facts;
    const mode_t mask = umask(027);
    assert_null(replace(MARK, "mark\n"));
    umask(mask);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);
}

TEST(what_others_wrote_stays, IN_FOLDER)
{
    put_file(path, "data\n");
    assert_non_null(strstr(replace(MARK, "mark\n"), "has put something else there"));
    assert_true(file_is(path, "data\n"));

    /* The program creates the file after cshim_output_open(). */
    struct cshim_output output;
    unlink(path);
    assert_null(cshim_output_open(&output, path, MARK));
    fputs("mark\n", output.stream);
    put_file(path, "data\n");
    assert_non_null(strstr(cshim_output_close(&output), "has put something else there"));
    assert_true(file_is(path, "data\n"));
}

/* The program's text may still be in a stdio buffer. */
TEST(what_the_program_writes_stays, IN_FOLDER)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("data\n", file);
    assert_string_equal(replace(MARK, "mark\n"), "the program has it open");
    fclose(file);
    assert_true(file_is(path, "data\n"));
}

/* A path such as /dev/stdout continues at the descriptor's position. */
TEST(descriptors_go_on, IN_FOLDER)
{
    FILE *file = fopen(other, "w");
    assert_non_null(file);
    fputs("data\n", file);
    fflush(file);
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fileno(file));
    assert_int_equal(symlink(name, path), 0);
    assert_null(replace(MARK, "mark\n"));
    fputs("more\n", file);
    fclose(file);
    assert_true(file_is(other, "data\nmark\nmore\n"));
}

TEST(pipes_are_written_to, IN_FOLDER)
{
    char text[16] = "";
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_non_null(replace(MARK, "mark\n")); /* a pipe without a reader */
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_null(replace(MARK, "mark\n"));
    assert_int_equal(read(reader, text, sizeof text - 1), 5);
    assert_string_equal(text, "mark\n");
    close(reader);
}

/* A file without other links stays if the new one cannot be written completely. */
/* A signal would end this test. */
TEST(a_reader_that_ends_leaves_no_signal, IN_FOLDER)
{
    struct cshim_output output;
    assert_int_equal(mkfifo(path, 0600), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_null(cshim_output_open(&output, path, MARK));
    close(reader);
    fputs(MARK, output.stream);
    assert_string_equal(cshim_output_close(&output), strerror(EPIPE));
}

TEST(a_full_disk, IN_FOLDER)
{
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    struct cshim_output output;
    put_file(path, "mark old\n");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, before.rlim_max});
    assert_null(cshim_output_open(&output, path, MARK)); /* SIGXFSZ would end this process */
    for (unsigned i = 0; i < 1000; i++)
        fputs("mark new\n", output.stream);
    const char *problem = cshim_output_close(&output);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_non_null(problem);
    assert_true(file_is(path, "mark old\n"));
    assert_int_equal(count_files(), 1);
}

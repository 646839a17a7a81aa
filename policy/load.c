/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and reads the policy's file, and computes its digest. */
#include "policy/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/lines.h"
#include "policy/list.h"

/* Maximum bytes of a policy's file. */
#define FILE_LIMIT ((size_t)1 << 20)

/* Built-in policies, a row for each policy/NAME.ini; "@default" is the first. */
static const struct cshim_named_policy named[] = {
#include "policies_ini.h"
};
#define NAMED_COUNT (sizeof named / sizeof *named)

struct cshim_named_policy cshim_policy_named(size_t index)
{
    return index < NAMED_COUNT ? named[index] : (struct cshim_named_policy){NULL, NULL};
}

const char *cshim_policy_default_text(void)
{
    return named[0].text;
}

/* Copies the text of a built-in policy. Returns NULL, with a message, if the name is unknown or
 * there is no memory. */
static char *load_named(const char *name, size_t *length, char source[CSHIM_PATH_MAX],
                        char message[CSHIM_MESSAGE_MAX])
{
    const char *names[NAMED_COUNT];
    char known[128] = "";
    for (size_t i = 0; i < NAMED_COUNT; i++) {
        names[i] = named[i].name;
        cshim_list_add(known, sizeof known, ", ", "%s", names[i]);
        if (strcmp(name, names[i]) != 0)
            continue;
        char *text = strdup(named[i].text);
        if (text == NULL)
            snprintf(message, CSHIM_MESSAGE_MAX, "%s: out of memory", name);
        else
            *length = strlen(text);
        snprintf(source, CSHIM_PATH_MAX, "%s", name);
        return text;
    }
    const char *nearest = cshim_nearest_name(name, names, NAMED_COUNT);
    snprintf(message, CSHIM_MESSAGE_MAX,
             "%.200s: no built-in policy of this name (%s%s%sknown: %s); a file of such a name is "
             "./%.60s",
             name, nearest != NULL ? "did you mean '" : "", nearest != NULL ? nearest : "",
             nearest != NULL ? "'? " : "", known, name);
    return NULL;
}

/* Opens the policy at one of the default paths, if it belongs to the user or root and nobody else
 * may write it. Otherwise returns NULL, with a warning or an empty message. */
static FILE *open_found(const char *path, char message[CSHIM_MESSAGE_MAX])
{
    struct stat facts;
    FILE *file = NULL;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            snprintf(message, CSHIM_MESSAGE_MAX, "%s: cannot open this policy: %s", path,
                     strerror(errno));
        return NULL;
    }
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: not a regular file: this is not a policy", path);
    else if ((facts.st_uid != geteuid() && facts.st_uid != 0) ||
             (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        snprintf(message, CSHIM_MESSAGE_MAX,
                 "%s: this policy is not obeyed, because others than you and root can write it: "
                 "name it by COMPSHIM_POLICY, or take it (chown) and chmod go-w",
                 path);
    else
        file = fdopen(descriptor, "r");
    if (file == NULL)
        close(descriptor);
    return file;
}

/* Reads the policy at a path. `named_by`: origin of the path ("COMPSHIM_POLICY"), or NULL for a
 * default path. Returns NULL if there is none, with a message: an error for a named path; otherwise
 * a warning, or empty. */
static char *load_path(const char *path, const char *named_by, size_t *length,
                       char source[CSHIM_PATH_MAX], char message[CSHIM_MESSAGE_MAX])
{
    struct stat facts;
    if (named_by != NULL && cshim_policy_is_named(path))
        return load_named(path, length, source, message);
    const bool is_pipe = stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode);
    if (is_pipe && named_by != NULL && strcmp(named_by, "COMPSHIM_POLICY") == 0) {
        snprintf(message, CSHIM_MESSAGE_MAX,
                 "%s: a pipe, which cannot be read again: have %s name a file", path, named_by);
        return NULL;
    }
    FILE *file = named_by != NULL ? fopen(path, "re") : open_found(path, message);
    if (file == NULL && named_by == NULL)
        return NULL;
    if (file == NULL) {
        const char *why = strerror(errno);
        char *folder = path[0] != '/' && errno == ENOENT ? getcwd(NULL, 0) : NULL;
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: cannot open the policy that %s names: %s%s%s",
                 path, named_by, why, folder != NULL ? " in " : "", folder != NULL ? folder : "");
        free(folder);
        return NULL;
    }
    char *text = cshim_lines_read(file, FILE_LIMIT, length);
    if (text != NULL) {
        const bool is_here = named_by != NULL && strcmp(path, CSHIM_POLICY_HERE) == 0;
        snprintf(source, CSHIM_PATH_MAX, "%s", is_here ? path + strlen("./") : path);
    } else if (errno == ENOMEM)
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: out of memory", path);
    else if (errno == EFBIG)
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: larger than 1 MiB: this is not a policy", path);
    else
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: cannot read this policy: %s", path,
                 strerror(errno));
    return text;
}

/* Writes the path of the user's policy. Returns false if the environment has no folder for it, or
 * the path is too long. */
static bool user_path(char path[CSHIM_PATH_MAX])
{
    const char *base = secure_getenv("XDG_CONFIG_HOME");
    const char *format = "%s/compshim/policy.ini";
    if (base == NULL || *base == '\0') {
        base = secure_getenv("HOME");
        format = "%s/.config/compshim/policy.ini";
    }
    if (base == NULL || *base == '\0')
        return false;
    int length = snprintf(path, CSHIM_PATH_MAX, format, base);
    return length > 0 && length < CSHIM_PATH_MAX;
}

char *cshim_policy_load(const char *explicit_path, size_t *length, char source[CSHIM_PATH_MAX],
                        char message[CSHIM_MESSAGE_MAX])
{
    char user[CSHIM_PATH_MAX];
    const char *environment = secure_getenv("COMPSHIM_POLICY");
    message[0] = '\0';
    if (explicit_path != NULL)
        return load_path(explicit_path, "the command line", length, source, message);
    if (environment != NULL && *environment != '\0')
        return load_path(environment, "COMPSHIM_POLICY", length, source, message);
    const char *places[] = {CSHIM_POLICY_HERE, user_path(user) ? user : NULL,
                            "/etc/compshim/policy.ini"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char warning[CSHIM_MESSAGE_MAX] = "";
        char *text = places[i] != NULL ? load_path(places[i], NULL, length, source, warning) : NULL;
        if (warning[0] != '\0')
            cshim_list_add(message, CSHIM_MESSAGE_MAX, "; ", "%s", warning);
        if (text != NULL)
            return text;
    }
    char *text = load_named(named[0].name, length, source, message);
    snprintf(source, CSHIM_PATH_MAX, "built-in default");
    return text;
}

void cshim_policy_sha256(const char *text, size_t length, char digest[65])
{
    SHA2_CTX state;
    uint8_t bytes[SHA256_DIGEST_LENGTH];
    SHA256Init(&state);
    SHA256Update(&state, (const uint8_t *)text, length);
    SHA256Final(bytes, &state);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(digest + 2 * i, 3, "%02x", bytes[i]);
}

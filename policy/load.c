/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the policy's file and reads it. */
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* No policy is that large: such a file is something else. */
#define FILE_LIMIT ((size_t)1 << 20)

const char *cshim_policy_default_text(void)
{
    static const char text[] =
#include "default_ini.h"
        ;
    return text;
}

/* Reads the policy at a path. `named_by` tells what named the path:
 * "COMPSHIM_POLICY", or NULL for one of the usual places. Returns NULL if there is no such file;
 * that is an error with a message only if something named the path. */
static char *load_path(const char *path, const char *named_by, size_t *length,
                       char source[CSHIM_PATH_MAX], char message[CSHIM_MESSAGE_MAX])
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        if (named_by != NULL)
            snprintf(message, CSHIM_MESSAGE_MAX, "%s: cannot open the policy that %s names: %s",
                     path, named_by, strerror(errno));
        else if (errno != ENOENT && errno != ENOTDIR)
            snprintf(message, CSHIM_MESSAGE_MAX, "%s: cannot open this policy: %s", path,
                     strerror(errno));
        return NULL;
    }
    char *text = malloc(FILE_LIMIT + 2);
    errno = 0;
    *length = text != NULL ? fread(text, 1, FILE_LIMIT + 1, file) : 0;
    const char *problem = ferror(file) != 0 ? strerror(errno) : NULL;
    fclose(file);
    if (text == NULL)
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: out of memory", path);
    else if (problem != NULL)
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: cannot read this policy: %s", path, problem);
    else if (*length > FILE_LIMIT)
        snprintf(message, CSHIM_MESSAGE_MAX, "%s: larger than 1 MiB: this is not a policy", path);
    else {
        text[*length] = '\0';
        snprintf(source, CSHIM_PATH_MAX, "%s", path);
        return text;
    }
    free(text);
    return NULL;
}

/* Writes the path of the user's own policy. Returns false if the environment names no folder. */
static bool user_path(char path[CSHIM_PATH_MAX])
{
    const char *base = getenv("XDG_CONFIG_HOME");
    const char *format = "%s/compshim/policy.ini";
    if (base == NULL || *base == '\0') {
        base = getenv("HOME");
        format = "%s/.config/compshim/policy.ini";
    }
    if (base == NULL || *base == '\0')
        return false;
    int length = snprintf(path, CSHIM_PATH_MAX, format, base);
    return length > 0 && length < CSHIM_PATH_MAX;
}

static char *load_default(size_t *length, char source[CSHIM_PATH_MAX],
                          char message[CSHIM_MESSAGE_MAX])
{
    char *text = strdup(cshim_policy_default_text());
    if (text == NULL) {
        snprintf(message, CSHIM_MESSAGE_MAX, "built-in default: out of memory");
        return NULL;
    }
    *length = strlen(text);
    snprintf(source, CSHIM_PATH_MAX, "built-in default");
    return text;
}

char *cshim_policy_load(const char *explicit_path, size_t *length, char source[CSHIM_PATH_MAX],
                        char message[CSHIM_MESSAGE_MAX])
{
    char user[CSHIM_PATH_MAX];
    const char *environment = getenv("COMPSHIM_POLICY");
    message[0] = '\0';
    if (explicit_path != NULL)
        return load_path(explicit_path, "the command line", length, source, message);
    if (environment != NULL && *environment != '\0')
        return load_path(environment, "COMPSHIM_POLICY", length, source, message);
    const char *places[] = {"policy.ini", user_path(user) ? user : NULL,
                            "/etc/compshim/policy.ini"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *text = places[i] != NULL ? load_path(places[i], NULL, length, source, message) : NULL;
        if (text != NULL || message[0] != '\0')
            return text;
    }
    return load_default(length, source, message);
}

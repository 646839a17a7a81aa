/* SPDX-License-Identifier: Apache-2.0 */
/* compshim help policy: prints the parser's tables of keys. */
#include <string.h>

#include "policy/policy.h"
#include "tools/lib/tool.h"

#define LINE_WIDTH 100

typedef bool next_key(size_t index, struct cshim_policy_key *key);

static int widest(next_key *next, int width)
{
    struct cshim_policy_key key;
    for (size_t i = 0; next(i, &key); i++) {
        const int length = (int)(strlen(key.name) + 1 + strlen(key.value));
        width = length > width ? length : width;
    }
    return width;
}

static void print_keys(next_key *next, int width)
{
    struct cshim_policy_key key;
    for (size_t i = 0; next(i, &key); i++) {
        const int gap = width - (int)(strlen(key.name) + strlen(key.value));
        const int column = printf("  %s %s%*s%s", key.name, key.value, gap + 1, "", key.help);
        const char *words = "";
        for (size_t k = 0; k < key.words.count; k++)
            words = tool_format("%s%s%s", words, k > 0 ? ", " : ": ", key.words.names[k]);
        /* Words stand behind the help, or below it if the line would be too long. */
        if (*words != '\0' && column + strlen(words) > LINE_WIDTH)
            printf(":\n%*s%s\n", width + 4, "", words + strlen(": "));
        else
            printf("%s\n", words);
    }
}

void tool_help_policy(void)
{
    const int width = widest(cshim_policy_rule_key, widest(cshim_policy_general_key, 0));
    printf("A policy is a file of sections with lines 'key = value'. The rules are tried in order, "
           "and "
           "the\nfirst that matches a call decides; what no rule matches is passed on.\n\n"
           "[compshim]\n");
    print_keys(cshim_policy_general_key, width);
    printf("\n[rule NAME]\n");
    print_keys(cshim_policy_rule_key, width);
    printf("\nA LIST is separated by commas. compshim-policy(5) tells more of each, and where the "
           "file is looked\nfor; 'compshim explain' says what a policy does.\n\n"
           "  [rule large]\n"
           "  dtype    = float32\n"
           "  min_size = 64KiB\n"
           "  codec    = fp8_e4m3\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* compshim help policy: prints the parser's tables of keys. */
#include <string.h>

#include "policy/policy.h"
#include "tools/lib/tool.h"

#define LINE_WIDTH 100

static int widest(bool of_rules, int width)
{
    struct cshim_policy_key key;
    for (size_t i = 0; cshim_policy_key(of_rules, i, &key); i++) {
        const int length = (int)(strlen(key.name) + 1 + strlen(key.value));
        width = length > width ? length : width;
    }
    return width;
}

/* Prints a key's words behind its help, or below it if the line would be too long. */
static void print_words(const struct cshim_policy_key *key, int column, int indent)
{
    column++;
    for (size_t i = 0; i < key->words.count; i++)
        column += (int)strlen(key->words.names[i]) + (i > 0 ? 2 : 1);
    if (key->words.count > 0 && column > LINE_WIDTH)
        printf(":\n%*s", indent, "");
    else if (key->words.count > 0)
        printf(": ");
    for (size_t i = 0; i < key->words.count; i++)
        printf("%s%s", i > 0 ? ", " : "", key->words.names[i]);
    putchar('\n');
}

static void print_keys(bool of_rules, int width)
{
    struct cshim_policy_key key;
    for (size_t i = 0; cshim_policy_key(of_rules, i, &key); i++) {
        const int gap = width - (int)(strlen(key.name) + strlen(key.value));
        const int column = printf("  %s %s%*s%s", key.name, key.value, gap + 1, "", key.help);
        print_words(&key, column, width + 4);
    }
}

void tool_help_policy(void)
{
    const int width = widest(true, widest(false, 0));
    printf("A policy is a file of sections with lines 'key = value'. The rules are tried in order, "
           "and "
           "the\nfirst that matches a call decides; what no rule matches is passed on.\n\n"
           "[compshim]\n");
    print_keys(false, width);
    printf("\n[rule NAME]\n");
    print_keys(true, width);
    printf("\nA LIST is separated by commas. compshim-policy(5) tells more of each, and where the "
           "file is looked\nfor; 'compshim explain' says what a policy does.\n\n"
           "  [rule large]\n"
           "  dtype    = float32\n"
           "  min_size = 64KiB\n"
           "  codec    = fp8_e4m3\n");
}

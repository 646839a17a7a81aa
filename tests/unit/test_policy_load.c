/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the paths of policies, unreadable files, and the SHA-256 of a policy. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/policy.h"

/* Changes to an empty folder, which also becomes HOME and XDG_CONFIG_HOME, and unsets
 * COMPSHIM_POLICY. */
static int enter_scratch(void **state)
{
    char pattern[] = "/tmp/compshim-policy-XXXXXX";
    if (mkdtemp(pattern) == NULL || chdir(pattern) != 0)
        return -1;
    *state = strdup(pattern);
    unsetenv("COMPSHIM_POLICY");
    setenv("XDG_CONFIG_HOME", pattern, 1);
    setenv("HOME", pattern, 1);
    return *state == NULL ? -1 : 0;
}

static int leave_scratch(void **state)
{
    static const char *const files[] = {"@fp8",
                                        "@mine",
                                        "policy.ini",
                                        "named.ini",
                                        "folder.ini",
                                        "compshim/policy.ini",
                                        "compshim",
                                        ".config/compshim/policy.ini",
                                        ".config/compshim",
                                        ".config"};
    for (size_t i = 0; i < COUNT_OF(files); i++)
        remove(files[i]);
    int failed = chdir("/") + rmdir(*state);
    free(*state);
    return failed;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_loads(const char *path, const char *source, const char *text)
{
    char found[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    size_t length = 0;
    char *loaded = cshim_policy_load(path, &length, found, message);
    if (loaded == NULL)
        fail_msg("not loaded: %s", message);
    assert_string_equal(found, source);
    assert_string_equal(loaded, text);
    assert_int_equal(length, strlen(text));
    free(loaded);
}

static void assert_fails(const char *path, const char *expected)
{
    char found[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    size_t length;
    assert_null(cshim_policy_load(path, &length, found, message));
    assert_string_equal(message, expected);
}

TEST(places_in_order, .setup_func = enter_scratch, .teardown_func = leave_scratch)
{
    const char *scratch = *state;
    char user[CSHIM_PATH_MAX];
    /* A system-wide policy of this machine would precede the built-in one. */
    if (access("/etc/compshim/policy.ini", F_OK) != 0)
        assert_loads(NULL, "built-in default", cshim_policy_default_text());

    assert_int_equal(mkdir(".config", 0700) + mkdir(".config/compshim", 0700), 0);
    write_file(".config/compshim/policy.ini", "; home\n");
    setenv("XDG_CONFIG_HOME", "", 1);
    snprintf(user, sizeof user, "%s/.config/compshim/policy.ini", scratch);
    assert_loads(NULL, user, "; home\n");

    setenv("XDG_CONFIG_HOME", scratch, 1);
    assert_int_equal(mkdir("compshim", 0700), 0);
    write_file("compshim/policy.ini", "; user\n");
    snprintf(user, sizeof user, "%s/compshim/policy.ini", scratch);
    assert_loads(NULL, user, "; user\n");

    write_file("policy.ini", "; here\n");
    assert_loads(NULL, CSHIM_POLICY_HERE, "; here\n");

    write_file("named.ini", "; named\n");
    setenv("COMPSHIM_POLICY", "named.ini", 1);
    assert_loads(NULL, "named.ini", "; named\n");
    assert_loads("./policy.ini", "policy.ini", "; here\n"); /* named explicitly */
    setenv("COMPSHIM_POLICY", "", 1);
    assert_loads(NULL, CSHIM_POLICY_HERE, "; here\n");
}

TEST(what_cannot_be_read, .setup_func = enter_scratch, .teardown_func = leave_scratch)
{
    const char *scratch = *state;
    char expected[CSHIM_MESSAGE_MAX];
    snprintf(expected, sizeof expected,
             "absent.ini: cannot open the policy that the command line names: No such file or "
             "directory in %s",
             scratch);
    assert_fails("absent.ini", expected);
    setenv("COMPSHIM_POLICY", "/absent/p.ini", 1);
    assert_fails(NULL, "/absent/p.ini: cannot open the policy that COMPSHIM_POLICY names: No such "
                       "file or directory");
    unsetenv("COMPSHIM_POLICY");
    assert_int_equal(mkdir("folder.ini", 0700), 0);
    assert_fails("folder.ini", "folder.ini: cannot read this policy: Is a directory");
}

/* Checks that an unusable policy file at a default path causes a warning, and the next path is
 * tried. */
static void assert_passes_over(const char *warning)
{
    char found[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    size_t length;
    char *text = cshim_policy_load(NULL, &length, found, message);
    assert_string_equal(text, "; user\n");
    assert_non_null(strstr(message, warning));
    free(text);
}

TEST(what_others_can_write, .setup_func = enter_scratch, .teardown_func = leave_scratch)
{
    setenv("XDG_CONFIG_HOME", *state, 1);
    assert_int_equal(mkdir("compshim", 0700), 0);
    write_file("compshim/policy.ini", "; user\n");
    assert_int_equal(symlink("policy.ini", "policy.ini"), 0);
    assert_passes_over("./policy.ini: cannot open this policy: Too many levels of symbolic links");
    assert_int_equal(unlink("policy.ini") + mkdir("policy.ini", 0700), 0);
    assert_passes_over("./policy.ini: not a regular file: this is not a policy");
    assert_int_equal(rmdir("policy.ini") + mkfifo("policy.ini", 0600), 0);
    assert_passes_over("./policy.ini: not a regular file: this is not a policy");
    assert_int_equal(unlink("policy.ini"), 0);
    write_file("policy.ini", "; here\n");
    for (mode_t bit = S_IWGRP; bit != 0; bit = bit == S_IWGRP ? S_IWOTH : 0) {
        assert_int_equal(chmod("policy.ini", 0644 | bit), 0);
        assert_passes_over("others than you and root can write it");
    }
    assert_int_equal(chmod("policy.ini", 0644), 0);
    assert_loads(NULL, CSHIM_POLICY_HERE, "; here\n");
    if (geteuid() != 0)
        return;
    assert_int_equal(chown("policy.ini", 12345, (gid_t)-1), 0); /* belongs to another user */
    assert_passes_over("others than you and root can write it");
}

TEST(no_place_hides_the_warning_of_another, .setup_func = enter_scratch,
     .teardown_func = leave_scratch)
{
    char found[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    size_t length;
    assert_int_equal(mkdir("compshim", 0700), 0);
    assert_int_equal(mkdir("policy.ini", 0700) + mkdir("compshim/policy.ini", 0700), 0);
    free(cshim_policy_load(NULL, &length, found, message));
    assert_non_null(strstr(message, "./policy.ini: not a regular file: this is not a policy; /"));
    assert_non_null(strstr(message, "/compshim/policy.ini: not a regular file"));
}

TEST(files_too_large, .setup_func = enter_scratch, .teardown_func = leave_scratch)
{
    write_file("policy.ini", "");
    assert_int_equal(truncate("policy.ini", 1 << 20), 0);
    char found[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    size_t length;
    char *text = cshim_policy_load(NULL, &length, found, message);
    assert_non_null(text);
    assert_int_equal(length, 1 << 20);
    free(text);
    assert_int_equal(truncate("policy.ini", (1 << 20) + 1), 0);
    assert_fails("policy.ini", "policy.ini: larger than 1 MiB: this is not a policy");
}

TEST(default_is_a_good_policy)
{
    struct cshim_policy *policy = parse(cshim_policy_default_text());
    static const struct {
        uint64_t bytes;
        uint32_t nodes;
        enum cshim_dtype dtype;
        int codec; /* -1 if no rule matches */
        enum cshim_library library;
    } cases[] = {
        {(4 << 10) - 1, 2, CSHIM_FLOAT32, CSHIM_CODEC_NONE, CSHIM_MPI},
        {4 << 10, 2, CSHIM_FLOAT32, CSHIM_CODEC_FP16, CSHIM_MPI},
        {(4 << 10) - 1, 1, CSHIM_FLOAT32, CSHIM_CODEC_NONE, CSHIM_MPI},
        {4 << 10, 1, CSHIM_FLOAT32, CSHIM_CODEC_RAW, CSHIM_MPI},
        {64 << 20, 1, CSHIM_FLOAT32, CSHIM_CODEC_RAW, CSHIM_MPI},
        {(256 << 10) - 1, 2, CSHIM_FLOAT32, CSHIM_CODEC_NONE, CSHIM_NCCL},
        {256 << 10, 2, CSHIM_FLOAT32, CSHIM_CODEC_FP16, CSHIM_MPI},
        {32 << 20, 1, CSHIM_FLOAT32, CSHIM_CODEC_NONE, CSHIM_GLOO},
        {33 << 20, 1, CSHIM_FLOAT32, CSHIM_CODEC_FP16, CSHIM_GLOO},
        {1 << 20, 2, CSHIM_FLOAT64, -1, CSHIM_MPI},
        {1 << 20, 1, CSHIM_BFLOAT16, -1, CSHIM_MPI},
        {33 << 20, 1, CSHIM_FLOAT32, CSHIM_CODEC_NONE, CSHIM_NCCL},
        {256 << 10, 2, CSHIM_FLOAT32, CSHIM_CODEC_FP16, CSHIM_NCCL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cshim_call call = {.library = cases[i].library,
                                  .dtype = cases[i].dtype,
                                  .bytes = cases[i].bytes,
                                  .ranks = 2,
                                  .nodes = cases[i].nodes};
        const struct cshim_rule *rule = cshim_policy_match(policy, &call);
        assert_int_equal(rule != NULL ? (int)rule->codec : -1, cases[i].codec);
        call.op = CSHIM_AVG;
        assert_ptr_equal(cshim_policy_match(policy, &call), rule);
    }
    cshim_policy_free(policy);
}

/* The test vectors of FIPS 180, and lengths around which the padding changes. */
TEST(sha256_vectors)
{
    static const struct {
        const char *text;
        const char *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "m"
         "nopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char digest[65];
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cshim_policy_sha256(cases[i].text, strlen(cases[i].text), digest);
        assert_string_equal(digest, cases[i].digest);
    }
    static char million[1000000];
    memset(million, 'a', sizeof million);
    cshim_policy_sha256(million, sizeof million, digest);
    assert_string_equal(digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    cshim_policy_sha256(million, 55, digest);
    assert_string_equal(digest, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    cshim_policy_sha256(million, 56, digest);
    assert_string_equal(digest, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    cshim_policy_sha256(million, 64, digest);
    assert_string_equal(digest, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

/* The name of a built-in policy takes precedence over a file of that name, which needs a path. */
TEST(built_in, .setup_func = enter_scratch, .teardown_func = leave_scratch)
{
    struct cshim_named_policy policy;
    char message[CSHIM_MESSAGE_MAX];
    size_t count = 0;
    write_file("@fp8", "[rule mine]\ncodec = none\n");
    write_file("@mine", "[rule mine]\ncodec = none\n");
    for (; (policy = cshim_policy_named(count)).name != NULL; count++) {
        assert_loads(policy.name, policy.name, policy.text);
        setenv("COMPSHIM_POLICY", policy.name, 1);
        assert_loads(NULL, policy.name, policy.text);
        struct cshim_policy *parsed =
            cshim_policy_parse(policy.text, strlen(policy.text), policy.name, message);
        assert_non_null(parsed);
        for (size_t i = 0; i < parsed->rule_count && strcmp(policy.name, "@exact") == 0; i++)
            assert_true(parsed->rules[i].codec == CSHIM_CODEC_NONE ||
                        parsed->rules[i].codec == CSHIM_CODEC_RAW ||
                        parsed->rules[i].codec == CSHIM_CODEC_LOSSLESS);
        cshim_policy_free(parsed);
    }
    assert_int_equal(count, 4);
    assert_string_equal(cshim_policy_named(0).text, cshim_policy_default_text());
    assert_loads("./@fp8", "./@fp8", "[rule mine]\ncodec = none\n");
    assert_fails("@fp9", "@fp9: no built-in policy of this name (did you mean '@fp8'? known: "
                         "@default, @exact, @fp8, @small); a file of "
                         "such a name is ./@fp9");
    setenv("COMPSHIM_POLICY", "@mine", 1);
    assert_fails(NULL, "@mine: no built-in policy of this name (known: @default, @exact, @fp8, "
                       "@small); a file of such a name is ./@mine");
}

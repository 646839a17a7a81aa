/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/uses.h"

struct cshim_gloo_use *cshim_gloo_use_find(struct cshim_gloo_uses *uses, unsigned function,
                                           uint32_t tag, bool adds)
{
    for (size_t i = uses->count; i-- > 0;)
        if (uses->entries[i].tag == tag && uses->entries[i].function == function)
            return &uses->entries[i];
    if (!adds || uses->count == CSHIM_GLOO_USES_MAX)
        return NULL;
    struct cshim_gloo_use *use = &uses->entries[uses->count++];
    *use = (struct cshim_gloo_use){.tag = tag, .function = (uint16_t)function};
    return use;
}

bool cshim_gloo_uses_list(const struct cshim_gloo_uses *uses, struct cshim_gloo_mark *marks,
                          uint32_t *count)
{
    *count = 0;
    for (size_t i = 0; i < uses->count; i++) {
        const struct cshim_gloo_use *use = &uses->entries[i];
        const uint16_t native = use->begun > use->native ? use->begun : use->native;
        if (native <= use->ended)
            continue;
        if (*count == CSHIM_GLOO_MARKS_MAX)
            return false;
        marks[(*count)++] = (struct cshim_gloo_mark){use->tag, use->function, native};
    }
    return true;
}

bool cshim_gloo_uses_add(struct cshim_gloo_uses *uses, const struct cshim_gloo_mark *marks,
                         uint32_t count)
{
    bool has_room = true;
    for (uint32_t i = 0; i < count && i < CSHIM_GLOO_MARKS_MAX; i++) {
        struct cshim_gloo_use *use =
            cshim_gloo_use_find(uses, marks[i].function, marks[i].tag, true);
        if (use == NULL)
            has_room = false;
        else if (marks[i].count > use->native)
            use->native = marks[i].count;
    }
    return has_room;
}

bool cshim_gloo_uses_have_unbegun(const struct cshim_gloo_uses *uses)
{
    for (size_t i = 0; i < uses->count; i++)
        if (uses->entries[i].native > uses->entries[i].begun)
            return true;
    return false;
}

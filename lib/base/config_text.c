/* SPDX-License-Identifier: BSD-3-Clause */
/* config_text.c: settings in force as text for people, in which each value is written as a user writes it. */
#include <string.h>

#include "base/config.h"
#include "base/text.h"

static void put_value(const struct tt_setting *row, const struct tt_settings *settings, struct tt_text *t)
{
    const void *field = (const char *)settings + row->offset;
    static const char suffixes[] = "KMGT";
    int scale = 0;
    uint64_t number;
    switch (row->kind) {
    case TT_KIND_BOOL:
        tt_put(t, "%s", *(const bool *)field ? "on" : "off");
        break;
    case TT_KIND_CHOICES:
    case TT_KIND_TOPOLOGY:
    case TT_KIND_PATH:
        tt_put(t, "%s", (const char *)field);
        break;
    case TT_KIND_DEVICE:
        number = *(const uint64_t *)field;
        if (number < TT_DEVICE_FIRST)
            tt_put(t, "%s", tt_setting_word(TT_KIND_DEVICE, number));
        else
            tt_put(t, "%llu", (unsigned long long)(number - TT_DEVICE_FIRST));
        break;
    case TT_KIND_PROBE:
        number = *(const uint64_t *)field;
        if (number < TT_PROBE_FIRST)
            tt_put(t, "%s", tt_setting_word(TT_KIND_PROBE, number));
        else
            tt_link_put(tt_link_of((uint32_t)(number - TT_PROBE_FIRST)), t);
        break;
    case TT_KIND_BYTES:
    case TT_KIND_NUMBER:
    case TT_KIND_MS:
        number = *(const uint64_t *)field;
        for (; row->kind == TT_KIND_BYTES && number != 0 && number % 1024 == 0 && scale < 4; scale++)
            number /= 1024;
        tt_put(t, "%llu%.1s", (unsigned long long)number, scale > 0 ? &suffixes[scale - 1] : "");
        break;
    default:
        tt_put(t, "%s", tt_setting_word(row->kind, *(const uint64_t *)field));
    }
}

size_t tt_settings_print(const struct tt_settings *settings, char *text, size_t bytes)
{
    static const char *const origins[] = { "default", "environment", "options", "rank 0", "parent",
        "config" };
    struct tt_text t = { text, bytes, 0 };
    for (int i = 0; i < tt_setting_count; i++) {
        const struct tt_setting *row = &tt_setting_table[i];
        char value[TT_CONFIG_TEXT];
        put_value(row, settings, &(struct tt_text){ value, sizeof value, 0 });
        int width = 24 - (int)strlen(row->name);
        tt_put(&t, "%s=%-*s # %s, %s: %s\n", row->name, width, value,
            row->scope == TT_SHARED ? "shared" : "local", origins[settings->origin[i]], row->help);
    }
    return t.length;
}

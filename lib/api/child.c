/* SPDX-License-Identifier: BSD-3-Clause */
/* child.c: what a communicator that is made from another one has of that one, its parent. */
#include "api/child.h"

#include <string.h>

#include "base/status.h"
#include "device/device.h"
#include "run/settings.h"
#include "select/selection.h"

/* Names the device of the child, which is its parent's unless the child's own config says another. */
static tutti_status set_device(const struct tt_comm *parent, struct tt_settings *settings)
{
    int number = parent->device != NULL ? parent->device->number : -1;
    tutti_status status = TUTTI_OK;
    enum tt_origin origin = tt_setting_origin(settings, &settings->device);
    if (origin == TT_FROM_OPTIONS || origin == TT_FROM_CONFIG)
        status = tt_device_resolve(settings, &number);
    settings->device = number < 0 ? TT_DEVICE_NONE : TT_DEVICE_FIRST + (uint64_t)number;
    return status;
}

tutti_status tt_child_settings(const char *function, const struct tt_comm *parent, const tutti_config *config,
    struct tt_settings *settings)
{
    tutti_status status = tt_comm_settings_of_child(config, &parent->settings, settings);
    if (status == TUTTI_OK)
        status = set_device(parent, settings);
    /* A network that the parent has measured, or has been told, is the child's, too. */
    bool named =
        settings->hosts.probe != parent->settings.hosts.probe && settings->hosts.probe != TT_PROBE_AUTO;
    if (named)
        tt_selection_assume(settings);
    if (status == TUTTI_OK && (named || strcmp(settings->rules, parent->settings.rules) != 0))
        status = tt_rules_read(settings);
    if (status == TUTTI_OK && tt_comm_nonblocking(config))
        status = tt_fail(TUTTI_UNSUPPORTED,
            "%s: config.flags has TUTTI_COMM_NONBLOCKING, but %s waits for other ranks; legal: "
            "TUTTI_COMM_EXACT",
            function, function);
    return status;
}

tutti_status tt_child_settings_of(
    const struct tt_comm *parent, const tutti_config *config, struct tt_settings *settings)
{
    return parent != NULL ? tt_comm_settings_of_child(config, &parent->settings, settings)
                          : tt_comm_settings(config, settings);
}

int tt_child_device_to_adopt(const struct tt_comm *parent, const tutti_config *config)
{
    struct tt_settings settings;
    if (tt_child_settings_of(parent, config, &settings) != TUTTI_OK)
        return -1;
    enum tt_origin origin = tt_setting_origin(&settings, &settings.device);
    bool asked = parent == NULL || origin == TT_FROM_OPTIONS || origin == TT_FROM_CONFIG;
    return asked ? tt_device_to_adopt(&settings) : -1;
}

void tt_child_config(
    const struct tt_comm *parent, const tutti_config *config, const char *name, tutti_config *own)
{
    tt_comm_config(config, own);
    if (own->name == NULL)
        own->name = name;
    if (own->on_wait == NULL) {
        own->on_wait = parent->waiting.on_wait;
        own->on_wait_context = parent->waiting.on_wait_context;
    }
}

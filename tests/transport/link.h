/* SPDX-License-Identifier: BSD-3-Clause */
/* link.h: what tests ask of a link, and of an endpoint besides messages, in fewer words (transport.h). */
#ifndef TT_TESTS_LINK_H
#define TT_TESTS_LINK_H
#include "base/load.h"
#include "transports/registry.h"

static inline bool link_send(struct tt_link *link, const struct tt_message *m)
{
    return link->ops->send(link, m);
}

static inline bool link_post(
    struct tt_link *link, uint64_t number, uint32_t signature, const void *src, uint32_t bytes)
{
    return link->ops->post(link, number, signature, src, bytes);
}

static inline bool link_sent(struct tt_link *link, uint64_t number)
{
    return link->ops->sent(link, number);
}

static inline bool link_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *a)
{
    return link->ops->arrived(link, number, like, a);
}

static inline enum tt_peek link_peek(
    struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, const void **payload)
{
    return link->ops->peek(link, number, signature, bytes, payload);
}

static inline void link_release(struct tt_link *link, uint64_t number)
{
    link->ops->release(link, number);
}

static inline bool link_grant(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *place, uint64_t after)
{
    return link->ops->grant != NULL && link->ops->grant(link, number, signature, place, after);
}

/* What its receiver granted. */
static inline bool link_granted(
    struct tt_link *link, const struct tt_message *m, unsigned flags, struct tt_view *place)
{
    return link->ops->target != NULL && link->ops->target(link, m, flags, place) == TT_TARGET_GRANTED;
}

static inline bool link_replies(struct tt_link *link, const struct tt_message *m, struct tt_view *place)
{
    return link->ops->target(link, m, TT_ALLOW_REPLY, place) == TT_TARGET_REPLY;
}

static inline enum tt_peer_state peer_state(struct tt_endpoint *e, int peer)
{
    struct tt_peer_place place;
    return e->control->peer_state(e, peer, &place);
}

/* Whether the plugin for UCX is here. */
static inline bool has_ucx(void)
{
    char path[256], looked[1024];
    struct tt_text text = { looked, sizeof looked, 0 };
    return tt_find_own("libtutti_ucx.so", path, sizeof path, &text);
}

#endif

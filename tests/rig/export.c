/* SPDX-License-Identifier: BSD-3-Clause */
/* export.c: an export is a message with a descriptor on it; tests of the stub and of devices send it. */
#include "export.h"

#include <string.h>
#include <sys/socket.h>

bool export_send(int channel, const struct tt_dev_export *export)
{
    char space[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec data = { (void *)export, sizeof *export };
    struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
    if (export->fd >= 0) {
        message.msg_control = space;
        message.msg_controllen = sizeof space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS
        };
        memcpy(CMSG_DATA(header), &export->fd, sizeof(int));
    }
    return sendmsg(channel, &message, 0) == sizeof *export;
}

bool export_receive(int channel, struct tt_dev_export *export)
{
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec data = { export, sizeof *export };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
    };
    if (recvmsg(channel, &message, 0) != sizeof *export)
        return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL)
        memcpy(&export->fd, CMSG_DATA(header), sizeof(int));
    return true;
}

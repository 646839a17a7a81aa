/* SPDX-License-Identifier: Apache-2.0 */
/* The notification is a datagram of one byte. It is lost, without an error, if compshim run is not
 * listening: on another host, in another network namespace, or after its end. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/front/presence.h"
#include "shim/core/environment.h"

static void send_notification(int sender, const char *name, size_t length)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (length == 0 || length >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path + 1, name, length); /* a leading NUL: abstract namespace */
    (void)sendto(sender, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length));
}

void cshim_presence_notify(void)
{
    const char *name = secure_getenv(CSHIM_PRESENCE_VARIABLE);
    if (name == NULL || *name == '\0')
        return;
    const int saved_errno = errno;
    const int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (sender >= 0 && *name != '\0') {
        const size_t length = strcspn(name, ",");
        send_notification(sender, name, length);
        name += length + (name[length] == ',');
    }
    if (sender >= 0)
        close(sender);
    errno = saved_errno;
}

/* loopback.c - bind() that offers nothing to the network
 *
 * For LD_PRELOAD.  A socket that the program binds to every address of the machine is bound
 * to the loopback address instead: 127.0.0.1, or ::1 for IPv6.  Every other address is
 * taken as it is.  slurm-cluster compiles this file, and loads it into the daemons that it
 * starts and with them into the steps.  Slurm's own CommunicationParameters=NoInAddrAny
 * binds to the address of the host's name, which usually is that of a network card.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int bind (int fd, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;

    if (address && length >= sizeof (ipv4) && address->sa_family == AF_INET) {
        memcpy (&ipv4, address, sizeof (ipv4));
        if (ipv4.sin_addr.s_addr == htonl (INADDR_ANY)) {
            ipv4.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
            return syscall (SYS_bind, fd, &ipv4, sizeof (ipv4));
        }
    }
    if (address && length >= sizeof (ipv6) && address->sa_family == AF_INET6) {
        memcpy (&ipv6, address, sizeof (ipv6));
        if (memcmp (&ipv6.sin6_addr, &in6addr_any, sizeof (in6addr_any)) == 0) {
            ipv6.sin6_addr = in6addr_loopback;
            return syscall (SYS_bind, fd, &ipv6, sizeof (ipv6));
        }
    }
    return syscall (SYS_bind, fd, address, length);
}

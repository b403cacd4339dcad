/* comm_ucx_wakeups - the sockets by which the ranks of a node wake each other
 *
 * UCX over shared memory wakes a rank by a datagram of one byte to a socket that has a name without
 * a file.  Every process of the network namespace can send there.  UCX takes an empty datagram for
 * the end of the socket, and then ends the process (uct_mm_iface_event_fd_arm() of UCX 1.13 to
 * 1.20).  A filter drops empty datagrams.
 */
#ifndef LIBCORE_COMM_COMM_UCX_WAKEUPS_H
#define LIBCORE_COMM_COMM_UCX_WAKEUPS_H

/* The descriptors that are open before UCX opens its own. */
struct ucx_open_files {
    int *fd; /* ascending */
    int n;
};

/* Without memory or /proc, no filter will be set. */
void ucx_wakeups_begin (struct ucx_open_files *before);

/* Set the filter of the datagram sockets that have been opened since, and free the list. */
void ucx_wakeups_filter (struct ucx_open_files *before);

#endif /* LIBCORE_COMM_COMM_UCX_WAKEUPS_H */

/* place.c - what a rank finds: its CPUs and its variables */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmd/launch/launch.h"
#include "plugin/contract.h"

static const char loopback[] = "127.0.0.1";

int launch_find_port (void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t len = sizeof (address);
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;

    address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    if (fd >= 0 && bind (fd, (struct sockaddr *)&address, len) == 0
        && getsockname (fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs (address.sin_port);
    if (fd >= 0)
        close (fd);
    return port;
}

/* Where there are at least as many CPUs as ranks, neighbouring ranks get neighbouring shares of
 * them.  Else every rank may run on all, so that ranks that wait give way to those that compute.
 * Returns the number of CPUs of this rank.
 */
static int deal_cpus (int rank, int ranks)
{
    cpu_set_t all, own;
    int count, place = 0, first, end;

    if (sched_getaffinity (0, sizeof (all), &all) < 0)
        return 1;
    count = CPU_COUNT (&all);
    if (count < ranks)
        return 1;
    first = (int)((long)count * rank / ranks);
    end = (int)((long)count * (rank + 1) / ranks);
    CPU_ZERO (&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET (cpu, &all))
            continue;
        if (place >= first && place < end)
            CPU_SET (cpu, &own);
        place++;
    }
    sched_setaffinity (0, sizeof (own), &own);
    return end - first;
}

/* The plugin's variables.  The address and the port are this launcher's own, also inside a job of
 * another one.  Without sizes a rank has no MEGATRON_ variables, not even those of an outer job.
 */
static int set_variables (const struct launch_place *place)
{
    const struct contract c = {
        .grid = place->grid, .rank = place->rank, .local_rank = place->rank,
        .local_size = place->ranks, .master_addr = loopback, .master_port = place->port,
    };

    for (int i = 0; i < CONTRACT_NUM_VARS; i++) {
        const struct contract_var *var = &contract_vars[i];
        bool master = var->kind == CONTRACT_MASTER_ADDR || var->kind == CONTRACT_MASTER_PORT;
        const char *set = var->unless ? getenv (var->unless) : NULL;
        char value[CONTRACT_VALUE_MAX];

        if (!place->sized && strncmp (var->name, "MEGATRON_", 9) == 0) {
            unsetenv (var->name);
            continue;
        }
        if (!master && set && *set)
            continue;
        if (contract_value (&c, var, value) && setenv (var->name, value, 1) < 0)
            return -1;
    }
    return 0;
}

int launch_settle (const struct launch_place *place)
{
    char threads[16];

    snprintf (threads, sizeof (threads), "%d", deal_cpus (place->rank, place->ranks));
    if (set_variables (place) < 0 || setenv ("MEGATRON_BOOTSTRAP", "env", 1) < 0
        || setenv ("MEGATRON_BOOTSTRAP_TOKEN", place->token, 1) < 0)
        return -1;
    return setenv ("OMP_NUM_THREADS", threads, 0);
}

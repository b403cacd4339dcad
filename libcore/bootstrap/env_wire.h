/* env_wire - what the ranks of the bootstrap "env" send each other over TCP.
 *
 * Rank 0 is the hub, which listens at MASTER_ADDR and MASTER_PORT.  Each other rank connects to it
 * and keeps the connection.  A frame is a header and a body.  Both ends run the same program on the
 * same kind of machine, which the magic number and the version check.
 *
 * The start proves that both ends know the job's token, which is never sent:
 *
 *     rank   HELLO      its place and a random number C
 *     hub    CHALLENGE  a random number S, and HMAC (token, "hub" C S hello)
 *     rank   PROOF      HMAC (token, "rank" C S hello)
 *     hub    WELCOME    the rank belongs to the job
 *
 * A rank whose connection is closed before WELCOME connects again.
 *
 * Then each collective call is one DATA frame of each rank and one ANSWER to each, with the data of
 * all ranks.  When the hub itself comes to the call, it sends HERE to each: a rank then knows
 * whether it waits for the hub or for another rank.  A FAIL frame ends the job instead, with a
 * reason for all ranks.
 */
#ifndef LIBCORE_BOOTSTRAP_ENV_WIRE_H
#define LIBCORE_BOOTSTRAP_ENV_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "libcore/base/sha256.h"
#include "megatron/error.h"

enum env_frame {
    ENV_HELLO,
    ENV_CHALLENGE,
    ENV_PROOF,
    ENV_WELCOME,
    ENV_DATA,
    ENV_HERE,
    ENV_ANSWER,
    ENV_FAIL,
};

enum {
    ENV_MAGIC = 0x6d676533,
    ENV_NONCE = 32,
    ENV_HOST_MAX = 65, /* bytes of a host name, which the ranks exchange first */
    ENV_TOKEN_MIN = 16,
    ENV_DATA_MAX = 1 << 20, /* bytes that a rank gives to a collective call */
    ENV_ANSWER_MAX = 1 << 30,
};

struct env_header {
    uint32_t magic, kind;
    uint64_t len; /* of the body */
};

struct env_hello {
    uint32_t rank, world;
    uint8_t nonce[ENV_NONCE];
};

struct env_challenge {
    uint8_t nonce[ENV_NONCE];
    uint8_t mac[SHA256_SIZE];
};

struct env_proof {
    uint8_t mac[SHA256_SIZE];
};

/* The body of ENV_FAIL. */
struct env_fail {
    uint32_t errnum;
    char text[MG_ERROR_MAX];
};

/* The proof of one side ("hub" or "rank"). */
void env_prove (const char *token, const char *side, const struct env_hello *hello,
                const uint8_t nonce[ENV_NONCE], uint8_t mac[SHA256_SIZE]);

/* Fill in random bytes.  -1 and a text if the system has none. */
int env_random (uint8_t *bytes, size_t n, struct mg_error *err);

/* True if two proofs are the same.  Takes the same time whatever differs. */
bool env_is_same (const uint8_t a[SHA256_SIZE], const uint8_t b[SHA256_SIZE]);

/* Milliseconds that are left until a time of timed_deadline(), at least 0. */
int env_left_ms (const struct timespec *deadline);

/* Make a connection send small frames at once.  Otherwise a frame may wait 40 ms for the delayed
 * acknowledgement of the one before.
 */
void env_set_nodelay (int fd);

/* Send a frame; receive 'n' bytes.  'fd' does not block.  0, or -1, errno and no text: ETIMEDOUT at
 * the deadline, ECONNRESET if the other side has gone.
 */
int env_send (int fd, enum env_frame kind, const void *body, size_t len,
              const struct timespec *deadline);
int env_recv (int fd, void *data, size_t n, const struct timespec *deadline);

#endif /* LIBCORE_BOOTSTRAP_ENV_WIRE_H */

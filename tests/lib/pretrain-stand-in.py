#!/usr/bin/env python3
"""What a Megatron-LM script does before its first step, without PyTorch.

Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and its own arguments, as
torchrun's users do; meets the other ranks there; forms its groups from rank numbers by
listing every rank's coordinates; checks that each group agrees about itself by an
all-gather through rank 0, and that MEGATRON_* name the same places.  Rank 0 prints the
groups as JSON.  Uses nothing of Slurm and nothing of ours.
"""
import argparse
import json
import os
import socket
import struct
import time

DENSE = {"tp": ("tp",), "cp": ("cp",), "dp": ("dp",), "dp-cp": ("cp", "dp"), "pp": ("pp",),
         "tp-cp": ("tp", "cp"), "tp-pp": ("tp", "pp")}
EXPERT = {"ep": ("ep",), "tp-ep": ("tp", "ep"), "edp": ("dp",)}


def coordinates(rank, order, size):
    at = {}
    for axis in order:
        rank, at[axis] = divmod(rank, size[axis])
    return at


def groups_of(world, order, size, axes):
    """Ranks that differ in nothing but these axes, in the order of their first ranks."""
    groups = {}
    for rank in range(world):
        at = coordinates(rank, order, size)
        groups.setdefault(tuple(at[a] for a in order if a not in axes), []).append(rank)
    return sorted(groups.values())


def send(sock, value):
    data = json.dumps(value).encode()
    sock.sendall(struct.pack("!I", len(data)) + data)


def receive(sock):
    def read(n):
        data = b""
        while len(data) < n:
            more = sock.recv(n - len(data))
            if not more:
                raise SystemExit("a peer has gone")
            data += more
        return data
    return json.loads(read(struct.unpack("!I", read(4))[0]))


def connect(address, end):
    while True:
        try:
            return socket.create_connection(address, timeout=60)
        except OSError:
            if time.time() > end:
                raise
            time.sleep(0.05)


def all_gather(rank, world, address, value):
    """Everybody's values by rank, through rank 0: init_process_group("env://")."""
    if rank != 0:
        with connect(address, time.time() + 60) as sock:
            send(sock, [rank, value])
            return receive(sock)
    values, peers = {0: value}, []
    with socket.create_server(address, backlog=world) as server:
        server.settimeout(60)
        while len(values) < world:
            sock, _ = server.accept()
            sock.settimeout(60)
            peer, theirs = receive(sock)
            if peer in values or not 0 < peer < world:
                raise SystemExit(f"rank {peer} of {world} is there twice")
            values[peer] = theirs
            peers.append(sock)
        everything = [values[r] for r in range(world)]
        for sock in peers:
            send(sock, everything)
            sock.close()
    return everything


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("tensor-model", "pipeline-model", "context", "expert-model"):
        parser.add_argument(f"--{name}-parallel-size", type=int, default=1)
    parser.add_argument("--expert-tensor-parallel-size", type=int)
    parser.add_argument("--use-tp-pp-dp-mapping", action="store_true")
    args = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local, local_world = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    cp, ep = args.context_parallel_size, args.expert_model_parallel_size
    etp = args.expert_tensor_parallel_size or tp
    order = ("tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp").split("-")
    dense = {"tp": tp, "cp": cp, "ep": 1, "dp": world // (tp * cp * pp), "pp": pp}
    expert = {"tp": etp, "cp": 1, "ep": ep, "dp": world // (etp * ep * pp), "pp": pp}

    node = os.environ["STAND_IN_NODE"]  # a host's name; virtual nodes share theirs
    everybody = all_gather(rank, world, address, [local, local_world, node])
    groups = {}
    for kinds, size in ((DENSE, dense), (EXPERT, expert)):
        for kind, axes in kinds.items():
            groups[kind] = groups_of(world, order, size, axes)
    mine = {kind: next(g for g in lists if rank in g) for kind, lists in groups.items()}

    # the same place by our names
    for name, size, axis in (("TP", dense, "tp"), ("CP", dense, "cp"), ("PP", dense, "pp"),
                             ("DP", dense, "dp"), ("EP", expert, "ep"), ("ETP", expert, "tp"),
                             ("EDP", expert, "dp")):
        want = (size[axis], coordinates(rank, order, size)[axis])
        got = tuple(int(os.environ[f"MEGATRON_{name}_{what}"]) for what in ("SIZE", "RANK"))
        if got != want:
            raise SystemExit(f"rank {rank}: {name} is {got}, want {want}")
    # ranks of a node stand together, and count from 0
    for r in range(1, world):
        if everybody[r][2] == everybody[r - 1][2]:
            assert everybody[r][0] == everybody[r - 1][0] + 1, everybody
        else:
            assert everybody[r][0] == 0 and everybody[r - 1][0] + 1 == everybody[r - 1][1]
    if tp * cp > 1:
        assert os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] == "1"
    # every rank of a group has the same group in mind
    for theirs in all_gather(rank, world, (address[0], address[1] + 1), mine):
        for kind, ranks in theirs.items():
            if rank in ranks and ranks != mine[kind]:
                raise SystemExit(f"rank {rank}: {kind} {mine[kind]}, a peer says {ranks}")
    if rank == 0:
        print(json.dumps({"world_size": world, "groups": groups}))


main()

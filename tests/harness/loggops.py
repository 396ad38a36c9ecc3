"""The LogGOPS model, on schedules in GOAL as `combray trace --to goal` writes them.

L is the latency in nanoseconds, o the processor time of a message on each side, g the least time between two messages
of a rank, G the time of a byte in nanoseconds. O, the processor time of a byte, is in the computations of a
schedule, and all messages are sent at once, as with S beyond all lengths: a schedule has messages of its own for sends
that waited. A message of a rank to itself takes no time.
"""

import re


def actions_by_rank(schedule):
    """By rank the list of actions: ("calc", nanoseconds) or ("send" or "recv", bytes, peer, tag)."""
    ranks, own = {}, None
    for line in schedule.splitlines():
        if found := re.match(r"rank (\d+) {", line):
            own = ranks.setdefault(int(found[1]), [])
        elif found := re.match(r"l\d+: calc (\d+)$", line):
            own.append(("calc", int(found[1])))
        elif found := re.match(r"l\d+: (send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)$", line):
            own.append((found[1], int(found[2]), int(found[3]), int(found[4])))
        else:
            assert re.match(r"num_ranks \d+$|l\d+ requires l\d+$|}?$", line), f"no line of a schedule: {line}"
    return ranks


def seconds(schedule, L, o=0, g=0, G=0.0):
    """How long the schedule takes."""
    ranks = actions_by_rank(schedule)
    place, clock, free = (dict.fromkeys(ranks, 0) for _ in range(3))
    underway, waiting, active = {}, {}, set(ranks)
    while active:
        rank = active.pop()
        while place[rank] < len(ranks[rank]):
            kind, amount, *peer_and_tag = ranks[rank][place[rank]]
            if kind == "calc":
                clock[rank] += amount
            elif kind == "send":
                peer, tag = peer_and_tag
                begun = max(clock[rank], free[rank])
                clock[rank] = begun + o
                free[rank] = begun + max(g, G * amount)
                transfer = L + G * amount if peer != rank else 0
                underway.setdefault((rank, peer, tag), []).append(clock[rank] + transfer)
                if waiting.pop((rank, peer, tag), None):
                    active.add(peer)
            else:
                peer, tag = peer_and_tag
                arrivals = underway.get((peer, rank, tag))
                if not arrivals:
                    waiting[peer, rank, tag] = True
                    break
                clock[rank] = max(clock[rank], arrivals.pop(0)) + o
            place[rank] += 1
    left = {rank: len(own) - place[rank] for rank, own in ranks.items() if place[rank] < len(own)}
    assert not left, f"the schedule has a receive without a send; actions left by rank: {left}"
    assert not any(underway.values()), "the schedule has a send without a receive"
    return max(clock.values()) / 1e9

"""Waits to be elected leader, counts elections, and leads until its standard input ends or it is not the leader any more:

    python3 leader.py 127.0.0.1:7101,127.0.0.1:7111 10.0.0.9:80
"""

import sys
import threading

from dyno_control import Client, LostError


def say(*words):
    print(*words, flush=True)


def elect(session, address):
    try:
        return session.lock("leader", address, timeout=0.1)
    except TimeoutError:
        say("waits")
        return session.lock("leader", address)


def main(servers, address):
    client = Client(servers.split(","))
    ended = threading.Event()

    def wait():
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    with client.begin(address, ttl_seconds=8, on_lost=ended.set) as session, elect(session, address) as lock:
        say("leads", lock.token, client.add("elections", 1))
        ended.wait()
        try:
            lock.check()
        except LostError as error:
            say(error)
    client.close()


main(*sys.argv[1:])

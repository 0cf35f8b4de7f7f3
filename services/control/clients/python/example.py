"""Registers an instance of the service "example", reads the configuration "greeting", and prints changes of
configurations until its standard input ends. It refuses those that are no text:

    python3 example.py 127.0.0.1:7101,127.0.0.1:7111 1
"""

import sys
import threading

from dyno_control import KIND_CONFIG, Client, Instance


def say(*words):
    print(*words, flush=True)


def main(servers, id):
    client = Client(servers.split(","), name="example-" + id)
    registration = client.register(Instance(address="127.0.0.1", port=8080, ttl_seconds=6), "example", id)
    registration.ready(30)
    say("registered")
    greeting = client.config("greeting")
    say("read", greeting.version, greeting.config.content.hex())
    watch = client.watch([KIND_CONFIG])

    def wait():
        sys.stdin.read()
        watch.close()

    threading.Thread(target=wait, daemon=True).start()
    for snapshot in watch:
        for before, after in snapshot.changes:
            if after:
                say("put", after.ref.name, after.version)
                try:
                    after.config.content.decode()
                    watch.applied(after)
                except UnicodeDecodeError as error:
                    watch.refused(after, f"no text: {error}")
            else:
                say("removed", before.ref.name, before.version)
        say("current" if snapshot.current else "stale", snapshot.server, len(snapshot.resources))
    registration.close()
    client.close()


main(*sys.argv[1:])

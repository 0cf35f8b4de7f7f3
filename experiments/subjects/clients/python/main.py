"""A client of the gRPC echo on grpcio. README.md in the folder above has its options and figures."""

import argparse
import json
import ssl
import threading
import time

import grpc

MESSAGE = b"\x0a\x10" + b"0123456789abcdef"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--warm", default="none", choices=["none", "connect", "calls"])
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--flight", type=int, default=16)
    options = parser.parse_args()
    # grpcio checks certificates always: the echo's own is the authority.
    host, port = options.target.rsplit(":", 1)
    authority = ssl.get_server_certificate((host, int(port))).encode()

    began = time.perf_counter()
    channel = grpc.secure_channel(options.target, grpc.ssl_channel_credentials(authority))
    call = channel.unary_unary("/dyno.echo.v1.Echo/Echo")
    if options.warm == "connect":
        grpc.channel_ready_future(channel).result()
    elif options.warm == "calls":
        repeat(call, 1, 1000)
    if options.warm != "none":
        began = time.perf_counter()
    call(MESSAGE)
    answered = time.perf_counter()
    call(MESSAGE)
    second = time.perf_counter()
    times = repeat(call, options.flight, options.calls // options.flight)
    took = time.perf_counter() - second
    print(
        json.dumps(
            {
                "first_seconds": answered - began,
                "second_seconds": second - answered,
                "p50_seconds": times[len(times) // 2],
                "p99_seconds": times[len(times) * 99 // 100],
                "calls_per_second": len(times) / took,
                "connections": connections(int(port)),
            }
        )
    )


def repeat(call, threads, each):
    """Makes calls in several threads, and returns their times in order."""
    times = []

    def work():
        for _ in range(each):
            at = time.perf_counter()
            call(MESSAGE)
            times.append(time.perf_counter() - at)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if len(times) != threads * each:
        raise SystemExit("calls have failed")
    return sorted(times)


def connections(port):
    """Counts this machine's open connections to a port of its own, by the kernel's tables."""
    n = 0
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        with open(table) as lines:
            fields = [line.split() for line in lines]
        n += sum(f[2].endswith(f":{port:04X}") and f[3] == "01" for f in fields)
    return n


if __name__ == "__main__":
    main()

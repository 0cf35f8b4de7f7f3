"""Call a service that is found over xDS. Each line of standard input has the timeout of a call in seconds, the
number of calls, and perhaps fields of the header as name=value. Answer each line with "OK", or with the status of the first call that failed and its details."""

import sys

import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda b: b, lambda b: b)
    for line in sys.stdin:
        timeout, calls, *fields = line.split()
        header = [tuple(f.split("=")) for f in fields]
        answer = "OK"
        for _ in range(int(calls)):
            try:
                check(b"", wait_for_ready=True, timeout=float(timeout), metadata=header)
            except grpc.RpcError as e:
                answer = f"{e.code().name} {e.details()}"
                break
        print(answer, flush=True)

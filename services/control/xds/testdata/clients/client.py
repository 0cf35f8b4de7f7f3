"""Call a service that is found over xDS, as often as each line of standard input says, and
answer each line with "ok", or with the status of the first call that failed."""

import sys

import grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    check = channel.unary_unary("/grpc.health.v1.Health/Check", lambda b: b, lambda b: b)
    for line in sys.stdin:
        answer = "ok"
        for _ in range(int(line)):
            try:
                check(b"", wait_for_ready=True, timeout=60)
            except grpc.RpcError as e:
                answer = f"{e.code().name}: {e.details()}"
                break
        print(answer, flush=True)

"""An echo of WebSocket messages by websockets, on one port without TLS and one with. The message "subscribe" has 50
others sent in its place. By HTTP, it says what it has counted.

    python3 websockets_server.py PORT TLS-PORT CERTIFICATE KEY
"""

import asyncio
import json
import ssl
import sys
from http import HTTPStatus

from websockets.asyncio.server import serve

counts = {"connections": 0, "messages": 0, "pushed": 0, "closes": 0}


async def handle(socket):
    counts["connections"] += 1
    try:
        async for message in socket:
            counts["messages"] += 1
            if message != "subscribe":
                await socket.send(message)
                continue
            for n in range(50):
                await socket.send(f"news {n}")
                counts["pushed"] += 1
    finally:
        await socket.wait_closed()
        counts["closes"] += socket.close_code == 1000


def report(connection, request):
    if request.path == "/counts":
        return connection.respond(HTTPStatus.OK, json.dumps(counts))


async def main():
    port, secure_port, certificate, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with (
        serve(handle, "127.0.0.1", int(port), max_size=None, process_request=report),
        serve(handle, "127.0.0.1", int(secure_port), max_size=None, process_request=report, ssl=context),
    ):
        await asyncio.get_running_loop().create_future()


asyncio.run(main())

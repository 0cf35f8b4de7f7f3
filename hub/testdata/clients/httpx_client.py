"""Subscribes by httpx-sse and prints each event as a line of JSON, up to the one that
says "end". The package leaves reconnecting to its caller, as its documentation shows."""

import json
import sys
import time

import httpx
from httpx_sse import connect_sse

last, retry = "", 0.1
with httpx.Client(timeout=httpx.Timeout(10, read=None)) as client:
    while True:
        headers = {"Last-Event-ID": last} if last else {}
        try:
            with connect_sse(client, "GET", sys.argv[1], headers=headers) as source:
                for event in source.iter_sse():
                    last = event.id or last
                    retry = (event.retry or 1000 * retry) / 1000
                    print(json.dumps({"id": last, "type": event.event, "data": event.data}), flush=True)
                    if event.data == "end":
                        sys.exit()
        except httpx.TransportError:
            pass
        time.sleep(retry)

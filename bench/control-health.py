"""The client of control-health.sh.

register TARGET EACH FROM TO PORT   registers instances FROM … TO at a control plane
found FOLDER EACH COUNT PORT        makes 5 % fail, and says when a watch has them as critical
changes PORT                        prints a line for each change of health
moved LOG KILLED FROM TO ALL EACH   reads nginx's log: how the checks of instances FROM … TO went on
"""

import http.client
import json
import os
import sys
import time


def events(port):
    """The instances of a watch: all that there are, None, and then those that change."""
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("GET", "/v1/watch?kind=instance", headers={"Accept": "text/event-stream"})
    kind, synced = "", False
    for line in c.getresponse():
        if line.startswith(b"event: "):
            kind = line[7:].strip().decode()
            if kind == "synced" and not synced:
                synced = True
                yield None
        elif line.startswith(b"data: ") and kind == "put":
            event = json.loads(line[6:])
            yield event.get("resource") or event


def register(target, each, first, last, port):
    c = http.client.HTTPConnection("127.0.0.1", port)
    for n in range(first, last):
        body = {"address": "127.0.0.1", "port": target, "checks": [{"type": "http", "path": f"/{n}", "interval_seconds": each}]}
        c.request("PUT", f"/v1/services/s{n % 10}/instances/{n}", json.dumps(body), {"Content-Type": "application/json"})
        answer = c.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"{answer.status}: {text}")


def percentile(sorted_values, p):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * p))]


def found(folder, each, count, port):
    waiting = set(str(n) for n in range(0, count, 20))
    all_of_them, times, began = len(waiting), [], 0
    for event in events(port):
        if event is None:
            began = time.time()
            for n in waiting:
                os.remove(f"{folder}/{n}")
            continue
        if began and event.get("health") == "critical" and event["id"] in waiting:
            waiting.remove(event["id"])
            times.append(time.time() - began)
            if not waiting:
                break
    times.sort()
    print(f"found: {len(times)} of {all_of_them} that failed at once: median {percentile(times, .5):.2f} s, P99 {percentile(times, .99):.2f} s, the last {times[-1]:.2f} s; two intervals are {2 * each} s")
    print(f"result: found.p99_s {percentile(times, .99):.2f}")


def changes(port):
    health = {}
    for event in events(port):
        if event is None:
            continue
        name, now = event["id"], event.get("health")
        if health.setdefault(name, now) != now:
            print(name, health[name], now, flush=True)
        health[name] = now


def moved(log, killed, first, last, count, each):
    times = {}
    with open(log) as lines:
        for line in lines:
            at, path, _ = line.split()
            times.setdefault(int(path[1:]), []).append(float(at))
    after, pauses, others = [], [], []
    for n in range(count):
        recent = sorted(t for t in times[n] if t > killed - 2 * each)
        longest = max(b - a for a, b in zip(recent, recent[1:]))
        if first <= n < last:
            after.append(min(t for t in recent if t > killed) - killed)
            pauses.append(longest)
        else:
            others.append(longest)
    after.sort(), pauses.sort(), others.sort()
    print(f"moved: the checks of the killed replica's {last - first} instances went on after {after[0]:.2f} s; of half of them after {percentile(after, .5):.2f} s, of all after {after[-1]:.2f} s")
    print(f"moved: the longest pause between two checks of one of them: median {percentile(pauses, .5):.2f} s, longest {pauses[-1]:.2f} s; of the others' instances {others[-1]:.2f} s; an interval is {each} s")
    print(f"result: moved.first_s {after[0]:.2f}\nresult: moved.all_s {after[-1]:.2f}")


def number(text):
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


globals()[sys.argv[1]](*map(number, sys.argv[2:]))

"""The client of bot-keys.sh. PORTS are those of two gateways; the admin listener of each is on the next one.

make COUNT PORTS             makes keys for the load, and prints them as CSV
change COUNT SECONDS PORTS   makes, limits, rotates and revokes keys at even intervals, and says what the gateways made of it
sums MODEL PORTS             compares the ledger with what the model server has counted: MODEL is its admin listener
"""

import datetime
import http.client
import json
import random
import statistics
import sys
import threading
import time

CHAT = {"model": "dyno-1", "max_tokens": 8, "messages": [{"role": "user", "content": "hello"}]}
BOUND = 2  # seconds until a change holds everywhere
WORKERS = 12
EXACT = 25  # every such key is asked 100 times at each gateway, which its limit allows 60 times


class Gateway:
    """A gateway, over connections of one thread."""

    def __init__(self, port):
        self.api = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.admin = http.client.HTTPConnection("127.0.0.1", port + 1, timeout=60)

    def get(self, path, secret):
        self.api.request("GET", path, headers={"Authorization": f"Bearer {secret}"})
        answer = self.api.getresponse()
        return answer.status, answer.read()

    def chat(self, secret, **more):
        """The answer to a chat, which is not read yet."""
        self.api.request("POST", "/v1/chat/completions", json.dumps(CHAT | more), {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"})
        return self.api.getresponse()

    def manage(self, method, path, body=None):
        self.admin.request(method, "/api/v1/" + path, body and json.dumps(body))
        answer = self.admin.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else {}


class Changes:
    """Keys that are changed, and what the gateways made of it."""

    def __init__(self, count, seconds, ports):
        self.count, self.seconds, self.ports = count, seconds, ports
        self.lock = threading.Lock()
        self.next = self.requests = 0
        self.failures, self.exact = [], []
        self.times = {}  # of changes: how long a gateway still answered as before

    def expect(self, answer, status, end=b""):
        """Reads an answer to its end."""
        text = answer.read()
        with self.lock:
            self.requests += 1
            if answer.status != status or not text.endswith(end):
                self.failures.append(f"{answer.status} {text[-200:]}, want {status} {end}")

    def follow(self, gateways, told, what, secret, before, after):
        """Asks both gateways until each answers with another status than before the change, which has just been acknowledged."""
        begun = time.monotonic()
        for at in sorted(gateways, key=lambda g: g is not told):
            last = 0
            while (now := time.monotonic()) < begun + 60:
                status, text = at.get("/v1/models", secret)
                if status != before:
                    break
                last = now - begun
                time.sleep(0.002)
            with self.lock:
                self.times.setdefault((what, "told" if at is told else "other"), []).append(last)
                if status != after:
                    self.failures.append(f"{what}: {status} {text}, want {after}")

    def ask_limited(self, secret):
        """Asks 100 times at each gateway within one minute, and returns how many answers there were."""
        for port in self.ports:  # until they know the limit
            while b'"amount":60' not in Gateway(port).get("/v1/usage", secret)[1]:
                time.sleep(0.01)
        if (left := 60 - time.time() % 60) < 25:
            time.sleep(left)
        answered, minute = [], time.time() // 60

        def ask(port):
            gateway = Gateway(port)
            for _ in range(25):
                answer = gateway.chat(secret)
                text = answer.read()
                with self.lock:
                    self.requests += 1
                    if answer.status == 200:
                        answered.append(text)
                    elif answer.status != 429:
                        self.failures.append(f"{answer.status} {text}, want 200 or 429")

        threads = [threading.Thread(target=ask, args=(port,)) for port in self.ports * 4]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        with self.lock:
            self.exact.append(len(answered))
            if time.time() // 60 != minute:
                self.failures.append("a limit was asked for over two minutes: the machine is too busy")

    def live(self, n, gateways, streaming):
        """The life of a key, each change of which is made at either gateway."""
        key, told = f"key-{n}", random.choice(gateways)
        first = told.manage("POST", "keys", {"id": key})["secret"]
        self.follow(gateways, told, "made", first, 401, 200)
        random.choice(gateways).manage("POST", "limits", {"key": key, "resource": "requests", "amount": 60, "window": "1m"})
        if n % EXACT == 0:
            self.ask_limited(first)
        else:
            for gateway in gateways:
                self.expect(gateway.chat(first), 200)
        told = random.choice(gateways)
        second = told.manage("POST", f"keys/{key}/rotate")["secret"]
        self.follow(gateways, told, "replaced", first, 200, 401)
        if n % EXACT:
            stream = random.choice(streaming).chat(second, stream=True)
        told = random.choice(gateways)
        if n % 2:
            told.manage("PATCH", f"keys/{key}", {"disabled": True})
        else:
            told.manage("DELETE", f"keys/{key}")
        self.follow(gateways, told, "revoked", second, 200, 401)
        if n % EXACT:
            self.expect(stream, 200, b"data: [DONE]\n\n")  # it goes on
        told.manage("PATCH", "keys/load-0", {"metadata": {"n": key}})

    def work(self, begun):
        gateways, streaming = [Gateway(p) for p in self.ports], [Gateway(p) for p in self.ports]
        while True:
            with self.lock:
                n, self.next = self.next, self.next + 1
            if n >= self.count:
                return
            time.sleep(max(0, begun + n * self.seconds / self.count - time.monotonic()))
            try:
                self.live(n, gateways, streaming)
            except Exception as e:
                with self.lock:
                    self.failures.append(f"key-{n}: {e!r}")
                gateways, streaming = [Gateway(p) for p in self.ports], [Gateway(p) for p in self.ports]

    def report(self):
        for text in self.failures[:20]:
            print("failed:", text)
        most = 0
        for (what, at), times in sorted(self.times.items()):
            most = max([most] + times)
            print(f"{what}: the gateway that {'was told' if at == 'told' else 'was not told'} answered as before for {statistics.median(times) * 1e3:.1f} ms (median), {max(times) * 1e3:.1f} ms (longest of {len(times)})")
            print(f"result: {what}.{at}_ms {max(times) * 1e3:.1f}")
        print(f"limits of 60 a minute, asked 100 times at each gateway: {sum(n == 60 for n in self.exact)} of {len(self.exact)} answered 60, from {min(self.exact)} to {max(self.exact)}")
        print(f"result: limits.exact {sum(n == 60 for n in self.exact)}")
        print(f"requests by these keys: {self.requests}, of which {len(self.failures)} were cut or failed for another reason than the key's state")
        print(f"result: keys.failed {len(self.failures)}")
        return not self.failures and most < BOUND and set(self.exact) == {60}


def make(count, ports):
    gateway = Gateway(ports[0])
    print("id,secret")
    for n in range(count):
        key = gateway.manage("POST", "keys", {"id": f"load-{n}"})
        print(f"{key['id']},{key['secret']}")
        while Gateway(ports[1]).get("/v1/models", key["secret"])[0] != 200:
            time.sleep(0.01)


def change(count, seconds, ports):
    changes, begun = Changes(count, seconds, ports), time.monotonic()
    threads = [threading.Thread(target=changes.work, args=(begun,)) for _ in range(WORKERS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{count} keys made, limited, rotated and revoked in {time.monotonic() - begun:.0f} s")
    return changes.report()


def sums(model, ports):
    day = (datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for _ in range(100):  # the last entries may wait to be written
        c = http.client.HTTPConnection("127.0.0.1", model)
        c.request("GET", "/metrics")
        counted = {"requests": 0, "tokens": 0}
        for line in c.getresponse().read().decode().splitlines():
            if line.startswith(("llm_requests_total{", "llm_tokens_total ")):
                counted[line[4:].split("_")[0]] += int(float(line.split()[-1]))
        groups = Gateway(ports[0]).manage("GET", f"usage?from={day}")["groups"]
        ledger = {"requests": sum(g["requests"] for g in groups), "tokens": sum(g["completion_tokens"] for g in groups)}
        if ledger == counted:
            break
        time.sleep(0.1)
    for name, n in ledger.items():
        print(f"{name} of answers in the ledger: {n}, counted by the model server: {counted[name]}")
        print(f"result: ledger.{name}_difference {n - counted[name]}")
    return ledger == counted


if __name__ == "__main__":
    run = {"make": make, "change": change, "sums": sums}[sys.argv[1]]
    sys.exit(run(*map(int, sys.argv[2:-2]), [int(p) for p in sys.argv[-2:]]) is False)

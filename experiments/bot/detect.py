#!/usr/bin/env python3
"""Injects a fault into a gateway under load, and measures how long the alert rules of deploy/prometheus take to fire, and
the repair that follows the alert to bring good answers:

  experiments/bot/detect.py errors|down HOLD

errors: the model server is gone, and the gateway answers with 5xx. down: the gateway itself is gone. HOLD is how long
a condition must last (for:), in place of the minute of the rules that ship; rates are of the last 5 s in place of a minute,
and Prometheus scrapes and evaluates each second. --build only tells whether Prometheus is installed.
"""
import json, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time, urllib.request

if sys.argv[1] == "--build":
    if not shutil.which("prometheus"):
        print("Prometheus is not installed (Debian: prometheus)")
        sys.exit(3)
    sys.exit()
fault, hold = sys.argv[1], sys.argv[2]
here = os.path.dirname(os.path.abspath(__file__))
alert = {"errors": "ServiceErrors", "down": "ServiceDown"}[fault]
key = "r2-key-0123456789abcdef"


def free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, body=None):
    head = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
    return urllib.request.urlopen(urllib.request.Request(url, body, head), timeout=2).read()


def wait(what, until, most=60):
    """Returns how long it took until something was true."""
    began = time.monotonic()
    while time.monotonic() - began < most:
        try:
            if until():
                return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"{what}: not within {most} s")


model, gateway, admin, prometheus = free(), free(), free(), free()
commands = {
    "model": ["dyno", "serve", "llm", "--listen", f"127.0.0.1:{model}"],
    "gateway": [here + "/gateway.sh", "memory", "-", "--listen", f"127.0.0.1:{gateway}", "--admin", f"127.0.0.1:{admin}",
                "--upstream", f"http://127.0.0.1:{model}/v1", "--models", "dyno-1"],
}
running, ended = {}, threading.Event()
with tempfile.TemporaryDirectory() as folder:
    def start(name):
        log = open(f"{folder}/{name}.log", "a")
        running[name] = subprocess.Popen(commands[name], stdout=log, stderr=log, start_new_session=True)

    def stop(name):
        process = running.pop(name)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()

    def chat():
        body = {"model": "dyno-1", "max_tokens": 4, "messages": [{"role": "user", "content": f"order {time.time()}?"}]}
        return get(f"http://127.0.0.1:{gateway}/v1/chat/completions", json.dumps(body).encode())

    def load():
        while not ended.wait(0.05):
            try:
                chat()
            except OSError:
                pass

    def firing():
        return any(a["labels"]["alertname"] == alert and a["state"] == "firing"
                   for a in json.loads(get(f"http://127.0.0.1:{prometheus}/api/v1/alerts"))["data"]["alerts"])

    rules = open(here + "/../../deploy/prometheus/rules.yml").read()
    rules = re.sub(r"for: 1m", "for: " + hold, rules).replace("[1m]", "[5s]").replace("interval: 5s", "interval: 1s")
    open(folder + "/rules.yml", "w").write(rules)
    open(folder + "/prometheus.yml", "w").write(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n"
        f"  - {{job_name: bot, static_configs: [{{targets: ['127.0.0.1:{admin}']}}]}}\n")
    commands["prometheus"] = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                              f"--web.listen-address=127.0.0.1:{prometheus}"]
    users = threading.Thread(target=load)
    try:
        for name in commands:
            start(name)
        wait("the gateway", chat)
        wait("prometheus", lambda: get(f"http://127.0.0.1:{prometheus}/-/ready"))
        users.start()
        time.sleep(6)  # a full range of rates
        if firing():
            raise SystemExit(f"{alert} fires without a fault")
        part = {"errors": "model", "down": "gateway"}[fault]
        stop(part)
        failed = time.monotonic()
        figures = {"detect_seconds": wait(alert, firing)}
        start(part)
        wait("a good answer", chat)
        figures["repair_seconds"] = time.monotonic() - failed
        print(json.dumps(figures))
    finally:
        ended.set()
        for name in list(running):
            stop(name)
        if users.ident:
            users.join()

import random

from locust import HttpUser, TaskSet, between, task

PATHS = ["/a", "/b c"]


def helper(user, name, value="v"):
    user.client.get("/helper", params={name: value})


class Session:
    def on_start(self):
        self.client.headers["X-Session"] = "s"
        self.client.headers.update({"X-More": "m"})


class Inner(TaskSet):
    @task
    def inner(self):
        self.client.delete("/inner", headers={"x-session": "own"})
        self.interrupt()


class Visitor(Session, HttpUser):
    host = "http://127.0.0.1:18080"
    wait_time = between(1, 2)
    limit = 2

    def on_start(self):
        super().on_start()
        self.me = self.client.get("/me").json()["items"][0]["id"]

    @task
    def all(self):
        for path in PATHS:
            self.client.get(path, name="paths")
        for i in range(self.limit):
            self.client.get("/i/%d" % i, allow_redirects=False)
        helper(self, "n")
        self.client.patch(f"/me/{self.me}", data={"n": [1, None], "none": None})
        self.client.post("/number", json={"n": random.randint(7, 7), "text": str(random.randint(7, 7))})
        self.client.put("/list", data=[("a", 1), ("a", "x y")])
        self.client.post("/bytes", data=b"\x00\xff")
        self.client.request("OPTIONS", "/options", auth=("u", "p"))

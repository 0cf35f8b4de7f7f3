from locust import FastHttpUser, SequentialTaskSet, TaskSet, task, tag, constant
import random, os, json
H = {"X-H": "1"}
class Flow(SequentialTaskSet):
    @task
    def one(self):
        self.client.get("/one", headers={**H, "X-None": None})
    @tag("t")
    @task
    def two(self):
        self.client.post("/three", data={"a": [1, None, "x y"], "b": None, "c": True})
        self.client.post("/four", data=json.dumps({"n": random.randint(1, 1), "u": "ü"}), headers={"Content-Type": "application/json"})
class U(FastHttpUser):
    host = "http://127.0.0.1:18080"
    wait_time = constant(1)
    tasks = {Flow: 2}
    @task
    def q(self):
        self.client.get("/a b/../{x}/%41%2f?x=ü&y=[1]&z=%zz|", params={"z": ["1", None]})
        self.client.post("/json", json={"a": None, "f": 1.0})

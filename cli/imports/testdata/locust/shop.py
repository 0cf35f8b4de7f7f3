import json
import random

from locust import HttpUser, between, task

ITEMS = ["chair", "table", "lamp"]


class Customer(HttpUser):
    host = "http://127.0.0.1:8080"
    wait_time = between(1, 5)
    weight = 3

    def on_start(self):
        response = self.client.post("/login", json={"user": "ann", "password": "geheim"})
        self.token = response.json()["token"]

    @task(3)
    def browse(self):
        self.client.get(f"/items/{random.randint(1, 100)}", name="/items/[id]", headers={"Authorization": f"Bearer {self.token}"})

    @task
    def search(self):
        with self.client.get("/search", params={"q": random.choice(ITEMS)}, catch_response=True) as response:
            if response.status_code != 200:
                response.failure("not found")
            elif response.elapsed.total_seconds() > 1:
                response.failure("too slow")

    @task
    def checkout(self):
        self.client.post("/checkout", data={"card": "4111 1111", "count": 2})


class Admin(HttpUser):
    host = "http://127.0.0.1:8080"
    weight = 1

    @task
    def report(self):
        self.client.get("/admin/report", auth=("admin", "geheim"), verify=False)
        print("done")

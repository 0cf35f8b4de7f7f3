"""A flow with steps that follow one another."""
import os
import time
from uuid import uuid4

from locust import HttpUser, LoadTestShape, SequentialTaskSet, constant, events, task

PREFIX = "/api" + "/v1"
TENANT = os.getenv("TENANT", "acme")


@events.test_start.add_listener
def begin(environment, **kwargs):
    print("begins")


class Order(SequentialTaskSet):
    @task
    def create(self):
        r = self.client.post(PREFIX + "/orders", json={"item": 17, "key": str(uuid4()), "tags": ["a", "b"]}, headers={"X-Tenant": TENANT})
        self.order = r.json()["data"]["id"]

    @task
    def pay(self):
        time.sleep(0.5)
        self.client.put("%s/orders/%s/payment" % (PREFIX, self.order), json={"order": self.order})
        for n in range(3):
            self.client.get(f"{PREFIX}/orders/{self.order}/lines/{n}")

    @task
    def leave(self):
        self.check_out(self.order)
        self.interrupt()

    def on_stop(self):
        self.client.get("/logout")


class Buyer(HttpUser):
    wait_time = constant(2)
    tasks = [Order]


class Ramp(LoadTestShape):
    def tick(self):
        return (10, 1)

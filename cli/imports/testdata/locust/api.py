from locust import FastHttpUser, task, constant_throughput
import base64, csv, logging

with open("users.csv") as f:
    USERS = list(csv.reader(f))

HEADERS = {"Accept": "application/json", "X-Api-Key": "k-17"}


class Api(FastHttpUser):
    wait_time = constant_throughput(2)
    base = "/v2"

    @task(5)
    def list(self):
        self.client.get(self.base + "/things", headers=HEADERS)

    @task(2)
    def get(self):
        self.client.request("GET", "/v2/things/1", allow_redirects=False)

    @task(1)
    def update(self):
        user = USERS[0]
        self.client.patch("/v2/things/1", data='{"name": "{{x}}"}', headers={"Content-Type": "application/json", "X-User": user})

    @task
    def delete(self):
        if self.environment.parsed_options.danger:
            self.client.delete("/v2/things/1")

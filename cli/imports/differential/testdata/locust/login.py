from locust import HttpUser, task, between
class AUser(HttpUser):
    host = "http://127.0.0.1:18080"
    wait_time = between(1, 2)
    def on_start(self):
        self.token = self.client.post("/login", json={"u": "a"}).json()["token"]
    @task
    def shop(self):
        self.client.get("/shop", headers={"X-Token": self.token})
        self.client.get("/q?a=1", params={"b": 2, "c": [1, 2]})
        self.client.post("/f", data={"n": 1, "none": None})

from locust import HttpUser, LoadTestShape, constant, task


class Visitor(HttpUser):
    host = "http://shop.example.com"
    wait_time = constant(1)

    @task
    def index(self):
        self.client.get("/")


class Steps(LoadTestShape):
    stages = [
        {"duration": 60, "users": 100, "spawn_rate": 10},
        {"duration": 120, "users": 100, "spawn_rate": 10},
        {"duration": 150, "users": 20, "spawn_rate": 1},
    ]

    def tick(self):
        for stage in self.stages:
            if self.get_run_time() < stage["duration"]:
                return (stage["users"], stage["spawn_rate"])
        return None

from locust import HttpUser, task, between, SequentialTaskSet

class Base(HttpUser):
    abstract = True
    host = "http://127.0.0.1:18080"
    wait_time = between(1, 2)
    def on_start(self):
        self.client.post("/login", json={"u": "a"})
    @task
    def common(self):
        self.client.get("/common")

class ApiUser(Base):
    @task(3)
    def shop(self):
        self.client.get("/shop")

class LoginUser(HttpUser):
    abstract = True
    host = "http://127.0.0.1:18080"
    wait_time = between(1, 2)
    def on_start(self):
        self.client.post("/login", json={"u": "b"})

class BuyUser(LoginUser):
    @task
    def buy(self):
        self.client.get("/buy")

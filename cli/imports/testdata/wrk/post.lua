-- One request with a body and fields, again and again.
wrk.method = "POST"
wrk.path = "/items"
wrk.body = '{"name": "chair", "price": 4999}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-Api-Key"] = os.getenv("TOKEN")

function done(summary, latency, requests)
   for _, p in pairs({50, 90, 99}) do
      io.write(string.format("%g%%, %d\n", p, latency:percentile(p)))
   end
end

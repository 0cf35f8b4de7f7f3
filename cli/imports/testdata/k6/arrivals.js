import http from "k6/http";
import { check } from "k6";
import { helper, page } from "./part-helper.js";
import exec from "k6/execution";
import redis from "k6/experimental/redis";

export const options = {
    insecureSkipTLSVerify: true,
    discardResponseBodies: true,
    scenarios: {
        browse: {
            executor: "constant-arrival-rate",
            rate: 300, timeUnit: "1m", duration: "2m",
            preAllocatedVUs: 10, maxVUs: 50,
            exec: "browse",
        },
        buy: {
            executor: "constant-arrival-rate",
            rate: 1, timeUnit: "1s", duration: "2m",
            preAllocatedVUs: 5,
            exec: "buy",
        },
        spike: {
            executor: "ramping-vus", startTime: "1m", stages: [{ duration: "10s", target: 100 }],
            exec: "browse",
        },
    },
};

const client = new redis.Client("redis://localhost:6379");

export function browse() {
    helper("/");
    const responses = http.batch([
        ["GET", page("/a.css")],
        { method: "GET", url: page("/b.js") },
        page("/c.png"),
    ]);
    check(responses[0], { "is ok": (r) => [200, 304].includes(r.status) });
}

export async function buy() {
    const res = await http.asyncRequest("POST", page("/orders"), JSON.stringify({ at: 17, vu: exec.vu.idInTest }), { headers: { "Content-Type": "application/json" } });
    for (const line of res.json("lines")) {
        http.get(page(`/lines/${line.id}`));
    }
    await client.get("x");
}

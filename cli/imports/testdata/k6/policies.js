import http from 'k6/http';
import { sleep, check } from 'k6';

export const options = {
  stages: [
    { duration: '30s', target: 1000 }, // up
    { duration: '5m', target: 5000 },
    { duration: '1m', target: 0 }, // down
  ],
};

export default function () {
  const res = http.post('http://control.example.com:8080/v1/policies',
    JSON.stringify({ name: 'test-policy', rules: [...] }),
    { headers: { 'Content-Type': 'application/json' } }
  );
  check(res, {
    'status is 201': (r) => r.status === 201,
    'p99 latency < 80ms': (r) => r.timings.p99 < 80,
  });
  sleep(0.1);
}

import http from 'k6/http';
import { check, group, sleep } from 'k6';
import { SharedArray } from 'k6/data';
import { Rate } from 'k6/metrics';
import { randomIntBetween } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';

const failed = new Rate('failed_logins');
const users = new SharedArray('users', () => JSON.parse(open('./part-users.json')));
const BASE = __ENV.SHOP_URL || 'http://127.0.0.1:8080';

export const options = {
  vus: 20,
  duration: '30s',
  thresholds: {
    http_req_failed: ['rate<0.01'],
    http_req_duration: ['p(95)<500', 'p(99.9)<2000', { threshold: 'avg<200', abortOnFail: true }],
    'http_req_duration{name:search}': ['p(99)<800'],
    iteration_duration: ['p(95)<5000'],
    checks: ['rate>0.95'],
  },
  userAgent: 'shop-load/1.0',
  dns: { ttl: '1m' },
};

export function setup() {
  const res = http.get(`${BASE}/health`);
  check(res, { 'is up': (r) => r.status === 200 });
  return { started: true };
}

export default function (data) {
  const user = users[Math.floor(Math.random() * users.length)];

  group('login', () => {
    const res = http.post(`${BASE}/v1/sessions`, JSON.stringify({ user: user.name, password: user.password, id: user.id }), {
      headers: { 'Content-Type': 'application/json' },
    });
    const ok = check(res, {
      'status is 201': (r) => r.status === 201,
      'has a token': (r) => r.json('token') !== undefined,
      'is fast': (r) => r.timings.duration < 300,
    });
    failed.add(!ok);
    data.token = res.json('token');
  });

  const params = { headers: { Authorization: `Bearer ${data.token}` }, tags: { name: 'search' } };
  const found = http.get(`${BASE}/v1/items?q=${encodeURIComponent(user.name)}&page=1`, params);
  check(found, {
    ok: (r) => r.status >= 200 && r.status < 300,
    'has items': (r) => r.body.includes('"items"'),
    'is open': (r) => r.json().items[0].state == 'open',
  });
  sleep(randomIntBetween(1, 5));

  const first = found.json().items[0];
  http.put(`${BASE}/v1/basket/${first.id}`, { count: 2, note: 'a & b' }, { headers: params.headers });
  sleep(1.5);
  http.del(`${BASE}/v1/basket`, null, { headers: params.headers, redirects: 0, timeout: '5s' });
}

export function teardown() {
  http.get(`${BASE}/done`);
}

import http from 'k6/http';
import exec from 'k6/execution';
import encoding from 'k6/encoding';
import k6crypto from 'k6/crypto';
import { check, group, sleep, fail } from 'k6';
import { SharedArray } from 'k6/data';
import { Trend, Counter } from 'k6/metrics';
import papaparse from 'https://jslib.k6.io/papaparse/5.1.1/index.js';
import { randomIntBetween, randomItem, uuidv4 } from 'https://jslib.k6.io/k6-utils/1.4.0/index.js';
import { textSummary } from 'https://jslib.k6.io/k6-summary/0.0.2/index.js';
import { login } from './part-suite-lib.js';

const users = new SharedArray('users', () => papaparse.parse(open('./part-suite-users.csv'), { header: true }).data);
const items = new SharedArray('items', function () { return JSON.parse(open('./part-suite-items.json')); });
const latency = new Trend('checkout_latency', true);
const BASE = __ENV.SHOP_SUITE_URL || 'http://127.0.0.1:8080';

export const options = {
  discardResponseBodies: false,
  minIterationDuration: '2s',
  tags: { team: 'shop' },
  scenarios: {
    ramp: {
      executor: 'ramping-arrival-rate', startRate: 10, timeUnit: '1s', preAllocatedVUs: 50, maxVUs: 200,
      stages: [{ target: 100, duration: '30s' }, { target: 100, duration: '1m' }, { target: 0, duration: '10s' }],
      exec: 'browse', env: { KIND: 'ramp' }, tags: { kind: 'ramp' }, gracefulStop: '5s',
    },
    soak: { executor: 'constant-vus', vus: 10, duration: '1m', exec: 'buy', startTime: '10s' },
  },
  thresholds: {
    'http_req_duration{scenario:ramp}': ['p(95)<300'],
    'http_req_failed': [{ threshold: 'rate<0.01', abortOnFail: true, delayAbortEval: '10s' }],
    'checkout_latency': ['p(99)<1000'],
  },
};

export function setup() {
  const token = login(BASE, { name: 'admin', password: 'x' });
  return { token };
}

export function browse(data) {
  const user = users[exec.scenario.iterationInTest % users.length];
  exec.vu.tags['kind'] = __ENV.KIND;
  const jar = http.cookieJar();
  jar.set(BASE, 'session', 'abc');
  group('home', function () {
    const res = http.batch({ css: ['GET', `${BASE}/a.css`], js: { method: 'GET', url: `${BASE}/b.js`, params: { tags: { kind: 'static' } } } });
    check(res.css, { ok: (r) => r.status === 200 }, { kind: 'css' });
  });
  const item = randomItem(items);
  const r = http.get(`${BASE}/items/${item.sku}?kind=${__ENV.KIND}`, { headers: { 'X-Id': uuidv4(), 'X-Request': crypto.randomUUID(), Authorization: `Bearer ${data.token}` }, cookies: { a: 'b' }, tags: { name: 'item' } });
  if (!check(r, { 'status 200': (res) => res.status === 200, 'json': (res) => res.json('id') === 3 })) {
    fail('bad');
  }
  latency.add(r.timings.duration);
  const h = k6crypto.sha256(user.name, 'hex');
  http.put(`${BASE}/h/${h}`, encoding.b64encode(user.password), { timeout: '3s' });
  http.get(`${BASE}/stock/${__ENV.NO_SUCH_REGION}`);
  sleep(randomIntBetween(1, 3));
}

export function buy() {
  http.post(`${BASE}/buy`, { sku: 'a-1', coupon: __ENV.NO_SUCH_COUPON });
}

export function handleSummary(data) { return { stdout: textSummary(data) }; }

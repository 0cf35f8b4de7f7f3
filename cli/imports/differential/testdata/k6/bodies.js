import http from 'k6/http';
import { sleep } from 'k6';

const BASE = 'http://127.0.0.1:18080';

export const options = {
  vus: 1,
  iterations: 1,
  thresholds: { http_req_duration: ['p(100)<10000', 'p(95)<5000', 'p(0)>=0'] },
};

export default function () {
  http.post(BASE + '/form', { z: 1, a: 'x y', l: [1, 'b', null], o: { x: 1, y: [2] }, u: undefined, t: true, f: 1.5 });
  http.post(BASE + '/empty', {});
  http.post(BASE + '/own-type', { a: 1 }, { headers: { 'Content-Type': 'application/json' } });
  http.post(BASE + '/part', { f: http.file('data {{x}}', 'n"ä.txt') });
  http.post(BASE + '/bytes', new Uint8Array([1, 2, 3, 4, 5]).subarray(1, 3));
  http.get('http://u%40:p@127.0.0.1:18080/user');
  http.request('get', BASE + '/lower');
  http.get(BASE + '/list', { headers: { 'X-List': ['a', 'b'], 'X-Null': null } });
  http.batch({ a: BASE + '/batch' });
  const token = http.post(BASE + '/login', '{}').json('token');
  http.post(BASE + '/token', { t: token, u: `${token} x` }, { cookies: { c: token } });
  http.post(BASE + '/token-part', { f: http.file(`${token}`, 'a.txt', 'text/plain') });
  sleep(0.1);
}

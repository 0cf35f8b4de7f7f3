import http from 'k6/http';
export function login(base, user) {
  const res = http.post(`${base}/login`, JSON.stringify(user), { headers: { 'Content-Type': 'application/json' } });
  return res.json('data.token');
}

import http from 'k6/http';
import { sleep } from 'k6';
export const options = { vus: 4, iterations: 40 };
export default () => {
  http.get('http://127.0.0.1:8080/a');
  http.post('http://127.0.0.1:8080/b', JSON.stringify({ it: 1 }));
  http.get('http://127.0.0.1:8080/c?x=1');
  sleep(0.01);
};

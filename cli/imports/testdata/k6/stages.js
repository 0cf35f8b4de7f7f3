import http from 'k6/http';
import { sleep } from 'k6';

export let options = {
  stages: [
    { duration: '30s', target: 20 },
    { duration: '1m30s', target: 10 },
    { duration: '20s', target: 0 },
  ],
};

export default function () {
  const res = http.get('http://test.example.com/contacts.php');
  if (Math.random() < 0.5) {
    http.get('http://test.example.com/flip_coin.php?bet=heads');
  }
  sleep(1);
  const form = res.html().find('form');
  http.post('http://test.example.com/never');
}

import http from "k6/http";

export const page = (path) => "https://127.0.0.1:8443" + path;

export function helper(path) {
    const res = http.get(page(path), { redirects: 0 });
    return res.body;
}

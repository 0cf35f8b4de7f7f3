// What a client of server-sent events gets of a hub, at a rate: curl, or Chromium, at full speed or as a phone on a slow
// network (3G: 400 ms, 400 kbit/s). Prints one line of JSON:
//
//   published, received     events in the time
//   missing_share           of the events, those that had not come two seconds after the last
//   late_p95_seconds        from publication to the client; late_largest_seconds
//   blocked                 1 if an event is missing or took two seconds longer than the network
//   streams                 Chromium: how many of ten streams of one page were open at once
//   blank_errors            Chromium: errors and ends of a stream in which blank lines came
//
// The slow network is Chromium's emulation: it holds back the beginning of a stream, and the rate of its bytes.
//
//   node clients.mjs curl|chromium|phone RATE SECONDS     (dyno is on PATH, or at $DYNO)
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { launch } from "../../../web/browser/chromium.mjs";

const [client, rate, seconds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const children = [];
const start = (command, args) => {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return child;
};
const phone = { offline: false, latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000 };

// A page of its own, and a stream with blank lines between events.
const site = createServer((request, response) => {
  if (request.url !== "/blank") return response.end("<!doctype html><title>events</title>");
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.write("data: a\n\n\n\n\r\n\n: comment\n\n\n");
  setTimeout(() => response.write("\n\n\n\ndata: b\n\n"), 200);
}).listen(0, "127.0.0.1");
await once(site, "listening");
const origin = `http://127.0.0.1:${site.address().port}`;

const hub = start(process.env.DYNO ?? "dyno", ["serve", "events", "--listen", "127.0.0.1:0", "--allow-origin", "*"]);
const base = await new Promise((found, failed) => {
  createInterface({ input: hub.stderr }).on("line", (line) => { const m = line.match(/127\.0\.0\.1:\d+/); if (m) found(`http://${m[0]}`); });
  hub.on("exit", (code) => failed(new Error(`the hub ended with code ${code}`)));
});
const streamURL = `${base}/events?topic=t`;

/** Subscribes, and returns what has come so far as a function: [when it was published, when it came] of each event. */
async function subscribe() {
  if (client === "curl") {
    const came = [];
    const curl = start("curl", ["-sN", streamURL]);
    createInterface({ input: curl.stdout }).on("line", (line) => { if (line.startsWith("data: ")) came.push([Number(line.slice(6).split(" ")[0]), Date.now()]); });
    await pause(300);
    return { came: () => came, end: async () => ({}) };
  }
  const browser = await launch();
  const page = await browser.newPage();
  await page.goto(origin);
  if (client === "phone") {
    const tools = await page.context().newCDPSession(page);
    await tools.send("Network.enable");
    await tools.send("Network.emulateNetworkConditions", phone);
  }
  await page.evaluate((url) => new Promise((open) => {
    window.came = [];
    window.stream = new EventSource(url);
    stream.onmessage = (e) => came.push([Number(e.data.split(" ")[0]), Date.now()]);
    stream.onopen = open;
  }), streamURL);
  const more = ([url, blank]) => new Promise((found) => {
    window.stream.close();
    let errors = 0, open = 0;
    const other = new EventSource(blank);
    other.onerror = () => errors++;
    const ten = Array.from({ length: 10 }, () => { const s = new EventSource(url); s.onopen = () => open++; return s; });
    setTimeout(() => { [other, ...ten].forEach((s) => s.close()); found({ streams: open, blank_errors: errors }); }, 800);
  });
  return {
    came: () => page.evaluate(() => window.came),
    end: async () => {
      const found = client === "chromium" ? await page.evaluate(more, [streamURL, `${origin}/blank`]) : {};
      await browser.close();
      return found;
    },
  };
}

try {
  const { came, end } = await subscribe();
  const filler = "x".repeat(85);
  let published = 0;
  for (const began = Date.now(); Date.now() - began < seconds * 1000; ) {
    for (const due = Math.floor(((Date.now() - began) / 1000) * rate); published <= due; published++) {
      void fetch(`${base}/publish?topic=t`, { method: "POST", body: `${Date.now()} ${filler}` });
    }
    await pause(Math.min(5, 500 / rate));
  }
  let got = [];
  for (const last = Date.now(); (got = await came()).length < published && Date.now() - last < 2000; ) await pause(100);
  const late = got.map(([from, to]) => (to - from) / 1000).sort((a, b) => a - b);
  const network = client === "phone" ? phone.latency / 1000 : 0;
  const largest = late.at(-1) ?? seconds;
  console.log(JSON.stringify({
    published, received: late.length, missing_share: 1 - late.length / published,
    late_p95_seconds: late[Math.floor(late.length * 0.95)] ?? seconds, late_largest_seconds: largest,
    blocked: late.length < published || largest > network + 2 ? 1 : 0, ...(await end()),
  }));
} finally {
  for (const child of children) child.kill();
  site.closeAllConnections();
  site.close();
}

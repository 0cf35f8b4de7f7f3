// Server-sent events by fetch: EventSource cannot send the token (HTML standard, section
// 9.2, for the format).

export interface Message {
  type: string;
  data: string;
  id: string; // of the last event that had one
}

/** Reads an event stream piece by piece. */
export class Reader {
  id = "";
  retry: number | undefined;
  private rest = "";
  private type = "";
  private data: string[] = [];
  private afterReturn = false;
  private begun = false;

  /** Takes some text and returns the events that have come together. */
  take(text: string): Message[] {
    const done: Message[] = [];
    if (text === "") return done;
    if (!this.begun) {
      this.begun = true;
      text = text.replace(/^\uFEFF/, "");
    }
    if (this.afterReturn && text.startsWith("\n")) text = text.slice(1);
    this.afterReturn = text.endsWith("\r");
    const lines = (this.rest + text).split(/\r\n|\r|\n/);
    this.rest = lines.pop()!;
    for (const line of lines) {
      if (line !== "") this.field(line);
      else {
        if (this.data.length > 0) done.push({ type: this.type || "message", data: this.data.join("\n"), id: this.id });
        this.type = "";
        this.data = [];
      }
    }
    return done;
  }

  private field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.data.push(value);
    else if (name === "event") this.type = value;
    else if (name === "id" && !value.includes("\0")) this.id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }
}

export interface Following {
  path: string;
  headers: () => Record<string, string>;
  message: (m: Message) => void;
  /** Something has come, if only to say that there is nothing. */
  heard?: () => void;
  /** After how many milliseconds of silence the connection is taken for lost, by the
   * answer's header; 0 is never. */
  silence?: (header: Headers) => number;
  connected: (is: boolean) => void;
  refused: (status: number, text: string) => void; // and it does not come back
}

const longest = 30_000;

/** Follows a stream until it is told to end, and comes back where it was when the
 * connection is lost. A gap makes it come back for all there is. */
export async function follow(f: Following, end: AbortSignal): Promise<void> {
  let id = "", wait = 1000, failures = 0;
  while (!end.aborted) {
    const own = new AbortController();
    const stop = () => own.abort();
    end.addEventListener("abort", stop);
    try {
      const response = await fetch(f.path, { headers: { ...f.headers(), ...(id === "" ? {} : { "Last-Event-ID": id }) }, signal: own.signal, cache: "no-store" });
      if (response.status >= 400 && response.status < 500) {
        f.refused(response.status, await response.text());
        return;
      }
      if (!response.ok || !response.body) throw new Error(String(response.status));
      f.connected(true);
      const silence = f.silence?.(response.headers) ?? 0;
      const events = new Reader();
      events.id = id;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let gap = false; !gap; ) {
        const silent = silence > 0 ? setTimeout(stop, silence) : undefined;
        const { done, value } = await reader.read().finally(() => clearTimeout(silent));
        if (done) break;
        failures = 0;
        f.heard?.();
        for (const m of events.take(value)) {
          if (m.type === "gap") {
            gap = true;
            events.id = "";
            own.abort();
            break;
          }
          f.message(m);
        }
        id = events.id;
        wait = events.retry ?? wait;
      }
    } catch {
      // Lost, or not to be had now: it is tried again below.
    }
    end.removeEventListener("abort", stop);
    if (end.aborted) return; // nobody is told of an end that they asked for
    f.connected(false);
    const patience = Math.min(longest, wait * 2 ** failures++);
    await new Promise<void>((resume) => {
      const timer = setTimeout(resume, id === "" && failures === 1 ? 0 : patience);
      end.addEventListener("abort", () => { clearTimeout(timer); resume(); }, { once: true });
    });
  }
}

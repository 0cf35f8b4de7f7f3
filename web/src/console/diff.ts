// What differs between two texts, line by line (E. Myers, An O(ND) Difference Algorithm
// and Its Variations, Algorithmica 1, 1986).

export interface Line {
  sign: " " | "-" | "+";
  text: string;
}

/** More edits than this are not searched for: then all between the first and the last
 * difference counts as replaced. The search keeps this number's square of steps. */
const mostEdits = 1000;

export function diff(before: string, after: string): Line[] {
  const a = before === "" ? [] : before.split("\n");
  const b = after === "" ? [] : after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (list: string[]): Line[] => list.map((text) => ({ sign: " ", text }));
  return [...same(a.slice(0, head)), ...edits(a.slice(head, a.length - tail), b.slice(head, b.length - tail)), ...same(a.slice(a.length - tail))];
}

/** Whether the way to diagonal k of step d comes from the one above it: a line of b was
 * added. Otherwise one of a was taken off. */
const added = (k: number, d: number, reach: (k: number) => number) => k === -d || (k !== d && reach(k - 1) < reach(k + 1));

function edits(a: string[], b: string[]): Line[] {
  const most = Math.min(a.length + b.length, mostEdits);
  // How far along a one gets on each diagonal, and what that was before each step.
  const reached = new Int32Array(2 * most + 3), middle = most + 1;
  const reach = (k: number) => reached[middle + k]!;
  const before: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    before.push(reached.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = d === 0 ? 0 : added(k, d, reach) ? reach(k + 1) : reach(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reached[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return back(a, b, before);
    }
  }
  return [...a.map((text): Line => ({ sign: "-", text })), ...b.map((text): Line => ({ sign: "+", text }))];
}

/** Goes back from the ends of both texts. */
function back(a: string[], b: string[], before: Int32Array[]): Line[] {
  const lines: Line[] = [];
  let x = a.length, y = b.length;
  const same = (until: number) => {
    for (; x > until; y--) lines.push({ sign: " ", text: a[--x]! });
  };
  for (let d = before.length - 1; d > 0; d--) {
    const reach = (k: number) => before[d]![k + d + 1]!;
    const k = x - y;
    if (added(k, d, reach)) {
      same(reach(k + 1));
      lines.push({ sign: "+", text: b[--y]! });
    } else {
      same(reach(k - 1) + 1);
      lines.push({ sign: "-", text: a[--x]! });
    }
  }
  same(0);
  return lines.reverse();
}

/** Only what is near a difference; a number stands for the lines left out. */
export function near(lines: Line[], context = 3): (Line | number)[] {
  const keep = new Uint8Array(lines.length);
  lines.forEach((l, i) => {
    if (l.sign !== " ") keep.fill(1, Math.max(0, i - context), i + context + 1);
  });
  const out: (Line | number)[] = [];
  lines.forEach((l, i) => {
    if (keep[i]) out.push(l);
    else if (typeof out.at(-1) === "number") out[out.length - 1] = (out.at(-1) as number) + 1;
    else out.push(1);
  });
  return out;
}

/** Maps a domain to a range, both ends included. */
export interface Scale {
  (v: number): number;
  invert(p: number): number;
  low: number;
  high: number;
}

export function linear(low: number, high: number, from: number, to: number): Scale {
  if (!(high > low)) high = low + 1;
  const f = ((v: number) => from + ((v - low) / (high - low)) * (to - from)) as Scale;
  return Object.assign(f, { invert: (p: number) => low + ((p - from) / (to - from)) * (high - low), low, high });
}

/** Logarithmic; what is 0 or less lies at the low end. */
export function logarithmic(low: number, high: number, from: number, to: number): Scale {
  if (!(low > 0)) low = 1e-12;
  if (!(high > low)) high = low * 10;
  const a = Math.log(low), b = Math.log(high);
  const f = ((v: number) => from + (((v > 0 ? Math.log(v) : a) - a) / (b - a)) * (to - from)) as Scale;
  return Object.assign(f, { invert: (p: number) => Math.exp(a + ((p - from) / (to - from)) * (b - a)), low, high });
}

/** Round values between low and high, about so many. */
export function ticks(low: number, high: number, about: number): number[] {
  if (!(high > low) || !Number.isFinite(high - low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  const list: number[] = [];
  for (let i = first; i <= last; i++) list.push(Number((i * step).toPrecision(12)));
  return list;
}

/** Powers of ten between low and high; with 2 and 5 where that makes at most ten. */
export function logTicks(low: number, high: number): number[] {
  const of = (digits: number[]) => {
    const list: number[] = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
      for (const d of digits) {
        const v = Number((d * 10 ** e).toPrecision(3));
        if (v >= low * 0.999 && v <= high * 1.001) list.push(v);
      }
    }
    return list;
  };
  const fine = of([1, 2, 5]);
  return fine.length <= 10 ? fine : of([1]);
}

/** Ratios that are round to a reader, around 1. */
export function ratioTicks(low: number, high: number): number[] {
  const spread = Math.max(high, 1 / low);
  if (spread > 2.2) {
    return [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].filter((v) => v >= low && v <= high);
  }
  return ticks(low, high, 4);
}

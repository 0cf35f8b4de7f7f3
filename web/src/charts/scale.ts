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

/** Round values between low and high, about that number. */
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

/** The values of these first digits between low and high, `every` powers of ten apart. */
function powers(low: number, high: number, digits: number[], every = 1): number[] {
  const list: number[] = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    if (e % every !== 0) continue;
    for (const d of digits) {
      const v = Number((d * 10 ** e).toPrecision(3));
      if (v >= low * 0.999 && v <= high * 1.001) list.push(v);
    }
  }
  return list;
}

/** Powers of ten between low and high; with 2 and 5 where that makes at most ten. */
export function logTicks(low: number, high: number): number[] {
  const fine = powers(low, high, [1, 2, 5]);
  return fine.length <= 10 ? fine : powers(low, high, [1]);
}

/** Ticks of a log axis, from fine to coarse. */
export function logSeries(low: number, high: number): number[][] {
  return [powers(low, high, [1, 2, 5]), ...[1, 2, 3, 4, 6].map((every) => powers(low, high, [1], every))];
}

/** Ticks of a linear axis, from fine to coarse. */
export function linearSeries(low: number, high: number, about: number): number[][] {
  const series: number[][] = [];
  for (let n = about; n >= 1; n--) series.push(ticks(low, high, n));
  return series;
}

/** Ratios that are round to a reader, around 1, from fine to coarse. */
export function ratioSeries(low: number, high: number): number[][] {
  return [...(Math.max(high, 1 / low) > 2.2 ? logSeries(low, high) : linearSeries(low, high, 4)), [1]];
}

/** How wide a label is, at most, in the type that axes are written in. */
export function labelWidth(text: string): number {
  return 7 * text.length;
}

const between = 6; // two labels, at least

/** Of ticks in the order of their places, those whose labels have room behind the one
 * before. */
export function apart(list: number[], place: (v: number) => number, label: (v: number) => string): number[] {
  let free = -Infinity;
  return list.filter((v) => {
    const half = labelWidth(label(v)) / 2;
    if (place(v) - half < free) return false;
    free = place(v) + half + between;
    return true;
  });
}

/** The finest ticks whose labels, centred on their places, do not touch; none, where
 * not even the coarsest have room. */
export function fitting(series: number[][], place: (v: number) => number, label: (v: number) => string): number[] {
  return series.find((list) => {
    let free = -Infinity;
    return list.length > 0 && list.every((v) => {
      const half = labelWidth(label(v)) / 2, fits = place(v) - half >= free;
      free = place(v) + half + between;
      return fits;
    });
  }) ?? [];
}

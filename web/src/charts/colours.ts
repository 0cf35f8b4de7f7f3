/** How many colours there are for variants; further ones repeat them with dashes. */
const colours = 8;

export function colourOf(i: number): string {
  return `var(--series-${i % colours})`;
}

export function dashOf(i: number): string | undefined {
  return [undefined, "7 3", "2 3", "8 3 2 3"][Math.floor(i / colours) % 4];
}

/** The value of a colour's variable where it is needed as such: on a canvas. */
export function resolved(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function resolvedSeries(i: number): string {
  return resolved(`--series-${i % colours}`);
}

/** A colour between two, for a share from 0 to 1. Both are #rrggbb. */
export function mixed(a: string, b: string, share: number): string {
  const part = (c: string, i: number) => Number.parseInt(c.slice(1 + 2 * i, 3 + 2 * i), 16);
  const s = Math.min(1, Math.max(0, share));
  return `rgb(${[0, 1, 2].map((i) => Math.round(part(a, i) + (part(b, i) - part(a, i)) * s)).join(" ")})`;
}

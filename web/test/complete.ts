import { expect, test } from "vitest";

/** Holds the texts of a program to be there in both languages, and used in its sources,
 * but for those made at run time. */
export function complete(en: Record<string, string>, zh: Record<string, string>, files: Record<string, unknown>, made: RegExp): void {
  const keys = Object.keys(en);
  const sources = (Object.values(files) as string[]).filter((s) => !s.startsWith("// Texts of")).join("\n");
  test("both languages have the same", () => expect(Object.keys(zh).sort()).toEqual([...keys].sort()));
  test.each(keys)("%s is there, with the same values to put in", (key) => {
    const names = (text: string) => [...new Set([...text.matchAll(/\{(\w+)\}/g)].map((m) => m[1]))].sort();
    expect(zh[key]).not.toBe("");
    expect(names(zh[key]!).filter((n) => n !== "n")).toEqual(names(en[key]!).filter((n) => n !== "n"));
  });
  test("Chinese is Chinese, with Chinese punctuation", () => {
    for (const key of keys) {
      expect(zh[key], key).toMatch(/[一-鿿]/);
      expect(zh[key], key).not.toMatch(/[一-鿿][,;:()]|[,;()][一-鿿]/);
    }
  });
  test.each(keys.filter((k) => !made.test(k)))("%s is used", (key) => expect(sources.includes(`"${key.replace(/\.one$/, "")}"`)).toBe(true));
}

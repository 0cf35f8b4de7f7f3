package k6

import (
	"strings"
	"testing"
	"time"
)

// Every script ends, whatever it does: in its outermost part, its options, or an iteration; in
// JavaScript or in a function of the interpreter.
func TestScriptsAreBounded(t *testing.T) {
	const end = "; export default function () {}"
	whole := scriptLimits
	t.Cleanup(func() { scriptLimits = whole })
	for script, want := range map[string]string{
		"'a'.repeat(3e8).split('')" + end:                                                  "more than 768 MiB of memory",
		"new Uint8Array(new ArrayBuffer(8e9)).fill(1)" + end:                               "more than 768 MiB of memory",
		`/^(a+)+\1$/.test('a'.repeat(40) + '!')` + end:                                     "more than 1s of processor time",
		"export const options = {get vus() { for (;;); }}" + end:                           "more than 1s of processor time",
		"export const options = new Proxy({}, {ownKeys() { for (;;); }})" + end:            "more than 1s of processor time",
		"export const options = {ext: 'a'.repeat(4e6)}" + end:                              "more than 1 MiB of output",
		"export default function () { const f = async () => { for (;;) await 0; }; f(); }": "more than 1s of processor time",
		"export const options = {get vus() { throw new Error('why'); }}" + end:             "why",
	} {
		t.Run("", func(t *testing.T) {
			scriptLimits = whole
			scriptLimits.Time, scriptLimits.Output = 10*time.Minute, 1<<20 // a busy machine may take long
			if strings.Contains(want, "more than 1s") {
				scriptLimits.CPU = time.Second
			}
			if _, err := readScript(t, script); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", script, err, want)
			}
		})
	}
}

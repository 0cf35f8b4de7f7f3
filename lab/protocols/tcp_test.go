package protocols

import (
	"testing"

	"dyno/lab/plan"
)

// Once warm, what varies is decoded without allocating.
func TestMessageEncoderAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for _, encoding := range []string{plan.EncodingText, plan.EncodingBase64, plan.EncodingHex} {
		e := &messageEncoder{framings[plan.FramingLength].Check, encoding, [][]byte{[]byte("0a0b"), []byte("0c0d")}}
		var dst []byte
		parts := [][]byte{[]byte("abcd")}
		if n := testing.AllocsPerRun(100, func() {
			var err error
			if dst, err = e.Append(dst[:0], parts); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", encoding, n)
		}
	}
}

package message

import (
	"strings"
	"testing"
)

// TestHotPathAllocatesNothing: what runs for each call allocates nothing once warm.
func TestHotPathAllocatesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: counts allocations")
	}
	for name, call := range calls(t) {
		if strings.HasSuffix(name, "library") {
			continue
		}
		if n := testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(name, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// BenchmarkHotPath compares what runs for each call with the same by protojson and dynamicpb.
func BenchmarkHotPath(b *testing.B) {
	for name, call := range calls(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// calls returns what runs for each call, and what the library does in its place.
func calls(t testing.TB) map[string]func() error {
	buy := find(t, shop(t), "shop.v1.Shop/Buy")
	message, err := buy.AppendEncode(nil, []byte(`{"id": "x\n", "items": [{"name": "a", "codes": ["1", "2"], "weights": [0.5], "rating": 0.1, "color": "COLOR_RED"}],
		"notes": {"1": "one", "2": "two"}, "card": {"number": "7", "secret": "AQID"}, "discounts": {"a": {"units": "5"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	encoder, err := buy.Prepare(cut(`{"id": "order-‹›", "items": [{"name": "‹›", "count": ‹›, "color": "‹›", "fragile": ‹›, "rating": ‹›}], "card": {"secret": "‹›"}}`)...)
	if err != nil || encoder.ops == nil {
		t.Fatal(err)
	}
	parts := partsOf("77", strings.Repeat("x", 300), "12", "COLOR_BLUE", "true", "0.25", "AAAA")
	echo, buffer := echoing(buy), make([]byte, 0, 1024)
	return map[string]func() error{
		"check":          func() error { return echo.Check(message) },
		"check/library":  func() error { _, err := echo.unmarshal(message); return err },
		"encode":         func() error { _, err := encoder.Append(buffer, parts); return err },
		"encode/library": func() error { _, err := buy.AppendEncode(buffer, encoder.join(nil, parts)); return err },
		"decode":         func() error { _, err := echo.AppendJSON(buffer, message); return err },
		"decode/library": func() error { _, err := echo.Decode(message); return err },
	}
}

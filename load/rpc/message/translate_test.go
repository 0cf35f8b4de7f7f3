package message

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"dyno/load/rpc/diag"
)

// sameJSON tells whether two texts say the same, whatever the order of members.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Errorf("%s: %v", a, err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Errorf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

// translates holds AppendJSON against Decode.
func translates(t *testing.T, m *Codec, response []byte) {
	t.Helper()
	want, wantErr := m.Decode(response)
	got, err := m.AppendJSON([]byte("before"), response)
	switch {
	case wantErr != nil:
		if err == nil || err.Error() != wantErr.Error() || string(got) != "before" {
			t.Errorf("%x: %s, %v, want %v", response, got, err, wantErr)
		}
	case err != nil || string(got[:6]) != "before" || !sameJSON(t, got[6:], want):
		t.Errorf("%x: %s, %v, want %s", response, got[6:], err, want)
	}
}

// Answers are in JSON what Decode makes of them.
func TestAppendJSON(t *testing.T) {
	buy := echoing(find(t, shop(t), "shop.v1.Shop/Buy"))
	for _, text := range []string{
		`{}`,
		`{"id": "a\"\\\n\r\t\b\f\u0001\u007fé€😀", "items": [{"name": "x", "count": 7, "price": {"units": "-5"}, "color": "COLOR_BLUE"}, {}]}`,
		`{"items": [{"codes": ["-1", "0", "9223372036854775807"], "weights": [0.1, "NaN", "Infinity", "-Infinity", 1e-7, 1e21, 0, -0.0, 123456]}]}`,
		`{"items": [{"shelf": 4294967295, "serial": "-9", "rating": 1e-7, "fragile": true, "size": -3, "colors": ["COLOR_RED", 99, "COLOR_UNSPECIFIED"]}]}`,
		`{"notes": {"-1": "minus", "0": "", "7": "seven"}, "flags": {"true": "COLOR_RED", "false": "COLOR_UNSPECIFIED"}, "discounts": {"a": {"units": "1"}, "": {}}}`,
		`{"card": {"number": "1", "secret": "AQID"}}`, `{"voucher": ""}`, `{"cash": false, "floor": 0}`,
		`{"due": "2026-01-31T23:59:59.5Z", "patience": "1.5s", "priority": "7", "labels": {"a": [null, 1]}, "mask": "a,b", "anything": null}`,
	} {
		b, err := buy.AppendEncode(nil, []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		translates(t, buy, b)
	}
	for _, response := range [][]byte{
		{0x0a, 1, 'a', 0x0a, 1, 'b'},              // a field twice
		{0x0a, 0},                                 // a text that is empty
		{0x32, 2, 0x0a, 0, 0x3a, 1, 'x'},          // two of a oneof
		{0x12, 0, 0x0a, 1, 'a', 0x12, 0},          // a list in two places
		{0x12, 2, 0x28, 4, 0x12, 2, 0x28, 6},      // a list that is not packed
		{0x22, 2, 0x08, 1, 0x22, 2, 0x08, 1},      // a map's key twice
		{0x22, 4, 0x12, 0, 0x08, 1},               // a map's value first
		{0x22, 0},                                 // an entry without anything
		{0xf8, 0x7f, 1},                           // a field of a newer version
		{0x0a, 1, 0xff},                           // no UTF-8
		{0x0a, 5, 'a'}, {0x08, 1}, {0xff}, {0x0b}, // cut off, of another type, and garbled
		{0x12, 5, 0x10, 0x80, 0x80, 0x80, 0x00}, // a zero of many bytes
	} {
		translates(t, buy, response)
	}
	deep := []byte{}
	for range maxOpen + 5 {
		deep = append([]byte{0x12, byte(len(deep))}, deep...)
	}
	translates(t, echoing(find(t, shop(t), "shop.v1.Shop/Talk")), deep)
	translates(t, echoing(find(t, compiled(t, "legacy.proto"), "legacy.Archive/Keep")), nil)
}

// An answer that the module for messages panics at is a fault like any other.
func TestMapKeyOfTwoTypes(t *testing.T) {
	m := echoing(find(t, shop(t), "shop.v1.Shop/Buy"))
	answer := []byte{0x1a, 4, 0x0a, 0, 0x08, 1} // an entry whose key is a text, and then a number
	want := &diag.Fault{}
	if _, err := m.Decode(answer); !errors.As(err, &want) {
		t.Errorf("Decode: %v", err)
	}
	if _, err := m.AppendJSON(nil, answer); !errors.As(err, &want) {
		t.Errorf("AppendJSON: %v", err)
	}
	if err := echoing(find(t, shop(t), "shop.v1.Shop/Buy")).Check(answer); !errors.As(err, &want) {
		t.Errorf("Check: %v", err)
	}
}

// The JSON of any response is what Decode makes of it.
func FuzzAppendJSON(f *testing.F) {
	methods := exampled(f)
	f.Add([]byte{0x22, 2, 0x08, 1, 0x22, 2, 0x08, 1}, uint8(0))
	f.Add([]byte{0x0a, 1, 'a', 0x0a, 1, 'b'}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, which uint8) {
		m := methods[int(which)%len(methods)]
		// Numbers that JSON's reader in Go cannot hold are none that a message may have.
		if m.types.unmarshal(b, m.out.New().Interface()) == nil {
			translates(t, m, b)
		} else if _, err := m.AppendJSON(nil, b); err == nil {
			if _, err := m.Decode(b); err != nil {
				t.Errorf("%x: it is taken, and Decode refuses it: %v", b, err)
			}
		}
	})
}

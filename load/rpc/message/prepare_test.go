package message

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// cut cuts JSON at each ‹›, where a part comes.
func cut(text string) (pieces [][]byte) {
	for _, piece := range strings.Split(text, "‹›") {
		pieces = append(pieces, []byte(piece))
	}
	return pieces
}

// partsOf returns parts by their texts.
func partsOf(texts ...string) (parts [][]byte) {
	for _, t := range texts {
		parts = append(parts, []byte(t))
	}
	return parts
}

// sameRequest fails unless an encoder and AppendEncode make the same request, or the same error.
// AppendEncode gets the text with the parts in it. It returns the error.
func sameRequest(t interface {
	Helper()
	Fatalf(string, ...any)
}, e *Encoder, parts [][]byte) error {
	t.Helper()
	text := e.join(nil, parts)
	want, wantErr := e.codec.AppendEncode(nil, text)
	got, err := e.Append([]byte("before"), parts)
	if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
		t.Fatalf("%s: %v, want %v", text, err, wantErr)
	}
	if !bytes.HasPrefix(got, []byte("before")) || err != nil && len(got) != len("before") {
		t.Fatalf("%s: the buffer is %q", text, got)
	}
	if err != nil {
		return err
	}
	a, b := e.codec.in.New().Interface(), e.codec.in.New().Interface()
	options := proto.UnmarshalOptions{Resolver: e.codec.types}
	if err := errors.Join(options.Unmarshal(got[len("before"):], a), options.Unmarshal(want, b)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !proto.Equal(a, b) {
		t.Fatalf("%s: %v, want %v", text, a, b)
	}
	return nil
}

func TestPrepare(t *testing.T) {
	s := compiled(t, "shop/shop.proto", "legacy.proto", "edition.proto")
	long := strings.Repeat("ä", 10_000)
	for _, tt := range []struct {
		method, text string
		parts        []string
		fast         bool
		err          string // of Append
	}{
		{"shop.v1.Shop/Buy", `{}`, nil, true, ""},
		{"shop.v1.Shop/Buy", `{"id": "‹›"}`, []string{"x"}, true, ""},
		{"shop.v1.Shop/Buy", ` {"id": "a‹›b\n‹›"} `, []string{"x", "y"}, true, ""},
		{"shop.v1.Shop/Buy", `{"id": "‹›"}`, []string{long}, true, ""},
		{"shop.v1.Shop/Buy", `{"id": "‹›"}`, []string{`a\"b\u00e4`}, true, ""}, // as JSON has it
		{"shop.v1.Shop/Buy", `{"id": "‹›"}`, []string{`a", "cash": true, "voucher": "`}, true, "only one of the fields of payment"},
		{"shop.v1.Shop/Buy", `{"id": "‹›"}`, []string{"\xff"}, true, "the text is not UTF-8"},
		{"shop.v1.Shop/Buy", `{"id": "‹›"}`, []string{"\n"}, true, "line 1, column 9: "},
		{"shop.v1.Shop/Fill", `{"count": ‹›, "name": "n"}`, []string{"7"}, true, ""},
		{"shop.v1.Shop/Fill", `{"count": ‹›}`, []string{"1e2"}, true, ""},
		{"shop.v1.Shop/Fill", `{"count": ‹›}`, []string{"-1"}, true, "count: -1 is not a whole number from 0 to 4294967295"},
		{"shop.v1.Shop/Fill", `{"count": ‹›}`, []string{`1, "name": "n"`}, true, ""},
		{"shop.v1.Shop/Fill", `{"codes": [1, ‹›, 3, "‹›"], "weights": [‹›, 2]}`, []string{"-2", "4", "1.5e3"}, true, ""},
		{"shop.v1.Shop/Fill", `{"color": "‹›", "colors": ["COLOR_RED", ‹›]}`, []string{"COLOR_BLUE", "1"}, true, ""},
		{"shop.v1.Shop/Fill", `{"color": "‹›"}`, []string{"BLUE"}, true, `shop.v1.Color has no value "BLUE"`},
		{"shop.v1.Shop/Fill", `{"color": ‹›}`, []string{"77"}, true, ""},
		{"shop.v1.Shop/Fill", `{"fragile": ‹›, "rating": ‹›, "size": ‹›, "shelf": ‹›, "serial": ‹›}`, []string{"true", "-0.5", "-2147483648", "4294967295", "-9223372036854775808"}, true, ""},
		{"shop.v1.Shop/Fill", `{"price": {"units": "‹›", "currency": "‹›"}, "name": "n"}`, []string{"9223372036854775807", "EUR"}, true, ""},
		{"shop.v1.Shop/Buy", `{"items": [{"name": "a"}, {"name": "‹›", "price": {"units": ‹›}}, {}]}`, []string{long, "1"}, true, ""},
		{"shop.v1.Shop/Buy", `{"discounts": {"a": {"units": ‹›}, "b": {}}, "notes": {"7": "‹›"}, "flags": {"true": "‹›"}}`, []string{"1", "x", "COLOR_RED"}, true, ""},
		{"shop.v1.Shop/Buy", `{"card": {"secret": "‹›"}, "priority": ‹›}`, []string{"AP8=", "5"}, true, ""},
		{"shop.v1.Shop/Buy", `{"card": {"secret": "‹›"}}`, []string{"%"}, true, "card.secret: "},
		{"legacy.Archive/Keep", `{"key": "‹›", "size": ‹›, "[legacy.note]": "‹›", "next": {"key": "‹›"}}`, []string{"k", "1", "n", "l"}, true, ""},
		{"modern.Modern/Call", `{"necessary": "‹›", "inner": {"blob": "‹›"}, "expanded": [‹›]}`, []string{"n", "AAAA", "1"}, true, ""},
		{"shop.v1.Shop/Talk", strings.Repeat(`{"cause": `, 30) + `{"text": "‹›"}` + strings.Repeat("}", 30), []string{"x"}, true, ""},

		{"shop.v1.Shop/Talk", strings.Repeat(`{"cause": `, 40) + `{"text": "‹›"}` + strings.Repeat("}", 40), []string{"x"}, false, ""},
		{"shop.v1.Shop/Buy", `‹›`, []string{`{"id": "x"}`}, false, ""},
		{"shop.v1.Shop/Buy", `{‹›}`, []string{`"id": "x"`}, false, ""},
		{"shop.v1.Shop/Buy", `{"‹›": "x"}`, []string{"id"}, false, ""},
		{"shop.v1.Shop/Buy", `{"due": "‹›"}`, []string{"2026-01-31T23:59:59Z"}, false, ""},
		{"shop.v1.Shop/Buy", `{"labels": {"a": ‹›}}`, []string{"1"}, false, ""},
		{"shop.v1.Shop/Buy", `{"extra": {"@type": "x/shop.v1.Event", "text": "‹›"}}`, []string{"x"}, false, ""},
		{"shop.v1.Shop/Buy", `{"notes": {"‹›": "x"}}`, []string{"7"}, false, ""},
		{"shop.v1.Shop/Fill", `{"count": 1‹›}`, []string{"0"}, false, ""},
		{"shop.v1.Shop/Buy", `{"card": {"secret": "AA‹›"}}`, []string{"AA"}, false, ""},
		{"shop.v1.Shop/Watch", `"‹›"`, []string{"x"}, false, ""},
		{"shop.v1.Shop/Any", `{"a": ‹›}`, []string{"[]"}, false, ""},
		{"legacy.Archive/Keep", `{"key": "k", "page": [{"number": ‹›}]}`, []string{"1"}, false, ""}, // a group
		{"shop.v1.Shop/Buy", `‹›`, []string{`[]`}, false, "[] is not an object"},
	} {
		e, err := find(t, s, tt.method).Prepare(cut(tt.text)...)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if fast := e.ops != nil; fast != tt.fast {
			t.Errorf("%s: fast: %v, want %v", tt.text, fast, tt.fast)
		}
		expect(t, sameRequest(t, e, partsOf(tt.parts...)), tt.err)
	}
}

// Faults of the pieces are found once, before any request.
func TestPrepareFindsFaults(t *testing.T) {
	s := compiled(t, "shop/shop.proto", "legacy.proto")
	for _, tt := range []struct{ method, text, want string }{
		{"shop.v1.Shop/Buy", ``, "there is no JSON"},
		{"shop.v1.Shop/Buy", `{"id": 1}`, "line 1, column 8: id: 1 is not a string"},
		{"shop.v1.Shop/Buy", `{"idd": "‹›"}`, `idd: shop.v1.Order has no field "idd"; did you mean "id"?`},
		{"shop.v1.Shop/Buy", `{"id": ‹›}`, ""}, // a string may come
		{"shop.v1.Shop/Buy", `{"id": "‹›", "itmes": []}`, `itmes: shop.v1.Order has no field "itmes"`},
		{"shop.v1.Shop/Buy", `{"items": [{"name": "‹›", "count": "x"}]}`, `items[0].count: "x" is not a whole number`},
		{"shop.v1.Shop/Buy", `{"voucher": "‹›", "cash": true}`, "only one of the fields of payment"},
		{"shop.v1.Shop/Buy", `{"id": "‹›", "id": "‹›"}`, "the field is there twice"},
		{"legacy.Archive/Keep", `{"size": ‹›}`, "required field legacy.Record.key not set"},
	} {
		_, err := find(t, s, tt.method).Prepare(cut(tt.text)...)
		expect(t, err, tt.want)
		if err != nil && strings.Contains(tt.text, "‹›") && tt.method == "shop.v1.Shop/Buy" && strings.Contains(err.Error(), "line ") {
			t.Errorf("%v has a place in another text", err)
		}
	}
}

// Encoder and AppendEncode agree on all input.
func TestEncoderIsEncode(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Buy")
	e, err := m.Prepare(cut(`{"id": "‹›ä", "items": [{"count": ‹›, "size": ‹›, "codes": ["‹›"], "rating": ‹›, "weights": [‹›], "serial": "‹›", "shelf": ‹›, "color": "‹›", "fragile": ‹›}], "card": {"secret": "‹›"}, "floor": ‹›}`)...)
	if err != nil || e.ops == nil {
		t.Fatal(err)
	}
	integer := rapid.OneOf(
		rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
		rapid.Map(rapid.Uint64(), func(n uint64) string { return strconv.FormatUint(n, 10) }),
		rapid.SampledFrom([]string{"0", "-0", "00", "2147483647", "2147483648", "-2147483648", "-2147483649", "4294967295", "4294967296", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "1.0", "1e3", "+1", "", " 1", "null", "true"}),
	)
	number := rapid.OneOf(
		rapid.Map(rapid.Float64(), func(f float64) string { return fmt.Sprint(f) }),
		rapid.SampledFrom([]string{"1e400", "1e39", "-0", "1.", ".5", "1e", "0x1p-2", "1_0", "inf", "01", "1E+2", strings.Repeat("9", 40)}),
		integer,
	)
	rapid.Check(t, func(t *rapid.T) {
		parts := partsOf(
			rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z"\\]*`)).Draw(t, "id"),
			integer.Draw(t, "count"), integer.Draw(t, "size"), integer.Draw(t, "codes"),
			number.Draw(t, "rating"), number.Draw(t, "weights"), integer.Draw(t, "serial"), integer.Draw(t, "shelf"),
			rapid.SampledFrom([]string{"COLOR_RED", "COLOR_CRIMSON", "color_red", "1", ""}).Draw(t, "color"),
			rapid.SampledFrom([]string{"true", "false", "null", "True", "1"}).Draw(t, "fragile"),
			rapid.OneOf(
				rapid.Map(rapid.SliceOf(rapid.Byte()), base64.StdEncoding.EncodeToString),
				rapid.StringMatching(`[A-Za-z0-9+/=_-]{0,12}`),
			).Draw(t, "secret"),
			integer.Draw(t, "floor"),
		)
		// Most draws have a fault somewhere; each part by itself shows more.
		if i := rapid.IntRange(-1, len(parts)-1).Draw(t, "only"); i >= 0 {
			only := partsOf("id", "1", "2", "3", "4", "5", "6", "7", "COLOR_BLUE", "true", "AAAA", "8")
			only[i] = parts[i]
			parts = only
		}
		_ = sameRequest(t, e, parts)
	})
}

func FuzzPrepare(f *testing.F) {
	m := find(f, shop(f), "shop.v1.Shop/Buy")
	f.Add(`{"id": "‹›", "items": [{"count": ‹›}]}`, "x", "7")
	f.Add(`{"discounts": {"a": {"units": ‹›}}, "card": {"secret": "‹›"}}`, "1", "AAAA")
	f.Add(`{"‹›": {}, "priority": ‹›}`, "id", "1")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		e, err := m.Prepare(cut(text)...)
		if err != nil {
			return
		}
		parts := partsOf(a, b)
		for len(parts) < len(e.pieces)-1 {
			parts = append(parts, parts...)
		}
		_ = sameRequest(t, e, parts[:len(e.pieces)-1])
	})
}

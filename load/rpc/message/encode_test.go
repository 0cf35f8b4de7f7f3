package message

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestEncode(t *testing.T) {
	s := shop(t)
	for _, tt := range []struct {
		method, json string
		want         []byte
	}{
		{"shop.v1.Shop/Buy", `{}`, []byte{}},
		{"shop.v1.Shop/Buy", ` {"id": "ä"} `, []byte{0x0a, 2, 0xc3, 0xa4}},
		{"shop.v1.Shop/Fill", `{"count": 300, "size": 1}`, []byte{0x10, 0xac, 2, 0x58, 1}},
		{"shop.v1.Shop/Fill", `{"count": "300", "shoe_size": 1}`, []byte{0x10, 0xac, 2, 0x58, 1}}, // the other form
		{"shop.v1.Shop/Fill", `{"codes": [-1, "1"]}`, []byte{0x2a, 2, 1, 2}},
		{"shop.v1.Shop/Fill", `{"color": "COLOR_CRIMSON", "colors": ["COLOR_BLUE", 7]}`, []byte{0x20, 1, 0xc2, 0x3e, 2, 2, 7}},
		{"shop.v1.Shop/Fill", `{"rating": "NaN"}`, protowire.AppendFixed32([]byte{0x4d}, math.Float32bits(float32(math.NaN())))},
		{"shop.v1.Shop/Buy", `{"flags": {"true": "COLOR_RED"}, "notes": {"7": "x"}}`, []byte{0x22, 5, 0x08, 7, 0x12, 1, 'x', 0x2a, 4, 0x08, 1, 0x10, 1}},
		{"shop.v1.Shop/Buy", `{"due": "1970-01-01T00:00:01Z", "patience": "1.5s"}`, []byte{0x4a, 2, 0x08, 1, 0x52, 8, 0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 1}},
		{"shop.v1.Shop/Buy", `{"floor": 0, "card": {}}`, []byte{0x80, 1, 0, 0x32, 0}},
		{"shop.v1.Shop/Buy", `{"floor": null, "card": null, "cash": true}`, []byte{0x40, 1}},
	} {
		got, err := find(t, s, tt.method).AppendEncode(nil, []byte(tt.json))
		if err != nil || !bytes.Equal(got, tt.want) {
			t.Errorf("%s: %x, %v; want %x", tt.json, got, err, tt.want)
		}
	}
}

func TestEncodeWellKnown(t *testing.T) {
	s := shop(t)
	for _, tt := range []struct {
		method, json string
		want         proto.Message
	}{
		{"shop.v1.Shop/Watch", `"text"`, wrapperspb.String("text")},
		{"shop.v1.Shop/Any", `null`, structpb.NewNullValue()},
		{"shop.v1.Shop/Any", `[1]`, structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1)}})},
	} {
		want, err := proto.Marshal(tt.want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := find(t, s, tt.method).AppendEncode(nil, []byte(tt.json))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %x, %v; want %x", tt.json, got, err, want)
		}
	}
}

func TestAny(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Buy")
	for _, tt := range []struct{ json, back string }{
		{`{"extra": {}}`, `{"extra":{}}`},
		{`{"extra": {"@type": "x/shop.v1.Event", "text": "t"}}`, `{"extra":{"@type":"x/shop.v1.Event","text":"t"}}`},
		{`{"extra": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}}`, `{"extra":{"@type":"type.googleapis.com/google.protobuf.Duration","value":"1s"}}`},
		// A well-known type that no file imports.
		{`{"extra": {"@type": "x/google.protobuf.Api", "name": "n"}}`, `{"extra":{"@type":"x/google.protobuf.Api","name":"n"}}`},
	} {
		b, err := m.AppendEncode(nil, []byte(tt.json))
		if err != nil {
			t.Errorf("%s: %v", tt.json, err)
			continue
		}
		if got, err := echoing(m).Decode(b); err != nil || string(got) != tt.back {
			t.Errorf("%s: %s, %v", tt.json, got, err)
		}
	}
}

func TestDecode(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Buy") // a Receipt
	for _, tt := range []struct {
		response []byte
		want     string
		err      string
	}{
		{nil, `{}`, ""},
		{[]byte{0x0a, 2, 0x10, 5}, `{"total":{"units":"5"}}`, ""},
		{[]byte{0x12, 2, 0x20, 2, 0x12, 0}, `{"items":[{"color":"COLOR_BLUE"},{}]}`, ""},
		{[]byte{0x78, 1}, `{}`, ""}, // a field of a newer version
		{[]byte{0x0a, 2, 0x10}, "", "shop.v1.Receipt: "},
		{[]byte{0x12, 3, 0x0a, 1, 0xff}, "", "UTF-8"},
	} {
		got, err := m.Decode(tt.response)
		expect(t, err, tt.err)
		if string(got) != tt.want {
			t.Errorf("%x: %s, want %s", tt.response, got, tt.want)
		}
	}
}

func TestAnyOfUnknownTypeIsDecoded(t *testing.T) {
	m := find(t, source(t, `syntax = "proto3"; import "google/protobuf/any.proto";
		service S { rpc M(google.protobuf.Any) returns (google.protobuf.Any); }`), "S/M")
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "x/some.Type")
	b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), "\x0a\x01x")
	if got, err := m.Decode(b); err != nil || string(got) != `{"@type":"x/some.Type"}` && string(got) != `{"@type":"x/some.Type","value":{}}` {
		t.Errorf("%s, %v", got, err)
	}
}

// Each fault has its place, its path, and says what would be right.
func TestFaultsInMessages(t *testing.T) {
	s := shop(t)
	for _, tt := range []struct{ method, json, want string }{
		{"Buy", ``, `line 1, column 1: there is no JSON; {} is a message without values`},
		{"Buy", `{`, `line 1, column 2: unexpected end of JSON input`},
		{"Buy", "{\n \"ä\": 1,\n}", `line 3, column 1: invalid character '}'`},
		{"Buy", `{} {}`, `line 1, column 4: invalid character '{' after top-level value`},
		{"Buy", "{\"id\": \"\xff\"}", `line 1, column 9: the text is not UTF-8`},
		{"Buy", `[]`, `line 1, column 1: [] is not an object: {…}`},
		{"Buy", "{\n  \"items\": [],\n  \"itmes\": []\n}", `line 3, column 3: itmes: shop.v1.Order has no field "itmes"; did you mean "items"?`},
		{"Buy", `{"ä": 1, "it": 2}`, `line 1, column 2: ä: shop.v1.Order has no field "ä"; known here: id, items, `},
		{"Buy", `{"id": 7}`, `line 1, column 8: id: 7 is not a string`},
		{"Buy", `{"id": "a", "id": "b"}`, `line 1, column 13: id: the field is there twice`},
		{"Fill", `{"shoeSize": 1, "x": 1}`, `line 1, column 2: shoeSize: shop.v1.Item has no field "shoeSize"`},
		{"Fill", `{"size": 1, "shoe_size": 1}`, `line 1, column 13: shoe_size: the field is there twice`},
		{"Fill", `{"count": -1}`, `line 1, column 11: count: -1 is not a whole number from 0 to 4294967295`},
		{"Fill", `{"serial": "9223372036854775808"}`, `serial: "9223372036854775808" is not a whole number from -9223372036854775808 to`},
		{"Fill", `{"rating": 1e39}`, `rating: 1e39 is not a number up to 3.4e38`},
		{"Fill", `{"weights": [1, "x"]}`, `line 1, column 17: weights[1]: "x" is not a number up to 1.7e308`},
		{"Fill", `{"fragile": "true"}`, `fragile: "true" is not true or false`},
		{"Fill", `{"color": "COLOR_REDD"}`, `line 1, column 11: color: shop.v1.Color has no value "COLOR_REDD"; did you mean "COLOR_RED"?`},
		{"Fill", `{"colors": [null]}`, `colors[0]: null is not the name of a value of shop.v1.Color`},
		{"Fill", `{"codes": 1}`, `line 1, column 11: codes: 1 is not an array: […]`},
		{"Buy", `{"items": [{"name": "a"}, {"price": {"unit": 1}}]}`, `line 1, column 38: items[1].price.unit: shop.money.Money has no field "unit"; did you mean "units"?`},
		{"Buy", `{"items": [1]}`, `items[0]: 1 is not an object: {…}`},
		{"Buy", `{"discounts": []}`, `discounts: [] is not an object: {…}`},
		{"Buy", `{"discounts": {"a.b": {"units": 0.5}}}`, `line 1, column 33: discounts["a.b"].units: 0.5 is not a whole number`},
		{"Buy", `{"notes": {"x": "y"}}`, `line 1, column 12: notes["x"]: the key is not a whole number`},
		{"Buy", `{"notes": {"1": 2}}`, `line 1, column 17: notes["1"]: 2 is not a string`},
		{"Buy", `{"notes": {"1": "", "1": ""}}`, `line 1, column 21: notes["1"]: the key is there twice`},
		{"Buy", `{"flags": {"yes": 1}}`, `flags["yes"]: the key is not true or false`},
		{"Buy", `{"voucher": "v", "cash": true}`, `line 1, column 18: cash: only one of the fields of payment can be set, and "voucher" is`},
		{"Buy", `{"card": {"secret": "%"}}`, `card.secret: "%" is not a string in base64`},
		{"Buy", `{"due": "tomorrow"}`, `line 1, column 9: due: "tomorrow" is not a time such as "2026-01-31T23:59:59.5Z"`},
		{"Buy", `{"mask": "a b"}`, `mask: "a b" is not the names of fields`},
		{"Buy", `{"priority": "x"}`, `priority: "x" is not a whole number from -9223372036854775808`},
		{"Buy", `{"extra": {"text": "x"}}`, `line 1, column 11: extra: the type of the message is missing`},
		{"Buy", `{"extra": {"@type": "x/shop.v1.Evnet"}}`, `line 1, column 21: extra.@type: no message "shop.v1.Evnet" is known; did you mean "shop.v1.Event"?`},
		{"Buy", `{"extra": {"@type": "x/shop.v1.Event", "txet": ""}}`, `line 1, column 40: extra.txet: shop.v1.Event has no field "txet"; did you mean "text"?`},
		{"Buy", `{"extra": {"@type": "x/google.protobuf.Duration", "value": 1}}`, `extra: `},
		{"Watch", `1`, `line 1, column 1: 1 is not a string`},
		{"Talk", `{"cause": {"cause": {"related": {"x": {"effects": [{}, {"text": []}]}}}}}`, `cause.cause.related["x"].effects[1].text: [] is not a string`},
	} {
		_, err := find(t, s, "shop.v1.Shop/"+tt.method).AppendEncode(nil, []byte(tt.json))
		expect(t, err, tt.want)
		if err != nil && located(t, err).Line == 0 {
			t.Errorf("%v has no place", err)
		}
	}
}

func TestRequiredFields(t *testing.T) {
	m := find(t, compiled(t, "legacy.proto"), "legacy.Archive/Keep")
	_, err := m.AppendEncode(nil, []byte(`{"size": 1}`))
	expect(t, err, "line 1, column 1: required field legacy.Record.key not set")
	b, err := m.AppendEncode(nil, []byte(`{"key": "k", "page": [{"number": 1, "text": "t"}], "[legacy.note]": "n"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Decode(b); err != nil || string(got) != `{"key":"k","page":[{"number":1,"text":"t"}],"[legacy.note]":"n"}` {
		t.Errorf("%s, %v", got, err)
	}
	_, err = m.AppendEncode(nil, []byte(`{"key": "k", "[legacy.nota]": "n"}`))
	expect(t, err, `[legacy.nota]: legacy.Record has no field "[legacy.nota]"`)
}

func TestDeepFaultsAreFoundInTime(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Talk")
	const depth = 1000
	_, err := m.AppendEncode(nil, []byte(strings.Repeat(`{"cause": `, depth)+`{"text": 1}`+strings.Repeat("}", depth)))
	expect(t, err, "cause.cause.cause")
	if f := located(t, err); f.Column > 11*(maxLocated+2) {
		t.Errorf("column %d", f.Column)
	}
	_, err = m.AppendEncode(nil, []byte(strings.Repeat(`{"cause": `, 100_000)))
	expect(t, err, "line 1, column ")
}

func TestEncodeAll(t *testing.T) {
	s := shop(t)
	for _, tt := range []struct {
		method, json string
		want         int
		err          string
	}{
		{"Fill", ``, 0, ""},
		{"Fill", `[]`, 0, ""},
		{"Fill", `{"count": 1}`, 1, ""},
		{"Fill", `{"count": 1}{"count": 2}` + "\n" + `{"count": 3}`, 3, ""},
		{"Fill", ` [{"count": 1}, {"count": 2}] `, 2, ""},
		{"Any", `[1] [2]`, 2, ""}, // arrays are messages here
		{"Fill", "{\"count\": 1}\n{\"coutn\": 2}", 0, `line 2, column 2: coutn: shop.v1.Item has no field "coutn"; did you mean "count"?`},
		{"Fill", "[{},\n {\"count\": -1}]", 0, `line 2, column 12: count: -1 is not`},
		{"Fill", `[{}, {}`, 0, `line 1, column 8: `},
		{"Fill", `[{} {}]`, 0, `line 1, column 4: expected comma after array element`},
		{"Fill", `[{}] {}`, 0, `line 1, column 6: something follows the array; put all messages into it`},
		{"Fill", `{} [{}]`, 0, `line 1, column 4: [{}] is not an object`},
	} {
		got, err := find(t, s, "shop.v1.Shop/"+tt.method).EncodeAll([]byte(tt.json))
		expect(t, err, tt.err)
		if len(got) != tt.want {
			t.Errorf("%s: %d messages, want %d", tt.json, len(got), tt.want)
		}
		for i, b := range got {
			if tt.method == "Fill" && (len(b) != 2 || int(b[1]) != i+1) {
				t.Errorf("%s: message %d is %x", tt.json, i, b)
			}
		}
	}
}

func TestEncodeAllIsBounded(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Fill")
	for _, text := range []string{strings.Repeat("{}\n", 11), "[" + strings.Repeat("{},\n", 10) + "{}]"} {
		_, err := m.encodeAll([]byte(text), 10)
		expect(t, err, "line 11, column 1: there are more than 10 messages")
		_, err = m.encodeAll([]byte(text), 11)
		expect(t, err, "")
	}
}

func TestMessagesAreOfBoundedSize(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Fill")
	_, err := m.AppendEncode(nil, bytes.Repeat([]byte(" "), maxMessage+1))
	expect(t, err, "a message of 67108865 bytes is too large: it may have 64 MiB")
}

// The existing bytes of the destination stay the same.
func TestAppendEncode(t *testing.T) {
	m := find(t, shop(t), "shop.v1.Shop/Fill")
	b, err := m.AppendEncode([]byte("before"), []byte(`{"count": 1}`))
	if err != nil || string(b) != "before\x10\x01" {
		t.Errorf("%q, %v", b, err)
	}
	b, err = m.AppendEncode(b, []byte(`{"count": x}`))
	if err == nil || string(b) != "before\x10\x01" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestExamples(t *testing.T) {
	want, err := os.ReadFile("testdata/order.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, shop(t), "shop.v1.Shop/Buy").Example(); !bytes.Equal(got, bytes.TrimSpace(want)) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"shop/shop.proto", "legacy.proto", "edition.proto"} {
		s := compiled(t, name)
		s.files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				methods := file.Services().Get(i).Methods()
				for k := range methods.Len() {
					c := s.codec(methods.Get(k))
					if _, err := c.AppendEncode(nil, c.Example()); err != nil {
						t.Errorf("%s: %v in\n%s", methods.Get(k).FullName(), err, c.Example())
					}
				}
			}
			return true
		})
	}
}

// Messages within messages grow with a power; an example does not.
func TestExamplesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("syntax = \"proto3\";\nservice S { rpc M(M0) returns (M0); }\n")
	for i := range 10 {
		fmt.Fprintf(&b, "message M%d {", i)
		for f := range 20 {
			fmt.Fprintf(&b, " M%d f%d = %d;", i+1, f, f+1)
		}
		b.WriteString("}\n")
	}
	b.WriteString("message M10 {}\n")
	m := find(t, source(t, b.String()), "S/M")
	if n := bytes.Count(m.Example(), []byte(":")); n > maxExample || n < maxExample/2 {
		t.Errorf("%d fields", n)
	}
	if _, err := m.AppendEncode(nil, m.Example()); err != nil {
		t.Error(err)
	}
}

func FuzzEncode(f *testing.F) {
	codecs := map[bool]*Codec{
		false: echoing(find(f, shop(f), "shop.v1.Shop/Buy")),
		true:  echoing(find(f, compiled(f, "legacy.proto"), "legacy.Archive/Keep")),
	}
	for legacy, m := range codecs {
		f.Add(m.Example(), legacy)
	}
	for _, text := range []string{`{"id": 7}`, `{"extra": {"@type": "x/shop.v1.Event", "text": []}}`, `{"items": [{"price": {"unit": 1}}]}`, `{"notes": {"x": ""}}`, `{"labels": {"a": [1, {"b": null}]}}`, `[`, `{"id": "\ud800"}`} {
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, legacy bool) {
		m := codecs[legacy]
		b, err := m.AppendEncode(nil, text)
		if err != nil {
			fault := located(t, err)
			if lines := bytes.Count(text, []byte("\n")); fault.Line > lines+1 || len(fault.Problem) == 0 {
				t.Errorf("%v in %d lines", fault, lines)
			}
			return
		}
		// JSON → bytes → JSON → bytes
		back, err := m.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := m.AppendEncode(nil, back)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s → %x → %s → %x, %v", text, b, back, again, err)
		}
		_, _ = m.EncodeAll(text)
	})
}

package http2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

func TestHuffmanCodes(t *testing.T) {
	for b := range 256 {
		// Eight of a kind end on a whole byte.
		s := strings.Repeat(string([]byte{byte(b)}), 8)
		if got, want := appendHuffman(nil, s), hpack.AppendHuffmanString(nil, s); !bytes.Equal(got, want) {
			t.Errorf("byte %#x: %x, want %x", b, got, want)
		}
	}
}

func TestStaticTable(t *testing.T) {
	d := hpack.NewDecoder(0, nil)
	for i, p := range staticTable {
		fields, err := d.DecodeFull(appendInteger(nil, i+1, 0x7f, 0x80))
		if err != nil || len(fields) != 1 || fields[0].Name != p.name || fields[0].Value != p.value {
			t.Errorf("index %d: %v, %v; want %v", i+1, p, fields, err)
		}
	}
}

func TestHuffmanAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.StringN(0, 60, -1), rapid.StringMatching(`[ -~]{0,60}`),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 60), func(b []byte) string { return string(b) })).Draw(t, "string")
		encoded := appendHuffman([]byte("front"), s)[len("front"):]
		if want := hpack.AppendHuffmanString(nil, s); !bytes.Equal(encoded, want) || len(encoded) != huffmanLen(s) {
			t.Fatalf("%q: %x of %d bytes, want %x", s, encoded, huffmanLen(s), want)
		}
		decoded, err := appendUnhuffman([]byte("front"), encoded)
		if err != nil || string(decoded) != "front"+s {
			t.Fatalf("%q decoded: %q, %v", s, decoded, err)
		}
	})
}

// FuzzHuffman: our decoder and that of x/net both decode the bytes, to the same text, or both do not.
func FuzzHuffman(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Add([]byte{0x18})
	f.Add([]byte{0x1f, 0xff})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(appendHuffman(nil, "Mon, 06 Jan 2025 10:00:00 GMT"))
	f.Add(appendHuffman(nil, "\x00\x01\xf9\xff~|}^"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		got, err := appendUnhuffman(nil, encoded)
		want, wantErr := hpack.HuffmanDecodeToString(encoded)
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%x: %v, x/net: %v", encoded, err, wantErr)
		}
		if err == nil && string(got) != want {
			t.Fatalf("%x: %q, x/net: %q", encoded, got, want)
		}
	})
}

// A collector is a template that asks for all fields of the static table and some more. So tests see
// what the decoder sees.
func collector(tb wiretest.TB) *Template {
	tb.Helper()
	config := testConfig()
	config.Fields = nil
	for _, p := range staticTable {
		if len(config.Fields) == 0 || config.Fields[len(config.Fields)-1] != p.name {
			if p.name[0] != ':' {
				config.Fields = append(config.Fields, p.name)
			}
		}
	}
	config.Fields = append(config.Fields, "a", "b", "custom-name")
	config.MaxHeader = 1 << 24
	template, err := NewTemplate(config)
	if err != nil {
		tb.Fatal(err)
	}
	return template
}

// A decoding is what becomes of one block: the size of the list, and the fields that
// have a name that was asked for.
type decoding struct {
	size   int64
	fields string
	failed bool
}

func decodeOurs(d *decoder, t *Template, block []byte) (r decoding, err *wire.Error) {
	s, err := d.read(block, t)
	if err != nil {
		return decoding{failed: true}, err
	}
	r.size = s.size
	for _, f := range t.fields {
		r.fields += fmt.Sprintf("%s=%q ", t.names.wanted[f.Name], f.Value)
	}
	return r, nil
}

func decodeTheirs(d *hpack.Decoder, t *Template, block []byte) (r decoding) {
	d.SetEmitFunc(func(f hpack.HeaderField) {
		r.size += int64(f.Size())
		for _, w := range t.names.wanted {
			if w == f.Name {
				r.fields += fmt.Sprintf("%s=%q ", f.Name, f.Value)
			}
		}
	})
	if _, err := d.Write(block); err != nil || d.Close() != nil {
		return decoding{failed: true}
	}
	return r
}

func drawField(t *rapid.T) hpack.HeaderField {
	name := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "custom-name", "other", ":status", "date", "etag", "content-type", "set-cookie", "vary"}),
		rapid.StringMatching(`[a-z-]{1,20}`)).Draw(t, "name")
	value := rapid.OneOf(
		rapid.SampledFrom([]string{"", "200", "x", "text/html", "Mon, 06 Jan 2025 10:00:00 GMT"}),
		rapid.StringMatching(`[!-~]{0,40}`),
		rapid.Map(rapid.IntRange(0, 3000), func(n int) string { return strings.Repeat("v", n) }),
		rapid.StringN(0, 10, -1)).Draw(t, "value")
	return hpack.HeaderField{Name: name, Value: value, Sensitive: rapid.Float64Range(0, 1).Draw(t, "sensitive") < 0.1}
}

// The decoder reads what x/net's encoder writes: many blocks, any change of the table's size, with and
// without memos.
func TestDecodesTheirBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		template := collector(t)
		template.memoOff = rapid.Bool().Draw(t, "no memos")
		ours := decoder{max: defaultTableSize}
		var block bytes.Buffer
		theirs := hpack.NewEncoder(&block)
		for range rapid.IntRange(1, 20).Draw(t, "blocks") {
			for range rapid.IntRange(0, 2).Draw(t, "changes") {
				theirs.SetMaxDynamicTableSize(uint32(rapid.SampledFrom([]int{0, 32, 100, 1000, 4095, 4096}).Draw(t, "size")))
			}
			block.Reset()
			var want decoding
			for _, f := range rapid.SliceOfN(rapid.Custom(drawField), 1, 8).Draw(t, "fields") {
				if err := theirs.WriteField(f); err != nil {
					t.Fatal(err)
				}
				want.size += int64(f.Size())
				for _, w := range template.names.wanted {
					if w == f.Name {
						want.fields += fmt.Sprintf("%s=%q ", f.Name, f.Value)
					}
				}
			}
			got, err := decodeOurs(&ours, template, block.Bytes())
			if err != nil || got != want {
				t.Fatalf("%x:\n got %v, %v\nwant %v", block.Bytes(), got, err, want)
			}
			if ours.size > ours.max || cap(ours.data) > 8*defaultTableSize {
				t.Fatalf("a table of %d bytes, at most %d, takes %d", ours.size, ours.max, cap(ours.data))
			}
		}
	})
}

// A few blocks come repeatedly, on two connections of one template. They mean what they mean to x/net's
// decoder: with fields that enter the table or evict others, with references to these, and with changes
// of the table's size.
func TestDecodesRepeatedBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		template := collector(t)
		field := rapid.Custom(func(t *rapid.T) string {
			index := rapid.IntRange(1, 130).Draw(t, "index") // of the static table, or the youngest of the dynamic one
			value := strings.Repeat("v", rapid.SampledFrom([]int{1, 40, 700, 1500, 5000}).Draw(t, "length"))
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				return string(appendInteger(nil, index, 0x7f, 0x80))
			case 1:
				return string(appendText(appendInteger(nil, index, 0x0f, 0), value))
			}
			return string(appendText(appendInteger(nil, min(index, 61), 0x3f, 0x40), value))
		})
		blocks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			begin := rapid.SampledFrom([]string{"\x88", "\x88", "\x88", "\x20\x88", "\x3f\x45\x88", "\x3f\xe1\x1f\x88"}).Draw(t, "begin")
			return begin + strings.Join(rapid.SliceOfN(field, 1, 5).Draw(t, "fields"), "") + "\x0f\x27\x08nginx/27"
		}), 1, 4).Draw(t, "blocks")
		type connection struct {
			ours   decoder
			theirs *hpack.Decoder
		}
		connections := [2]*connection{}
		for i := range connections {
			connections[i] = &connection{decoder{max: defaultTableSize}, hpack.NewDecoder(defaultTableSize, nil)}
		}
		for range rapid.IntRange(1, 60).Draw(t, "arrivals") {
			c := connections[rapid.IntRange(0, 1).Draw(t, "connection")]
			block := []byte(rapid.SampledFrom(blocks).Draw(t, "block"))
			got, err := decodeOurs(&c.ours, template, block)
			if want := decodeTheirs(c.theirs, template, block); got != want {
				t.Fatalf("%x: %v, %v; x/net: %v", block, got, err, want)
			}
			if got.failed { // the connection is lost
				c.ours.reset()
				c.theirs = hpack.NewDecoder(defaultTableSize, nil)
			}
		}
	})
}

// FuzzDecoder: the decoder reads any blocks as that of x/net does, with three exceptions: integers end
// at 2^28; a table size update may not stand after a field, even while the table is empty; and there
// may be several at the start.
func FuzzDecoder(f *testing.F) {
	for _, c := range cases {
		if len(c.input) > frameHeader && c.input[3] == frameHeaders && len(c.input) < 1000 {
			f.Add(c.input[frameHeader:], uint16(3), false)
		}
	}
	f.Add(nginxBlock("10:00:00"), uint16(0), true)
	f.Add([]byte("\x88\x40\x01a\x01b\x40\x01b\x01c\xbe\xbf\x7e\x01d\xbe"), uint16(9), true)
	f.Add([]byte("\x20\x3f\xe1\x1f\x88\x40\x01a\x01b\x20\x88"), uint16(11), true)
	f.Add([]byte("\x3f\x01\x40\x01a\x01b\x40\x01a\x01c\x40\x01a\x01d\xbe\xbf"), uint16(11), true)
	f.Fuzz(func(t *testing.T, input []byte, cut uint16, memos bool) {
		template := collector(t)
		template.memoOff = !memos
		ours := decoder{max: defaultTableSize}
		theirs := hpack.NewDecoder(defaultTableSize, nil)
		at := int(cut) % (len(input) + 1)
		for _, block := range [][]byte{input[:at], input[at:], input[:at], input[:at]} {
			got, err := decodeOurs(&ours, template, block)
			want := decodeTheirs(theirs, template, block)
			if err == ErrInteger || err == ErrTableUpdate || len(block) > 1 && block[0]&0xe0 == 0x20 && want.failed { //nolint:errorlint // the very same error
				return
			}
			if got != want {
				t.Fatalf("%x: %v, %v; x/net: %v", block, got, err, want)
			}
			if got.failed {
				return
			}
			if ours.size > ours.max || cap(ours.data) > 8*defaultTableSize {
				t.Fatalf("a table of %d bytes, at most %d, takes %d", ours.size, ours.max, cap(ours.data))
			}
		}
	})
}

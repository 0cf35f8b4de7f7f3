package hpack

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"
)

// fields is a sink that keeps copies.
type fields []hpack.HeaderField

func (f *fields) Field(m Meaning, name, value []byte) {
	if want := mean(name, value); m != want {
		panic("the meaning is of another field")
	}
	*f = append(*f, hpack.HeaderField{Name: string(name), Value: string(value)})
}

// mean is different for different fields, almost always.
func mean(name, value []byte) Meaning {
	m := Meaning(1)
	for _, b := range append(append(slices.Clone(name), 0), value...) {
		m = m*31 + Meaning(b)
	}
	return m
}

// Whatever x/net's encoder says in whatever state of its table, is understood.
func TestAgainstEncoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Decoder
		d.Init(NewDictionary(mean))
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		names := rapid.SampledFrom([]string{":path", "te", "grpc-timeout", "x", "x-long-name-that-is-not-in-a-table", "cookie"})
		for range rapid.IntRange(1, 50).Draw(t, "blocks") {
			block.Reset()
			if rapid.IntRange(0, 9).Draw(t, "resize") == 0 {
				encoder.SetMaxDynamicTableSize(uint32(rapid.IntRange(0, TableSize).Draw(t, "size")))
			}
			var want fields
			for range rapid.IntRange(1, 10).Draw(t, "fields") {
				f := hpack.HeaderField{
					Name:      names.Draw(t, "name"),
					Value:     rapid.OneOf(rapid.SampledFrom([]string{"", "/", "trailers"}), rapid.StringN(0, 300, 1000)).Draw(t, "value"),
					Sensitive: rapid.IntRange(0, 9).Draw(t, "sensitive") == 0,
				}
				if err := encoder.WriteField(f); err != nil {
					t.Fatal(err)
				}
				f.Sensitive = false
				want = append(want, f)
			}
			var got fields
			if err := d.Decode(block.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		block string
		want  error
	}{
		{"index 0", "\x80", errIndex},
		{"index beyond the tables", "\xbe", errIndex},
		{"name beyond the tables", "\x7e\x00", errIndex},
		{"no index", "\xff", errShort},
		{"index too large", "\xff\xff\xff\xff\xff\xff\x01", errInteger},
		{"no value", "\x41", errShort},
		{"value too short", "\x41\x05abc", errShort},
		{"name too short", "\x40\x05abc", errShort},
		{"not Huffman", "\x41\x81\x00", errHuffman},
		{"end of string in Huffman", "\x41\x84\xff\xff\xff\xff", errHuffman},
		{"size too large", "\x3f\xe2\x1f", errUpdate},
		{"size after a field", "\x82\x20", errUpdate},
		{"length too large", "\x41\x7f\xff\xff\xff\xff\x7f", errInteger},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Decoder
			d.Init(NewDictionary(mean))
			if err := d.Decode([]byte(c.block), &fields{}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// FuzzDecode compares with x/net's decoder: the same fields, and an error whenever it has
// one.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x82\x86\x84\x41\x0fwww.example.com\xbe"), []byte("\xbe\x3f\xe1\x1f"))
	f.Add([]byte("\x40\x0acustom-key\x0dcustom-header"), []byte("\x20\xbe"))
	f.Add([]byte("\x10\x08password\x06secret"), []byte("\x48\x82\x64\x02"))
	dictionary := NewDictionary(mean)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var d Decoder
		d.Init(dictionary)
		var got, want fields
		other := hpack.NewDecoder(TableSize, func(f hpack.HeaderField) {
			f.Sensitive = false
			want = append(want, f)
		})
		for _, block := range [][]byte{one, two} {
			err := d.Decode(block, &got)
			_, otherErr := other.Write(block)
			if otherErr == nil {
				otherErr = other.Close()
			}
			if otherErr != nil {
				if err == nil {
					t.Fatalf("no error, want %v", otherErr)
				}
				return
			}
			if err != nil {
				// x/net takes larger integers, and a size after a size after a field.
				if errors.Is(err, errInteger) || errors.Is(err, errUpdate) {
					return
				}
				t.Fatalf("%v, want none", err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
	})
}

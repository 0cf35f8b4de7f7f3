package contentcoding_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/internal/contentcoding"
	"dyno/internal/contentcoding/codingtest"
	"dyno/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const most = 1 << 20

// decodeInPieces decodes a body that comes in pieces of the given sizes.
func decodeInPieces(body []byte, field string, most int64, size func() int) ([]byte, error) {
	d, err := contentcoding.NewDecoder(field, most)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var out []byte
	for len(body) > 0 {
		n := min(size(), len(body))
		if out, err = d.Append(out, body[:n]); err != nil {
			return out, err
		}
		body = body[n:]
	}
	return d.End(out)
}

func TestWhatIsEncodedIsDecoded(t *testing.T) {
	names := []string{"gzip", "x-gzip", "deflate", "raw", "br", "zstd"}
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.ByteRange('a', 'd'), 0, 50_000).Draw(t, "body")
		body, fields := want, []string{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 1, 3).Draw(t, "codings") {
			body = codingtest.Encode(name, body)
			fields = append(fields, codingtest.Field(name))
		}
		value := strings.Join(fields, " , ")
		if rapid.Bool().Draw(t, "upper") {
			value = "identity, " + strings.ToUpper(value)
		}
		got, err := contentcoding.Decode(body, value, most)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes, %v; want %d", value, len(got), err, len(want))
		}
		got, err = decodeInPieces(body, value, most, func() int { return rapid.IntRange(1, 9000).Draw(t, "piece") })
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s in pieces: %d bytes, %v; want %d", value, len(got), err, len(want))
		}
	})
}

func TestWhatIsFlushedIsDecodedAtOnce(t *testing.T) {
	for name, encoder := range codingtest.Writers {
		var b bytes.Buffer
		w := encoder(&b)
		d, err := contentcoding.NewDecoder(codingtest.Field(name), most)
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range []string{"data: one\n\n", "data: two\n\n"} {
			_, _ = io.WriteString(w, event) // a bytes.Buffer takes all
			_ = w.Flush()
			got, err := d.Append(nil, b.Bytes())
			if string(got) != event || err != nil {
				t.Errorf("%s: %q, %v; want %q", name, got, err, event)
			}
			b.Reset()
		}
		d.Close()
	}
}

func TestBodiesThatAreNotDecoded(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 1000)
	random := make([]byte, 1000)
	for i := range random {
		random[i] = byte(rand.IntN(256))
	}
	random[0] = 0xff // no coding begins so
	for name := range codingtest.Writers {
		whole := codingtest.Encode(name, text)
		for _, c := range []struct {
			what string
			body []byte
			most int
			want error // nil: any
		}{
			{"cut", whole[:len(whole)/2], most, io.ErrUnexpectedEOF},
			{"of one byte", whole[:1], most, io.ErrUnexpectedEOF},
			{"too large", whole, len(text) - 1, contentcoding.ErrTooLarge},
			{"random", random, most, nil},
		} {
			got, err := contentcoding.Decode(c.body, codingtest.Field(name), c.most)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s %s: %d bytes, %v", name, c.what, len(got), err)
			}
			got, err = decodeInPieces(c.body, codingtest.Field(name), int64(c.most), func() int { return 100 })
			if err == nil || c.want != nil && !errors.Is(err, c.want) || len(got) > c.most {
				t.Errorf("%s %s in pieces: %d bytes, %v", name, c.what, len(got), err)
			}
		}
		if got, err := contentcoding.Decode(whole, codingtest.Field(name), len(text)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s, as large as the limit: %d bytes, %v", name, len(got), err)
		}
		if got, err := contentcoding.Decode(nil, codingtest.Field(name), most); err != nil || len(got) != 0 {
			t.Errorf("%s, an empty body: %q, %v", name, got, err)
		}
	}
}

// Each layer is bounded, as a body can grow in one and shrink in the next.
func TestLayersThatGrowAreBounded(t *testing.T) {
	bomb := codingtest.Encode("gzip", codingtest.Encode("gzip", make([]byte, 100<<20)))
	if got, err := contentcoding.Decode(bomb, "gzip, gzip", most); !errors.Is(err, contentcoding.ErrTooLarge) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestFields(t *testing.T) {
	for value, want := range map[string]int{
		"": 0, "identity": 0, " , ": 0, "gzip": 1, "GZip": 1, "deflate, gzip": 2, "br\t,zstd": 2,
		"gzip,gzip,gzip,gzip,gzip": -1, "compress": -1, "gzip;q=1": -1,
	} {
		names, err := contentcoding.Parse(value)
		if got := len(names); err == nil && got != want || (err != nil) != (want < 0) {
			t.Errorf("%q: %q, %v", value, names, err)
		}
	}
	var unknown *contentcoding.UnknownError
	if _, err := contentcoding.Decode(nil, "gzip, Compress", most); !errors.As(err, &unknown) || unknown.Coding != "compress" {
		t.Errorf("compress: %v", err)
	}
}

// Programs that share no code with the libraries.
func TestBodiesOfOtherPrograms(t *testing.T) {
	for name, command := range map[string][]string{
		"gzip":    {"gzip", "-c"},
		"deflate": {"python3", "-c", "import sys, zlib; sys.stdout.buffer.write(zlib.compress(sys.stdin.buffer.read()))"},
		"br":      {"node", "-e", "process.stdout.write(require('zlib').brotliCompressSync(require('fs').readFileSync(0)))"},
		"zstd":    {"zstd", "-c"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(command[0])
			if err != nil {
				t.Skip("there is no " + command[0])
			}
			want := strings.Repeat("what others compress\n", 5000)
			c := exec.Command(path, command[1:]...)
			c.Stdin = strings.NewReader(want)
			body, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := contentcoding.Decode(body, name, most); err != nil || string(got) != want {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for name := range codingtest.Writers {
		f.Add(codingtest.Field(name), codingtest.Encode(name, []byte("some text, some text")))
	}
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		const most = 100_000
		whole, err := contentcoding.Decode(body, value, most)
		if len(whole) > max(most, len(body)) {
			t.Fatalf("%d bytes", len(whole))
		}
		pieces, errOfPieces := decodeInPieces(body, value, most, func() int { return 7 })
		if (err == nil) != (errOfPieces == nil) || err == nil && !bytes.Equal(whole, pieces) {
			t.Fatalf("%d bytes, %v; in pieces %d, %v", len(whole), err, len(pieces), errOfPieces)
		}
	})
}

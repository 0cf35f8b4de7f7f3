package client

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll is all events of a stream, how many comments it has, and how it ended.
func readAll(r io.Reader) (list []event, comments int, err error) {
	err = events(r, func(comment bool) {
		if comment {
			comments++
		}
	}, func(e event) error {
		list = append(list, e)
		return nil
	})
	return list, comments, err
}

func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream   string
		want     []event
		comments int
	}{
		"nothing":         {"", nil, 0},
		"one":             {"id: e-1\nevent: put\ndata: {}\n\n", []event{{"put", []byte("{}"), "e-1", true}}, 0},
		"an empty id":     {"id: \nevent: resync\ndata: {}\n\n", []event{{"resync", []byte("{}"), "", true}}, 0},
		"no id":           {"event: put\ndata: x\n\n", []event{{"put", []byte("x"), "", false}}, 0},
		"several lines":   {"event: put\ndata: a\ndata: b\n\n", []event{{"put", []byte("a\nb"), "", false}}, 0},
		"comments":        {":\n: text\n\nevent: put\n:\ndata:x\n\n", []event{{"put", []byte("x"), "", false}}, 3},
		"carriage return": {"event: put\r\ndata: x\r\n\r\n", []event{{"put", []byte("x"), "", false}}, 0},
		"lone returns":    {"event: put\rdata: x\rdata: y\r\r:\r", []event{{"put", []byte("x\ny"), "", false}}, 1},
		"mixed ends":      {"event: put\r\ndata: x\n\r\nevent: put\rdata: y\n\r", []event{{"put", []byte("x"), "", false}, {"put", []byte("y"), "", false}}, 0},
		"a mark":          {"\ufeffevent: put\ndata: x\n\n\ufeffevent: put\ndata: y\n\n", []event{{"put", []byte("x"), "", false}}, 0},
		"a mark, comment": {"\ufeff:\n", nil, 1},
		"empty data":      {"event: put\ndata\n\n", []event{{"put", []byte{}, "", false}}, 0},
		"no data":         {"event: put\n\ndata: x\n\n", nil, 0},
		"an id before":    {"id: a\n\nevent: put\ndata: x\n\n", []event{{"put", []byte("x"), "a", true}}, 0},
		"a zero in an id": {"id: a\x00\nevent: put\ndata: x\n\n", []event{{"put", []byte("x"), "", false}}, 0},
		"cut off":         {"event: put\ndata: x\n", nil, 0},
		"in a line":       {"event: put\ndata: x\n\neve", []event{{"put", []byte("x"), "", false}}, 0},
		"without a kind":  {"data: x\n\n", nil, 0},
	} {
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(c.stream), "by bytes": iotest.OneByteReader(strings.NewReader(c.stream))} {
			got, comments, err := readAll(r)
			if !reflect.DeepEqual(got, c.want) || comments != c.comments || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %+v, %d comments, %v; want %+v, %d", name, how, got, comments, err, c.want, c.comments)
			}
		}
	}
}

// A stream without end must not fill the memory. One of comments may go on without end.
func TestEventsAreBounded(t *testing.T) {
	if _, _, err := readAll(io.MultiReader(strings.NewReader("data: "), endless('x'))); !errors.Is(err, errEvent) {
		t.Errorf("a line without end: %v", err)
	}
	line := "data: " + strings.Repeat("x", 1000) + "\n"
	if _, _, err := readAll(strings.NewReader(strings.Repeat(line, maxEvent/len(line)+2))); !errors.Is(err, errEvent) {
		t.Errorf("lines without end: %v", err)
	}
	const many = maxEvent/2 + 1 // in all, longer than an event may be
	if _, comments, err := readAll(strings.NewReader(strings.Repeat(":\n", many))); !errors.Is(err, io.EOF) || comments != many {
		t.Errorf("heartbeats: %d, %v", comments, err)
	}
}

// endless is a stream of one byte.
type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func FuzzEvents(f *testing.F) {
	f.Add("id: e-1\nevent: put\ndata: {}\n\n:\n")
	f.Add("event\n\n\ndata\r\n")
	f.Add("\ufeffevent:a\rdata\r\r\ndata:b\n\r")
	f.Fuzz(func(t *testing.T, stream string) {
		whole, n, err := readAll(strings.NewReader(stream))
		bytes, m, errBytes := readAll(iotest.OneByteReader(strings.NewReader(stream)))
		if !reflect.DeepEqual(whole, bytes) || n != m || !errors.Is(err, io.EOF) || !errors.Is(errBytes, io.EOF) {
			t.Errorf("%q: %+v, %+v, %v, %v", stream, whole, bytes, err, errBytes)
		}
	})
}

package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"dyno/load/wire"
	"dyno/load/wire/wiretest"
)

// drawCuts draws places at which to cut n bytes.
func drawCuts(t *rapid.T, n int) []int {
	cuts := rapid.SliceOfN(rapid.IntRange(0, n), 0, 8).Draw(t, "cuts")
	slices.Sort(cuts)
	return cuts
}

// A drawing is a response that is being drawn, and how it departs from the protocol so far.
type drawing struct {
	bytes.Buffer
	departs wire.Deviations
}

// end ends a line, now and then by LF alone.
func (d *drawing) end(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "bare LF") == 0 {
		d.departs |= wire.BareLF
		d.WriteByte('\n')
		return
	}
	d.WriteString("\r\n")
}

// fold goes on with a line on the next one, now and then.
func (d *drawing) fold(t *rapid.T, end func(*rapid.T)) {
	if rapid.IntRange(0, 9).Draw(t, "fold") == 0 {
		d.departs |= wire.FoldedLines
		end(t)
		d.WriteString(rapid.SampledFrom([]string{" ", "\t", "  \t"}).Draw(t, "continues by"))
	}
}

// endWell ends a line by CR LF.
func (d *drawing) endWell(*rapid.T) { d.WriteString("\r\n") }

// drawValid draws a response that is in order or deviates without doubt, preceded by informational
// responses. It tells whether only the end of the connection ends it.
func drawValid(t *rapid.T, method string) (d *drawing, toEnd bool) {
	b := &drawing{}
	for range rapid.IntRange(0, 2).Draw(t, "informational") {
		fmt.Fprintf(b, "HTTP/1.1 %s", rapid.SampledFrom([]string{"100 Continue", "102 ", "103 Early Hints"}).Draw(t, "1xx"))
		b.end(t)
		drawFields(t, b, b.end)
		b.end(t)
	}
	minor := rapid.IntRange(0, 1).Draw(t, "minor")
	status := rapid.OneOf(rapid.SampledFrom([]int{200, 204, 304, 404, 500}), rapid.IntRange(200, 599)).Draw(t, "status")
	fmt.Fprintf(b, "HTTP/1.%d %d %s", minor, status, rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "reason"))
	b.end(t)
	drawFields(t, b, b.end)
	if rapid.Bool().Draw(t, "connection") {
		fmt.Fprintf(b, "%s:", rapid.SampledFrom([]string{"Connection", "connection", "CONNECTION"}).Draw(t, "spelling"))
		b.fold(t, b.end)
		b.WriteString(rapid.SampledFrom([]string{" close", "keep-alive", " Keep-Alive, x", " x,Close ", "\tfoo"}).Draw(t, "options"))
		b.end(t)
	}
	bodyless := method == "HEAD" || status == 204 || status == 304
	body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
	switch framing := rapid.IntRange(0, 2).Draw(t, "framing"); {
	case framing == 0:
		b.WriteString("Content-Length:")
		b.fold(t, b.end)
		fmt.Fprintf(b, " %d", len(body))
		b.end(t)
		b.end(t)
		if !bodyless {
			b.Write(body)
		}
	case framing == 1 && minor == 1:
		b.WriteString("Transfer-Encoding:")
		b.fold(t, b.end)
		b.WriteString(" chunked")
		b.end(t)
		b.end(t)
		if !bodyless {
			drawChunks(t, b, body)
		}
	default:
		b.end(t)
		if !bodyless {
			b.Write(body)
			toEnd = true
		}
	}
	return b, toEnd
}

func drawFields(t *rapid.T, b *drawing, end func(*rapid.T)) {
	for range rapid.IntRange(0, 4).Draw(t, "fields") {
		value := rapid.StringMatching(`[\t -~]{0,30}`)
		fmt.Fprintf(b, "X-%s:%s", rapid.StringMatching(`[!#-'*+.0-9A-Z^-z|~-]{0,16}`).Draw(t, "name"), value.Draw(t, "value"))
		b.fold(t, end)
		b.WriteString(value.Draw(t, "rest of the value"))
		end(t)
	}
}

// drawChunks ends lines by CR LF: net/http wants it of chunks, since servers that do not have been
// confused.
func drawChunks(t *rapid.T, b *drawing, body []byte) {
	extension := func() string {
		e := rapid.SampledFrom([]string{"", "", ";a", ";a=\"b\"", " ", "  \t"}).Draw(t, "extension")
		if strings.HasPrefix(e, " ") {
			b.departs |= wire.SpacesAtSizes
		}
		return e
	}
	for len(body) > 0 {
		n := rapid.IntRange(1, len(body)).Draw(t, "chunk")
		size := rapid.SampledFrom([]string{"%x", "%X", "0%x"}).Draw(t, "hex")
		fmt.Fprintf(b, size+"%s\r\n%s\r\n", n, extension(), body[:n])
		body = body[n:]
	}
	fmt.Fprintf(b, "0%s\r\n", extension())
	drawFields(t, b, b.endWell)
	b.endWell(t)
}

// Codec and net/http agree about responses that are in order, or deviate without doubt. They agree
// about status, length of the body, end, and whether the connection lives on.
func TestAgreesWithNetHTTP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"GET", "HEAD", "POST"}).Draw(t, "method")
		drawn, toEnd := drawValid(t, method)
		input := drawn.Bytes()

		r := bufio.NewReader(bytes.NewReader(input))
		var want *http.Response
		for want == nil || want.StatusCode < 200 {
			var err error
			if want, err = http.ReadResponse(r, &http.Request{Method: method}); err != nil {
				t.Fatalf("net/http refuses %q: %v", input, err)
			}
		}
		body, err := io.Copy(io.Discard, want.Body)
		if err != nil {
			t.Fatalf("net/http refuses the body of %q: %v", input, err)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 {
			t.Fatalf("net/http leaves %q of %q", rest, input)
		}

		config := testConfig()
		config.Request = []byte(method + " / HTTP/1.1\r\nHost: h\r\n\r\n")
		got := feed(t, newTemplate(t, config).Client(), input, drawCuts(t, len(input))...)
		outcome := outcome{Outcome: wiretest.Outcome{Used: len(input), Done: !toEnd, Reusable: !want.Close && !toEnd}, status: want.StatusCode, body: body, departs: drawn.departs}
		if want.StatusCode >= 400 {
			if failure := wire.StatusError(want.StatusCode); toEnd {
				outcome.After = failure
			} else {
				outcome.Err = failure
			}
		}
		if got != outcome {
			t.Fatalf("%q:\n got %v\nwant %v", input, got, outcome)
		}
	})
}

// drawAny draws a response that is in order, or nearly so: a case of the table or
// a drawn one, with some bytes changed, lost or put in.
func drawAny(t *rapid.T) []byte {
	var input []byte
	if rapid.Bool().Draw(t, "from the table") {
		input = []byte(rapid.SampledFrom(responseTests).Draw(t, "case").input)
	} else {
		drawn, _ := drawValid(t, "GET")
		input = drawn.Bytes()
	}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(input)).Draw(t, "at")
		with := rapid.SampledFrom([]string{"", "\r", "\n", "\r\n", " ", "\t", ":", ",", ";", "\x00", "\xff", "0", "x", "Content-Length: 1\r\n", "\r\n\r\n"}).Draw(t, "with")
		lost := min(rapid.IntRange(0, 2).Draw(t, "lost"), len(input)-at)
		input = slices.Concat(input[:at], []byte(with), input[at+lost:])
	}
	return input
}

// The memo never changes the meaning of bytes, in order or not, wherever they are cut.
func TestMemoChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := testConfig()
		if rapid.Bool().Draw(t, "small limits") {
			config.MaxHeader = smallHeader
		}
		with, without := newTemplate(t, config), newTemplate(t, config)
		without.memo.off = true
		inputs := rapid.SliceOfN(rapid.Custom(drawAny), 1, 3).Draw(t, "inputs")
		for range 6 {
			input := rapid.SampledFrom(inputs).Draw(t, "input")
			cuts := drawCuts(t, len(input))
			got := feed(t, with.Client(), input, cuts...)
			if want := feed(t, without.Client(), input); got != want {
				t.Fatalf("%q cut at %v:\nmemo    %v\nno memo %v", input, cuts, got, want)
			}
		}
		if without.memo.block != nil {
			t.Fatal("the control has a memo")
		}
	})
}

// FuzzResponse: no bytes make the codec panic or take more than there is. Neither cuts nor earlier
// bytes change the outcome.
func FuzzResponse(f *testing.F) {
	for i, tt := range responseTests {
		if len(tt.input) < 1000 {
			f.Add([]byte(tt.input), uint16(i), uint16(7*i), i%5 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, a, b uint16, head bool) {
		config := testConfig()
		config.MaxHeader = 200
		if head {
			config.Request = []byte(headRequest)
		}
		tmpl := newTemplate(t, config)
		c := tmpl.Client()
		want := feed(t, c, input)
		cuts := []int{int(a) % (len(input) + 1), int(b) % (len(input) + 1)}
		slices.Sort(cuts)
		every := make([]int, len(input))
		for i := range every {
			every[i] = i
		}
		for _, cuts := range [][]int{nil, cuts, every} {
			c.Reset()
			if got := feed(t, c, input, cuts...); got != want {
				t.Fatalf("cut at %v:\n got %v\nwant %v", cuts, got, want)
			}
		}
	})
}

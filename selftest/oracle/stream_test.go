package oracle

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listenTo subscribes and returns what comes, line by line, until the stream ends or
// lines have come.
func listenTo(t *testing.T, s *Stream, lastEvent string, lines int) (res *http.Response, got []string) {
	t.Helper()
	c := dial(t, s.Server)
	request := "GET / HTTP/1.1\r\nHost: x\r\n"
	if lastEvent != "" {
		request += "Last-Event-ID: " + lastEvent + "\r\n"
	}
	must[int](t)(io.WriteString(c, request+"\r\n"))
	res = must[*http.Response](t)(http.ReadResponse(c.r, nil))
	defer res.Body.Close()
	for r := bufio.NewReader(res.Body); len(got) < lines; {
		line, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimSuffix(line, "\n"))
	}
	c.Close()
	return res, got
}

// numbers returns the numbers of events in their order, checking each: "gap" for a gap
// event.
func numbers(t *testing.T, s *Stream, lines []string) (got []string) {
	t.Helper()
	for i := 0; i < len(lines); i++ {
		switch {
		case lines[i] == "event: gap":
			got = append(got, "gap")
			i += 2
		case strings.HasPrefix(lines[i], "retry: "):
			got = append(got, lines[i])
			i++
		default:
			var id, source, n int
			var at int64
			must[int](t)(fmt.Sscanf(lines[i], "id: %d", &id))
			data := strings.TrimPrefix(lines[i+1], "data: ")
			must[int](t)(fmt.Sscanf(data, "dyno1 %d %d %d ", &source, &n, &at))
			if id != n || source != StreamSource || len(data) != s.stream.Size || strings.Trim(data[stampBytes:], "x") != "" {
				t.Errorf("event %q, %q", lines[i], lines[i+1])
			}
			if late := time.Since(time.Unix(0, at)); late < s.stream.Delay-time.Millisecond || late > hang {
				t.Errorf("event %d came %v after its time", n, late)
			}
			got = append(got, fmt.Sprint(n))
			i += 2
		}
	}
	return got
}

func TestStream(t *testing.T) {
	for _, tt := range []struct {
		name, last string
		plan       StreamConfig
		want       string
		counts     StreamCounts
	}{
		{"plain", "", StreamConfig{End: 5}, "1 2 3 4 5", StreamCounts{Events: 5}},
		{"unframed", "", StreamConfig{End: 5, Unframed: true}, "1 2 3 4 5", StreamCounts{Events: 5}},
		{"drop", "", StreamConfig{End: 5, Drop: 2}, "1 3 5", StreamCounts{Events: 3, Dropped: 2}},
		{"repeat", "", StreamConfig{End: 5, Repeat: 2}, "1 2 2 3 4 4 5", StreamCounts{Events: 7, Repeated: 2}},
		{"swap", "", StreamConfig{End: 5, Swap: 2}, "1 3 2 5 4", StreamCounts{Events: 5, Swapped: 2}},
		{"gap", "", StreamConfig{End: 4, Gap: 2}, "1 gap 2 3 gap 4", StreamCounts{Events: 4, Gaps: 2}},
		{"retry", "", StreamConfig{End: 2, Retry: 15 * time.Millisecond}, "retry: 15 1 2", StreamCounts{Events: 2}},
		{"resume", "4", StreamConfig{End: 6}, "5 6", StreamCounts{Events: 2, Resumed: 1}},
		{"resume from nonsense", "x4", StreamConfig{End: 2}, "1 2", StreamCounts{Events: 2}},
		{"forget", "4", StreamConfig{End: 2, Forget: true}, "1 2", StreamCounts{Events: 2}},
		{"size and delay", "", StreamConfig{End: 2, Size: 300, Delay: 10 * time.Millisecond}, "1 2", StreamCounts{Events: 2}},
	} {
		tt.plan.Rate = 1000
		s := must[*Stream](t)(StartStream(t.Context(), Config{}, tt.plan))
		res, lines := listenTo(t, s, tt.last, 1000)
		if got := strings.Join(numbers(t, s, lines), " "); got != tt.want || res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%s: %q, want %q; %s", tt.name, got, tt.want, res.Status)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		tt.counts.Subscriptions, tt.counts.Ended = 1, 1
		tt.counts.Traffic = Traffic{Accepted: 1, Received: 1, Answered: 1}
		if diff := cmp.Diff(tt.counts, s.Counts()); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// After a number of subscriptions everybody is asked not to come back.
func TestStreamTake(t *testing.T) {
	s := must[*Stream](t)(StartStream(t.Context(), Config{}, StreamConfig{Take: 1, End: 1, Rate: 1000, MediaType: "text/x", Status: 418}))
	defer s.Close()
	if res, lines := listenTo(t, s, "", 100); res.StatusCode != 418 || res.Header.Get("Content-Type") != "text/x" || len(lines) != 3 {
		t.Errorf("%s, %q", res.Status, lines)
	}
	if res, lines := listenTo(t, s, "", 100); res.StatusCode != 204 || len(lines) != 0 {
		t.Errorf("%s, %q", res.Status, lines)
	}
	if c := s.Counts(); c.Subscriptions != 1 || c.Refused != 1 {
		t.Errorf("%+v", c)
	}
}

// Events come at an even rate, and end where they are to end.
func TestStreamRate(t *testing.T) {
	const rate, events = 200, 20
	s := must[*Stream](t)(StartStream(t.Context(), Config{}, StreamConfig{Rate: rate, Events: events}))
	defer s.Close()
	begin := time.Now()
	_, lines := listenTo(t, s, "", 3*events)
	if took := time.Since(begin); took < events*time.Second/rate {
		t.Errorf("%d lines within %v", len(lines), took)
	}
	// An answer to HEAD has no events.
	c := dial(t, s.Server)
	if res, body, err := c.get("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil || len(body) > 0 || res.StatusCode != 200 {
		t.Errorf("HEAD: %v, %v", res, err)
	}
	if c := s.Counts(); c.Events != events || c.Ended != 0 {
		t.Errorf("%+v", c)
	}
}

// A subscriber that does not read is cut off, and no longer costs anything.
func TestStreamOverrun(t *testing.T) {
	s := must[*Stream](t)(StartStream(t.Context(), Config{}, StreamConfig{Rate: 2000, Size: maxSize}))
	defer s.Close()
	c := dial(t, s.Server)
	must[int](t)(io.WriteString(c, plain))
	eventually(t, "overrun", func() bool { return s.Counts().Overrun == 1 })
	if c := s.Counts(); c.Received != 1 || c.Abandoned != 1 || c.Answered != 0 {
		t.Errorf("%+v", c)
	}
}

func TestStreamFaults(t *testing.T) {
	_, err := StartStream(t.Context(), Config{Protocol: TCP}, StreamConfig{Rate: -1, Size: 50})
	for _, field := range []string{"rate: ", "size: ", "protocol: "} {
		if err == nil || !strings.Contains(err.Error(), "oracle: "+field) {
			t.Errorf("no fault for %s in: %v", field, err)
		}
	}
}

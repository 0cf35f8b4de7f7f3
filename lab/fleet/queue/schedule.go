package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// minPeriod is the shortest period of a task.
const minPeriod = time.Minute

const clockTime = "15:04"

// ParseEvery reads when a task is due again: a time of day, as 02:30, or five fields of cron, as 30 2 * * 1-5. Times
// are in the worker's time zone, unless CRON_TZ=ZONE precedes them.
func ParseEvery(text string) (cron.Schedule, error) {
	spec := text
	if at, err := time.Parse(clockTime, text); err == nil {
		spec = fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
	}
	s, err := cron.ParseStandard(spec)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a time of day nor five fields of cron", text)
	}
	first := s.Next(time.Now())
	if first.IsZero() {
		return nil, fmt.Errorf("%q: there is no such time", text)
	}
	if second := s.Next(first); !second.IsZero() && second.Sub(first) < minPeriod {
		return nil, fmt.Errorf("%q: a task is due once a minute at most", text)
	}
	return s, nil
}

// ParseAt reads when a task is due: a time (RFC 3339), or the next one of a time of day.
func ParseAt(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	of, err := time.Parse(clockTime, text)
	if err != nil {
		return time.Time{}, errors.New("want a time of day, as 02:30, or a time, as 2026-01-02T02:30:00Z")
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), of.Hour(), of.Minute(), 0, 0, now.Location())
	if !at.After(now) {
		at = at.AddDate(0, 0, 1)
	}
	return at, nil
}

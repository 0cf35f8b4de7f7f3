package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// record is the form in which an update is kept outside of the process. JSON does not
// change its text, because Check demands UTF-8.
type record struct {
	ID      string   `json:"id,omitempty"`
	Topics  []string `json:"topics"`
	Private bool     `json:"private,omitempty"`
	Type    string   `json:"type,omitempty"`
	Data    string   `json:"data"`
	Retry   int64    `json:"retry,omitempty"` // milliseconds
	At      int64    `json:"at"`              // Unix time in nanoseconds
}

// EncodeRecord writes u, with the time of its first publication, as one JSON object, for
// files and for other processes. u must have passed Check.
func EncodeRecord(at time.Time, u Update) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // nothing but DecodeRecord reads this
	err := enc.Encode(record{u.ID, u.Topics, u.Private, u.Type, string(u.Data), u.Retry.Milliseconds(), at.UnixNano()})
	if err != nil {
		return nil, fmt.Errorf("encode update: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// maxRetryMillis keeps a retry within a time.Duration.
const maxRetryMillis = int64((1<<63 - 1) / time.Millisecond)

// DecodeRecord reads what EncodeRecord wrote. The update passes Check. It has no ID if the
// record's is one that CheckID refuses: earlier versions took any from publishers.
func DecodeRecord(text []byte) (at time.Time, u Update, err error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return time.Time{}, Update{}, fmt.Errorf("decode update: %w", err)
	}
	if r.Retry < 0 || r.Retry > maxRetryMillis {
		return time.Time{}, Update{}, fmt.Errorf("decode update: retry: %d: must be from 0 to %d", r.Retry, maxRetryMillis)
	}
	if CheckID(r.ID) != nil {
		r.ID = ""
	}
	u = Update{ID: r.ID, Topics: r.Topics, Private: r.Private, Type: r.Type, Data: []byte(r.Data), Retry: time.Duration(r.Retry) * time.Millisecond}
	if err := u.Check(); err != nil {
		return time.Time{}, Update{}, fmt.Errorf("decode update: %w", err)
	}
	return time.Unix(0, r.At), u, nil
}

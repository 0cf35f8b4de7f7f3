package resource

import (
	"encoding/json"
	"strconv"
	"time"
)

// An Act is a kind of change of a resource.
type Act string

// The acts.
const (
	Created    Act = "create"
	Updated    Act = "update"
	Removed    Act = "remove"
	RolledBack Act = "rollback"
	Released   Act = "release"  // a gray release begun or changed
	Promoted   Act = "promote"  // a gray release given to all clients
	Withdrawn  Act = "withdraw" // a gray release withdrawn
	Registered Act = "register"
	Maintained Act = "maintain" // an operator keeps requests away from an instance, or no longer
	Acquired   Act = "acquire"  // a lock, or its value changed
	Added      Act = "add"      // to a counter
	TokenMade  Act = "create-token"
	Revoked    Act = "revoke-token"
	Expired    Act = "expire" // an instance was silent or critical for too long, or a session was not renewed
)

// An Audit is a note of one change. Old and New are versions; the history has their contents, as far as it goes back.
// An audit never has content, so it has no secrets.
type Audit struct {
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	From string    `json:"from"` // address of the client
	Act  Act       `json:"act"`
	Ref
	Old int64 `json:"old_version,omitempty"`
	New int64 `json:"new_version,omitempty"`
}

// AppendJSON appends the note as encoding/json would write it, in a fifth of the time:
// there is one for each change.
func (a *Audit) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"at":"`...)
	dst = a.At.AppendFormat(dst, time.RFC3339Nano)
	dst = append(dst, '"')
	for _, f := range [...]struct{ name, value string }{
		{`,"who":`, a.Who}, {`,"from":`, a.From}, {`,"act":`, string(a.Act)}, {`,"kind":`, string(a.Kind)}, {`,"namespace":`, a.Namespace}, {`,"name":`, a.Name},
	} {
		dst = AppendText(append(dst, f.name...), f.value)
	}
	if a.ID != "" {
		dst = AppendText(append(dst, `,"id":`...), a.ID)
	}
	if a.Old != 0 {
		dst = strconv.AppendInt(append(dst, `,"old_version":`...), a.Old, 10)
	}
	if a.New != 0 {
		dst = strconv.AppendInt(append(dst, `,"new_version":`...), a.New, 10)
	}
	return append(dst, '}')
}

// AppendText appends a text as encoding/json writes it.
func AppendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil { // no text causes an error
				return append(dst, `""`...)
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}

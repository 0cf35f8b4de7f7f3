package protocols

import (
	"errors"
	"fmt"
	"strings"

	"dyno/internal/fields"
	"dyno/internal/textfile"
	"dyno/load/feed"
	"dyno/load/pace"
	"dyno/load/rpc"
	"dyno/load/scenario"
)

// Bounds of the messages that are encoded before the load.
const (
	maxCallMessages = 1_000_000
	maxCallBytes    = 1 << 30

	// madeUp is how many messages are encoded of a template without rows.
	madeUp = 10_000
)

// encode encodes the messages: those that are written, or one for each row. Without rows, plain
// messages are no templates.
func (l call) encode(method rpc.Method, plain bool, seed uint64) (messages [][]byte, err error) {
	text, field := l.Message, "message"
	if l.MessageFile != "" {
		content, err := textfile.Read(l.MessageFile, textfile.MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("load.call.message_file: %w", err)
		}
		text, field = string(content), "message_file"
	}
	if len(l.Data) > 0 || !plain && fields.HasTemplate(text) {
		messages, err = l.encodeRows(method, text, field, seed)
	} else if messages, err = method.EncodeAll([]byte(text)); err != nil {
		err = fmt.Errorf("load.call.%s: %w", field, err)
	}
	if none := method.ClientStreaming && strings.HasPrefix(strings.TrimSpace(text), "["); err == nil && len(messages) == 0 && !none {
		messages = [][]byte{nil} // only an empty array says that a stream has no messages
	}
	return messages, err
}

// encodeRows makes a message for each row, as a user of a scenario would who sends nothing else.
func (l call) encodeRows(method rpc.Method, text, field string, seed uint64) (messages [][]byte, err error) {
	tables, err := openAll(l.Data)
	if err != nil {
		return nil, inCall("", err)
	}
	defer func() { err = errors.Join(err, closeAll(tables)) }()
	s, err := scenario.Compile(&scenario.Spec{Data: l.Data, Steps: []scenario.Step{{Name: "call", Message: text}}}, scenario.Protocol{BodyOnly: true, Tables: tables})
	if err != nil {
		return nil, inCall(field, err)
	}
	outline := s.Outlines()[0]
	worker := s.Worker(pace.Whole(), seed)
	user := worker.User()
	var (
		request scenario.Request
		all     []byte
		ends    []int
	)
	for n := range rowsOf(tables) {
		ok, fault := user.Next(0, &request)
		switch {
		case worker.Err() != nil:
			return nil, fmt.Errorf("load.call.data: %w", worker.Err())
		case fault != nil:
			return nil, fmt.Errorf("load.call.%s: row %d: %w", field, n+1, fault)
		}
		if !ok {
			break
		}
		body := []byte(outline.Body)
		if outline.VariesBody {
			body = request.Parts[len(request.Parts)-1]
		}
		if all, err = method.AppendEncode(all, body); err != nil {
			return nil, fmt.Errorf("load.call.%s: row %d: %w", field, n+1, err)
		}
		if len(all) > maxCallBytes {
			return nil, fmt.Errorf("load.call.%s: the messages of %d rows take more than %d MiB; give fewer rows", field, n+1, maxCallBytes>>20)
		}
		ends = append(ends, len(all))
		user.Failed() // nothing was sent, and the next iteration begins
	}
	begin := 0
	for _, end := range ends {
		messages = append(messages, all[begin:end:end])
		begin = end
	}
	return messages, nil
}

// rowsOf returns how many messages are made: one for each row of the longest file.
func rowsOf(tables []*feed.Table) int {
	if len(tables) == 0 {
		return madeUp
	}
	rows := 0
	for _, t := range tables {
		rows = max(rows, t.Rows())
	}
	return min(rows, maxCallMessages)
}

// inCall says where in a call the faults of its template, or of its data, are.
func inCall(field string, err error) error {
	for _, e := range flatten(err) {
		if f := (*scenario.Fault)(nil); errors.As(e, &f) && !strings.HasPrefix(f.Path, "data.") {
			f.Path = field
		}
	}
	return below("load.call", err)
}

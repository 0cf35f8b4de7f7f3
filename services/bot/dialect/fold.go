package dialect

import "dyno/services/bot/openai"

// A Fold is the whole answer of a stream's events so far. The zero value is ready.
type Fold struct {
	Answer Answer // the open block has no Text or Input yet
	Done   bool   // Finish has come
	Fault  *openai.Fault

	text []byte // of the open block
}

// Add adds an event.
func (f *Fold) Add(e *Event) {
	switch e.Kind {
	case Begin:
		f.Answer = e.Answer
	case Open:
		f.Answer.Blocks = append(f.Answer.Blocks, e.Block)
		f.text = append(f.text[:0], e.Block.Text...)
	case Piece:
		f.text = append(f.text, e.Text...)
		f.open().Signature += e.Signature
	case Close:
		switch b := f.open(); {
		case b.Kind != ToolCall:
			b.Text = string(f.text)
		case b.Custom:
			b.Input = Append(nil, string(f.text))
		default:
			b.Input = Arguments(string(f.text))
		}
	case Finish:
		f.Done, f.Answer.Stop, f.Answer.Sequence = true, e.Answer.Stop, e.Answer.Sequence
		if e.Answer.Usage != nil {
			usage := *e.Answer.Usage
			f.Answer.Usage = &usage
		}
	case Fault:
		fault := e.Fault
		f.Fault = &fault
	}
}

func (f *Fold) open() *Block { return &f.Answer.Blocks[len(f.Answer.Blocks)-1] }

// Events calls each for the events of a whole answer.
func (a *Answer) Events(each func(*Event)) {
	head, end := *a, Answer{Stop: a.Stop, Sequence: a.Sequence, Usage: a.Usage}
	head.Blocks, head.Stop, head.Sequence = nil, End, ""
	each(&Event{Kind: Begin, Answer: head})
	for _, b := range a.Blocks {
		text, signature := b.Text, b.Signature
		if b.Kind == ToolCall {
			text = ArgumentText(b.Input)
		}
		if b.Input = nil; b.Kind != Redacted {
			b.Text, b.Signature = "", ""
		}
		each(&Event{Kind: Open, Block: b})
		if b.Kind != Redacted && text != "" {
			each(&Event{Kind: Piece, Text: text})
		}
		if b.Kind != Redacted && signature != "" {
			each(&Event{Kind: Piece, Signature: signature})
		}
		each(&Event{Kind: Close})
	}
	each(&Event{Kind: Finish, Answer: end})
}

package protocols

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/lab/plan"
	"dyno/load/jsonpath"
	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/http1"
	"dyno/load/wire/sse"
	"dyno/load/wire/websocket"
)

// wsCodecs makes clients that open WebSocket connections, and send a message or those of users on them.
func wsCodecs(ctx context.Context, v *plan.Variant, _ uint64, workers int) (c Codecs, err error) {
	end, err := http1.ParseURL(v.Target.URL)
	if err != nil {
		return c, err
	}
	w := v.Load.WebSocket
	config := websocket.Config{
		Dial: websocket.Dial{
			Greetings: w.Greetings,
			Request:   http1.Request{Target: end.Target, Host: end.Host},
			HTTP2:     w.HTTP2, Scheme: "http", Subprotocols: w.Subprotocols, Compress: w.Compress, MaxMessage: int64(w.MaxMessage), MaxHeader: int64(v.Load.MaxHeader),
		},
		Payload: w.Payload, Exchanges: w.InFlight,
	}
	if config.First, err = firstMessages(w); err != nil {
		return c, err
	}
	addHeaders(&config.Request, w.Headers)
	if end.Secure {
		config.Scheme = "https"
		alpn := "http/1.1"
		if w.HTTP2 {
			alpn = "h2"
		}
		if c.TLS, err = tlsConfig(v.Target.TLS, end, []string{alpn}); err != nil {
			return c, err
		}
	}
	if v.Load.Subscribers != nil {
		err = listeners(v, &c, config.Dial, end, workers)
		return c, err
	}
	if v.Load.Scenario != nil {
		return c, sessions(ctx, v, &c, websocket.SessionConfig{Dial: config.Dial}, end)
	}
	switch text := []byte(w.Message); {
	case w.MessageFile != "":
		if text, err = os.ReadFile(w.MessageFile); err != nil {
			return c, fmt.Errorf("load.websocket.message_file: %w", err)
		}
		fallthrough
	case w.Message != "":
		m, err := wsMessage(w, "load.websocket.message", string(text))
		if err != nil {
			return c, err
		}
		m.ByID = bytes.Contains(m.Text, []byte(websocket.IDMark))
		config.Messages = []websocket.Message{m}
	}
	c.Exchanges, c.Standing = w.InFlight, true
	if c.Muxes, err = perWorker(alike(config), websocket.NewTemplate, func(t *websocket.Template) wire.Mux { return t.Mux() }); err != nil {
		return c, fmt.Errorf("load.websocket: %w", err)
	}
	return c, nil
}

// wsMessage returns a message as a plan's field has it.
func wsMessage(w *plan.WebSocket, field, text string) (m websocket.Message, err error) {
	m = websocket.Message{Text: []byte(text), Binary: w.Binary || w.Encoding != plan.EncodingText}
	if w.Encoding == plan.EncodingText {
		return m, nil
	}
	m.Text = nil
	e, at := messageEncoder{encoding: w.Encoding, check: func([]byte) error { return nil }}, 0
	for _, mark := range append(wsMarks.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		e.pieces = [][]byte{[]byte(text[at:mark[0]])}
		if m.Text, err = e.Append(m.Text, nil); err != nil {
			return m, fmt.Errorf("%s: %w", field, err)
		}
		m.Text = append(m.Text, text[mark[0]:mark[1]]...)
		at = mark[1]
	}
	return m, nil
}

// wsMarks are the places in messages.
var wsMarks = regexp.MustCompile(`\{(id|topic|data)\}`)

// firstMessages returns the messages that connections send first.
func firstMessages(w *plan.WebSocket) (all []websocket.Message, err error) {
	for n, text := range w.First {
		m, err := wsMessage(w, fmt.Sprintf("load.websocket.first[%d]", n), text)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// listeners makes the subscribers' streams and, where something is published, what publishes it: by HTTP, or over
// WebSocket.
func listeners(v *plan.Variant, c *Codecs, d websocket.Dial, end http1.Endpoint, workers int) (err error) {
	s, w, dial := v.Load.Subscribers, v.Load.WebSocket, d
	addHeaders(&d.Request, s.Headers)
	message, err := wsMessage(w, "load.subscribers.message", s.Message)
	if err != nil {
		return err
	}
	target := withTopic(d.Request.Target)
	c.Streams, err = perTopic(s.Topics, func(topic int) (*websocket.StreamTemplate, error) {
		of, subscribe, name := d, message, strconv.Itoa(topic)
		of.Request.Target = sse.ExpandTopic(target, name)
		subscribe.Text = websocket.ExpandTopic(message.Text, name)
		return websocket.NewStreamTemplate(websocket.StreamConfig{Dial: of, Subscribe: subscribe, Topics: []int{topic}})
	}, func(t *websocket.StreamTemplate) wire.Stream { return t.Stream() })
	switch p := v.Load.Publish; {
	case err != nil || p == nil:
		return err
	case p.Message == "":
		c.Clients, err = publishers(p, end, int64(v.Load.MaxHeader), s.Topics, workers)
		return err
	}
	publisher := websocket.PublisherConfig{Dial: dial, Size: v.Load.Publish.Size, Step: uint32(workers)} //nolint:gosec // bounded by the engine
	publisher.Request.Target = sse.ExpandTopic(target, "0")
	if publisher.Message, err = wsMessage(w, "load.publish.message", v.Load.Publish.Message); err != nil {
		return err
	}
	for topic := range s.Topics {
		publisher.Topics = append(publisher.Topics, strconv.Itoa(topic))
	}
	c.Exchanges = 1
	c.Muxes, err = perWorker(func(worker int) websocket.PublisherConfig {
		mine := publisher
		mine.Number = uint32(worker) //nolint:gosec // bounded by the engine
		return mine
	}, websocket.NewPublisherTemplate, func(t *websocket.PublisherTemplate) wire.Mux { return t.Publisher() })
	if err != nil {
		return fmt.Errorf("load.publish: %w", err)
	}
	return nil
}

// sessions makes what carries out the steps of users, each of whom has a connection.
func sessions(ctx context.Context, v *plan.Variant, c *Codecs, config websocket.SessionConfig, end http1.Endpoint) (err error) {
	if err := ready(ctx, v, c, wsScript); err != nil {
		return err
	}
	handshakes, err := requests(c.Scenario, end)
	if err != nil {
		return below("load.scenario", err)
	}
	if _, err := wsSteps(v, c.Scenario, handshakes); err != nil {
		return err
	}
	carried := func(int) websocket.SessionConfig {
		own := config
		own.Steps, _ = wsSteps(v, c.Scenario, handshakes) // again, as what looks at messages has memory of its own
		return own
	}
	c.Exchanges, c.Owned = 1, true
	if c.Muxes, err = perWorker(carried, websocket.NewSessionTemplate, func(t *websocket.SessionTemplate) wire.Mux { return t.Session() }); err != nil {
		return fmt.Errorf("load.scenario: %w", err)
	}
	return nil
}

// wsSteps says what the users' steps do, with what only the codecs of one worker may use.
func wsSteps(v *plan.Variant, compiled *scenario.Scenario, handshakes []http1.Request) (all []websocket.Step, err error) {
	var steps []*scenario.Step
	v.Load.Scenario.EachStep(func(_ string, st *scenario.Step) { steps = append(steps, st) })
	for n, o := range compiled.Outlines() {
		step, err := wsStep(v.Load.WebSocket, steps[o.Step], &o)
		if err != nil {
			return nil, below("load.scenario", locate(compiled.Steps()[o.Step].Path+".until", err))
		}
		step.Request = handshakes[n]
		all = append(all, step)
	}
	return all, nil
}

// wsStep says what a step does with its user's connection.
func wsStep(w *plan.WebSocket, st *scenario.Step, o *scenario.Outline) (step websocket.Step, err error) {
	field, _ := st.Content()
	step = websocket.Step{
		Kind: websocket.Ask, Text: []byte(o.Body), Varies: o.VariesBody, Code: uint16(st.Close), //nolint:gosec // a range bounds it
		Binary: w.Binary || st.Encoding == plan.EncodingBase64 || st.Encoding == plan.EncodingHex, Count: st.Count, Collect: st.Collect,
	}
	switch {
	case st.Path != "":
		step.Kind = websocket.Open
	case st.Close > 0:
		step.Kind = websocket.Close
	case st.Await == plan.AwaitNothing:
		step.Kind = websocket.Send
	case st.Await == plan.AwaitPong:
		step.Kind = websocket.Ping
	case st.Await == plan.AwaitClose:
		step.Kind = websocket.Closed
	case field == "body":
		step.Kind = websocket.Listen
	}
	if st.Until != nil {
		if step.Until, err = matcher(st.Until); len(o.Header) > 0 && o.Header[0].Name == untilName {
			step.Value, step.ValueVaries = []byte(o.Header[0].Value), o.Header[0].Varies
		}
	}
	return step, err
}

// matcher returns what tells whether a message is what an assertion says. It is given the text to compare with.
func matcher(a *scenario.Assertion) (func(message, text []byte) bool, error) {
	find := func(message []byte) ([]byte, bool) { return message, true }
	if a.JSON != "" {
		path, err := jsonpath.Compile(a.JSON)
		if err != nil {
			return nil, err
		}
		var decoded []byte
		find = func(message []byte) ([]byte, bool) {
			value, result := path.Find(message)
			if len(value) > 0 && value[0] == '"' {
				decoded = jsonpath.AppendText(decoded[:0], value)
				value = decoded
			}
			return value, result == jsonpath.Found
		}
	}
	compare := bytes.Contains
	switch {
	case a.Exists:
		compare = func(_, _ []byte) bool { return true }
	case a.Equals != nil:
		compare = bytes.Equal
	case a.Matches != "":
		pattern, err := regexp.Compile(a.Matches)
		if err != nil {
			return nil, err
		}
		compare = func(value, _ []byte) bool { return pattern.Match(value) }
	}
	return func(message, text []byte) bool {
		value, found := find(message)
		return found && compare(value, text)
	}, nil
}

// untilName is the name under which a step has the text that the awaited message is compared with: it varies as a header
// field does.
const untilName = "until"

// wsScript says what a scenario's users do over WebSocket: they open connections, send messages, and check what comes.
func wsScript(_ context.Context, v *plan.Variant, _ bool) (script, error) {
	return script{step: func(st *scenario.Step, content string) (sent scenario.StepRequest, err error) {
		sent = scenario.StepRequest{Body: content, Path: cmp.Or(st.Path, "/"), Timeout: st.Deadline}
		binary := v.Load.WebSocket.Binary || st.Encoding == plan.EncodingBase64 || st.Encoding == plan.EncodingHex
		check := func(message []byte) error {
			switch {
			case len(message) > websocket.MaxMessage:
				return fmt.Errorf("a message of %d bytes: want %d at most", len(message), websocket.MaxMessage)
			case !binary && !utf8.Valid(message):
				return fmt.Errorf("the message is not UTF-8: %q", strings.ToValidUTF8(string(message[:min(len(message), 40)]), "?"))
			}
			return nil
		}
		sent.Encode = func(pieces ...[]byte) (scenario.Encoder, error) {
			return &messageEncoder{check, st.Encoding, pieces}, nil
		}
		if u := st.Until; u != nil && u.Equals != nil {
			sent.Header = []scenario.Header{{Name: untilName, Value: *u.Equals}}
		} else if u != nil && u.Contains != "" {
			sent.Header = []scenario.Header{{Name: untilName, Value: u.Contains}}
		}
		if st.Close > 0 || st.Await == plan.AwaitClose {
			sent.Status = []scenario.StatusRange{{First: 1000, Last: 4999}}
		}
		return sent, nil
	}}, nil
}

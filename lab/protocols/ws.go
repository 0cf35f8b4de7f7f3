package protocols

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"dyno/lab/plan"
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
			Request:      http1.Request{Target: end.Target, Host: end.Host},
			Subprotocols: w.Subprotocols, Compress: w.Compress, MaxMessage: int64(w.MaxMessage), MaxHeader: int64(v.Load.MaxHeader),
		},
		Payload: w.Payload, Exchanges: w.InFlight, Greetings: w.Greetings,
	}
	addHeaders(&config.Request, w.Headers)
	if end.Secure {
		if c.TLS, err = tlsConfig(v.Target.TLS, end, []string{"http/1.1"}); err != nil {
			return c, err
		}
	}
	if v.Load.Subscribers != nil {
		return c, listeners(v, &c, config.Dial, end, workers)
	}
	switch text := []byte(w.Message); {
	case v.Load.Scenario != nil:
		if err := ready(ctx, v, &c, wsScript); err != nil {
			return c, err
		}
		config.Content = true
		for _, o := range c.Scenario.Outlines() {
			config.Messages = append(config.Messages, websocket.Message{Text: []byte(o.Body), Varies: o.VariesBody, Binary: w.Binary})
		}
	case w.MessageFile != "":
		if text, err = os.ReadFile(w.MessageFile); err != nil {
			return c, fmt.Errorf("load.websocket.message_file: %w", err)
		}
		fallthrough
	case w.Message != "":
		config.Messages = []websocket.Message{{Text: text, Binary: w.Binary, ByID: bytes.Contains(text, []byte(websocket.IDMark))}}
	}
	c.Exchanges, c.Standing = w.InFlight, true
	if c.Muxes, err = perWorker(alike(config), websocket.NewTemplate, func(t *websocket.Template) wire.Mux { return t.Mux() }); err != nil {
		return c, fmt.Errorf("load.websocket: %w", err)
	}
	return c, nil
}

// listeners makes the subscribers' streams and, where something is published, what publishes it by HTTP.
func listeners(v *plan.Variant, c *Codecs, d websocket.Dial, end http1.Endpoint, workers int) (err error) {
	s := v.Load.Subscribers
	addHeaders(&d.Request, s.Headers)
	target := withTopic(d.Request.Target)
	c.Streams, err = perTopic(s.Topics, func(topic int) (*websocket.StreamTemplate, error) {
		of, name := d, strconv.Itoa(topic)
		of.Request.Target = sse.ExpandTopic(target, name)
		return websocket.NewStreamTemplate(websocket.StreamConfig{Dial: of, Subscribe: websocket.ExpandTopic(s.Message, name), Topics: []int{topic}})
	}, func(t *websocket.StreamTemplate) wire.Stream { return t.Stream() })
	if err == nil && v.Load.Publish != nil {
		c.Clients, err = publishers(v.Load.Publish, end, int64(v.Load.MaxHeader), s.Topics, workers)
	}
	return err
}

// wsScript says what a scenario's users do over WebSocket: they send messages, and check the answers.
func wsScript(_ context.Context, v *plan.Variant, _ bool) (script, error) {
	check := func(message []byte) error {
		switch {
		case len(message) > websocket.MaxMessage:
			return fmt.Errorf("a message of %d bytes: want %d at most", len(message), websocket.MaxMessage)
		case !v.Load.WebSocket.Binary && !utf8.Valid(message):
			return fmt.Errorf("the message is not UTF-8: %q", strings.ToValidUTF8(string(message[:min(len(message), 40)]), "?"))
		}
		return nil
	}
	return script{
		by: scenario.Protocol{BodyOnly: true},
		step: func(st *scenario.Step, content string) (scenario.StepRequest, error) {
			return scenario.StepRequest{Body: content, Encode: func(pieces ...[]byte) (scenario.Encoder, error) {
				return &messageEncoder{check, st.Encoding, pieces}, nil
			}}, nil
		},
	}, nil
}

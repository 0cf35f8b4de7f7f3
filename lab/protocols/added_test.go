package protocols

import (
	"errors"
	"testing"

	"dyno/load/scenario"
	"dyno/load/wire"
	"dyno/load/wire/tcp"
)

// A talker is a Messenger, whose answers are an echo's.
type talker struct {
	*tcp.Messages
	sent string
}

func (c *talker) Send(message []byte) []byte {
	c.sent = string(message)
	return c.Compose(0, [][]byte{message})
}

func (c *talker) Answer() []byte { return []byte(c.sent) }

// Messengers get the messages of steps, those that vary and those that do not. Their answers are collected.
func TestMessengers(t *testing.T) {
	template, err := tcp.NewMessages(tcp.MessagesConfig{Messages: []tcp.Message{{Varies: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, clients := range map[string]func(int) func() wire.Client{
		"no clients": nil,
		"others":     func(int) func() wire.Client { return func() wire.Client { return template.Client() } },
	} {
		if _, err := messengers(clients, nil); !errors.Is(err, errNoMessenger) {
			t.Errorf("%s: %v", name, err)
		}
	}
	made, err := messengers(func(int) func() wire.Client {
		return func() wire.Client { return &talker{Messages: template.Client()} }
	}, []scenario.Outline{{Body: "same"}, {VariesBody: true}, {}})
	if err != nil {
		t.Fatal(err)
	}
	c := made(0)().(wire.Collector)
	for request, want := range []string{"same", "other"} {
		sent := c.Compose(request, [][]byte{[]byte("other")})
		if string(sent) != want {
			t.Errorf("%d: %q is sent, want %q", request, sent, want)
		}
		n, size, done, err := c.Content(sent)
		if n != len(want) || size != 0 || !done || err != nil {
			t.Errorf("%d: %d %d %t %v", request, n, size, done, err)
		}
		if answer, size := c.Collected(); string(answer) != want || size != int64(len(want)) {
			t.Errorf("%d: the answer is %q of %d", request, answer, size)
		}
	}
	if sent := c.Compose(2, nil); len(sent) != 0 {
		t.Errorf("%q is sent, want nothing", sent)
	}
}

package websocket

import "math/rand/v2"

// payloads are made up messages of one size. They are windows of one block, as in package tcp: every stride bytes there
// is a number, so that each message differs from the others in its first bytes.
type payloads struct {
	size    int
	block   []byte
	current int32
}

const (
	payloadCount  = 1 << 15
	payloadStride = 16
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func newPayloads(size int, random *rand.ChaCha8) *payloads {
	p := &payloads{size: size, block: make([]byte, payloadCount*payloadStride+size)}
	_, _ = random.Read(p.block)
	for i, b := range p.block {
		p.block[i] = letters[b%64]
	}
	for n := range payloadCount {
		word := p.block[n*payloadStride:][:3]
		word[0], word[1], word[2] = letters[n&63], letters[n>>6&63], letters[n>>12]
	}
	return p
}

// next returns where the next message begins.
func (p *payloads) next() int32 {
	at := p.current * payloadStride
	p.current = (p.current + 1) % payloadCount
	return at
}

// at returns a message.
func (p *payloads) at(begin int32) []byte { return p.block[begin : int(begin)+p.size] }

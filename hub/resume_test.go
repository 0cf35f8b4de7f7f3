package hub

import (
	"fmt"
	"sync"
	"testing"
)

// TestReconnecting: subscribers come and go while updates are published. With every way of delivery they get each one
// once and in order.
func TestReconnecting(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			const publishers, each, clients = 3, 60, 6
			b := serving(t, mode.set)
			ready, first := make(chan struct{}, clients), make(chan struct{}, clients)
			var publishing, reading sync.WaitGroup
			for c := range clients {
				reading.Go(func() {
					query := "topic=t"
					next := 1
					for connection := 0; next <= 1+publishers*each; connection++ {
						s := b.subscribe(query)
						if connection == 0 {
							s.awaitReady()
							ready <- struct{}{}
							query += "&lastEventID=" + s.want(event{Data: "first"}).ID
							next++
							first <- struct{}{}
						}
						for range 10 + c*7 { // and then it goes away
							e, ok := s.next()
							if !ok {
								break // its queue was full
							}
							if e.ID == "" {
								continue
							}
							var seq int
							if _, err := fmt.Sscanf(e.ID[len(e.ID)-len(fmt.Sprint(next)):], "%d", &seq); err != nil || seq != next {
								t.Errorf("client %d: %q, want number %d", c, e.ID, next)
								return
							}
							query = "topic=t&lastEventID=" + e.ID
							if next++; next > 1+publishers*each {
								break
							}
						}
						s.conn.Close()
					}
				})
			}
			for range clients {
				<-ready
			}
			b.say("t", "first") // from now on everybody has a place to go on from
			for range clients {
				<-first
			}
			for p := range publishers {
				publishing.Go(func() {
					for i := range each {
						b.say("t", fmt.Sprint(p, i))
					}
				})
			}
			publishing.Wait()
			reading.Wait()
			if st := b.Stats(); st.Gaps != 0 {
				t.Errorf("%d gaps", st.Gaps)
			}
		})
	}
}

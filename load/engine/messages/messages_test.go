package messages

import (
	"testing"
	"time"

	"dyno/load/engine/queue"
	"dyno/load/engine/record"
)

// Exchanges that end before their next message is due leave no alarms, and the one that
// follows in their place sends its own in time.
func TestAlarmsDoNotPileUp(t *testing.T) {
	const interval = int64(time.Second)
	times := New(&Config{Interval: time.Duration(interval)}, 1, record.NewRecorder(record.NewCollector(1, time.Second, nil), 0, time.Second))
	for written := range int64(1000) {
		times.Start(0, written)
	}
	if n := times.alarms.Len(); n != 1 {
		t.Fatalf("%d alarms of one exchange", n)
	}
	if e, _ := times.Due(999 + interval - 1); e != queue.None {
		t.Error("a message was due before its time")
	}
	for n := range int64(3) {
		e, at := times.Due(999 + (n+1)*interval)
		if want := 999 + (n+1)*interval; e != 0 || at != want {
			t.Fatalf("message %d: due of %d at %d, want %d", n, e, at, want)
		}
		if e, _ := times.Due(999 + (n+1)*interval); e != queue.None {
			t.Error("a message was due twice")
		}
		times.Sent(0, at)
	}
	times.Start(0, 10*interval) // the alarm of the exchange before comes first
	if e, _ := times.Due(10 * interval); e != queue.None {
		t.Error("a message of an exchange that has ended was due")
	}
	if e, at := times.Due(11 * interval); e != 0 || at != 11*interval || times.alarms.Len() != 0 {
		t.Errorf("due of %d at %d, and %d alarms", e, at, times.alarms.Len())
	}
}

package checks

import "dyno/results/rundir"

// Availability is the share of what was due that was answered well. For requests it is
// the share of all that were due. Users in a closed loop send nothing while they wait.
// There the share is multiplied by the share of the time in which they did not wait in
// vain. For subscribers it is the least of three shares: that of their time in which they
// had a stream that delivered something; that of the events due to them that arrived; and
// that of the publications that were accepted.
func Availability(t *rundir.Trial) *float64 {
	var shares []float64
	if due := t.Counts.Due(); due > 0 {
		shares = append(shares, float64(t.Counts.Answered())/float64(due)*(1-Omitted(t)))
	}
	if s := t.Streams; s != nil {
		if s.Subscribed > 0 || s.AllDelivered == 0 { // otherwise it was recorded before subscribers' time was
			shares = append(shares, subscribedShare(t))
		}
		if due := s.AllDelivered + s.Lost + s.Announced + s.Pending; due > 0 {
			shares = append(shares, float64(s.AllDelivered)/float64(due))
		}
	}
	if len(shares) == 0 {
		if t.Fault != rundir.FaultTarget {
			return nil
		}
		shares = append(shares, 0)
	}
	least := shares[0]
	for _, s := range shares[1:] {
		least = min(least, s)
	}
	least = min(max(least, 0), 1)
	return &least
}

// subscribedShare is the share of the subscribers' time in which they had a stream that
// delivered something.
func subscribedShare(t *rundir.Trial) float64 {
	s, window := t.Streams, max(t.WindowSeconds, t.PlannedSeconds)
	asked := s.Requested - s.Closed
	if s.Slow != nil {
		asked -= s.Slow.Requested
	}
	if asked <= 0 || window <= 0 {
		return 0
	}
	served := s.Subscribed - float64(silent(t))*t.WindowSeconds
	limit := QuietFloor
	if longest := t.Times[rundir.TagEventGap].Max; longest != nil {
		limit = max(limit, QuietFactor**longest)
	}
	if t.WindowSeconds > 0 && s.Silence.Ending > limit {
		// No subscriber was served then, even if the streams were open.
		served *= 1 - min(1, s.Silence.Ending/t.WindowSeconds)
	}
	return served / (float64(asked) * window)
}

// silent counts the subscribers who should have received something in the window and did
// not.
func silent(t *rundir.Trial) int64 {
	s := t.Streams
	published := t.Counts.OK > 0
	switch {
	case s.Served == 0 && (published || s.Silence.Last != nil), // all of them, who received something before or should have
		s.Delivered > 0 && (published || s.Delivered >= QuietEvents*s.Served):
		return s.Silent
	}
	return 0
}

// Omitted is the share of a closed loop's time in which users waited in vain. The
// requests that they would have sent are in no count (coordinated omission).
func Omitted(t *rundir.Trial) float64 {
	number := t.Connections.Users()
	if t.Users != nil {
		number = t.Users.Count
	}
	users := float64(number) * t.WindowSeconds
	if users <= 0 {
		return 0
	}
	return min(max(t.Connections.Omitted/users, 0), 1)
}

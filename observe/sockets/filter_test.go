package sockets

import (
	"net/netip"
	"testing"

	"dyno/host/sockdiag"

	"pgregory.net/rapid"
)

// run runs a program as the kernel does (inet_diag_bc_run). Conditions hold or not by their place in
// the program. It returns false for a program that ends beyond its end.
func run(program []byte, holds []bool) bool {
	left, condition := len(program), 0
	at := func(from int) int { return len(program) - from }
	places := make(map[int]int)
	for walk := left; walk > 0; walk -= int(program[at(walk)+1]) {
		if program[at(walk)] != opJump {
			places[walk] = condition
			condition++
		}
	}
	for left > 0 {
		op := program[at(left):]
		if op[0] != opJump && holds[places[left]] {
			left -= int(op[1])
		} else {
			left -= int(uint16(op[2]) | uint16(op[3])<<8)
		}
	}
	return left == 0
}

// A program reports a socket when any condition holds, however many there are, and
// the kernel accepts it.
func TestCompiledPrograms(t *testing.T) {
	if native(nil, 1)[0] != 1 {
		t.Skip("the interpreter is one for little-endian machines")
	}
	d, err := sockdiag.Open(0, dumpTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rapid.Check(t, func(t *rapid.T) {
		var conditions []condition
		var holds []bool
		any := false
		for range rapid.IntRange(1, 2*mostAddresses).Draw(t, "n") {
			a := rapid.SampledFrom([]string{"127.0.0.1", "::1", "0.0.0.0", "::"}).Draw(t, "address")
			op := rapid.SampledFrom([]byte{opSource, opDest}).Draw(t, "op")
			conditions = append(conditions, condition{op, netip.AddrPortFrom(netip.MustParseAddr(a), rapid.Uint16().Draw(t, "port"))})
			h := rapid.Bool().Draw(t, "holds")
			holds = append(holds, h)
			any = any || h
		}
		program := compile(conditions)
		if got := run(program, holds); got != any {
			t.Fatalf("%v: reported is %v", holds, got)
		}
		if err := d.Dump(t.Context(), sockdiag.Request{States: sockdiag.Sending, Filter: program}, func(*sockdiag.Socket) error { return nil }); err != nil {
			t.Fatalf("the kernel refuses it: %v", err)
		}
	})
	if err := d.Dump(t.Context(), sockdiag.Request{States: sockdiag.Sending, Filter: []byte{opJump, 4, 99, 0}}, nil); err == nil {
		t.Error("the kernel accepts anything")
	}
}

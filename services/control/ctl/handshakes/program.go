package handshakes

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A handshake is one that is under way.
type handshake struct {
	Since uint64 // nanoseconds
	State uint64
}

// How far a handshake is.
const (
	greeted  = 1 + iota // the client has sent its ClientHello
	answered            // the server has, with its ServerHello
	keyed               // the client has sent its keys, and the server's Finished is to come: TLS 1.2 in full
	switched            // the client has sent a ChangeCipherSpec alone, and what comes behind it is to tell
)

// Types of records and of messages in them (RFC 8446, RFC 5246).
const (
	changeCipherSpec = 20
	alert            = 21
	message          = 22
	applicationData  = 23

	clientHello = 1

	recordHead     = 5
	recordAndType  = recordHead + 1 // length of a record's head and the type of its message; a whole ChangeCipherSpec
	encryptedAlert = 2 + 1 + 16     // length of a record of TLS 1.3: alert, type, and the tag of all of its ciphers

	// The longest Finished of TLS 1.2, by its longest cipher: vector, message, HMAC-SHA384 and padding. The
	// ClientHello that answers a HelloRetryRequest is longer by its keys, and of TLS 1.3.
	mostFinished = 16 + 16 + 48 + 16
)

// Layout of IP and TCP headers.
const (
	ip4Fragment, ip4Protocol, ip4Source, ip4Length = 6, 9, 12, 20
	ip6Next, ip6Source, ip6Length                  = 6, 8, 40
	ip4Addresses, ip6Addresses                     = 4, 16 // lengths
	fragmentOffset                                 = 0x1fff
	tcpOffset, tcpFlags, tcpHead                   = 12, 13, 14 // as far as is read
	tcpFin, tcpSyn, tcpReset                       = 1, 2, 4
)

// Registers by what they hold. R6 to R9 survive calls.
const (
	packet  = asm.R6
	counted = asm.R7 // *sum of the server
	key     = asm.R8 // of the handshake
	offset  = asm.R9 // into the packet
)

// Slots of the stack. A destination, a source, and the destination again are two keys: that of a
// packet to the server begins with the first, that of a packet from the server with the second.
const (
	addressSize = int16(unsafe.Sizeof(address{}))
	portIn      = int16(unsafe.Offsetof(address{}.Port))

	valueAt       = -int16(unsafe.Sizeof(handshake{}))
	destinationAt = valueAt - 3*addressSize - 4 // aligned to 8
	sourceAt      = destinationAt + addressSize
	againAt       = sourceAt + addressSize
	headAt        = destinationAt - 40 // of IP, then of TCP
	recordAt      = headAt - 8         // the first one's head and what follows it
	secondAt      = recordAt - 8       // the second one's head and what follows it
	flagsAt       = secondAt - 8       // of TCP
	fromAt        = flagsAt - 8        // 0: the packet goes to the server; 1: it comes from there
)

// onPacket is the program. It returns 0: nobody is to read the packet.
func onPacket(sums, pending *ebpf.Map) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: "dyno_handshakes", Type: ebpf.SocketFilter, License: "Dual MIT/GPL",
		Instructions: join(
			asm.Instructions{asm.Mov.Reg(packet, asm.R1)},
			readAddresses(),
			readTCP(),
			findServer(sums),
			readRecords(),
			toServer(pending),
			fromServer(pending),
			ends(pending),
			asm.Instructions{
				asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
				asm.Return(),
			},
		),
	}
}

// readAddresses reads the head of IPv4 or IPv6. It leaves the offset of TCP's.
func readAddresses() asm.Instructions {
	const mapped = 0xffff0000 // the last word of ::ffff:0:0/96, its first byte the least
	both := func(word int16, value int32) asm.Instructions {
		return asm.Instructions{
			asm.StoreImm(asm.RFP, destinationAt+word, int64(value), asm.Word),
			asm.StoreImm(asm.RFP, sourceAt+word, int64(value), asm.Word),
		}
	}
	return join(
		asm.Instructions{asm.Mov.Imm(offset, 0)},
		read(headAt, 1, "out"),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, headAt, asm.Byte),
			asm.Mov.Reg(asm.R2, asm.R1),
			asm.RSh.Imm(asm.R2, 4),
			asm.JEq.Imm(asm.R2, 6, "ip6"),
			asm.JNE.Imm(asm.R2, 4, "out"),
		},
		read(headAt, ip4Length, "out"),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, headAt+ip4Protocol, asm.Byte),
			asm.JNE.Imm(asm.R1, unix.IPPROTO_TCP, "out"),
			asm.LoadMem(asm.R1, asm.RFP, headAt+ip4Fragment, asm.Half),
			asm.HostTo(asm.BE, asm.R1, asm.Half),
			asm.And.Imm(asm.R1, fragmentOffset),
			asm.JNE.Imm(asm.R1, 0, "out"),
		},
		both(0, 0), both(4, 0),
		asm.Instructions{
			asm.LoadImm(asm.R1, mapped, asm.DWord),
			asm.HostTo(asm.LE, asm.R1, asm.Word),
			asm.StoreMem(asm.RFP, destinationAt+8, asm.R1, asm.Word),
			asm.StoreMem(asm.RFP, sourceAt+8, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.RFP, headAt+ip4Source, asm.Word),
			asm.StoreMem(asm.RFP, sourceAt+12, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.RFP, headAt+ip4Source+ip4Addresses, asm.Word),
			asm.StoreMem(asm.RFP, destinationAt+12, asm.R1, asm.Word),
			asm.LoadMem(offset, asm.RFP, headAt, asm.Byte),
			asm.And.Imm(offset, 15),
			asm.LSh.Imm(offset, 2),
			asm.Ja.Label("tcp"),
		},
		named("ip6", read(headAt, ip6Length, "out")),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, headAt+ip6Next, asm.Byte),
			asm.JNE.Imm(asm.R1, unix.IPPROTO_TCP, "out"),
		},
		move(sourceAt, headAt+ip6Source, ip6Addresses),
		move(destinationAt, headAt+ip6Source+ip6Addresses, ip6Addresses),
		asm.Instructions{asm.Mov.Imm(offset, ip6Length)},
	)
}

// readTCP reads the ports and the flags. It leaves the offset of what TCP carries.
func readTCP() asm.Instructions {
	return join(
		named("tcp", read(headAt, tcpHead, "out")),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, headAt, asm.Half),
			asm.StoreMem(asm.RFP, sourceAt+portIn, asm.R1, asm.Half),
			asm.StoreImm(asm.RFP, sourceAt+portIn+2, 0, asm.Half),
			asm.LoadMem(asm.R1, asm.RFP, headAt+2, asm.Half),
			asm.StoreMem(asm.RFP, destinationAt+portIn, asm.R1, asm.Half),
			asm.StoreImm(asm.RFP, destinationAt+portIn+2, 0, asm.Half),
			asm.LoadMem(asm.R1, asm.RFP, headAt+tcpFlags, asm.Byte),
			asm.StoreMem(asm.RFP, flagsAt, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, headAt+tcpOffset, asm.Byte),
			asm.RSh.Imm(asm.R1, 4),
			asm.LSh.Imm(asm.R1, 2),
			asm.Add.Reg(offset, asm.R1),
		},
		move(againAt, destinationAt, addressSize),
	)
}

// findServer leaves at once unless one side is a server that is followed.
func findServer(sums *ebpf.Map) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, fromAt, asm.R1, asm.DWord)},
		at(key, destinationAt),
		asm.Instructions{asm.LoadMapPtr(asm.R1, sums.FD()), asm.Mov.Reg(asm.R2, key), asm.FnMapLookupElem.Call(), asm.JNE.Imm(asm.R0, 0, "server")},
		asm.Instructions{asm.Mov.Imm(asm.R1, 1), asm.StoreMem(asm.RFP, fromAt, asm.R1, asm.DWord)},
		at(key, sourceAt),
		asm.Instructions{
			asm.LoadMapPtr(asm.R1, sums.FD()), asm.Mov.Reg(asm.R2, key), asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "out"),
			asm.Mov.Reg(counted, asm.R0).WithSymbol("server"),
		},
	)
}

// readRecords reads the heads of the first two records. A segment without one goes to "end".
func readRecords() asm.Instructions {
	return join(
		read(recordAt, recordAndType, "end"),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, recordAt+1, asm.Byte), // the greater half of all versions since SSL 3
			asm.JNE.Imm(asm.R1, 3, "end"),
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.RFP, secondAt, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, recordAt, asm.Byte),
			asm.JNE.Imm(asm.R1, changeCipherSpec, "direction"),
			asm.Add.Imm(offset, recordAndType),
		},
		// What comes behind a ChangeCipherSpec may be none, in another segment.
		read(secondAt, recordAndType, "alone"),
		asm.Instructions{
			asm.Ja.Label("direction"),
			asm.Mov.Imm(asm.R1, 0).WithSymbol("alone"),
			asm.StoreMem(asm.RFP, secondAt, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.RFP, fromAt, asm.DWord).WithSymbol("direction"),
			asm.JNE.Imm(asm.R1, 0, "from server"),
		},
	)
}

// toServer follows what the client sends.
func toServer(pending *ebpf.Map) asm.Instructions {
	return join(
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, recordAt, asm.Byte),
			asm.JNE.Imm(asm.R1, message, "goes on"),
			asm.LoadMem(asm.R1, asm.RFP, recordAt+recordHead, asm.Byte),
			asm.JNE.Imm(asm.R1, clientHello, "goes on"),
			// The first ClientHello counts: a second one answers a HelloRetryRequest, or is the first one sent again.
			asm.FnKtimeGetNs.Call(),
			asm.StoreMem(asm.RFP, valueAt, asm.R0, asm.DWord),
			asm.Mov.Imm(asm.R1, greeted),
			asm.StoreMem(asm.RFP, valueAt+8, asm.R1, asm.DWord),
			asm.LoadMapPtr(asm.R1, pending.FD()),
			asm.Mov.Reg(asm.R2, key),
		},
		at(asm.R3, valueAt),
		asm.Instructions{
			asm.Mov.Imm(asm.R4, int32(ebpf.UpdateNoExist)),
			asm.FnMapUpdateElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"),
		},
		named("goes on", lookup(pending)),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "out"),
			asm.LoadMem(asm.R1, asm.RFP, recordAt, asm.Byte),
			asm.JEq.Imm(asm.R1, alert, "failed"),
			// What a client sends before the answer is early data (TLS 1.3).
			asm.LoadMem(asm.R2, asm.R0, 8, asm.DWord),
			asm.JEq.Imm(asm.R2, switched, "switched"),
			asm.JNE.Imm(asm.R2, answered, "end"),
			asm.JEq.Imm(asm.R1, applicationData, "sealed"),
			asm.JEq.Imm(asm.R1, changeCipherSpec, "behind it"),
			// The second ClientHello, or the client's keys.
			asm.JNE.Imm(asm.R1, message, "end"),
			asm.LoadMem(asm.R1, asm.RFP, recordAt+recordHead, asm.Byte),
			asm.JEq.Imm(asm.R1, clientHello, "end"),
			asm.Mov.Imm(asm.R2, keyed),
			asm.StoreMem(asm.R0, 8, asm.R2, asm.DWord),
			asm.Ja.Label("end"),
			asm.LoadMem(asm.R1, asm.RFP, secondAt, asm.Byte).WithSymbol("behind it"),
			asm.JNE.Imm(asm.R1, 0, "what"),
			asm.Mov.Imm(asm.R2, switched),
			asm.StoreMem(asm.R0, 8, asm.R2, asm.DWord),
			asm.Ja.Label("end"),
		},
		// A record where the client's Finished may be is that, unless it is an alert or a second ClientHello.
		named("what", move(recordAt, secondAt, 8)),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, recordAt, asm.Byte),
			asm.JEq.Imm(asm.R1, alert, "failed"),
			asm.JEq.Imm(asm.R1, message, "message").WithSymbol("switched"),
			asm.JNE.Imm(asm.R1, applicationData, "end"),
		},
		named("sealed", lengthOf(recordAt)),
		asm.Instructions{
			asm.JEq.Imm(asm.R1, encryptedAlert, "failed"),
			asm.Ja.Label("completed"),
		},
		named("message", lengthOf(recordAt)),
		asm.Instructions{
			asm.JLE.Imm(asm.R1, mostFinished, "completed"),
			asm.Mov.Imm(asm.R2, answered),
			asm.StoreMem(asm.R0, 8, asm.R2, asm.DWord),
			asm.Ja.Label("end"),
		},
	)
}

// fromServer follows what the server sends.
func fromServer(pending *ebpf.Map) asm.Instructions {
	return join(
		named("from server", lookup(pending)),
		asm.Instructions{
			asm.JEq.Imm(asm.R0, 0, "out"),
			asm.LoadMem(asm.R1, asm.RFP, recordAt, asm.Byte),
			asm.JEq.Imm(asm.R1, alert, "failed"),
			asm.LoadMem(asm.R2, asm.R0, 8, asm.DWord),
			asm.JEq.Imm(asm.R2, keyed, "last"),
			asm.JEq.Imm(asm.R1, applicationData, "sealed by it"),
			asm.JNE.Imm(asm.R1, message, "end"),
			asm.JNE.Imm(asm.R2, greeted, "end"),
			asm.Mov.Imm(asm.R2, answered),
			asm.StoreMem(asm.R0, 8, asm.R2, asm.DWord),
			asm.Ja.Label("end"),
			asm.JEq.Imm(asm.R1, changeCipherSpec, "completed").WithSymbol("last"),
			asm.JEq.Imm(asm.R1, message, "completed"), // a ticket, and the rest behind it
			asm.Ja.Label("end"),
		},
		named("sealed by it", lengthOf(recordAt)),
		asm.Instructions{
			asm.JEq.Imm(asm.R1, encryptedAlert, "failed"),
			asm.Ja.Label("end"),
		},
	)
}

// ends count a handshake and forget it.
func ends(pending *ebpf.Map) asm.Instructions {
	forget := asm.Instructions{asm.LoadMapPtr(asm.R1, pending.FD()), asm.Mov.Reg(asm.R2, key), asm.FnMapDeleteElem.Call()}
	increment := func(field uintptr) asm.Instructions {
		return asm.Instructions{
			asm.LoadMem(asm.R1, counted, int16(field), asm.DWord), //nolint:gosec // of a small structure
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(counted, int16(field), asm.R1, asm.DWord), //nolint:gosec // of a small structure
		}
	}
	const (
		nanoseconds = int16(unsafe.Offsetof(sum{}.Nanoseconds))
		longest     = int16(unsafe.Offsetof(sum{}.Longest))
	)
	return join(
		asm.Instructions{
			asm.LoadMem(offset, asm.R0, 0, asm.DWord).WithSymbol("completed"), // the offset has done its service
			asm.FnKtimeGetNs.Call(),
			asm.Sub.Reg(asm.R0, offset),
			asm.Mov.Reg(offset, asm.R0),
		},
		forget,
		// Of two CPUs that see one packet on two devices, one forgets it, and counts.
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "out")},
		increment(unsafe.Offsetof(sum{}.Completed)),
		asm.Instructions{
			asm.LoadMem(asm.R1, counted, nanoseconds, asm.DWord),
			asm.Add.Reg(asm.R1, offset),
			asm.StoreMem(counted, nanoseconds, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, counted, longest, asm.DWord),
			asm.JGE.Reg(asm.R1, offset, "out"),
			asm.StoreMem(counted, longest, offset, asm.DWord),
			asm.Ja.Label("out"),
		},
		named("failed", forget),
		asm.Instructions{asm.JNE.Imm(asm.R0, 0, "out")},
		increment(unsafe.Offsetof(sum{}.Failed)),
		asm.Instructions{
			asm.Ja.Label("out"),
			// A connection that ends in its handshake has failed. One that begins has none yet, whatever the one
			// before it with the same ports has left.
			asm.LoadMem(asm.R1, asm.RFP, flagsAt, asm.DWord).WithSymbol("end"),
			asm.And.Imm(asm.R1, tcpFin|tcpReset|tcpSyn),
			asm.JEq.Imm(asm.R1, 0, "out"),
			asm.And.Imm(asm.R1, tcpFin|tcpReset),
			asm.JNE.Imm(asm.R1, 0, "failed"),
		},
		forget,
	)
}

// lengthOf leaves the length of the record whose head is in a slot in R1.
func lengthOf(slot int16) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, slot+3, asm.Byte),
		asm.LSh.Imm(asm.R1, 8),
		asm.LoadMem(asm.R2, asm.RFP, slot+4, asm.Byte),
		asm.Or.Reg(asm.R1, asm.R2),
	}
}

// read reads bytes of the packet at the offset into a slot, or jumps if there are not as many.
func read(slot int16, length int32, none string) asm.Instructions {
	return join(
		asm.Instructions{asm.Mov.Reg(asm.R1, packet), asm.Mov.Reg(asm.R2, offset)},
		at(asm.R3, slot),
		asm.Instructions{asm.Mov.Imm(asm.R4, length), asm.FnSkbLoadBytes.Call(), asm.JNE.Imm(asm.R0, 0, none)},
	)
}

// lookup leaves the handshake of the key in R0, or zero.
func lookup(pending *ebpf.Map) asm.Instructions {
	return asm.Instructions{asm.LoadMapPtr(asm.R1, pending.FD()), asm.Mov.Reg(asm.R2, key), asm.FnMapLookupElem.Call()}
}

// move copies words between slots.
func move(to, from, length int16) (code asm.Instructions) {
	for i := int16(0); i < length; i += 4 {
		code = append(code, asm.LoadMem(asm.R1, asm.RFP, from+i, asm.Word), asm.StoreMem(asm.RFP, to+i, asm.R1, asm.Word))
	}
	return code
}

// at puts the address of a slot into a register.
func at(to asm.Register, slot int16) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(to, asm.RFP), asm.Add.Imm(to, int32(slot))}
}

// named gives instructions a name to jump to.
func named(label string, code asm.Instructions) asm.Instructions {
	return join(asm.Instructions{code[0].WithSymbol(label)}, code[1:])
}

func join(parts ...asm.Instructions) (all asm.Instructions) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

package http2

// What a peer may do that brings nothing, before the connection is ended with
// ENHANCE_YOUR_CALM.
const (
	// maxPings is the number of our own pings that may be unanswered: a peer that sends but
	// does not read is not pinged any more.
	maxPings = 8

	// maxUseless is the number of frames in a row that bring nothing: SETTINGS, PING,
	// PRIORITY, WINDOW_UPDATE, unknown types, DATA without data, and what is on streams
	// that have ended. A response's header, content, or something that this side sends
	// begins a new row.
	maxUseless = 10_000

	// maxReplies is the number of replies (to PING and SETTINGS, and RST_STREAM) that
	// may wait for the peer to read them. They take at most 17 bytes each.
	maxReplies = 4096

	// maxContinuations is the number of CONTINUATION frames in one header block.
	maxContinuations = 128

	// maxSettings is the number of settings in one SETTINGS frame.
	maxSettings = 256
)

const (
	// outputTarget is how much waits to be written before more content is cut into
	// DATA frames.
	outputTarget = 64 << 10

	// maxDataFrame is the longest DATA frame that is sent, even if the peer takes longer
	// ones, so that exchanges take turns.
	maxDataFrame = 16 << 10

	// maxUnsent is how many bytes Send takes of an exchange before they have gone out.
	maxUnsent = 64 << 10

	// maxRemembered is the number of streams that were given up whose late frames are
	// distinguished from those that should not come. Those before them are trusted.
	maxRemembered = 64
)

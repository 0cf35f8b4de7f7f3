package http2

// Limits for useless frames of a peer. Beyond them the connection ends with ENHANCE_YOUR_CALM.
const (
	// maxPings is the number of our own pings that may be unanswered: a peer that sends without reading
	// gets no more of them.
	maxPings = 8

	// maxUseless is the number of frames in a row that bring nothing: SETTINGS, PING,
	// PRIORITY, WINDOW_UPDATE, unknown types, DATA without data, and what is on streams
	// that have ended. A response's header, content, or something that this side sends
	// begins a new row.
	maxUseless = 10_000

	// maxReplies is the number of replies (to PING and SETTINGS, and RST_STREAM) that may wait until
	// the peer reads. They take at most 17 bytes each.
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

	// maxDataFrame is the longest DATA frame sent, even if the peer takes longer ones. So exchanges
	// take turns.
	maxDataFrame = 16 << 10

	// maxUnsent is how many bytes Send takes of an exchange before they have gone out.
	maxUnsent = 64 << 10

	// maxRemembered is the number of given up streams whose late frames are distinguished from
	// unexpected ones. Those before them are trusted.
	maxRemembered = 64
)

// Package message translates messages between JSON, as people write it, and Protocol
// Buffers, as they are sent.
//
// A Codec translates the messages of one method. It does not change, and neither do its
// Encoders: several goroutines may use them.
//
// The path of a request has only Codec.Check, Encoder.Append and Codec.AppendJSON, which do not
// allocate. Messages that are known ahead are encoded ahead: a small one takes some microseconds and
// two dozen allocations. Codec.Prepare makes an Encoder for messages with some texts that are not known
// ahead.
//
// JSON follows the mapping of Protocol Buffers (https://protobuf.dev/programming-guides/json): a field
// has its name in lowerCamelCase, and the name of the .proto file is understood too.
//
// To read the source: encode.go makes and reads whole messages. prepare.go encodes messages
// in which some texts vary, and translate.go writes responses in JSON. locate.go finds what
// is wrong with a message.
package message
